//! kill -9 in the middle of traffic: what a flush was acknowledged for is there afterwards.

use std::collections::HashMap;

use lode_nbd::{Command, CommandFlags};

use crate::common::{Daemon, Numbers, Site, pattern};

const BLOCKS: u64 = 4096;
const BLOCK_BYTES: usize = 4096;

/// What a block may hold: the version that was durable, or a later one that was sent.
#[derive(Clone, Copy, Default)]
struct Known {
    durable: u64,
    acknowledged: u64,
    sent: u64,
}

/// Writes, flushes and FUA writes until the daemon is killed. Returns how many writes were answered.
fn traffic(daemon: Daemon<'_>, known: &mut [Known], numbers: &mut Numbers, version: &mut u64) -> u64 {
    let mut client = daemon.client("vm1");
    let delay = std::time::Duration::from_millis(100 + numbers.below(400));
    std::thread::scope(|scope| {
        let killing = scope.spawn(move || {
            std::thread::sleep(delay);
            daemon.kill();
        });
        let mut answered = 0;
        let mut in_flight: HashMap<u64, (u64, u64, bool)> = HashMap::new();
        'traffic: loop {
            for _ in 0..1 + numbers.below(64) {
                *version += 1;
                let block = numbers.below(BLOCKS);
                let offset = block * BLOCK_BYTES as u64;
                let fua = numbers.below(8) == 0;
                let flags = if fua { CommandFlags::FUA } else { CommandFlags::NONE };
                let bytes = pattern(offset, *version, BLOCK_BYTES);
                // One write to a block at a time, so that its order is known.
                if in_flight.values().any(|(other, ..)| *other == block) {
                    continue;
                }
                known[block as usize].sent = *version;
                let Some(cookie) = client.send(Command::Write, offset, BLOCK_BYTES as u32, flags, &bytes)
                else {
                    break 'traffic;
                };
                in_flight.insert(cookie, (block, *version, fua));
            }
            while !in_flight.is_empty() {
                let Some((cookie, result)) = client.wait() else { break 'traffic };
                result.unwrap();
                answered += 1;
                let (block, version, fua) = in_flight.remove(&cookie).unwrap();
                known[block as usize].acknowledged = version;
                if fua {
                    known[block as usize].durable = version;
                }
            }
            if numbers.below(3) == 0 {
                match client.ask(Command::Flush, 0, 0, false, &[]) {
                    None => break,
                    Some(result) => drop(result.unwrap()),
                }
                known.iter_mut().for_each(|block| block.durable = block.acknowledged);
            }
        }
        killing.join().unwrap();
        answered
    })
}

fn verify(daemon: &Daemon<'_>, known: &mut [Known], round: u64) {
    let mut client = daemon.client("vm1");
    for (block, known) in known.iter_mut().enumerate() {
        let offset = (block * BLOCK_BYTES) as u64;
        let bytes = client.read(offset, BLOCK_BYTES as u32);
        let version_is = |version: u64| match version {
            0 => bytes.iter().all(|byte| *byte == 0),
            version => bytes == pattern(offset, version, BLOCK_BYTES),
        };
        let version = (known.durable..=known.sent).find(|version| version_is(*version));
        let version = version.unwrap_or_else(|| {
            panic!(
                "round {round}, block {block}: neither version {} nor one up to {}, but {:?}",
                known.durable,
                known.sent,
                &bytes[..32]
            )
        });
        *known = Known { durable: version, acknowledged: version, sent: version };
    }
}

#[test]
fn flushed_data_survives_kills() {
    let rounds = std::env::var("LODE_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(50);
    let site = Site::new();
    let mut known = vec![Known::default(); BLOCKS as usize];
    let mut numbers = Numbers(0x1234_5678);
    let mut version = 0;
    let mut answered = 0;
    for round in 0..rounds {
        answered += traffic(site.serve(), &mut known, &mut numbers, &mut version);
        let daemon = site.serve();
        verify(&daemon, &mut known, round);
        // What was read once may not change back: the next kill starts from here.
        daemon.client("vm1").flush();
        daemon.kill();
    }
    assert!(answered > 100 * rounds, "there was traffic: {answered} writes");
}
