//! What is told of runs. It must not know how they go.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::order::Tally;
use crate::plan::Plan;
use crate::run::Outcome;

/// Seconds of the clock: no two attacks begin with the same.
pub fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    now * 1000
}

/// What all runs did together.
pub struct Total {
    begun: Instant,
    runs: u64,
    sum: Outcome,
    /// What was found, a line each, to be said again where a long log ends.
    found: Vec<String>,
    /// Crash states of runs in which a VM was under this scheme.
    states_of: BTreeMap<String, u64>,
}

impl Default for Total {
    fn default() -> Total {
        let sum = Outcome::default();
        Total { begun: Instant::now(), runs: 0, sum, found: Vec::new(), states_of: BTreeMap::new() }
    }
}

impl Total {
    /// Adds a run.
    pub fn add(&mut self, plan: &Plan, outcome: &Outcome) {
        let Outcome { states, nested, kills, stops, errors, volatile_writes, answers, found, .. } = outcome;
        self.runs += 1;
        self.sum.flushes_among_writes += outcome.flushes_among_writes;
        self.sum.states += states;
        self.sum.nested += nested;
        self.sum.kills += kills;
        self.sum.stops += stops;
        self.sum.errors += errors;
        self.sum.volatile_writes += volatile_writes;
        self.sum.answers += answers;
        self.sum.order.add(&outcome.order);
        self.found.extend(found.as_ref().map(|found| {
            let first = found.complaints.first().map_or("", String::as_str);
            format!("seed {}, {}: {first}", plan.seed, found.moment)
        }));
        let schemes: std::collections::BTreeSet<&String> = plan.vms.iter().map(|vm| &vm.scheme).collect();
        schemes.into_iter().for_each(|scheme| *self.states_of.entry(scheme.clone()).or_default() += states);
    }

    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.found.is_empty()
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome {
            states,
            nested,
            kills,
            stops,
            errors,
            volatile_writes,
            answers,
            flushes_among_writes,
            ..
        } = &self.sum;
        let seconds = self.begun.elapsed().as_secs_f64();
        writeln!(
            f,
            "{} runs in {seconds:.0} s: {states} crash states ({nested} while another was recovered; {:.1} writes not \
             flushed in each), {kills} kills, {stops} stops, {errors} errors of devices, {answers} requests of guests, \
             {flushes_among_writes} flushes while a write was under way",
            self.runs,
            *volatile_writes as f64 / (*states).max(1) as f64,
        )?;
        let Tally { disks, cut_short, behind, bounded, blocks } = &self.sum.order;
        writeln!(
            f,
            "{disks} disks with ordered write-back looked at without their SSDs ({cut_short} after a power cut while they were recovered): \
             {behind} were of before, {bounded} of them known to be of no earlier than a daemon had said; redo logs held {blocks} blocks"
        )?;
        for (scheme, states) in &self.states_of {
            writeln!(f, "  {scheme:<20} {states:>7} crash states")?;
        }
        if self.found.is_empty() {
            return writeln!(f, "Nothing was found that is against the guarantees.");
        }
        writeln!(f, "{} runs found something that is against the guarantees:", self.found.len())?;
        self.found.iter().try_for_each(|found| writeln!(f, "  {found}"))
    }
}

/// Before a run.
pub fn begins(plan: &Plan) -> String {
    format!("Seed {}: {}", plan.seed, plan.describe())
}

/// After one of many.
pub fn line(plan: &Plan, outcome: &Outcome, total: &Total) -> String {
    let Outcome { states, kills, errors, found, .. } = outcome;
    let end = if found.is_some() { "FOUND SOMETHING" } else { "ok" };
    format!(
        "[{:>5.0} s, {:>6} states] seed {}: {states} states, {kills} kills, {errors} errors: {end} ({})",
        total.begun.elapsed().as_secs_f64(),
        total.sum.states,
        plan.seed,
        plan.describe()
    )
}

/// What a run found, and how to see it again.
pub fn found(plan: &Plan, outcome: &Outcome, scheme: Option<&str>) -> String {
    let Some(found) = &outcome.found else { return String::new() };
    let mut text = format!("FOUND with seed {}, {}\n  {}:\n", plan.seed, plan.describe(), found.moment);
    found.complaints.iter().take(12).for_each(|what| text += &format!("    {what}\n"));
    if found.complaints.len() > 12 {
        text += &format!("    ... and {} more\n", found.complaints.len() - 12);
    }
    found.failures.iter().for_each(|what| text += &format!("  devices had failed: {what}\n"));
    text += "  the daemon's log ends so:\n";
    found.log.lines().for_each(|line| text += &format!("    | {line}\n"));
    let only = scheme.map(|scheme| format!(" --scheme {scheme}")).unwrap_or_default();
    text += &format!("  to run it again: ./dev attack --seed {}{only}\n", plan.seed);
    if let Some(folder) = &found.kept {
        text += &format!("  to see this crash state again: ./dev attack --state {}\n", folder.display());
    }
    text
}
