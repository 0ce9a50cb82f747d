//! A volume whose backing disk is written in the order of the guest's flushes: its redo log, and what the disk with the log says.

use lode_format::RedoLabel;
use lode_store::{Attached, StoreError, SyncDevice, apply_redo_log, create_redo_log, read_redo_log};
use lode_types::{MediaError, Rng};

use super::World;
use crate::disk::SimDisk;
use crate::memory::HostMemory;
use crate::model::SECTOR;

/// A volume's part of the device that backing disks are on.
struct PartOfDisk<'d> {
    disk: &'d mut SimDisk,
    start: u64,
    bytes: u64,
}

impl SyncDevice for PartOfDisk<'_> {
    fn size_bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.disk.read(self.start + offset_bytes, buf)
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.disk.write(self.start + offset_bytes, bytes)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.disk.flush()
    }
}

impl World {
    /// Before a start: what the redo log holds comes to the backing disk.
    pub(crate) fn apply_redo(&mut self) -> Result<(), StoreError> {
        let (start, bytes) = (self.backing_start, self.machine.config.volume_bytes);
        let mut part = PartOfDisk { disk: &mut self.backing, start, bytes };
        apply_redo_log(&mut self.redo, &mut part).map(drop)
    }

    /// The volume is about to be served: there is a log of its own. Gives the number of its latest group.
    pub(crate) fn prepare_redo(&mut self, attached: &Attached) -> Result<Option<u64>, StoreError> {
        let config = &self.machine.config;
        let Some(ordered) = config.ordered else { return Ok(None) };
        let label = RedoLabel {
            cache: attached.cache(),
            volume: attached.tag(),
            volume_bytes: config.volume_bytes,
            layout: ordered.redo_layout(config.block),
        };
        if let Some(log) = read_redo_log(&mut self.redo)?
            && log.label == label
        {
            return Ok(Some(log.group));
        }
        let mut redo = SimDisk::new(label.layout.bytes());
        create_redo_log(&mut redo, &label)?;
        self.redo = redo;
        Ok(Some(0))
    }

    /// What the backing disk holds once its redo log is applied, when the power fails now or has just failed.
    pub(crate) fn disk_alone(&self, cut: Option<&mut Rng>) -> Result<Vec<u8>, String> {
        let (mut disk, mut redo) = (self.backing.clone(), self.redo.clone());
        if let Some(rng) = cut {
            disk.power_cut(rng);
            redo.power_cut(rng);
        }
        let (start, bytes) = (self.backing_start, self.machine.config.volume_bytes);
        let mut part = PartOfDisk { disk: &mut disk, start, bytes };
        apply_redo_log(&mut redo, &mut part).map_err(|error| format!("the redo log: {error}"))?;
        let mut image = vec![0; bytes as usize];
        image.chunks_mut(SECTOR).enumerate().for_each(|(sector, bytes)| {
            disk.peek(start + (sector * SECTOR) as u64, bytes);
        });
        Ok(image)
    }

    /// Applies the log with the power failing after so many writes and flushes of the disk, then of the log. What follows is
    /// another try.
    pub(crate) fn cut_redo_short(&mut self, disk_writes: u64, rng: &mut Rng) {
        self.backing.fail_after = Some(disk_writes);
        self.redo.fail_after = Some(rng.below(4));
        // It is to fail.
        let _ = self.apply_redo();
        (self.backing.fail_after, self.redo.fail_after) = (None, None);
        self.backing.power_cut(rng);
        self.redo.power_cut(rng);
    }

    /// Ticks that the engine has had.
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Every cache SSD is lost, and what the host remembers of it; a new one is there instead.
    pub(crate) fn lose_ssd(&mut self) -> Result<(), StoreError> {
        self.ssd = World::formatted_ssd(&self.machine)?;
        self.memory = HostMemory::default();
        (self.fenced, self.fencing) = (None, None);
        Ok(())
    }
}
