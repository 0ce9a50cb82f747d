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
    /// Extents of the SSD.
    pub extent_bytes: u64,
    /// Journal records for which the host has memory that outlives the daemon; 0: none.
    pub kept_records: u32,
}

impl Machine {
    /// What the volume asks of the cache SSD.
    pub fn spec(&self) -> VolumeSpec {
        VolumeSpec {
            name: self.name.clone(),
            backing_bytes: self.config.volume_bytes,
            places: self.config.ssd_places(),
            spare_places: 0,
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
    /// The SSD does not answer any more.
    pub ssd_gone: bool,
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
}
