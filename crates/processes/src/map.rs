//! Writes of the cache's map, which lies on the cache: which of its blocks are being written, and who waits for that. It
//! must not know what the entries say.

use std::collections::BTreeMap;

use lode_types::BlockNo;

use crate::MachineSettings;
use crate::io::Work;

/// What is written, and what waits until it was.
#[derive(Debug)]
pub(crate) struct MapWrites {
    entries: Option<u64>,
    under_way: BTreeMap<u64, Riders>,
}

/// Who waits for a block of the map.
#[derive(Debug, Default)]
struct Riders {
    now: Vec<Work>,
    next: Vec<Work>,
    /// Something changed since the write began.
    again: bool,
}

impl MapWrites {
    pub fn new(machine: &MachineSettings) -> MapWrites {
        let entries = (machine.map_writes == 1).then_some(machine.map_entries.max(1));
        MapWrites { entries, under_way: BTreeMap::new() }
    }

    /// Whether there is anything to write.
    pub fn is_on_cache(&self) -> bool {
        self.entries.is_some()
    }

    /// An entry changed. Returns the block of the map to write now, unless it is being written: then once more afterwards.
    pub fn change(&mut self, of_block: BlockNo, rider: Option<Work>) -> Option<u64> {
        // Neighbours on the disk are neighbours in the map, as in FlashCache's sets.
        let block = of_block / self.entries.unwrap_or(1);
        if let Some(riders) = self.under_way.get_mut(&block) {
            riders.next.extend(rider);
            riders.again = true;
            return None;
        }
        self.under_way.insert(block, Riders { now: rider.into_iter().collect(), ..Riders::default() });
        Some(block)
    }

    /// A block of the map is written: who waited for it, and whether it has to be written once more.
    pub fn written(&mut self, block: u64) -> (Vec<Work>, bool) {
        let Some(riders) = self.under_way.get_mut(&block) else { return (Vec::new(), false) };
        let done = std::mem::replace(&mut riders.now, std::mem::take(&mut riders.next));
        let again = std::mem::take(&mut riders.again);
        if !again {
            self.under_way.remove(&block);
        }
        (done, again)
    }

    /// Everything that waits.
    pub fn riders(&self) -> impl Iterator<Item = Work> + '_ {
        self.under_way.values().flat_map(|riders| riders.now.iter().chain(&riders.next).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_come_meanwhile_are_written_together() {
        let mut map = MapWrites::new(&MachineSettings { map_entries: 10, ..MachineSettings::default() });
        let (a, b, c) = (Work::Cache(1), Work::Cache(2), Work::Reissue(3));
        assert_eq!(map.change(3, Some(a)), Some(0));
        assert_eq!(map.change(4, Some(b)), None);
        assert_eq!(map.change(5, Some(c)), None);
        assert_eq!(map.change(11, None), Some(1));
        assert_eq!(map.written(0), (vec![a], true));
        assert_eq!(map.written(0), (vec![b, c], false));
        assert_eq!(map.written(1), (vec![], false));
        assert_eq!(map.riders().count(), 0);
    }
}
