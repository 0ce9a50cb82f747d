//! VMs that a reload adds: what can be told of their disks before anything is changed. What is refused here would be refused
//! when they are added, with other VMs removed or changed by then. It must not know who asks.

use std::path::PathBuf;

use super::parts::Parts;
use crate::config::{Config, VmConfig};
use crate::error::ServerError;
use crate::files::{check_files, file_identity, open_backing};
use crate::start::plan_vm;

/// See the module's documentation.
pub(crate) struct DiskCheck {
    /// Those to be added.
    pub vms: Vec<String>,
    /// With them.
    pub config: Box<Config>,
    /// Disks that are served now. One of a VM that is to be removed cannot be opened before.
    pub served: Vec<PathBuf>,
}

impl DiskCheck {
    pub(super) fn run(&self, parts: &Parts) -> Result<(), String> {
        let check = || {
            check_files(&self.config)?;
            let is_new = |vm: &&VmConfig| self.vms.contains(&vm.name) && !self.is_served(vm);
            self.config.vms.iter().filter(is_new).try_for_each(|vm| self.check_vm(vm, parts))
        };
        check().map_err(|error: ServerError| error.to_string())
    }

    fn check_vm(&self, vm: &VmConfig, parts: &Parts) -> Result<(), ServerError> {
        let backing = open_backing(vm)?;
        let disk = parts.claims.check(&self.config, vm, &backing, (None, None), || Ok(0))?;
        let mut plan = plan_vm(&self.config, vm, backing, parts.block)?;
        plan.note_disk(disk);
        let share = plan.config.share;
        plan.begin_with(share, plan.config.largest_share.unwrap_or(share));
        plan.check_redo(None, || Ok(0), &|_| None)
    }

    fn is_served(&self, vm: &VmConfig) -> bool {
        let identity = |path: &PathBuf| std::fs::metadata(path).ok().map(|found| file_identity(&found));
        let its = identity(&vm.backing);
        its.is_some() && self.served.iter().any(|served| identity(served) == its)
    }
}
