//! One SSD level for a plan's money: what it costs, and that it was replayed as it is said.

use lode_hardware::Host;
use lode_plan::{LevelBytes, Means, Prices, SizeOptions, VmRule, Wish, answer};
use lode_policy::{Quota, SchemeInfo};
use lode_replay::{Options, replay};
use lode_reuse::sizing::Objective;
use lode_types::{BlockSize, Direction};

use crate::common::{BLOCK_BYTES, Request, merge_paced};
use crate::wear::{load_of, options, serve, written_and_read};

/// A VM that reads what it wrote, and one that reads a few blocks over and over.
fn traces() -> [(u64, Vec<Request>); 2] {
    let reads = |at: u64| Request { vm: 1, op: Direction::Read, block: at * at % 89, blocks: 1 };
    [(1_000, written_and_read(3000, 300)), (1_000, (0..2000).map(reads).collect())]
}

/// With a rule that one level cannot keep, it is divided as the plan is.
#[test]
fn the_money_is_spent_where_the_plan_spent_it() {
    let traces = traces();
    let load = load_of(&traces);
    let host = Host::find("default").expect("a host");
    let prices = Prices::of(&host);
    for (dram_blocks, ssd_blocks) in [(20, 100), (50, 0), (0, 64), (0, 1)] {
        let levels = LevelBytes {
            dram_bytes: dram_blocks * BLOCK_BYTES,
            ssd_bytes: ssd_blocks * BLOCK_BYTES,
            ..LevelBytes::default()
        };
        let most = |blocks: u64| (None, Some(blocks * BLOCK_BYTES));
        let rule =
            VmRule { name: "*".to_owned(), weight: None, dram_bytes: most(1 << 20), ssd_bytes: (None, None) };
        let options = SizeOptions { rules: vec![rule], ..options(Objective::Hits) };
        let mut answer = answer(&load, Means::Levels(levels), Wish::Best, &options).expect("an answer");
        answer.replay(&load, &|| Ok(merge_paced(&traces)), &serve(&host, 2), &|_| {}).expect("replays");
        let (level, report) = answer.one_level.as_ref().expect("some money");
        assert_eq!(level.dram_bytes, 0);
        let (ours, theirs) = (prices.cost_usd(*level), prices.cost_usd(levels));
        let block_usd =
            prices.cost_usd(LevelBytes { dram_bytes: 0, ssd_bytes: BLOCK_BYTES, ..LevelBytes::default() });
        assert!(ours <= theirs * (1.0 + 1e-9) && theirs - ours < 3.0 * block_usd, "{ours} for {theirs}");
        // By hand: each VM's part of all that the plan gives.
        let usd = |share: [u64; 2]| {
            let [dram_bytes, ssd_bytes] = share.map(|blocks| blocks * BLOCK_BYTES);
            prices.cost_usd(LevelBytes { dram_bytes, ssd_bytes, ..LevelBytes::default() })
        };
        let all_usd: f64 = answer.plan().vms.iter().map(|vm| usd(vm.share_blocks)).sum();
        let blocks = (theirs / block_usd + 1e-6).floor();
        let of = |share| Quota::new(0, (blocks * (usd(share) / all_usd)) as u32);
        let shares = answer.plan().vms.iter().map(|vm| of(vm.share_blocks));
        let shares: Vec<Quota> = shares.collect();
        let given: u32 = shares.iter().map(|share| share.ssd_blocks).sum();
        assert_eq!(u64::from(given) * BLOCK_BYTES, level.ssd_bytes);
        let mut settings = SchemeInfo::find("lru").expect("a scheme").settings();
        settings.set("assoc", "0").expect("a setting");
        let alone = Options {
            settings,
            physical: Quota::new(0, given),
            block_size: BlockSize::KIB_4,
            host: host.clone(),
            shares: Some(shares),
            daily_ssd_bytes: None,
        };
        let expected = replay(merge_paced(&traces), &alone, Some(2), &mut |_, _| {}).expect("a report");
        assert_eq!((&report.total, &report.devices), (&expected.total, &expected.devices));
    }
}

