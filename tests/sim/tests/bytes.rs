//! Requests that begin and end at any byte, on volumes of any size: against the bytes of the whole volume.

use std::collections::HashMap;

use lode_engine::{Buf, GuestOp, GuestRequest};
use lode_sim::scenario::{VOLUME_BYTES, all_schemes, first_seeds, flush, seeds};
use lode_sim::{Machine, Rng, World, scenario};

const DEPTH: u64 = 12;

/// What every byte of the volume is; `None` where a trim leaves it open.
struct Oracle(Vec<Option<u8>>);

impl Oracle {
    fn check(&self, offset: u64, found: &[u8], what: &str) {
        for (at, (expected, byte)) in self.0[offset as usize..].iter().zip(found).enumerate() {
            let is_right = expected.is_none_or(|expected| expected == *byte);
            assert!(is_right, "{what}: {byte} at {}, not {expected:?}", offset as usize + at);
        }
    }
}

/// A range of bytes: mostly a few, now and then some blocks, often at the volume's end, and crowded so that they meet.
fn draw_range(rng: &mut Rng, volume_bytes: u64) -> (u64, u64) {
    let length = 1 + if rng.chance(70) { rng.below(700) } else { rng.below(20_000) };
    let space = if rng.chance(60) { 40_000 } else { volume_bytes };
    let offset = if rng.chance(10) { volume_bytes - length } else { rng.below(space - length + 1) };
    (offset, length)
}

fn draw_op(rng: &mut Rng, oracle: &mut Oracle, name: u8) -> (GuestOp, Option<Vec<Option<u8>>>) {
    let (offset_bytes, length_bytes) = draw_range(rng, oracle.0.len() as u64);
    let range = offset_bytes as usize..(offset_bytes + length_bytes) as usize;
    match rng.below(100) {
        0..40 => (GuestOp::Read { offset_bytes, length_bytes }, Some(oracle.0[range].to_vec())),
        40..90 => {
            let bytes: Vec<u8> = range.clone().map(|at| name ^ (at % 251) as u8).collect();
            for (known, byte) in oracle.0[range].iter_mut().zip(&bytes) {
                *known = Some(*byte);
            }
            (GuestOp::write(offset_bytes, Buf::copy_of(&bytes), rng.chance(20)), None)
        }
        90..96 => {
            oracle.0[range].fill(Some(0));
            (GuestOp::WriteZeroes { offset_bytes, length_bytes, fua: rng.chance(20), unmap: true }, None)
        }
        _ => {
            oracle.0[range].fill(None);
            (GuestOp::Trim { offset_bytes, length_bytes }, None)
        }
    }
}

/// Many requests at once: each read returns what the writes submitted before it wrote, byte for byte.
fn run_requests(world: &mut World, rng: &mut Rng, oracle: &mut Oracle, what: &str) {
    for turn in 0..60 {
        let mut reads = HashMap::new();
        for token in 0..DEPTH {
            let (op, expected) = draw_op(rng, oracle, (turn * DEPTH + token) as u8);
            if let (GuestOp::Read { offset_bytes, .. }, Some(expected)) = (&op, expected) {
                reads.insert(token, (*offset_bytes, expected));
            }
            world.submit(GuestRequest { token, op, now_ns: 0 });
        }
        let mut answers = Vec::new();
        while answers.len() < DEPTH as usize && world.step_or_tick() {
            answers.extend(world.take_events());
        }
        assert_eq!(answers.len(), DEPTH as usize, "{what}: not all are answered");
        for answer in answers {
            assert_eq!(answer.result, Ok(()), "{what}");
            if let Some((offset, expected)) = reads.remove(&answer.token) {
                let then = Oracle(expected);
                assert_eq!(answer.data.iter().map(|bytes| bytes.len()).sum::<usize>(), then.0.len());
                then.check(0, &answer.data.concat(), &format!("{what}, read at {offset}"));
            }
        }
    }
}

/// What the engine does not call written the backing disk knows: there it has the newest bytes.
fn check_written(world: &World, oracle: &Oracle, what: &str) {
    let volume_bytes = oracle.0.len() as u64;
    let mut disk = vec![0; volume_bytes as usize];
    world.backing.peek(0, &mut disk);
    let mut at = 0;
    for stretch in world.engine().written(0..volume_bytes) {
        oracle.check(at, &disk[at as usize..stretch.start as usize], what);
        at = stretch.end;
    }
    oracle.check(at, &disk[at as usize..], what);
}

fn check_all(world: &mut World, oracle: &Oracle, what: &str) {
    // Less than the reserve of these machines, which otherwise do without.
    const PIECE_BYTES: u64 = 1 << 16;
    let mut at = 0;
    while at < oracle.0.len() as u64 {
        let length = PIECE_BYTES.min(oracle.0.len() as u64 - at);
        oracle.check(at, &scenario::read(world, at, length).unwrap(), what);
        at += length;
    }
}

#[test]
fn g1_g2_bytes_of_any_range_are_those_that_were_written() {
    for (name, machine) in all_schemes() {
        for seed in first_seeds(seeds().div_ceil(4)) {
            for volume_bytes in [VOLUME_BYTES - 1024, VOLUME_BYTES - 777, VOLUME_BYTES - 4095] {
                let mut machine: Machine = machine.clone();
                machine.config.volume_bytes = volume_bytes;
                let what = format!("{name}, {volume_bytes} bytes, LODE_SIM_SEED={seed}");
                let mut world = World::new(machine.clone(), seed).unwrap();
                let mut rng = Rng::new(seed ^ volume_bytes);
                let mut oracle = Oracle(vec![Some(0); volume_bytes as usize]);
                for is_power_cut in [false, true, true] {
                    run_requests(&mut world, &mut rng, &mut oracle, &what);
                    check_written(&world, &oracle, &what);
                    flush(&mut world).unwrap();
                    world.go_down(is_power_cut);
                    world.restart(machine.clone()).unwrap();
                    check_written(&world, &oracle, &what);
                    check_all(&mut world, &oracle, &what);
                }
            }
        }
    }
}
