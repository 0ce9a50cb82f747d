//! What a guest knows of a backing disk that is written in the order of its flushes (guarantee 11).

use std::fmt;
use std::ops::Range;

use lode_history::{Content, History};
use lode_types::Rng;

use super::Guest;
use crate::model::{Change, Model, SECTOR};
use crate::run::Plan;
use crate::world::World;

/// Writes of the disk at which the application of a redo log may be cut short.
const MOST_WRITES_OF_A_REDO: u64 = 80;
/// In how many of a hundred steps the backing disk alone is looked at.
const LOOKS_AT_ORDER: u64 = 2;

/// The bytes of a sector.
struct Sector<'a>(&'a [u8]);

impl Content for Sector<'_> {
    type Change = Change;

    fn may_follow(&self, sector: usize, write: u32, change: Change) -> bool {
        Model::is_content(write, change, sector, self.0)
    }

    fn is_certain_after(change: Change) -> bool {
        change != Change::Trim
    }

    fn as_change(&self) -> (u32, Change) {
        Model::named(self.0)
    }
}

impl fmt::Debug for Sector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_change().fmt(f)
    }
}

impl Guest {
    pub(super) fn history(plan: &Plan) -> Option<History<Change>> {
        let are_ordered = plan.machines.iter().all(|machine| machine.config.ordered.is_some());
        let sectors = plan.machines[0].config.volume_bytes as usize / SECTOR;
        (are_ordered && plan.write_arounds == 0).then(|| History::new(sectors, Change::Zero))
    }

    /// Guarantee 11: the backing disk with its redo log is a state of before, no older than is told. With `cut` as the power
    /// fails now, without as it just has.
    pub(super) fn check_order(&mut self, world: &World, cut: Option<&mut Rng>) -> Result<(), String> {
        let Some(history) = &self.history else { return Ok(()) };
        self.ticks.note(world.ticks(), history.now());
        let behind = world.engine().behind().ok_or("the engine does not say how far the disk is behind")?;
        let earliest = if behind.is_of_before_start { 0 } else { self.ticks.moment_before(behind.ticks) };
        let image = world.disk_alone(cut)?;
        let sectors: Vec<_> = image.chunks(SECTOR).map(Sector).collect();
        let checked = history.check(&sectors, earliest);
        checked.map_err(|error| format!("the backing disk alone: {error}; it was {behind:?}"))?;
        self.tally.in_order += 1;
        Ok(())
    }

    /// By chance the SSD is lost after a crash. The disk is what there is then; where the power fails during the starts that follow, it
    /// fails now, because the model knows one state of each sector.
    pub(super) fn lose_ssd(
        &mut self,
        plan: &Plan,
        world: &mut World,
        rng: &mut Rng,
        then_power: bool,
    ) -> Result<(), String> {
        if self.history.is_none() || !rng.chance(plan.ssd_losses) {
            return Ok(());
        }
        if then_power || world.backing.has_dropped() {
            world.backing.power_cut(rng);
            world.redo.power_cut(rng);
            self.check_order(world, None).map_err(|error| format!("the power fails as well: {error}"))?;
        }
        if rng.chance(50) {
            let writes = rng.below(MOST_WRITES_OF_A_REDO);
            world.cut_redo_short(writes, rng);
            self.check_order(world, None).map_err(|error| format!("applied in part: {error}"))?;
        }
        let image = world.disk_alone(None)?;
        world.lose_ssd().map_err(|error| error.to_string())?;
        self.tally.ssds_lost += 1;
        self.model.crash();
        for (sector, bytes) in image.chunks(SECTOR).enumerate() {
            self.model.replace(sector, bytes);
            self.found(sector, bytes);
        }
        Ok(())
    }

    /// Now and then the power could fail, and the SSD with it.
    pub(super) fn look_at_order(&mut self, world: &World, rng: &mut Rng) -> Result<(), String> {
        if let Some(history) = &self.history {
            self.ticks.note(world.ticks(), history.now());
        }
        if rng.chance(LOOKS_AT_ORDER) { self.check_order(world, Some(rng)) } else { Ok(()) }
    }

    /// A sector was found to hold this after a crash, and does so from now on.
    pub(super) fn found(&mut self, sector: usize, bytes: &[u8]) {
        if let Some(history) = &mut self.history {
            history.found(sector, &Sector(bytes), true);
        }
    }

    /// A change of these sectors is about to be asked for. Its number.
    pub(super) fn submit(&mut self, sectors: Range<usize>, change: Change) -> u32 {
        let write = self.model.submit(sectors.clone(), change);
        if let Some(history) = &mut self.history {
            history.submit(write, sectors, change);
        }
        write
    }
}
