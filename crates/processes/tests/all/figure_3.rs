//! The paper's figure 3, and scripts that cannot run.

use lode_policy::criticality::{AdmissionPolicy, Object};
use lode_processes::{
    CacheKind, DataKind, DeviceModel, IoTarget, MachineSettings, Mode, Primitive, RequestsError,
    RequestsReport, RunConfig, Step, Stuck, WriteOp, run_script,
};

use crate::{options, script};

const MS: f64 = 1_000_000.0;
const P1: usize = 0;

fn cpu(ms: f64) -> Step {
    Step::Cpu { ns: (ms * MS) as u64 }
}

fn write(tag: u32, first_block: u64, sync: bool) -> Step {
    Step::Write(WriteOp { tag: Some(tag), first_block, blocks: 1, sync, waits: sync, data: DataKind::Db })
}

const LOCK: Step = Step::Lock { lock: 0, mode: Mode::Write };
const UNLOCK: Step = Step::Unlock { lock: 0 };

/// P1, P2 and P3 of one part of the figure.
fn part(name: &str) -> Vec<Vec<Step>> {
    let critical = |last: Step| vec![Step::SetCritical(true), Step::RequestBegin, cpu(2.0), last];
    match name {
        "a" => vec![critical(LOCK), vec![LOCK, cpu(3.0), write(0, 1, true), UNLOCK]],
        "b" => {
            let wait = Step::WaitIo { target: IoTarget::Tag(0), primitive: Primitive::LockPage };
            vec![critical(wait), vec![write(0, 2, false)]]
        }
        _ => vec![
            critical(LOCK),
            vec![LOCK, cpu(1.0), Step::Wait { event: 0 }, cpu(0.5), UNLOCK],
            vec![write(0, 1, true), cpu(0.5), Step::Signal { event: 0 }],
        ],
    }
}

fn fixed(ms: f64) -> DeviceModel {
    let ns = (ms * MS) as u64;
    DeviceModel {
        parallel: 4,
        window: 1,
        expiry_ns: 0,
        read_ns: ns,
        write_ns: ns,
        read_block_ns: 0,
        write_block_ns: 0,
        jitter_percent: 0,
        disk: None,
    }
}

fn config(policy: AdmissionPolicy, disk_ms: f64, cache_ms: f64) -> RunConfig {
    let (cache, disk) = (fixed(cache_ms), fixed(disk_ms));
    let machine = MachineSettings { map_writes: 0, ..MachineSettings::default() };
    let config = RunConfig::new(options(policy), machine, CacheKind::Ram);
    RunConfig { cache_blocks: 16, cache, disk, warm_up_ns: 0, ..config }
}

#[test]
fn figure_3_exactly() {
    let figure = lode_testdata::vector("reqorient_fig3");
    let ms = |key: &str| figure[key].as_f64().unwrap();
    let names = [
        ("ALL", AdmissionPolicy::All),
        ("CP", AdmissionPolicy::Cp),
        ("CP+PI", AdmissionPolicy::CpPi),
        ("CP+PI+IOI", AdmissionPolicy::CpPiIoi),
    ];
    let mut compared = 0;
    for name in ["a", "b", "c"] {
        for (key, policy) in names {
            // The figure's last process is P3, who delivers the event of part c.
            let script = script(part(name), 1, part(name).len() as u32 - 1);
            let report = run_script(script, &config(policy, ms("disk_write"), ms("nvwc_write"))).unwrap();
            let expected = |table: &str| figure[table][name][key].as_f64();
            let proceeds_ms = report.finished_ns[P1].unwrap() as f64 / MS;
            assert_eq!(Some(proceeds_ms), expected("expected_P1_proceeds"), "{name} {key}");
            let counts = [
                ("expected_cached_writes", report.writes.cached),
                ("expected_discarded_completions", report.writes.discarded_completions),
            ];
            for (table, found) in counts {
                if let Some(expected) = expected(table) {
                    assert_eq!(found as f64, expected, "{name} {key} {table}");
                    compared += 1;
                }
            }
            assert_eq!(report.left, (0, 0), "{name} {key}");
            assert_eq!(report.writes.acknowledged, report.writes.submitted, "{name} {key}");
        }
    }
    assert_eq!(compared, 11);
}

#[test]
fn waits_are_told_by_primitive() {
    let report = run_script(script(part("a"), 1, 0), &config(AdmissionPolicy::Cp, 10.0, 1.0)).unwrap();
    let [wait] = &report.waits[..] else { panic!("{:?}", report.waits) };
    assert_eq!((wait.primitive, wait.count, wait.max_us), ("mutex_lock", 1, 11_000.0));
}

fn run(lists: Vec<Vec<Step>>) -> Result<RequestsReport, RequestsError> {
    run_script(script(lists, 2, 0), &config(AdmissionPolicy::CpPiIoi, 10.0, 1.0))
}

#[test]
fn scripts_that_make_no_sense_are_refused() {
    let bad = [
        Step::Unlock { lock: 0 },
        Step::Lock { lock: 9, mode: Mode::Read },
        Step::Signal { event: 9 },
        write(9, 0, true),
        write(0, u64::MAX, true),
        Step::Append { blocks: 17 },
        Step::Cpu { ns: u64::MAX },
    ];
    for op in bad {
        assert!(matches!(run(vec![vec![op]]), Err(RequestsError::BadOp { process: 0, .. })), "{op:?}");
    }
    let lock = |lock| Step::Lock { lock, mode: Mode::Write };
    let crossed = vec![vec![lock(0), cpu(1.0), lock(1)], vec![lock(1), cpu(1.0), lock(0)]];
    let stuck = |process, step, lock| Stuck { process, step, object: Object::Lock(lock) };
    let cycle = vec![stuck(0, 2, 1), stuck(1, 2, 0)];
    assert_eq!(run(crossed).unwrap_err(), RequestsError::Deadlock { cycle });
    // Process 0 is who delivers the event.
    let object = Object::Event(0);
    let itself = vec![vec![Step::Wait { event: 0 }]];
    let cycle = vec![Stuck { process: 0, step: 0, object }];
    assert_eq!(run(itself).unwrap_err(), RequestsError::Deadlock { cycle });
    let never = vec![vec![], vec![lock(0), Step::Wait { event: 0 }], vec![lock(0)]];
    let stuck = vec![Stuck { process: 1, step: 1, object }, stuck(2, 0, 0)];
    assert_eq!(run(never).unwrap_err(), RequestsError::WaitsForEver { stuck });
    let busy = vec![Step::SetCritical(true); 1 << 17];
    assert_eq!(run(vec![busy]).unwrap_err(), RequestsError::NeverWaits { process: 0 });
}
