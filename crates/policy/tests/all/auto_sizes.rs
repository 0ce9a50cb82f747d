//! What `auto` measures of other shares, and what it makes of demands by that, against an oracle.

use std::cell::Cell;

use lode_policy::{
    AnyScheme, LevelDemand, NullSink, Points, Quota, Scheme, SizeCost, SizeCosts, build, most_memory_bytes,
};
use lode_types::{Access, Level, Rng};
use proptest::prelude::*;

use crate::driver::{for_each_case, settings};
use crate::oracle::auto::access;
use crate::oracle::auto_sizes::PlainSizes;

/// Requests of up to four blocks until the window ends, and what share the VM has from then on.
#[derive(Clone, Copy, Debug)]
struct Window {
    requests: u64,
    first: u64,
    space: u64,
    write_percent: u64,
    share: Option<Quota>,
}

fn any_window() -> impl Strategy<Value = Window> {
    let share = prop_oneof![3 => Just(None), 1 => (1..30u32, 0..80u32).prop_map(Some), ];
    (20..1500u64, 0..3u64, 8..250u64, 0..=80u64, share).prop_map(
        |(requests, part, space, write_percent, share)| Window {
            requests,
            first: part * 1000,
            space,
            write_percent,
            share: share.map(|(dram, ssd)| Quota::new(dram, ssd)),
        },
    )
}

const PHYSICAL: Quota = Quota::new(100, 100);

fn auto(look_accesses: u64, size_shadows: &str, share: Quota) -> AnyScheme {
    let look_accesses = look_accesses.to_string();
    // No candidate saves more than all.
    let pairs = [
        ("look_accesses", look_accesses.as_str()),
        ("set_percent", "100"),
        ("switch_percent", "100"),
        ("sizing", "host"),
        ("size_shadows", size_shadows),
    ];
    build(&settings("auto", &pairs), PHYSICAL, share)
}

fn demand(scheme: &mut AnyScheme) -> [LevelDemand; 2] {
    scheme.sizing().expect("it measures").demand(Points::All)
}

fn costs(scheme: &AnyScheme) -> Option<SizeCosts> {
    scheme.choosing().expect("it chooses").decisions().sizes()
}

fn are_close(one: &SizeCost, other: &SizeCost) -> bool {
    let figures =
        |cost: &SizeCost| [cost.latency_us, cost.disk_us, cost.ssd_writes, cost.dram_hits, cost.ssd_hits];
    let close = |(a, b): (f64, f64)| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
    one.ssd_blocks == other.ssd_blocks && figures(one).into_iter().zip(figures(other)).all(close)
}

/// The same costs and curves, window by window, whatever share the VM is given; and nothing of it without the setting.
#[test]
fn what_it_says_of_other_shares_equals_the_oracles() {
    let (corrected, windows_known) = (Cell::new(0), Cell::new(0));
    let windows = prop::collection::vec(any_window(), 1..8);
    let share = (2..30u32, 4..80u32).prop_map(|(dram, ssd)| Quota::new(dram, ssd));
    for_each_case(60, (8..64u64, share, windows, any::<u64>()), |(look_accesses, share, windows, seed)| {
        let mut rng = Rng::new(seed);
        let mut plain = PlainSizes::new(look_accesses, PHYSICAL, share);
        let [mut on, mut off] = ["on", "off"].map(|sizes| auto(look_accesses, sizes, share));
        for window in windows {
            for _ in 0..window.requests {
                let first = window.first + rng.below(window.space);
                let writes = rng.below(100) < window.write_percent;
                let blocks = first..first + 1 + rng.below(4);
                let request: Vec<Access> = blocks.map(|block| access(block, writes, false)).collect();
                plain.request(&request, 0);
                for scheme in [&mut on, &mut off] {
                    request.iter().for_each(|access| scheme.access(*access, &mut NullSink));
                    scheme.end_request(0, &mut NullSink);
                }
            }
            let ([dram, ssd], [old_dram, old_ssd]) = (demand(&mut on), demand(&mut off));
            prop_assert_eq!(dram, old_dram);
            let expected = plain.close_window(&old_ssd);
            for (blocks, hits) in expected.iter().enumerate() {
                let after = ssd.curve.partition_point(|point| point.size_blocks <= blocks as u64);
                let said = after.checked_sub(1).map_or(0, |at| ssd.curve[at].hits) as f64;
                // The curve has whole hits, of sums that are not rounded alike.
                let is_close = (said - hits).abs() <= 1.0 + 1e-6;
                prop_assert!(is_close, "{} and {} hits with {} blocks", said, hits, blocks);
            }
            prop_assert!(ssd.curve.is_sorted_by(|a, b| a.size_blocks < b.size_blocks && a.hits < b.hits));
            let last = ssd.curve.last().map_or(0, |point| point.size_blocks);
            prop_assert_eq!(u64::from(ssd.blocks), last);
            prop_assert_eq!(costs(&off), None);
            let said = costs(&on).map(|SizeCosts { half, own, twice }| [half, own, twice]);
            prop_assert_eq!(said.is_some(), plain.costs().is_some());
            for (one, other) in said.iter().flatten().zip(plain.costs().iter().flatten()) {
                prop_assert!(are_close(one, other), "{:?} {:?}", one, other);
            }
            windows_known.set(windows_known.get() + usize::from(said.is_some()));
            corrected.set(corrected.get() + usize::from(ssd != old_ssd));
            if let Some(share) = window.share {
                plain.resize(share);
                on.resize(share, &mut NullSink);
                off.resize(share, &mut NullSink);
            }
        }
        Ok(())
    });
    let (corrected, known) = (corrected.get(), windows_known.get());
    assert!(corrected > 60 && known >= corrected, "{corrected} of {known} windows");
}

