//! The division of a host as it is while VMs are served, for whoever has all of them at hand: a replay. It must not know when
//! intervals end.

use lode_reuse::sizing::Objective;

use super::{HostOptions, HostSizer, VmRule};
use crate::of_sized::OfSized;
use crate::quota::Quota;
use crate::registry::SchemeInfo;
use crate::scheme::Points;
use crate::settings::Settings;
use crate::sizer::{AccessTimes, Tenant};

/// A host of VMs that count the same.
#[derive(Debug)]
pub(crate) struct HostDivision {
    sizer: HostSizer,
    rule: VmRule,
    vms: usize,
}

impl HostDivision {
    /// Of these levels, of which every VM keeps so many blocks.
    pub(crate) fn new(
        settings: &Settings,
        objective: Objective,
        times: AccessTimes,
        physical: Quota,
        min_blocks: u32,
    ) -> HostDivision {
        let info = SchemeInfo::find(settings.scheme()).expect("settings are of a scheme");
        let most = physical.map(|level, blocks| if info.levels.contains(&level) { blocks } else { 0 });
        let least = most.map(|level, most| min_blocks.max(info.least_blocks(level)).min(most));
        let rule =
            VmRule { name: String::new(), weight: 1.0, least, most, reach: most, named: OfSized::default() };
        let options = HostOptions { objective, times, ..HostOptions::default() };
        HostDivision { sizer: HostSizer::new(physical, options), rule, vms: 0 }
    }

    /// Ends an interval, and gives every VM its new share: first what is given up, then what is free by then.
    pub(crate) fn size<V: Tenant>(&mut self, vms: &mut [V]) {
        if self.vms != vms.len() {
            self.take_vms(vms);
        }
        self.sizer.divide(vms.iter_mut().map(|vm| vm.demand(Points::All)).collect());
        for (at, share) in self.sizer.shrink(u32::MAX) {
            vms[at].resize(share);
        }
        let held: Vec<Quota> = vms.iter().map(Tenant::quota).collect();
        for (at, share) in self.sizer.grow(&held, |_, _| true) {
            vms[at].resize(share);
        }
    }

    /// VMs came, or went. The first ones have shares already.
    fn take_vms<V: Tenant>(&mut self, vms: &mut [V]) {
        let rules = (0..vms.len()).map(|at| VmRule { name: at.to_string(), ..self.rule.clone() });
        self.sizer.set_vms(rules.collect());
        if self.vms == 0 {
            let shares: Vec<Quota> = vms.iter().map(Tenant::quota).collect();
            self.sizer.put_shares(&shares);
        }
        for (vm, share) in vms.iter_mut().zip(self.sizer.shares()) {
            if vm.quota() != share {
                vm.resize(share);
            }
        }
        self.vms = vms.len();
    }
}
