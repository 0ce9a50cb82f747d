//! Power cuts at random moments of random scripts: every acknowledged write is found, and the newest wins.

use lode_policy::criticality::{AdmissionOptions, AdmissionPolicy, Stall};
use lode_processes::{
    CacheKind, DataKind, DeviceModel, IoTarget, MachineSettings, Mode, Primitive, RunConfig, Script, Step,
    WriteCounts, WriteOp, cut_power, run_script,
};
use lode_types::Rng;

use crate::{script, seeds};

const PROCESSES: u32 = 5;
const BLOCKS: u64 = 12;

fn random_op(rng: &mut Rng, ops: &mut Vec<Step>) {
    let first_block = rng.below(BLOCKS);
    let sync = rng.chance(50);
    let write = Step::Write(WriteOp {
        tag: Some(rng.below(4) as u32),
        first_block,
        blocks: 1 + rng.below(3) as u32,
        sync,
        waits: sync && rng.chance(80),
        data: DataKind::Db,
    });
    match rng.below(10) {
        0 => ops.push(Step::Cpu { ns: rng.below(20_000_000) }),
        1 => ops.push(Step::Fsync),
        2 => ops.push(Step::SetCritical(sync)),
        3 | 4 => {
            let target = if sync { IoTarget::Block(first_block) } else { IoTarget::Tag(rng.below(4) as u32) };
            ops.push(Step::WaitIo { target, primitive: Primitive::LockPage });
        }
        5 => {
            let lock = rng.below(2) as u32;
            let mode = if sync { Mode::Write } else { Mode::Read };
            ops.extend([Step::Lock { lock, mode }, write, Step::Unlock { lock }]);
        }
        6 => ops.extend([
            Step::LockOrJoin { lock: 0, skip_ops: 2 },
            Step::Append { blocks: 2 },
            Step::Unlock { lock: 0 },
        ]),
        _ => ops.push(write),
    }
}

fn random_script(seed: u64) -> Script {
    let mut rng = Rng::new(seed);
    let mut list = |process: u32| {
        let mut ops = vec![Step::SetCritical(process < 2)];
        (0..40).for_each(|_| random_op(&mut rng, &mut ops));
        ops
    };
    script((0..PROCESSES).map(&mut list).collect(), 2, 0)
}

/// Devices that reorder what they can.
fn random_config(rng: &mut Rng) -> RunConfig {
    let policies = AdmissionPolicy::ALL;
    let policy = if rng.chance(50) { AdmissionPolicy::CpPiIoi } else { policies[rng.below(6) as usize] };
    let admission = AdmissionOptions {
        policy,
        pi_sync_only: rng.chance(20),
        stall: if rng.chance(50) { Stall::Bypass } else { Stall::Wait },
        reissue: policy.reissues(),
    };
    let device = |mean_ns: u64, parallel: u32| DeviceModel {
        parallel,
        window: 1,
        expiry_ns: 0,
        read_ns: mean_ns,
        write_ns: mean_ns,
        read_block_ns: mean_ns / 10,
        write_block_ns: mean_ns / 10,
        jitter_percent: 95,
        disk: None,
    };
    let machine = MachineSettings {
        dirty_percent: rng.below(80),
        destages: 1 + rng.below(4),
        reissue_failures_percent: if rng.chance(50) { 30 } else { 0 },
        map_writes: rng.below(2),
        map_entries: 1 + rng.below(8),
        processors: rng.below(3),
        ..MachineSettings::default()
    };
    RunConfig {
        cache_blocks: 3 + rng.below(10) as usize,
        cache: device(1_000_000, 1 + rng.below(4) as u32),
        disk: device(8_000_000, 1 + rng.below(6) as u32),
        seed: rng.bits(),
        end_ns: u64::MAX,
        warm_up_ns: 0,
        ..RunConfig::new(admission, machine, CacheKind::Ram)
    }
}

#[test]
fn every_acknowledged_write_is_found_and_the_newest_wins() {
    let mut sum = WriteCounts::default();
    let mut torn = 0;
    let seeds = seeds() * 400;
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let config = random_config(&mut rng);
        let happenings = rng.below(400);
        let cut = cut_power(random_script(seed), &config, happenings, seed).unwrap();
        let found = cut.unwrap_or_else(|error| panic!("{error}, seed {seed}, {config:?}"));
        torn += found.torn;
        sum.reissued += found.writes.reissued;
        sum.reissues_refused += found.writes.reissues_refused;
        sum.discarded_completions += found.writes.discarded_completions;
        sum.destaged_blocks += found.writes.destaged_blocks;
        sum.stalled += found.writes.stalled;
    }
    println!("{torn} torn; {sum:?}");
    let happened = [
        torn,
        sum.reissued,
        sum.reissues_refused,
        sum.discarded_completions,
        sum.destaged_blocks,
        sum.stalled,
    ];
    assert!(happened.iter().all(|&count| count > seeds / 10), "{torn} torn, {sum:?}");
}

#[test]
fn at_the_end_everything_is_acknowledged_once_and_nothing_is_left() {
    for seed in 0..seeds() * 40 {
        let config = random_config(&mut Rng::new(seed));
        let report = run_script(random_script(seed), &config).unwrap();
        assert_eq!(report.left, (0, 0), "seed {seed}");
        assert_eq!(report.writes.acknowledged, report.writes.submitted, "seed {seed}");
        assert!(report.finished_ns.iter().all(Option::is_some), "seed {seed}");
        let cut = cut_power(random_script(seed), &config, u64::MAX, seed).unwrap().unwrap();
        assert_eq!((cut.torn, cut.writes), (0, report.writes), "the same seed, the same run: {seed}");
    }
}
