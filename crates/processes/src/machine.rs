//! The machine below the processes: processors, write cache, disks. It must not know what runs on it.

use crate::device::{DeviceModel, Platter};
use crate::settings::numbers;

numbers! {
    /// Processors and devices, by default those of the paper's section 7.1 as far as it tells.
    MachineSettings, "the machine" {
        processors = 8, 0..=4096, "processors; 0: as many as processes", "paper, section 7.1: two quad-core Xeons";
        time_slice_us = 1000, 1..=1000000, "microseconds after which a process makes room for others that want a processor", "assumed; who comes from a wait goes first, as in Linux";
        dirty_percent = 20, 0..=100, "per cent of the cache that may be dirty before it is written back", "FlashCache: 20, as recalled";
        destages = 4, 1..=4096, "blocks written back to a disk at a time", "FlashCache: max_clean_ios_total of 4, as recalled";
        map_writes = 1, 0..=1, "1: the cache's map is on it, and a write is complete when its entries are written; 0: it is not", "paper, section 2.2: \"NVWC writes for updating the corresponding metadata\"";
        map_entries = 256, 1..=65536, "entries in a block of the map, which are written together when they wait for each other", "FlashCache: 16 bytes an entry, as recalled";
        disk_turn_us = 6000, 1..=1000000, "microseconds of a turn of the disks", "paper, section 7.1: 10,000 turns a minute";
        disk_seek_min_us = 500, 0..=1000000, "microseconds of a short seek", "assumed";
        disk_seek_max_us = 8000, 0..=1000000, "microseconds of a seek over the whole disk", "assumed";
        disk_blocks = 122000000, 1..=1099511627776, "blocks of a disk", "paper, section 7.1: 500 GB";
        disk_block_ns = 34000, 1..=1000000000, "nanoseconds in which a block passes below the head", "assumed: 120 MB/s";
        disk_fixed_us = 0, 0..=3600000000, "microseconds of every write of the disk, in place of turns and seeks, for examples by hand; 0: it turns", "ours";
        disk_queue = 128, 1..=65536, "commands of which a disk does the nearest first; 1: in order of arrival", "Linux: 128 requests of a queue";
        disk_expiry_ms = 5000, 0..=3600000, "milliseconds after which a command of the disk goes first, wherever it is", "Linux's deadline scheduler, default of Ubuntu 14.04: 5 s for writes";
        ram_block_ns = 2000, 0..=1000000000, "nanoseconds in which a ramdisk writes or reads a block", "assumed";
        ram_parallel = 1, 1..=1024, "commands that a ramdisk serves at a time; with more than one each block is a command of its own", "assumed: one processor copies";
        ssd_parallel = 8, 1..=1024, "commands that an SSD serves at a time", "assumed: its channels";
        ssd_read_us = 100, 0..=1000000, "microseconds in which an SSD begins to read", "assumed";
        ssd_write_us = 1300, 0..=1000000, "microseconds in which an SSD without a volatile write cache makes a write durable", "paper, section 7.1, turns that cache off; assumed: the programming of a page of MLC flash";
        ssd_block_us = 60, 0..=1000000, "microseconds for each block that an SSD moves, beside others", "assumed: SATA, 520 MB/s for eight";
        ssd_jitter_percent = 20, 0..=100, "per cent by which times of the SSD vary", "assumed";
        reissue_failures_percent = 0, 0..=100, "per cent of the writes issued again that fail in the cache", "for tests";
    }
}

/// What the write cache is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// Memory that keeps its contents.
    Ram,
    /// A flash SSD without a volatile write cache.
    Ssd,
}

impl MachineSettings {
    /// The write cache.
    pub fn cache(&self, kind: CacheKind) -> DeviceModel {
        let still = DeviceModel {
            parallel: self.ram_parallel as u32,
            window: 1,
            expiry_ns: 0,
            read_ns: 0,
            write_ns: 0,
            read_block_ns: self.ram_block_ns,
            write_block_ns: self.ram_block_ns,
            jitter_percent: 0,
            disk: None,
        };
        match kind {
            CacheKind::Ram => still,
            CacheKind::Ssd => DeviceModel {
                parallel: self.ssd_parallel as u32,
                read_ns: 1000 * self.ssd_read_us,
                write_ns: 1000 * self.ssd_write_us,
                read_block_ns: 1000 * self.ssd_block_us,
                write_block_ns: 1000 * self.ssd_block_us,
                jitter_percent: self.ssd_jitter_percent as u32,
                ..still
            },
        }
    }

    /// Each disk.
    pub fn disk(&self) -> DeviceModel {
        if self.disk_fixed_us > 0 {
            let fixed_ns = 1000 * self.disk_fixed_us;
            return DeviceModel {
                parallel: 1,
                read_ns: fixed_ns,
                write_ns: fixed_ns,
                read_block_ns: 0,
                write_block_ns: 0,
                ..self.cache(CacheKind::Ram)
            };
        }
        DeviceModel {
            parallel: 1,
            window: self.disk_queue as u32,
            expiry_ns: 1_000_000 * self.disk_expiry_ms,
            read_ns: 0,
            write_ns: 0,
            read_block_ns: self.disk_block_ns,
            write_block_ns: self.disk_block_ns,
            jitter_percent: 0,
            disk: Some(Platter {
                turn_ns: 1000 * self.disk_turn_us,
                seek_min_ns: 1000 * self.disk_seek_min_us,
                seek_max_ns: 1000 * self.disk_seek_max_us,
                span_blocks: self.disk_blocks,
            }),
        }
    }
}
