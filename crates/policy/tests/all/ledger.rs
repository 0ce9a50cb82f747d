//! Where blocks come from and where they go, counted from what a scheme says and apart from `Counters`, so that the sums
//! of docs/reports.md can be held against both. It must not know any scheme.

use lode_policy::{CounterReport, Counters};
use lode_types::Level;

use crate::driver::{Observed, Residents, Step};

/// How a block write of the guest ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The SSD has it, and the disk does not yet.
    Kept,
    /// The SSD and the disk have it.
    Through,
    /// The disk alone has it, whatever is read from DRAM.
    Around,
}

/// How a block leaves a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// For another block or a smaller share.
    Evicted,
    /// Because its guest overwrote or discarded it.
    Invalidated,
    /// The world lost the copy.
    Lost,
}

impl Leaving {
    const COUNT: usize = 3;
}

/// Counts of blocks.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Of each level, blocks that came without having been there.
    came: [u64; Level::COUNT],
    /// Of each level, blocks that left it.
    left: [[u64; Leaving::COUNT]; Level::COUNT],
    /// Found in the SSD at a restart, and of these, dirty.
    restored: u64,
    restored_dirty: u64,
    /// Clean blocks of the SSD that a write made dirty, and dirty ones that a write made newer.
    made_dirty: u64,
    absorbed: u64,
    /// Dirty blocks that left the SSD.
    left_dirty: [u64; Leaving::COUNT],
    /// Dirty blocks written back that stay: by the scheme, and by its caller.
    cleaned: u64,
    cleaned_outside: u64,
    /// Reads of the disk that no guest waits for.
    disk_copies: u64,
    merges_from_disk: u64,
    /// Copied to the SSD because they are popular, and because DRAM gives them up.
    promoted: u64,
    moved: u64,
    /// Blocks put into each level, also over older bytes.
    put: [u64; Level::COUNT],
    reads: u64,
    endings: [u64; 3],
}

impl Ledger {
    pub fn came(&mut self, level: Level) {
        self.came[level.index()] += 1;
    }

    pub fn restored(&mut self, dirty: bool) {
        self.restored += 1;
        self.restored_dirty += u64::from(dirty);
    }

    pub fn left(&mut self, level: Level, how: Leaving, dirty: bool) {
        self.left[level.index()][how as usize] += 1;
        self.left_dirty[how as usize] += u64::from(dirty);
    }

    /// A write made the SSD's copy newer than the disk's, which it may have been before.
    pub fn dirtied(&mut self, was_dirty: bool) {
        self.absorbed += u64::from(was_dirty);
        self.made_dirty += u64::from(!was_dirty);
    }

    pub fn cleaned(&mut self) {
        self.cleaned += 1;
    }

    pub fn cleaned_outside(&mut self, blocks: usize) {
        self.cleaned_outside += blocks as u64;
    }

    pub fn copied_from_disk(&mut self) {
        self.disk_copies += 1;
    }

    /// Blocks that came into the SSD from a guest or a copy, and not from before a restart.
    pub fn ssd_admissions(&self) -> u64 {
        self.came[Level::Ssd.index()]
    }

    /// Block writes that ended so.
    pub fn ended(&self, ending: Ending) -> u64 {
        self.endings[ending as usize]
    }

    /// Blocks that left the level in this way.
    pub fn gone(&self, level: Level, how: Leaving) -> u64 {
        self.left[level.index()][how as usize]
    }