/// By curves of one level, and not by what the plan's shares of two cost, which for `etica` leave out what is only read: no division of
/// it has more hits.
#[test]
fn one_level_is_divided_as_suits_it_best() {
    let traces = traces();
    let load = load_of(&traces);
    let host = Host::find("default").expect("a host");
    let mut differs = false;
    for ssd_blocks in [30_u64, 80, 120] {
        let levels = LevelBytes {
            dram_bytes: 8 * BLOCK_BYTES,
            ssd_bytes: ssd_blocks * BLOCK_BYTES,
            ..LevelBytes::default()
        };
        let options = options(Objective::Hits);
        let mut answer = answer(&load, Means::Levels(levels), Wish::Etica, &options).expect("an answer");
        answer.replay(&load, &|| Ok(merge_paced(&traces)), &serve(&host, 2), &|_| {}).expect("replays");
        let (level, report) = answer.one_level.as_ref().expect("some money");
        let given = (level.ssd_bytes / BLOCK_BYTES) as u32;
        let hits = |one: u32| {
            let mut settings = SchemeInfo::find("lru").expect("a scheme").settings();
            settings.set("assoc", "0").expect("a setting");
            let options = Options {
                settings,
                physical: Quota::new(0, given),
                block_size: BlockSize::KIB_4,
                host: host.clone(),
                shares: Some(vec![Quota::new(0, one), Quota::new(0, given - one)]),
                daily_ssd_bytes: None,
            };
            let report = replay(merge_paced(&traces), &options, Some(2), &mut |_, _| {}).expect("a report");
            report.total.counters.read_hits.total()
        };
        let best = (0..=given).map(hits).max().expect("there are divisions");
        assert_eq!(report.total.counters.read_hits.total(), best, "{given} blocks");
        let told = answer.report(&load, &options, &host, String::new(), &merge_paced(&traces), false);
        let told = told.expect("a report").one_level.expect("some money");
        assert!(told.by_curves && told.shares_blocks.iter().sum::<u64>() <= u64::from(given));
        differs |= hits(given * answer.plan().vms[0].share_blocks[1] as u32 / ssd_blocks as u32) < best;
    }
    assert!(differs, "the plan's own shares are as good everywhere, so that nothing is tested");
}

/// Where no VM is given anything, all have the same of the one level.
#[test]
fn money_that_buys_nothing_is_divided_evenly() {
    let writes = |at: u64| Request { vm: 0, op: Direction::Write, block: at % 40, blocks: 1 };
    let traces = [(1_000, (0..400).map(writes).collect()), (1_000, (0..400).map(writes).collect::<Vec<_>>())];
    let load = load_of(&traces);
    let host = Host::find("default").expect("a host");
    let levels = LevelBytes { dram_bytes: 0, ssd_bytes: 101 * BLOCK_BYTES, ..LevelBytes::default() };
    let rule =
        VmRule { name: "*".to_owned(), weight: None, dram_bytes: (None, None), ssd_bytes: (None, Some(0)) };
    let options = SizeOptions { rules: vec![rule], ..options(Objective::Hits) };
    let mut answer = answer(&load, Means::Levels(levels), Wish::Best, &options).expect("an answer");
    assert!(answer.plan().vms.iter().all(|vm| vm.share_blocks == [0, 0]));
    answer.replay(&load, &|| Ok(merge_paced(&traces)), &serve(&host, 1), &|_| {}).expect("replays");
    assert_eq!(answer.one_level.as_ref().expect("some money").0.ssd_bytes, 100 * BLOCK_BYTES);
    let report =
        answer.report(&load, &options, &host, String::new(), &merge_paced(&traces), false).expect("a report");
    let instead = report.one_level.expect("some money");
    // Writes that the plan leaves to the disk are what an SSD takes.
    assert!(instead.is_faster && !instead.writes_far_less);
    let sentence = instead.sentence.expect("it is faster");
    assert!(sentence.contains("400 KiB") && sentence.contains("lru:assoc=0"), "{sentence}");
}

