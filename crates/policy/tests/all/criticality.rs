//! Admission by criticality against its oracle, and what the paper's tables say of it.

use std::collections::BTreeSet;

use lode_policy::criticality::{
    Admission, AdmissionOptions, AdmissionPolicy, CompletionVerdict, Consequence, Device, Object, Population,
    Stall, SubmittedWrite, Verdict,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::oracle::criticality::Oracle;
use lode_testdata::vector;

const PROCESSES: u32 = 6;
const LOCKS: u32 = 3;
const EVENTS: u32 = 2;
const WRITES: u32 = 4;
const BLOCKS: u64 = 8;

#[derive(Clone, Debug)]
enum Step {
    Critical(u32, bool),
    Block(u32, Object),
    Unblock(u32),
    Acquire(u32, u32),
    Release(u32, u32),
    Expect(u32, u32),
    Submit(u32, SubmittedWrite),
    Complete(u32, Device, bool),
    NoRoom(u32),
    Overlap(u32, u64, u32),
    Flush(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (process, lock, event, write) = (0..PROCESSES, 0..LOCKS, 0..EVENTS, 0..WRITES);
    let object = prop_oneof![
        4 => lock.clone().prop_map(Object::Lock),
        2 => event.clone().prop_map(Object::Event),
        2 => write.clone().prop_map(Object::Write),
    ];
    let submitted = (write.clone(), 0..BLOCKS, 1u32..4, any::<bool>(), any::<bool>());
    let submitted = submitted.prop_map(|(id, first_block, blocks, sync, log)| SubmittedWrite {
        id,
        first_block,
        blocks,
        sync,
        log,
    });
    let device = prop_oneof![Just(Device::Cache), Just(Device::Disk)];
    let step = prop_oneof![
        2 => (process.clone(), any::<bool>()).prop_map(|(p, c)| Step::Critical(p, c)),
        8 => (process.clone(), object).prop_map(|(p, o)| Step::Block(p, o)),
        4 => process.clone().prop_map(Step::Unblock),
        4 => (process.clone(), lock.clone()).prop_map(|(p, l)| Step::Acquire(p, l)),
        3 => (process.clone(), lock).prop_map(|(p, l)| Step::Release(p, l)),
        2 => (process.clone(), event).prop_map(|(p, e)| Step::Expect(p, e)),
        4 => (process.clone(), submitted).prop_map(|(p, w)| Step::Submit(p, w)),
        4 => (write.clone(), device, prop::bool::weighted(0.8)).prop_map(|(w, d, ok)| Step::Complete(w, d, ok)),
        1 => write.prop_map(Step::NoRoom),
        1 => (process.clone(), 0..BLOCKS, 1u32..4).prop_map(|(p, b, n)| Step::Overlap(p, b, n)),
        1 => process.prop_map(Step::Flush),
    ];
    prop::collection::vec(step, 1..120)
}

fn options(policy: AdmissionPolicy, pi_sync_only: bool) -> AdmissionOptions {
    AdmissionOptions { policy, pi_sync_only, stall: Stall::Bypass, reissue: policy.reissues() }
}

/// Both, and what has been counted of each.
struct Pair {
    admission: Admission,
    oracle: Oracle,
    inherited: BTreeSet<u32>,
}

/// Submits to both. Whoever waits for the number of a write before there is one waits no longer; no caller does that.
fn submit(
    admission: &mut Admission,
    oracle: &mut Oracle,
    process: u32,
    write: SubmittedWrite,
    out: &mut Vec<Consequence>,
) {
    let verdict = admission.on_submit(process, &write);
    assert_eq!(verdict, oracle.verdict(process, &write));
    if verdict == Verdict::Cache || oracle.is_under_way(write.id) {
        return;
    }
    admission.on_disk(&write);
    oracle.on_disk(write);
    let waits: Vec<_> =
        oracle.waits.iter().filter(|(_, object)| **object == Object::Write(write.id)).collect();
    let waiters: Vec<u32> = waits.into_iter().map(|(process, _)| *process).collect();
    for process in waiters {
        admission.on_unblock(process, out);
        oracle.unblock(process);
    }
}

impl Pair {
    fn new(options: AdmissionOptions) -> Pair {
        let population = Population { processes: PROCESSES, locks: LOCKS, events: EVENTS };
        Pair {
            admission: Admission::new(options, population),
            oracle: Oracle::new(options.policy, options.pi_sync_only),
            inherited: BTreeSet::new(),
        }
    }

    /// Applies a step to both, and compares verdicts and completions.
    fn apply(&mut self, step: &Step) -> (Vec<Consequence>, BTreeSet<u32>) {
        let Pair { admission, oracle, .. } = self;
        let (mut out, mut also) = (Vec::new(), BTreeSet::new());
        match step.clone() {
            Step::Critical(process, critical) => {
                admission.set_critical(process, critical, &mut out);
                if critical {
                    oracle.critical.insert(process)
                } else {
                    oracle.critical.remove(&process)
                };
            }
            Step::Block(process, object) => {
                admission.on_block(process, object, &mut out);
                oracle.block(process, object);
            }
            Step::Unblock(process) => {
                admission.on_unblock(process, &mut out);
                oracle.unblock(process);
            }
            Step::Acquire(process, lock) => {
                admission.on_acquire(process, lock, &mut out);
                oracle.acquire(process, lock);
            }
            Step::Release(process, lock) => {
                admission.on_release(process, lock, &mut out);
                oracle.release(process, lock);
            }
            Step::Expect(process, event) => {
                admission.on_expect(process, event, &mut out);
                oracle.expect(process, event);
            }
            Step::Submit(process, write) => submit(admission, oracle, process, write, &mut out),
            Step::Complete(write, from, ok) if oracle.owes(write, from) => {
                let expected = oracle.complete(write, from, ok);
                if admission.options().policy.reissues() {
                    assert_eq!(admission.on_complete(write, from, ok), expected);
                }
            }
            Step::NoRoom(write) if oracle.owes(write, Device::Cache) && oracle.owes(write, Device::Disk) => {
                admission.on_no_space(write);
                // The same as a cache that failed.
                assert_eq!(oracle.complete(write, Device::Cache, false), CompletionVerdict::Wait);
            }
            Step::Overlap(process, block, blocks) => {
                admission.on_overlap(process, block, blocks, &mut out);
                also = oracle.overlap(process, Some(block..block + u64::from(blocks)));
            }
            Step::Flush(process) => {
                admission.on_flush(process, &mut out);
                also = oracle.overlap(process, None);
            }
            Step::Complete(..) | Step::NoRoom(..) => {}
        }
        (out, also)
    }

    fn step(&mut self, step: &Step) {
        let (out, mut reissues) = self.apply(step);
        reissues.extend(self.oracle.reissues());
        let inherited = self.oracle.inherited();
        let mut expected: Vec<String> = Vec::new();
        let told = |consequence: Consequence| format!("{consequence:?}");
        expected.extend(inherited.difference(&self.inherited).map(|p| told(Consequence::Inherits(*p))));
        expected.extend(self.inherited.difference(&inherited).map(|p| told(Consequence::Ends(*p))));
        expected.extend(reissues.iter().map(|id| told(Consequence::Reissue(*id))));
        let mut observed: Vec<String> = out.into_iter().map(told).collect();
        if matches!(step, Step::Submit(..)) {
            // Several hooks were called; what began and ended between them is not compared.
            self.inherited = inherited;
        } else {
            expected.sort();
            observed.sort();
            assert_eq!(observed, expected, "after {step:?}");
            self.inherited = inherited;
        }
        for process in 0..PROCESSES {
            assert_eq!(self.admission.is_inherited(process), self.inherited.contains(&process), "{process}");
        }
        assert_eq!(self.admission.inheritances(), self.inherited.len());
        for block in 0..BLOCKS {
            assert_eq!(self.admission.holds_destage(block), self.oracle.holds_destage(block), "{block}");
        }
    }

    /// When nobody waits, nobody inherits; when every device has answered, nothing is outstanding.
    fn ends_idle(&mut self) {
        (0..PROCESSES).for_each(|process| self.step(&Step::Unblock(process)));
        for write in 0..WRITES {
            self.step(&Step::Complete(write, Device::Cache, true));
            self.step(&Step::Complete(write, Device::Disk, true));
        }
        assert_eq!(self.admission.inheritances(), 0);
        assert_eq!(self.admission.outstanding(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn inheritance_reissues_and_completions_equal_the_oracles(
        steps in steps(),
        policy in prop::sample::select(AdmissionPolicy::ALL.to_vec()),
        pi_sync_only in any::<bool>(),
    ) {
        let mut pair = Pair::new(options(policy, pi_sync_only));
        steps.iter().for_each(|step| pair.step(step));
        pair.ends_idle();
    }

    #[test]
    fn a_chain_is_walked_to_its_end(steps in steps()) {
        // The policy that uses everything, with somebody critical from the start.
        let mut pair = Pair::new(options(AdmissionPolicy::CpPiIoi, false));
        pair.step(&Step::Critical(0, true));
        steps.iter().for_each(|step| pair.step(step));
        pair.ends_idle();
    }
}

#[test]
fn a_cycle_does_not_keep_itself_alive() {
    let mut pair = Pair::new(options(AdmissionPolicy::CpPi, false));
    for step in [
        Step::Acquire(1, 0),
        Step::Acquire(2, 1),
        Step::Block(1, Object::Lock(1)),
        Step::Block(2, Object::Lock(0)),
        Step::Critical(0, true),
        Step::Block(0, Object::Lock(0)),
    ] {
        pair.step(&step);
    }
    assert_eq!(pair.admission.inheritances(), 2);
    pair.step(&Step::Unblock(0));
    assert_eq!(pair.admission.inheritances(), 0);
}

fn write(sync: bool) -> SubmittedWrite {
    SubmittedWrite { id: 0, first_block: 0, blocks: 1, sync, log: false }
}

fn population() -> Population {
    Population { processes: PROCESSES, locks: LOCKS, events: EVENTS }
}

/// What a policy admits of a mix of writes, in the unit of the mix.
fn admitted(policy: AdmissionPolicy, mix: &[(bool, f64)]) -> f64 {
    let admission = Admission::new(options(policy, false), population());
    let admits = |sync| admission.on_submit(0, &write(sync)) == Verdict::Cache;
    mix.iter().filter(|(sync, _)| admits(*sync)).map(|(_, percent)| percent).sum()
}

#[test]
fn table_1_sync_admits_the_synchronous_share() {
    let table = vector("reqorient_table1");
    let column = |key: &str, sync: bool| -> Vec<(bool, f64)> {
        table[key].as_array().unwrap().iter().map(|percent| (sync, percent.as_f64().unwrap())).collect()
    };
    let mix = [column("sync", true), column("asyn", false)].concat();
    let is = |policy, key: &str| (admitted(policy, &mix) - table[key].as_f64().unwrap()).abs() < 1e-9;
    assert!(is(AdmissionPolicy::Sync, "sync_total"));
    assert!(is(AdmissionPolicy::All, "total"));
    let asynchronous = admitted(AdmissionPolicy::All, &mix) - admitted(AdmissionPolicy::Sync, &mix);
    assert!((asynchronous - table["async_total"].as_f64().unwrap()).abs() < 1e-9, "{asynchronous}");
    assert_eq!(admitted(AdmissionPolicy::Cp, &mix), 0.0, "nobody is critical");
}

/// The share of table 3's writes that a policy admits: those of critical processes, of processes that inherited, and of
/// processes that did not and that somebody critical waits for.
fn table_3_share(table: &Value, options: AdmissionOptions) -> f64 {
    let number = |of: &str, column: &str| table[of][column].as_f64().unwrap();
    let mut admission = Admission::new(options, population());
    let mut out = Vec::new();
    admission.set_critical(0, true, &mut out);
    admission.on_acquire(1, 0, &mut out);
    admission.on_block(0, Object::Lock(0), &mut out);
    let admits = |process, sync| admission.on_submit(process, &write(sync)) == Verdict::Cache;
    let mut share = 0.0;
    for (column, process) in [("CP", 0), ("PI", 1)] {
        let asynchronous = number("async_share", column);
        share += if admits(process, false) { asynchronous } else { 0.0 };
        share += if admits(process, true) { number("column_sums", column) - asynchronous } else { 0.0 };
    }
    admission.on_unblock(0, &mut out);
    assert_eq!(admission.on_submit(1, &write(false)), Verdict::Disk);
    admission.on_disk(&write(false));
    out.clear();
    admission.on_block(0, Object::Write(0), &mut out);
    if out == [Consequence::Reissue(0)] { share + number("column_sums", "IOI") } else { share }
}

#[test]
fn table_3_each_step_admits_its_column() {
    let table = vector("reqorient_table3");
    let mut sums = Vec::new();
    for column in ["CP", "PI", "IOI"] {
        let rows = table["rows"][column].as_object().unwrap();
        sums.push(rows.values().map(|percent| percent.as_f64().unwrap()).sum::<f64>());
        // The print rounds each entry to four digits.
        assert!((sums.last().unwrap() - table["stated"][column].as_f64().unwrap()).abs() < 2e-4, "{column}");
    }
    let near = |options, expected: f64| {
        let share = table_3_share(&table, options);
        assert!((share - expected).abs() < 5e-4, "{options:?}: {share}, not {expected}");
    };
    near(options(AdmissionPolicy::Cp, false), sums[0]);
    near(options(AdmissionPolicy::CpPi, false), sums[0] + sums[1]);
    near(options(AdmissionPolicy::CpPiIoi, false), sums[0] + sums[1] + sums[2]);
    // With the other reading of section 5 the asynchronous part of the second column is missing.
    let asynchronous = table["async_share"]["PI"].as_f64().unwrap();
    near(options(AdmissionPolicy::CpPi, true), sums[0] + sums[1] - asynchronous);
}

#[test]
fn settings_are_checked() {
    let new = |pairs: &[&str]| {
        let pairs: Vec<_> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
        AdmissionOptions::new(AdmissionPolicy::Cp, &pairs)
    };
    assert_eq!(new(&[]).unwrap(), options(AdmissionPolicy::Cp, false));
    let set = new(&["pi_sync_only=on", "stall=wait"]).unwrap();
    assert!(set.pi_sync_only && set.stall == Stall::Wait);
    assert!(new(&["stal=wait"]).unwrap_err().to_string().contains("did you mean 'stall'?"));
    assert!(new(&["stall=maybe"]).is_err());
}
