//! Devices of a volume that stop answering inside its start. It must not know how a start goes.

use lode_store::pair::MEMBERS;
use lode_types::Rng;

use super::World;
use crate::disk::SimDisk;
use crate::start_hang::StartHang;

impl World {
    /// One of the devices stops answering in the next start. Whether that has to succeed all the same: of a pair, where the other member has
    /// everything.
    pub(crate) fn hang_in_start(&mut self, rng: &mut Rng) -> bool {
        let hang = Some(StartHang::pick(rng));
        let is_ordered = self.machine.config.ordered.is_some();
        let beside = if is_ordered && rng.chance(40) { 1 + rng.below(2) } else { 0 };
        if let Some(disk) = [None, Some(&mut self.backing), Some(&mut self.redo)][beside as usize].as_mut()
            && disk.size() > 0
        {
            disk.start_hang = hang;
            return false;
        }
        let pairs = self.pairs().count() as u64;
        if pairs == 0 {
            self.ssd.start_hang = hang;
            return false;
        }
        let (number, member) = (rng.below(pairs) as usize, rng.below(MEMBERS as u64) as usize);
        let (first, pair) = self.each_pair().nth(number).expect("one of the pairs");
        let must_start = pair.found_in_sync(first)[1 - member];
        let disk = if member == 0 { first } else { &mut pair.second };
        disk.start_hang = hang;
        must_start
    }

    /// Devices of which a start is not finished that has asked them: those that have no other one in their place.
    pub fn start_never_ends(&self) -> bool {
        let is_stuck = |disk: &SimDisk| disk.is_locked();
        (self.pair.is_none() && is_stuck(&self.ssd)) || is_stuck(&self.backing) || is_stuck(&self.redo)
    }

    /// The start is over. Whether a device stopped answering in it.
    pub fn end_start_hang(&mut self) -> bool {
        let hangs = self.own_devices().into_iter().filter_map(|disk| disk.start_hang.take());
        hangs.fold(false, |has_begun, hang| has_begun | hang.has_begun())
    }

    /// All devices have come back that did not answer.
    pub fn devices_come_back(&mut self) {
        self.own_devices().into_iter().for_each(SimDisk::end_late);
    }

    /// The process ends, or the power goes.
    pub(super) fn process_ends(&mut self, power_cut: bool) {
        let is_pair = self.pair.is_some();
        let World { ssd, backing, redo, .. } = self;
        // Nobody does without these: a start waits until they can be locked.
        [backing, redo].into_iter().for_each(SimDisk::end_late);
        if !is_pair {
            ssd.end_late();
        }
        for (first, pair) in self.each_pair() {
            [first, &mut pair.second].into_iter().for_each(|disk| disk.process_ends(power_cut));
        }
    }
}
