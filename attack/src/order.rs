//! Disks with ordered write-back, once every cache SSD is lost and what the host remembers with it: `lode recover` is run for each, and
//! the disk alone has to be a state of before (guarantee 11). It must not know how the state that it is given came about.

use lode_types::Rng;
use serde::Deserialize;

use crate::host::Host;
use crate::image::Image;
use crate::operator::Complaints;
use crate::plan::Plan;
use crate::tape::{Start, Tape};

/// What was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Disks alone that were compared with the histories of their guests.
    pub disks: u64,
    /// Of these, those that were recovered once more because the power had failed while they were.
    pub cut_short: u64,
    /// Of these, those that lacked something of what their guests had done.
    pub behind: u64,
    /// Of these, those of which a daemon had said how far they were behind.
    pub bounded: u64,
    /// Blocks that redo logs held.
    pub blocks: u64,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: &Tally) {
        self.disks += other.disks;
        self.cut_short += other.cut_short;
        self.behind += other.behind;
        self.bounded += other.bounded;
        self.blocks += other.blocks;
    }
}

/// What went otherwise than it should.
pub enum Trouble {
    /// Against the guarantees.
    Wrong(Complaints),
    /// The machine cannot do what is needed.
    Machine(String),
}

/// What is asked of `lode recover --json`.
#[derive(Deserialize)]
struct Recovered {
    applied_blocks: u64,
}

/// See the module's documentation.
pub struct Order<'a> {
    /// Where it is tried.
    pub host: &'a Host,
    /// Its VMs.
    pub plan: &'a Plan,
}

impl Order<'_> {
    /// Takes the cache SSDs away from what a crash left, recovers the disks, cuts the power in the middle of that or after it, and recovers
    /// them again.
    pub fn check(&self, start: &Start, rng: &mut Rng, tally: &mut Tally) -> Result<(), Trouble> {
        self.begin(self.without_ssds(start))?;
        self.recover(tally)?;
        let tape = self.host.world.end();
        let moment = rng.below(tape.events.len() as u64 + 1) as usize;
        let cut = |moment, rng: &mut Rng| cut(&tape, moment, rng).map_err(Trouble::Machine);
        // What was recovered is durable, and needs no log any more.
        self.compare(&cut(tape.events.len(), rng)?, &mut Tally::default())?;
        self.begin(cut(moment, rng)?)?;
        let before = tally.disks;
        self.recover(tally)?;
        tally.cut_short += tally.disks - before;
        Ok(())
    }

    fn begin(&self, start: Start) -> Result<(), Trouble> {
        self.host.begin(start).map_err(Trouble::Machine)
    }

    /// With new SSDs, and a host that remembers nothing.
    fn without_ssds(&self, start: &Start) -> Start {
        let mut start = Start { state: Default::default(), ..start.clone() };
        for device in self.plan.ssds() {
            start.images[device] = Image::new(start.images[device].size_bytes());
        }
        start
    }

    /// Brings what the logs hold to the disks, and looks at these.
    fn recover(&self, tally: &mut Tally) -> Result<(), Trouble> {
        for vm in 0..self.plan.vms.len() {
            let Some(redo) = self.plan.redo_of(vm) else { continue };
            let [disk, redo] = [self.plan.disk_of(vm), redo].map(|device| self.host.device(device));
            let arguments = ["recover", "--json", &disk, "--redo", &redo];
            let output = self.host.output(&arguments).map_err(Trouble::Machine)?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return wrong(format!("VM {vm}: lode recover ended with {}: {said}", output.status));
            }
            match serde_json::from_slice::<Recovered>(&output.stdout) {
                Ok(recovered) => tally.blocks += recovered.applied_blocks,
                Err(error) => {
                    return wrong(format!("VM {vm}: lode recover --json does not say what it did: {error}"));
                }
            }
        }
        let start = self.host.as_it_is().map_err(Trouble::Machine)?;
        self.compare(&start, tally)
    }

    /// Compares disks, as they are, with what their guests did and were told.
    fn compare(&self, start: &Start, tally: &mut Tally) -> Result<(), Trouble> {
        for model in &start.models {
            let Some(history) = model.history() else { continue };
            match history.check(model.vm(), &start.images[self.plan.disk_of(model.vm())]) {
                Err(what) => return wrong(format!("the disk alone is no state of before: {what}")),
                Ok(moment) => {
                    tally.disks += 1;
                    tally.behind += u64::from(moment < history.now());
                    tally.bounded += u64::from(history.is_bounded());
                }
            }
        }
        Ok(())
    }
}

fn wrong(what: String) -> Result<(), Trouble> {
    Err(Trouble::Wrong(vec![what]))
}

fn cut(tape: &Tape, moment: usize, rng: &mut Rng) -> Result<Start, String> {
    let mut player = tape.player();
    player.advance(moment);
    player.after_power_cut(rng).map_err(|error| error.to_string())
}
