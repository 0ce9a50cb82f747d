//! What the tables of all VMs may take of the host's memory as shares move. A table keeps the size that its VM's largest share
//! gave it, so that a share may only grow while tables for the largest shares that all VMs have had fit together. It must not
//! know why a share grows.

use lode_engine::EngineConfig;
use lode_policy::{Quota, Settings};

/// The tables of one VM.
struct VmTables {
    config: EngineConfig,
    settings: Settings,
    /// The most that it has had of each level.
    largest: Quota,
    bytes: u64,
    /// It was told that this VM cannot grow.
    is_told: bool,
}

/// See the module's documentation.
pub(crate) struct TableMemory {
    /// What the host has for tables.
    limit_bytes: u64,
    extent_places: u32,
    vms: Vec<VmTables>,
}

impl TableMemory {
    /// Of VMs with engines, settings and the shares that they begin with, on an SSD whose extents have so many places.
    pub(crate) fn new(
        limit_bytes: u64,
        extent_places: u32,
        vms: impl Iterator<Item = (EngineConfig, Settings)>,
    ) -> TableMemory {
        let vm = |(config, settings): (EngineConfig, Settings)| {
            let largest = config.share;
            let bytes = tables_bytes(&config, &settings, largest, extent_places);
            VmTables { config, settings, largest, bytes, is_told: false }
        };
        TableMemory { limit_bytes, extent_places, vms: vms.map(vm).collect() }
    }

    /// Bytes of memory that are missing for the tables of such a share; 0: it may be had.
    pub(crate) fn missing_bytes(&self, vm: usize, share: Quota) -> u64 {
        let (_, bytes) = self.with(vm, share);
        // What its tables take already is no reason against a share that needs no more.
        match bytes > self.vms[vm].bytes {
            true => {
                (self.bytes() - self.vms[vm].bytes).saturating_add(bytes).saturating_sub(self.limit_bytes)
            }
            false => 0,
        }
    }

    /// Bytes of memory that are missing for a switch of a VM with so many dirty blocks to these settings, with shares up to this
    /// one and so much memory beside its tables; 0: it can be.
    pub(crate) fn missing_for_switch(
        &self,
        vm: usize,
        settings: &Settings,
        largest: Quota,
        dirty_blocks: u64,
        beside_bytes: u64,
    ) -> u64 {
        let known = &self.vms[vm];
        let share = known.largest.map(|level, blocks| blocks.min(largest.of(level)));
        let config = EngineConfig { share, largest_share: Some(share), ..known.config };
        let after_bytes = tables_bytes(&config, settings, share, self.extent_places);
        let switch_bytes = config.most_switch_memory_bytes(settings, dirty_blocks);
        let needed_bytes = after_bytes.max(known.bytes.saturating_add(switch_bytes));
        let others_bytes = (self.bytes() - known.bytes).saturating_add(beside_bytes);
        others_bytes.saturating_add(needed_bytes).saturating_sub(self.limit_bytes)
    }

    /// A VM's scheme decides with these settings from now on, with shares up to this one.
    pub(crate) fn set_scheme(&mut self, vm: usize, settings: &Settings, largest: Quota) {
        let known = &mut self.vms[vm];
        known.config.largest_share = known.config.largest_share.map(|_| largest);
        if known.settings != *settings {
            known.settings = settings.clone();
            known.bytes = tables_bytes(&known.config, settings, known.largest, self.extent_places);
        }
    }

    /// Engines of the VMs, in their order.
    pub(crate) fn engines(&self) -> impl Iterator<Item = &EngineConfig> {
        self.vms.iter().map(|vm| &vm.config)
    }

    /// Bytes of memory that are missing for a VM more that takes so much beside its tables; 0: it may come.
    pub(crate) fn missing_for(&self, config: &EngineConfig, settings: &Settings, beside_bytes: u64) -> u64 {
        let bytes = tables_bytes(config, settings, config.share, self.extent_places);
        self.bytes().saturating_add(bytes).saturating_add(beside_bytes).saturating_sub(self.limit_bytes)
    }

