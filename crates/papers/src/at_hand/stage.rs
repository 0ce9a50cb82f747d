//! What came of each trace, for those who measure. It must not know what is measured.

use std::collections::HashMap;

use lode_replay::Report;

use super::traces::AtHandTraces;
use super::{AtHand, Setup, Task, Together, TraceFacts};
use crate::experiment::{Finding, median};
use crate::run::Demands;

/// What came of a run.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Replay(Box<Report>),
    Demand(Vec<Demands>),
}

/// What came of a paper's runs.
pub(crate) struct Ran<'a> {
    /// Of each trace.
    pub traces: Vec<Stage<'a>>,
    /// Of the traces as VMs of one host.
    pub host: Option<Stage<'a>>,
    /// What could not be run, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// One trace, or several as VMs of one host, with what came of it.
pub(crate) struct Stage<'a> {
    /// What it is called in a row.
    pub row: String,
    /// The traces; one, if it is not a host of VMs.
    pub facts: Vec<&'a TraceFacts>,
    outcomes: HashMap<Task, &'a Outcome>,
}

impl<'a> Ran<'a> {
    pub(super) fn of(
        at_hand: &AtHand,
        groups: &[Together],
        known: &'a AtHandTraces,
        outcomes: &'a HashMap<(Together, Task), Result<Outcome, String>>,
    ) -> Ran<'a> {
        let mut ran = Ran { traces: Vec::new(), host: None, left_out: Vec::new() };
        for together in groups {
            let facts: Vec<&TraceFacts> = together.iter().map(|&at| &known.traces[at]).collect();
            let row = match facts[..] {
                [one] => one.row(),
                _ => format!("{} VMs of one host", facts.len()),
            };
            let tasks = (at_hand.tasks)(known.block_accesses(together)).into_iter();
            let of_tasks: Result<HashMap<_, _>, &String> = tasks
                .filter_map(|task| {
                    let outcome = outcomes.get(&(together.clone(), task.clone()))?.as_ref();
                    Some(outcome.map(|outcome| (task, outcome)))
                })
                .collect();
            match of_tasks {
                Err(why) => ran.left_out.push((row, why.clone())),
                Ok(outcomes) if facts.len() > 1 => ran.host = Some(Stage { row, facts, outcomes }),
                Ok(outcomes) => ran.traces.push(Stage { row, facts, outcomes }),
            }
        }
        ran
    }

    /// Those that both read and write, of which means are made: a trace without directions, or without one of them, says little
    /// of schemes that tell reads from writes.
    pub(crate) fn with_both(&self) -> impl Iterator<Item = &Stage<'a>> + Clone {
        self.traces.iter().filter(|stage| stage.reads_and_writes())
    }

    /// Each trace, then the host of VMs.
    pub(crate) fn stages(&self) -> impl Iterator<Item = &Stage<'a>> + Clone {
        self.traces.iter().chain(&self.host)
    }

    /// Says a claim's number: that of the host of VMs where there is one, then the median of the traces that both read and write, each
    /// alone, then each trace's.
    pub(crate) fn say(
        &self,
        found: &mut Finding,
        key: &'static str,
        value: &dyn Fn(&Stage<'_>) -> Option<f64>,
    ) {
        let alone = median(self.with_both().map(value));
        let Some(host) = &self.host else {
            found.say(key, alone);
            return self.say_each(found, value);
        };
        found.say(key, value(host));
        found.otherwise(
            format!("median of the {} traces that read and write, each alone", host.facts.len()),
            alone,
        );
        self.say_each(found, value);
    }

    /// Says a claim's number: the median of all traces, then each trace's.
    pub(crate) fn say_all(
        &self,
        found: &mut Finding,
        key: &'static str,
        value: &dyn Fn(&Stage<'_>) -> Option<f64>,
    ) {
        found.say(key, median(self.traces.iter().map(value)));
        self.say_each(found, value);
    }

    fn say_each(&self, found: &mut Finding, value: &dyn Fn(&Stage<'_>) -> Option<f64>) {
        for stage in &self.traces {
            found.otherwise(stage.row.clone(), value(stage));
        }
    }
}

impl Stage<'_> {
    /// The report of a replay.
    ///
    /// # Panics
    /// When it was not asked for; a test holds that what is read is asked for.
    pub(crate) fn report(&self, setup: &Setup) -> &Report {
        match self.outcomes.get(&Task::Replay(setup.clone())) {
            Some(Outcome::Replay(report)) => report,
            _ => panic!("A replay is read that was not asked for: {setup:?}"),
        }
    }

    /// What each VM's intervals ask for.
    ///
    /// # Panics
    /// As [`Stage::report`].
    pub(crate) fn demand(&self, interval: u64) -> &[Demands] {
        match self.outcomes.get(&Task::Demand { interval }) {
            Some(Outcome::Demand(demands)) => demands,
            _ => panic!("Demands are read that were not asked for: {interval}"),
        }
    }

    /// Whether every one of its traces both reads and writes.
    pub(crate) fn reads_and_writes(&self) -> bool {
        self.facts.iter().all(|facts| facts.reads_and_writes())
    }

    /// Of its traces.
    pub(crate) fn block_accesses(&self) -> u64 {
        self.facts.iter().map(|facts| facts.block_accesses).sum()
    }

    pub(crate) fn touched_blocks(&self) -> u64 {
        self.facts.iter().map(|facts| facts.touched_blocks).sum()
    }
}