    /// Counts a step by what was said of it. A read is served once, a write ends in one way, and nothing else touches what
    /// a guest reads or writes. Returns how a write ended.
    pub fn note(&mut self, step: Step, observed: &[Observed]) -> Option<Ending> {
        let count =
            |is: fn(&Observed) -> bool| observed.iter().filter(|observed| is(observed)).count() as u64;
        let served = count(|observed| matches!(observed, Observed::ReadLevel(_) | Observed::ReadBacking));
        let fills = Level::ALL.map(|level| observed.contains(&Observed::Fill(level)));
        let all_fills = count(|observed| matches!(observed, Observed::Fill(_)));
        let to_disk = count(|observed| matches!(observed, Observed::WriteBacking));
        let to_ssd = count(|observed| matches!(observed, Observed::WriteLevel { .. }));
        let dirty =
            observed.iter().any(|observed| matches!(observed, Observed::WriteLevel { dirty: true, .. }));
        let to_dram = count(|observed| matches!(observed, Observed::WriteDram { .. }));
        let merges = count(|observed| matches!(observed, Observed::MergeLevel(_) | Observed::MergeBacking));
        for level in Level::ALL {
            self.put[level.index()] += u64::from(fills[level.index()]);
        }
        let promoted = count(|observed| matches!(observed, Observed::Promote { .. }));
        let moved = count(|observed| matches!(observed, Observed::Move(_)));
        self.promoted += promoted;
        self.moved += moved;
        self.put[Level::Ssd.index()] += to_ssd + promoted + moved;
        self.put[Level::Dram.index()] += to_dram;
        self.put[Level::ReadSsd.index()] += count(|observed| matches!(observed, Observed::Mirror { .. }));
        self.merges_from_disk += count(|observed| matches!(observed, Observed::MergeBacking));
        assert_eq!(
            all_fills,
            fills.iter().map(|&fill| u64::from(fill)).sum::<u64>(),
            "{step:?}: {observed:?}"
        );
        let is_read = matches!(step, Step::Read(_));
        assert_eq!(served, u64::from(is_read), "{step:?}: {observed:?}");
        assert!(is_read || all_fills == 0, "{step:?}: {observed:?}");
        self.reads += served;
        let Step::Write(_, partial) = step else {
            assert_eq!(to_disk + to_ssd + to_dram + merges, 0, "{step:?}: {observed:?}");
            return None;
        };
        assert!(merges <= u64::from(partial) && to_dram <= 1, "{step:?}: {observed:?}");
        let ending = match (to_ssd, dirty, to_disk) {
            (1, true, 0) => Ending::Kept,
            (1, false, 1) => Ending::Through,
            (0, _, 1) => Ending::Around,
            _ => panic!("{step:?} ends in no way or in two: {observed:?}"),
        };
        self.endings[ending as usize] += 1;
        Some(ending)
    }

    /// Holds what was counted here, what is left in the levels, and the scheme's counters against each other.
    pub fn check(&self, c: &Counters, residents: [Residents; Level::COUNT]) {
        assert_eq!(CounterReport::from(c).broken_sum(), None, "{c:?}");
        self.check_counters(c);
        for level in Level::ALL {
            let at = level.index();
            let restored = if level == Level::Ssd { self.restored } else { 0 };
            let there = residents[at].len() as u64;
            let gone: u64 = self.left[at].iter().sum();
            assert_eq!(self.came[at] + restored, gone + there, "{}: {self:?}", level.name());
            assert_eq!(c.evictions[at], self.gone(level, Leaving::Evicted), "{}", level.name());
        }
        let still_dirty = residents[Level::Ssd.index()].values().filter(|dirty| **dirty).count() as u64;
        let left_dirty: u64 = self.left_dirty.iter().sum();
        let no_longer_dirty = left_dirty + self.cleaned + self.cleaned_outside;
        assert_eq!(self.made_dirty + self.restored_dirty, no_longer_dirty + still_dirty, "{self:?}");
    }

    fn check_counters(&self, c: &Counters) {
        let [kept, through, around] = [Ending::Kept, Ending::Through, Ending::Around].map(|e| self.ended(e));
        assert_eq!(self.reads, c.block_reads);
        assert_eq!(kept + through + around, c.block_writes);
        assert_eq!(kept + through, c.ssd_writes.write);
        assert_eq!(through + around, c.backing_writes - c.write_backs);
        assert_eq!((c.ssd_writes.promotion, c.ssd_writes.moved), (self.promoted, self.moved));
        assert_eq!(kept, self.made_dirty + self.absorbed);
        assert_eq!(c.write_backs, self.left_dirty[Leaving::Evicted as usize] + self.cleaned);
        assert_eq!(c.backing_reads, c.read_misses + self.merges_from_disk + self.disk_copies);
        let put = [c.dram_writes, c.ssd_writes.total(), c.read_ssd_writes];
        assert_eq!(put, self.put);
        assert_eq!(self.came[Level::Ssd.index()], c.ssd_writes.total() - c.write_hits_ssd);
        assert_eq!(self.came[Level::ReadSsd.index()], c.read_ssd_writes);
    }
}
