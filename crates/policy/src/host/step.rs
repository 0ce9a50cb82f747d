//! From the shares in force to those that VMs are to have, a step at a time: a share grows only into what is free, and what a
//! VM gives up is free only once it does not hold it any more.

use lode_types::Level;

use super::HostSizer;
use crate::quota::Quota;

impl HostSizer {
    /// Whether a VM has another share than it is to have.
    pub fn is_moving(&self) -> bool {
        self.vms.iter().any(|vm| vm.share != vm.target)
    }

    /// Lets VMs give up shares, at most so many blocks of each level together. Returns the VMs with other shares than before,
    /// and these.
    pub fn shrink(&mut self, most_blocks: u32) -> Vec<(usize, Quota)> {
        let before: Vec<Quota> = self.shares().collect();
        for level in Level::SIZED {
            let mut left = most_blocks;
            for vm in &mut self.vms {
                let share = vm.share.of(level);
                let step = share.saturating_sub(vm.target.of(level)).min(left);
                left -= step;
                vm.share = vm.share.with(level, share - step);
            }
        }
        self.changed_since(&before)
    }

    /// Lets VMs grow into what is free, when each of them still holds so many blocks. A VM gets no share that `may_have` denies
    /// it, but a half, a quarter and so on of what it was to grow by; where nothing is left it is not to grow. Returns as
    /// [`HostSizer::shrink`].
    ///
    /// # Panics
    /// When `held` is of another number of VMs.
    pub fn grow(
        &mut self,
        held: &[Quota],
        mut may_have: impl FnMut(usize, Quota) -> bool,
    ) -> Vec<(usize, Quota)> {
        assert_eq!(held.len(), self.vms.len(), "what each VM holds");
        let before: Vec<Quota> = self.shares().collect();
        for level in Level::SIZED {
            let used = |(share, held): (&Quota, &Quota)| u64::from(share.of(level).max(held.of(level)));
            let used: u64 = before.iter().zip(held).map(used).sum();
            let mut free = u64::from(self.capacity.of(level)).saturating_sub(used);
            for (at, (vm, held)) in self.vms.iter_mut().zip(held).enumerate() {
                let share = vm.share.of(level);
                // What it still holds beyond its share is counted as its own already.
                let own = held.of(level).saturating_sub(share);
                let growth = vm.target.of(level).saturating_sub(share);
                let mut step = growth.min(own.saturating_add(u32::try_from(free).unwrap_or(u32::MAX)));
                while step > 0 && !may_have(at, vm.share.with(level, share + step)) {
                    step /= 2;
                    if step == 0 {
                        vm.target = vm.target.with(level, share);
                        vm.is_denied.of_mut(level).into_iter().for_each(|is_denied| *is_denied = true);
                    }
                }
                free -= u64::from(step.saturating_sub(own));
                vm.share = vm.share.with(level, share + step);
            }
        }
        self.changed_since(&before)
    }

    fn changed_since(&self, before: &[Quota]) -> Vec<(usize, Quota)> {
        let pairs = self.shares().enumerate().zip(before);
        pairs.filter(|((_, now), before)| now != *before).map(|(now, _)| now).collect()
    }
}
