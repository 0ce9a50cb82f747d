//! A slab whose keys carry a generation, so that a key that outlived its entry finds nothing. It must not
//! know what it holds.

/// More entries than this at once is a leak in the caller, not a workload.
const MAX_ENTRIES: usize = 1 << 24;

/// Names one entry for as long as it lives, and nothing afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// The key as one integer. Values with every bit of the low half set never occur.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub fn from_bits(bits: u64) -> Key {
        Key { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

struct Slot<T> {
    generation: u32,
    entry: Option<T>,
}

pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    pub fn new() -> Table<T> {
        Table { slots: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, entry: T) -> Key {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.entry = Some(entry);
            return Key { index, generation: slot.generation };
        }
        assert!(self.slots.len() < MAX_ENTRIES, "more than {MAX_ENTRIES} entries in flight");
        let index = self.slots.len() as u32;
        self.slots.push(Slot { generation: 0, entry: Some(entry) });
        Key { index, generation: 0 }
    }

    pub fn get(&self, key: Key) -> Option<&T> {
        self.slots.get(key.index as usize).filter(|slot| slot.generation == key.generation)?.entry.as_ref()
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation { None } else { slot.entry.as_mut() }
    }

    pub fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(entry)
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.entry.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_key_finds_nothing() {
        let mut table = Table::new();
        let first = table.insert("a");
        assert_eq!(table.remove(first), Some("a"));
        let second = table.insert("b");
        assert_eq!(first.index, second.index);
        assert_eq!(table.get(first), None);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get(second), Some(&"b"));
        assert_eq!(Key::from_bits(second.to_bits()), second);
        assert_eq!(table.len(), 1);
        assert_eq!(table.iter().count(), 1);
    }
}
