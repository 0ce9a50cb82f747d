//! The VMs that the daemon serves, in the order of its configuration, and the numbers by which shards and the broker know them. A
//! number is its VM's as long as that is served, whoever comes and goes. It must not know what is served.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use lode_format::VolumeTag;
use lode_nbd::ExportInfo;

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct ServedVm {
    pub number: usize,
    /// Those that its disk has.
    pub connections: Arc<AtomicU32>,
    pub export: ExportInfo,
    /// Its volume on the cache SSD.
    pub tag: Option<VolumeTag>,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct ServedVms {
    pub list: Vec<ServedVm>,
    /// Numbers of VMs that are gone and that the broker could not let go: nobody gets them in this run.
    pub spent: Vec<usize>,
}

impl ServedVms {
    /// The place of a VM in the configuration.
    pub(crate) fn place_of(&self, number: usize) -> Option<usize> {
        self.list.iter().position(|vm| vm.number == number)
    }

    /// The least number that is nobody's: with it shards have about as many volumes each.
    pub(crate) fn free_number(&self) -> usize {
        let is_free = |number: &usize| self.place_of(*number).is_none() && !self.spent.contains(number);
        (0..).find(is_free).expect("there are more numbers than VMs")
    }

    /// The volumes that are served.
    pub(crate) fn tags(&self) -> Vec<VolumeTag> {
        self.list.iter().filter_map(|vm| vm.tag).collect()
    }
}
