//! Devices that stop answering for a time and then go on, or whose commands the system gives up then. What they were asked for waits
//! here. It must not know what devices do otherwise.

use std::cmp::Reverse;

use lode_engine::command::DeviceId;
use lode_types::Rng;

use super::World;
use crate::disk::SimDisk;
use crate::pair::{To, each_of};

/// Longest that a device hangs, in ticks: so long the kernel waits.
const MOST_TICKS: u64 = 30;

impl World {
    /// By chance one of the volume's devices stops answering for some time.
    pub(crate) fn hang_something(&mut self, gives_up: bool, rng: &mut Rng) {
        let ticks = 1 + rng.below(MOST_TICKS);
        let mut devices = self.own_devices();
        let at = rng.below(devices.len() as u64) as usize;
        if !devices[at].hangs() {
            devices[at].hang(ticks, gives_up);
            self.hangs += 1;
        }
    }

    /// A device stops answering for so many ticks; of a pair its first member.
    pub fn hang(&mut self, device: DeviceId, ticks: u64) {
        self.may_hang = true;
        self.disk(device, None).hang(ticks, false);
    }

    /// All devices that have something.
    pub(super) fn own_devices(&mut self) -> Vec<&mut SimDisk> {
        let World { ssd, pair, other_pairs, read_ssd, backing, redo, .. } = self;
        let mut devices = vec![read_ssd, backing, redo];
        match pair {
            None => devices.push(ssd),
            pair => {
                let members = each_of(ssd, pair.as_deref_mut(), other_pairs);
                devices.extend(members.flat_map(|(first, pair)| [first, &mut pair.second]));
            }
        }
        devices.retain(|disk| disk.size() > 0);
        devices
    }

    /// Whether one of its devices answers nothing now.
    pub fn has_hanging_device(&self) -> bool {
        if !self.may_hang {
            return false;
        }
        let others = self.other_pairs.iter().map(|other| &other.first);
        let members = others.chain(self.pairs().map(|pair| &pair.second));
        [&self.ssd, &self.read_ssd, &self.backing, &self.redo].into_iter().chain(members).any(SimDisk::hangs)
    }

    /// About a second has gone by for devices that hang.
    pub(super) fn tick_devices(&mut self) {
        if self.may_hang {
            self.own_devices().into_iter().for_each(SimDisk::tick);
        }
    }

    /// All devices answer from now on.
    pub(crate) fn end_hangs(&mut self) {
        if self.may_hang {
            self.own_devices().into_iter().for_each(|disk| disk.hang_ticks = 0);
        }
    }

    /// Whether the device of a command answers nothing now.
    fn hangs(&self, device: DeviceId, member: Option<To>) -> bool {
        !self.is_replaced(member) && self.shared_disk(device, member).hangs()
    }

    /// What ends next of what devices that answer were asked for.
    pub(super) fn next_due(&mut self) -> Option<(u64, u64)> {
        if !self.hung.is_empty() {
            self.release_hung();
        }
        loop {
            let Reverse((at, arrival)) = self.due.pop()?;
            if !self.may_hang || !self.waits_for_device(arrival) {
                return Some((at, arrival));
            }
        }
    }

    /// A command that is due waits where its device hangs. Whether it does.
    fn waits_for_device(&mut self, arrival: u64) -> bool {
        let Some(pending) = self.pending.get(&arrival) else { return false };
        let (device, member) = (pending.command.device, pending.member);
        if !self.hangs(device, member) {
            return false;
        }
        let given_up = self.shared_disk(device, member).given_up;
        self.hung.push((arrival, given_up));
        true
    }

    /// What waited for devices that go on is carried out in any order, or is given up: it has happened or not, and is an error.
    fn release_hung(&mut self) {
        let hung = std::mem::take(&mut self.hung);
        for (arrival, given_up) in hung {
            let Some(pending) = self.pending.get(&arrival) else { continue };
            let (device, member) = (pending.command.device, pending.member);
            if self.hangs(device, member) {
                self.hung.push((arrival, given_up));
                continue;
            }
            let is_given_up =
                !self.is_replaced(member) && self.shared_disk(device, member).given_up > given_up;
            if let Some(pending) = self.pending.get_mut(&arrival) {
                pending.is_given_up = is_given_up;
            }
            let service_ns = self.rng.below(1_000_000);
            self.due.push(Reverse((self.now_ns + service_ns, arrival)));
            self.hung_until_ns = self.now_ns;
        }
    }
}