/// A loop of more blocks than one level holds: LRU has no hit there, and `auto` keeps a part of it.
fn a_loop_and_writes() -> [(u64, Vec<Request>); 2] {
    let read = |at: u64| Request { vm: 0, op: Direction::Read, block: at * 7 % 600, blocks: 1 };
    [(1_000, (0..9000).map(read).collect()), (1_000, written_and_read(300, 30))]
}

/// `auto` on one SSD level for the plan's money is replayed beside `lru`, with the shares that suit it, and recommended where it is
/// better than that and than both levels.
#[test]
fn auto_on_one_level_is_a_candidate() {
    let traces = a_loop_and_writes();
    let load = load_of(&traces);
    let host = Host::find("default").expect("a host");
    let options = options(Objective::Latency { cache_us: 120.0, backing_us: 8000.0 });
    let levels = |dram: u64, ssd: u64| LevelBytes {
        dram_bytes: dram * BLOCK_BYTES,
        ssd_bytes: ssd * BLOCK_BYTES,
        ..LevelBytes::default()
    };
    let report = |levels, wish: Wish, options: &SizeOptions| {
        let mut answer = answer(&load, Means::Levels(levels), wish, options).expect("an answer");
        answer.replay(&load, &|| Ok(merge_paced(&traces)), &serve(&host, 2), &|_| {}).expect("replays");
        let merge = merge_paced(&traces);
        answer.report(&load, options, &host, String::new(), &merge, false).expect("a report")
    };
    let best = report(levels(20, 100), Wish::Best, &options);
    let (lru, auto) = (best.one_level.expect("money"), best.one_level_of_auto.expect("money"));
    let recommended = &best.recommended;
    assert_eq!((auto.label.as_str(), auto.levels, auto.cost_usd), ("auto", lru.levels, lru.cost_usd));
    assert!(!recommended.is_of_two_levels() && recommended.scheme == "auto", "{recommended:?}");
    assert_eq!((recommended.levels, recommended.mean_latency_us), (auto.levels, auto.mean_latency_us));
    assert!(
        recommended.reason.contains(" % better than auto,")
            || recommended.reason.ends_with("better than auto")
    );
    assert!(recommended.vms.iter().map(|vm| vm.share.ssd_blocks).eq(auto.shares_blocks.iter().copied()));
    assert!(best.two_levels.is_some() && !best.advice.iter().any(|text| text.contains("DRAM")));
    let sentence = auto.sentence.expect("it is better");
    assert!(sentence.contains(" with auto, divided as suits it best, is faster"), "{sentence}");
    // It is what a plan of that SSD alone is for auto, and is there no candidate besides.
    let alone = report(auto.levels, Wish::Best, &options);
    let found = &alone.replayed[0];
    assert!(
        found.label == "auto" && found.shares.iter().map(|share| share.ssd_blocks).eq(auto.shares_blocks)
    );
    assert_eq!((found.mean_latency_us, &found.wear), (auto.mean_latency_us, &auto.wear));
    assert_eq!(alone.one_level_of_auto, None);
    // Nor where another is wished for, or one level cannot keep the rules.
    for wish in [Wish::Auto, Wish::Etica] {
        assert_eq!(report(levels(20, 100), wish, &options).one_level_of_auto, None);
    }
    let rule = VmRule {
        name: "*".to_owned(),
        weight: None,
        dram_bytes: (Some(0), Some(1 << 30)),
        ssd_bytes: (None, None),
    };
    let ruled = SizeOptions { rules: vec![rule], ..options };
    assert_eq!(report(levels(20, 100), Wish::Best, &ruled).one_level_of_auto, None);
}