/// A loop longer than the share: by LRU nothing is gained before all of it fits, and what decides does better.
#[test]
fn a_loop_is_worth_a_part_of_its_space() {
    let share = Quota::new(8, 40);
    let [mut on, mut off] = ["on", "off"].map(|sizes| auto(16, sizes, share));
    for request in 0..6000 {
        for scheme in [&mut on, &mut off] {
            scheme.access(Access::read(request % 100), &mut NullSink);
            scheme.end_request(0, &mut NullSink);
        }
    }
    let [on, off] = [&mut on, &mut off].map(|scheme| demand(scheme)[Level::Ssd.index()].clone());
    let hits = |demand: &LevelDemand, blocks| {
        demand.curve.iter().rfind(|point| point.size_blocks <= blocks).map_or(0, |point| point.hits)
    };
    assert_eq!(hits(&off, 80), 0);
    let [half, own, twice] = [20, 40, 80].map(|blocks| hits(&on, blocks));
    assert!(300 < half && half + 300 < own && own + 300 < twice, "{half}, {own}, {twice} of {}", on.accesses);
}

/// Shadows of twice the share, on a host that has it, are within what is said of memory; and they are counted.
#[test]
fn memory_of_other_shares_is_said() {
    for blocks in [200, 4_000, 30_000] {
        let (share, physical) = (Quota::new(blocks / 4, blocks), Quota::new(blocks, 4 * blocks));
        let of = |sizes| settings("auto", &[("sizing", "host"), ("size_shadows", sizes)]);
        let mut schemes = ["on", "off"].map(|sizes| build(&of(sizes), physical, share));
        let said = ["on", "off"].map(|sizes| most_memory_bytes(&of(sizes), physical, share, u64::MAX));
        let mut taken = [0, 0];
        for at in 0..u64::from(blocks) * 12 {
            let access = if at % 3 == 0 { Access::write(at) } else { Access::read(at) };
            for scheme in &mut schemes {
                scheme.access(access, &mut NullSink);
                scheme.end_request(0, &mut NullSink);
            }
            if at % 1000 == 0 {
                taken = [0, 1].map(|at| schemes[at].memory_bytes() as u64);
                assert!(taken[0] <= said[0] && taken[1] <= said[1], "{taken:?} of {said:?}");
            }
        }
        assert!(taken[0] > taken[1] && said[0] > said[1], "{taken:?} of {said:?}");
    }
}

/// Where the host has no more than the VM, twice as much is all that it has: the candidate that decides, to the last figure; and after
/// another one was chosen, that one.
#[test]
fn shadows_of_shares_are_of_the_one_that_decides() {
    let pairs = [
        ("look_accesses", "100"),
        // Not before something was measured.
        ("set_cost_percent", "500"),
        ("switch_percent", "100"),
        ("ssd_write_weight_us", "50000"),
        ("write_price_us", "500"),
        ("sizing", "host"),
        ("size_shadows", "on"),
    ];
    let share = Quota::new(20, 100);
    let mut scheme = build(&settings("auto", &pairs), share, share);
    let mut rng = Rng::new(7);
    // At the first window at which something was measured, and long after the choice.
    let (mut before, mut after, mut chosen) = (None, None, 0);
    for _ in 0..100 {
        for _ in 0..1200 {
            scheme.access(access(rng.below(400), rng.below(100) < 10, false), &mut NullSink);
            scheme.end_request(0, &mut NullSink);
        }
        demand(&mut scheme);
        let decisions = scheme.choosing().expect("it chooses").decisions();
        chosen = decisions.count();
        match chosen {
            0 => before = decisions.sizes().or(before),
            _ => after = decisions.sizes(),
        }
    }
    assert_eq!(chosen, 1);
    let (before, after) = (before.expect("measured at first"), after.expect("measured later"));
    assert_eq!(before.own, before.twice);
    assert!(after.own.ssd_writes < before.own.ssd_writes / 2.0, "{before:?} {after:?}");
    assert!((after.twice.ssd_writes / after.own.ssd_writes - 1.0).abs() < 0.1, "{after:?}");
    assert!(after.half.ssd_writes < before.half.ssd_writes / 2.0, "{before:?} {after:?}");
}
