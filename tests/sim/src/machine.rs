//! What is simulated, and how often it fails.

use lode_engine::EngineConfig;
use lode_policy::Settings;
use lode_store::VolumeSpec;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The volume's engine.
    pub config: EngineConfig,
    /// Scheme and settings.
    pub settings: Settings,
    /// The volume's name.
    pub name: String,
    /// Size of the cache SSD; 0: none.
    pub ssd_bytes: u64,
    /// Where it is a pair, how many pairs there are beside the first; each has room for one more extent than the one before.
    pub other_pairs: u64,
    /// Where it is a pair, the second SSD has not come yet, and that of each other pair.
    pub mirror_later: bool,
    /// Extents of the SSD.
    pub extent_bytes: u64,
    /// Journal records for which the host has memory that outlives the daemon; 0: none.
    pub kept_records: u32,
    /// Places of the cache SSD that are to be free at a start; the extents of the others may stay unwritten where shares move.
    pub ready_places: u64,
}

impl Machine {
    /// Bytes of each pair.
    pub(crate) fn pair_bytes(&self) -> Vec<u64> {
        (0..=self.other_pairs).map(|number| self.ssd_bytes + number * self.extent_bytes).collect()
    }

    /// What the volume asks of the cache SSD.
    pub fn spec(&self) -> VolumeSpec {
        VolumeSpec {
            name: self.name.clone(),
            backing_bytes: self.config.volume_bytes,
            places: self.config.ssd_places(),
            spare_places: 0,
            ready_places: self.ready_places,
            read_only: false,
            distrusts: None,
        }
    }
}

/// How often devices fail, in percent of the commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Reads of the SSD that return an error.
    pub ssd_read_errors: u64,
    /// Writes of data to the SSD that return an error.
    pub ssd_write_errors: u64,
    /// Writes of journal and table pages to the SSD that return an error.
    pub ssd_metadata_errors: u64,
    /// Flushes of the SSD that return an error.
    pub ssd_flush_errors: u64,
    /// Writes of data to the SSD that go to other blocks there.
    pub ssd_misdirected: u64,
    /// The SSD does not answer any more.
    pub ssd_gone: bool,
    /// Of a pair of SSDs, the one alone that all of this happens to.
    pub only_member: Option<usize>,
    /// Of several pairs, the one alone to whose member it happens; none: to that of each.
    pub only_pair: Option<usize>,
    /// Of a pair of SSDs, one that never ends what it is asked for.
    pub hanging_member: Option<usize>,
    /// Reads of the read SSD that return an error.
    pub read_ssd_read_errors: u64,
    /// Writes to the read SSD that return an error.
    pub read_ssd_write_errors: u64,
    /// The read SSD does not answer any more.
    pub read_ssd_gone: bool,
    /// Reads of the backing disk that return an error.
    pub backing_read_errors: u64,
    /// Writes, trims and zeroings of the backing disk that return an error.
    pub backing_write_errors: u64,
    /// Flushes of the backing disk that return an error.
    pub backing_flush_errors: u64,
    /// Writes to the redo log beside it that return an error.
    pub redo_write_errors: u64,
    /// Flushes of the redo log that return an error.
    pub redo_flush_errors: u64,
}

impl Faults {
    /// Whether no guest is to notice them: there are none but of the read SSD, which has second copies only, or all of them happen to
    /// one member of a pair.
    pub(crate) fn are_hidden(&self) -> bool {
        let ssd = Faults {
            backing_read_errors: 0,
            backing_write_errors: 0,
            backing_flush_errors: 0,
            redo_write_errors: 0,
            redo_flush_errors: 0,
            read_ssd_read_errors: 0,
            read_ssd_write_errors: 0,
            read_ssd_gone: false,
            ..*self
        };
        let without_read_ssd =
            Faults { read_ssd_read_errors: 0, read_ssd_write_errors: 0, read_ssd_gone: false, ..*self };
        without_read_ssd == Faults::default()
            || (*self == ssd && (self.only_member.is_some() || self.hanging_member.is_some()))
    }
}
