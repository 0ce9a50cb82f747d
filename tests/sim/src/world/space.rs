//! A volume's turn in what the host does for shares that change. It must not know who has how much.

use super::World;
use crate::machine::Faults;
use crate::pair::each_of;

impl World {
    /// Lets the directory's way to the SSD go on, or an answer of the host arrive, by chance or where nothing else happens.
    pub(super) fn space_step(&mut self) -> bool {
        const CHANCE: u64 = 30;
        // A flush that is held may wait for that of the directory.
        let is_alone = self.due.is_empty();
        let World { space, ssd, pair, other_pairs, rng, engine, .. } = self;
        let Some(space) = space else { return false };
        if !space.has_something(self.number, ssd) || !(is_alone || rng.chance(CHANCE)) {
            return false;
        }
        if let Some(answer) = space.next_answer(self.number) {
            engine.space_answered(answer);
        } else if pair.is_some() {
            let mut pairs = each_of(ssd, pair.as_deref_mut(), other_pairs).collect();
            return space.step_on_pairs(&mut pairs, &self.faults, rng);
        } else if ssd.hangs() {
            return false;
        } else {
            let ssd_gone = self.faults.ssd_gone || self.ssd_died;
            space.step(ssd, &Faults { ssd_gone, ..self.faults }, rng);
        }
        true
    }
}
