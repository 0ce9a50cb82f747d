//! How much memory a scheme's tables may take, known before it is built: by the blocks that it may keep track of, cached or
//! not. It must not know what a scheme does with them; each declares in its `INFO` what its tables take.
//!
//! Tables grow with the blocks that they hold, and not with the size of the levels; but for the heads of sets, which are
//! there from the start.

use lode_types::Level;

use crate::quota::Quota;
use crate::registry::SchemeInfo;
use crate::settings::Settings;
use crate::sizer::Sizer;

/// What a scheme's tables take at most. Measured figures with a margin; a test holds them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    /// Bytes of a scheme that has seen nothing, or hardly anything: what is there from the start, and the smallest tables.
    empty_bytes: u64,
    /// Bytes for each block that it keeps track of, with what tables have spare after they have grown; with a history, for
    /// each that it holds.
    bytes_per_block: u64,
    /// Bytes for each block of a history beside the levels, in which blocks are whether they are held or not. `None`: a block
    /// that is remembered is one that is not held, and takes as much as one that is.
    bytes_per_block_of_history: Option<u64>,
    /// In how many tables of a history a block may be at once.
    tables_of_history: TablesOfHistory,
    /// Bytes for each set of each of its levels.
    bytes_per_set: u64,
    /// Most blocks that it remembers besides those that it holds.
    remembers: Remembers,
}

/// In how many tables of its history a scheme may have a block, by its settings.
type TablesOfHistory = fn(&Settings) -> u64;

/// Most blocks that a scheme remembers, by its settings, the blocks of the VM's share and what the host has.
pub(crate) type Remembers = fn(&Settings, u64, Quota) -> u64;

impl Footprint {
    /// No scheme takes more.
    pub(crate) const LARGEST: Footprint =
        Footprint::new(96 << 10, 96).with_sets(256).remembering(|_, share_blocks, _| share_blocks);

    /// A scheme that keeps track of the blocks that it holds, without sets.
    pub(crate) const fn new(empty_bytes: u64, bytes_per_block: u64) -> Footprint {
        let remembers: Remembers = |_, _, _| 0;
        let tables_of_history: TablesOfHistory = |_| 1;
        Footprint {
            empty_bytes,
            bytes_per_block,
            bytes_per_block_of_history: None,
            tables_of_history,
            bytes_per_set: 0,
            remembers,
        }
    }

    /// The same with so much for each set.
    pub(crate) const fn with_sets(self, bytes_per_set: u64) -> Footprint {
        Footprint { bytes_per_set, ..self }
    }

    /// The same with a history that takes so much for each block.
    pub(crate) const fn with_history(self, bytes_per_block: u64) -> Footprint {
        Footprint { bytes_per_block_of_history: Some(bytes_per_block), ..self }
    }

    /// The same with a history of so many tables, each of which takes so much for a block.
    pub(crate) const fn with_tables_of_history(self, tables_of_history: TablesOfHistory) -> Footprint {
        Footprint { tables_of_history, ..self }
    }

    /// The same with so many blocks besides those that it holds.
    pub(crate) const fn remembering(self, remembers: Remembers) -> Footprint {
        Footprint { remembers, ..self }
    }
}

impl SchemeInfo {
    /// Most blocks that a VM's scheme remembers besides those of its share.
    pub fn remembered_blocks(&self, settings: &Settings, physical: Quota, share: Quota) -> u64 {
        (self.footprint.remembers)(settings, blocks_of(share), physical)
    }

    /// Bytes that a scheme's tables take at most, without what is for sets.
    fn bytes_of_blocks(&self, settings: &Settings, physical: Quota, share: Quota, distinct: u64) -> u64 {
        let (held, remembered) = (blocks_of(share), self.remembered_blocks(settings, physical, share));
        let Footprint { empty_bytes, bytes_per_block, bytes_per_block_of_history, tables_of_history, .. } =
            self.footprint;
        let of_blocks = match bytes_per_block_of_history {
            Some(bytes) => {
                let bytes = bytes.saturating_mul(tables_of_history(settings));
                let of_history = remembered.min(distinct).saturating_mul(bytes);
                held.min(distinct).saturating_mul(bytes_per_block).saturating_add(of_history)
            }
            None => held.saturating_add(remembered).min(distinct).saturating_mul(bytes_per_block),
        };
        of_blocks.saturating_add(empty_bytes)
    }
}

/// As many blocks for each hundred as a setting says.
pub(crate) fn percent_of(blocks: u64, settings: &Settings, key: &str) -> u64 {
    blocks.saturating_mul(settings.integer(key)).div_ceil(100)
}

/// Bytes of memory that one VM's scheme takes at most for a stream of so many different blocks. `physical` is what the host
/// has, `share` the most that the VM ever gets of it.
pub fn most_memory_bytes(settings: &Settings, physical: Quota, share: Quota, distinct_blocks: u64) -> u64 {
    let info = info_of(settings);
    let of_sets = sets_of(settings, share).saturating_mul(info.footprint.bytes_per_set);
    info.bytes_of_blocks(settings, physical, share, distinct_blocks).saturating_add(of_sets)
}

/// As [`most_memory_bytes`], of all VMs of a host, each with so many different blocks. Where shares follow demand any VM may
/// come to have everything, but together they are no more than the host has, and so are their sets; else each keeps its first.
pub fn most_memory_bytes_of_all(settings: &Settings, physical: Quota, distinct_blocks: &[u64]) -> u64 {
    let info = info_of(settings);
    let sizer = Sizer::new(settings, physical);
    let vms = distinct_blocks.len() as u64;
    let first = sizer.first_share(distinct_blocks.len());
    let of_first_shares = sets_of(settings, first).saturating_mul(vms);
    let (most, sets) = match sizer.is_on() {
        // A share that grows may do so before another one shrinks.
        true => (physical, of_first_shares.saturating_add(sets_of(settings, physical).saturating_mul(2))),
        false => (first, of_first_shares),
    };
    let of_vm = |&blocks: &u64| info.bytes_of_blocks(settings, physical, most, blocks);
    let of_vms = distinct_blocks.iter().map(of_vm).fold(0, u64::saturating_add);
    of_vms.saturating_add(sets.saturating_mul(info.footprint.bytes_per_set))
}

fn info_of(settings: &Settings) -> &'static SchemeInfo {
    SchemeInfo::find(settings.scheme()).expect("settings come from a registered scheme")
}

/// Most sets that a share is divided into: one at least for each level, where the scheme knows any.
fn sets_of(settings: &Settings, share: Quota) -> u64 {
    let Some(assoc) = settings.assoc() else { return 0 };
    let sets = |level: Level| u64::from(share.of(level)).checked_div(assoc).unwrap_or(0).max(1);
    Level::ALL.into_iter().map(sets).sum()
}

fn blocks_of(quota: Quota) -> u64 {
    Level::ALL.into_iter().map(|level| u64::from(quota.of(level))).sum()
}
