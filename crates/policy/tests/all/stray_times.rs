//! What schemes do by time goes on after a request whose time is far ahead of all others.

use lode_policy::{AnyScheme, Counters, Effect, Quota, Scheme, Settings, all_schemes, build};
use lode_types::{Access, Direction, Origin};

const NS_PER_S: u64 = 1_000_000_000;
const FAR_NS: u64 = 1 << 60;
const REQUESTS: u64 = 6000;
const REQUESTS_A_SECOND: u64 = 10;

/// Short intervals on the clock, where a scheme has them.
fn by_time(scheme: &str) -> Option<Settings> {
    let info = all_schemes().iter().find(|info| info.name == scheme)?;
    let mut settings = info.settings();
    settings.set("trigger", "time").ok()?;
    for pair in [
        "mode=full-hybrid",
        "write_policy=wb",
        "promotion_interval_s=1",
        "fallow_delay=5",
        "dirty_thresh_pct=100",
        "wake_up_s=1",
        "staleness_s=5",
        "feed_blocks=8",
        "policy_interval_s=5",
        "sizing=off",
    ] {
        let _unknown_to_others = settings.set_pair(pair);
    }
    Some(settings)
}

fn access(scheme: &mut AnyScheme, counters: &mut Counters, at: u64) {
    let mixed = (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // Small numbers come most often.
    let block = (mixed >> 40) % 1000 * ((mixed >> 20) % 1000) / 1000;
    let op = if (mixed >> 10).is_multiple_of(4) { Direction::Write } else { Direction::Read };
    let mut effects: Vec<Effect> = Vec::new();
    let access = Access { block, op, partial: false, origin: Origin::UNKNOWN };
    counters.access(&access);
    scheme.access(access, &mut effects);
    effects.iter().for_each(|effect| counters.effect(effect));
}

/// What is done in the background while requests come, of which those of `stray` have a time far ahead.
fn background(settings: &Settings, stray: &[u64]) -> u64 {
    let quota = Quota::new(64, 256);
    let mut scheme = build(settings, quota, quota);
    let mut counters = Counters::default();
    let mut done = 0;
    for at in 0..REQUESTS {
        access(&mut scheme, &mut counters, at);
        let now_ns = if stray.contains(&at) { FAR_NS + at } else { at * NS_PER_S / REQUESTS_A_SECOND };
        let mut effects: Vec<Effect> = Vec::new();
        scheme.end_request(now_ns, &mut effects);
        done += effects.iter().filter(|e| matches!(e, Effect::Clean { .. } | Effect::Copy { .. })).count();
    }
    done as u64
}

#[test]
fn what_is_done_by_time_goes_on_after_stray_times() {
    let mut seen = Vec::new();
    for info in all_schemes() {
        let Some(settings) = by_time(info.name) else { continue };
        let usual = background(&settings, &[]);
        if usual == 0 {
            continue;
        }
        seen.push(info.name);
        for stray in [&[10][..], &[0], &[700, 701, 3000]] {
            let found = background(&settings, stray);
            assert!(found.abs_diff(usual) * 10 < usual, "{}, {stray:?}: {found} and not {usual}", info.name);
        }
    }
    assert_eq!(seen, ["etica", "flashcache", "opencas-like", "l2arc-like", "request-oriented"]);
}