    /// A VM has come that takes so much beside its tables.
    pub(crate) fn join(&mut self, config: EngineConfig, settings: Settings, beside_bytes: u64) {
        let largest = config.share;
        let bytes = tables_bytes(&config, &settings, largest, self.extent_places);
        self.limit_bytes = self.limit_bytes.saturating_sub(beside_bytes);
        self.vms.push(VmTables { config, settings, largest, bytes, is_told: false });
    }

    /// VMs take so much beside their tables that they did not take before, or give it back.
    pub(crate) fn change_beside(&mut self, before_bytes: u64, after_bytes: u64) {
        self.limit_bytes = (self.limit_bytes + before_bytes).saturating_sub(after_bytes);
    }

    /// A VM has gone that took so much beside its tables.
    pub(crate) fn leave(&mut self, vm: usize, beside_bytes: u64) {
        self.vms.remove(vm);
        self.limit_bytes += beside_bytes;
        self.vms.iter_mut().for_each(|vm| vm.is_told = false);
    }

    /// Makes room for the tables of such a share, if there is memory for them; says whether there is.
    pub(crate) fn take(&mut self, vm: usize, share: Quota) -> bool {
        if self.missing_bytes(vm, share) > 0 {
            return false;
        }
        let (largest, bytes) = self.with(vm, share);
        (self.vms[vm].largest, self.vms[vm].bytes) = (largest, bytes);
        true
    }

    /// Whether it is to be told that there is no memory for a larger share of this VM, which is once.
    pub(crate) fn tell(&mut self, vm: usize) -> bool {
        !std::mem::replace(&mut self.vms[vm].is_told, true)
    }

    /// Bytes of memory for tables.
    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Bytes of memory that all tables may have by now.
    pub(crate) fn bytes(&self) -> u64 {
        self.vms.iter().map(|vm| vm.bytes).sum()
    }

    /// The largest share of a VM, and the bytes of its tables, when it gets this one.
    fn with(&self, vm: usize, share: Quota) -> (Quota, u64) {
        let VmTables { config, settings, largest, .. } = &self.vms[vm];
        let largest = largest.map(|level, blocks| blocks.max(share.of(level)));
        (largest, tables_bytes(config, settings, largest, self.extent_places))
    }
}

/// Bytes of memory of the tables of a VM with such a share.
fn tables_bytes(config: &EngineConfig, settings: &Settings, share: Quota, extent_places: u32) -> u64 {
    let with_share = EngineConfig { largest_share: Some(share), ..*config };
    with_share.most_memory(settings, extent_places).tables_bytes()
}

#[cfg(test)]
mod tests {
    use lode_policy::SchemeInfo;
    use lode_types::BlockSize;

    use super::*;

    /// Two VMs that begin with `blocks` each, and memory for tables of so many bytes.
    fn two_vms(blocks: u32, limit_bytes: u64) -> TableMemory {
        let vm = || {
            let config = EngineConfig::new(BlockSize::KIB_4, 1 << 36, Quota::new(0, blocks));
            (config, SchemeInfo::find("lru").expect("it is registered").settings())
        };
        TableMemory::new(limit_bytes, 256, [vm(), vm()].into_iter())
    }

    #[test]
    fn shares_grow_until_tables_of_the_largest_ones_take_all_memory() {
        let begin = two_vms(1000, 0).bytes();
        let large = Quota::new(0, 500_000);
        let with_one = begin + two_vms(1000, 0).missing_bytes(0, large) - begin;
        let mut tables = two_vms(1000, with_one);
        assert!(tables.take(0, large));
        assert_eq!(tables.bytes(), with_one);
        assert!(!tables.take(1, Quota::new(0, 2000)), "all memory is taken");
        assert!(tables.tell(1) && !tables.tell(1), "told once");
        // What the first one gives back leaves its tables as large as they are.
        assert!(tables.take(0, Quota::new(0, 1000)));
        assert!(!tables.take(1, Quota::new(0, 2000)));
        assert!(tables.missing_bytes(1, Quota::new(0, 2000)) > 0);
        assert!(tables.take(0, large), "it has had that already");
    }

    #[test]
    fn shares_that_need_no_more_may_be_had_whatever_there_is() {
        let mut tables = two_vms(1000, 0);
        assert!(tables.take(0, Quota::new(0, 1000)));
        assert!(tables.take(0, Quota::new(0, 10)));
        assert!(!tables.take(0, Quota::new(0, 1001 + 4096)));
    }
}
