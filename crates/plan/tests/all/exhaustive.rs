//! Plans beside exhaustive replay: every division of a grid is replayed with `etica`, whose levels the curves are of, and the test prints how
//! far what was planned is from the best of them. Synthetic mixes, as `lode trace synth` makes them.

use std::sync::Arc;

use lode_hardware::Host;
use lode_plan::{
    Answer, LevelBytes, Load, Means, PlanError, Prices, SHARE_GRANULE_BYTES, SizeOptions, TwoLevels, Wish,
    answer, in_parallel, measure,
};
use lode_policy::{Quota, SchemeInfo, Settings};
use lode_replay::{Options, Report, replay};
use lode_reuse::Method;
use lode_reuse::sizing::Objective;
use lode_synth::{Generator, builtin};
use lode_trace::limits::BATCH_REQUESTS;
use lode_trace::{GivenRequests, Merge, MergeOptions, Reader, Recorded};
use lode_types::{BlockSize, TraceRequest};

use crate::common::stream_options;
use crate::wear::serve;

const REQUESTS: u64 = 3000;
const BLOCK_BYTES: u64 = 4096;
const THREADS: usize = 2;
/// Into how many parts a level is cut that VMs divide, where sizes are given, and where a budget has to be divided as well.
const PARTS: u32 = 4;
const PARTS_OF_A_BUDGET: u32 = 2;
/// Levels that a budget buys: from all DRAM to all SSD.
const PAIRS: u64 = 6;
/// How much longer than the best of the grid a plan may take. Plans are as good, or ahead where their shares are finer than the
/// grid's.
const MOST_BEHIND: f64 = 0.02;

/// Three VMs, and the levels that they divide, as parts of the blocks that they touch.
struct Mix {
    name: &'static str,
    profiles: [&'static str; 3],
    dram_share: f64,
    ssd_share: f64,
}

const MIXES: [Mix; 2] = [
    Mix {
        name: "servers that read",
        profiles: ["hm_1", "web_3", "webserver"],
        dram_share: 0.1,
        ssd_share: 0.25,
    },
    Mix {
        name: "servers that write",
        profiles: ["prxy_0", "wdev_0", "rsrch_0"],
        dram_share: 0.05,
        ssd_share: 0.2,
    },
];

/// A trace in memory.
struct Given {
    requests: Arc<Vec<TraceRequest>>,
    at: usize,
    volumes: [String; 1],
}

impl GivenRequests for Given {
    fn next_batch(&mut self, out: &mut Vec<TraceRequest>) -> Result<(), String> {
        let end = self.requests.len().min(self.at + BATCH_REQUESTS);
        out.extend_from_slice(&self.requests[self.at..end]);
        self.at = end;
        Ok(())
    }

    fn volumes(&self) -> &[String] {
        &self.volumes
    }
}

struct Traces(Vec<(&'static str, Arc<Vec<TraceRequest>>)>);

impl Traces {
    fn of(mix: &Mix) -> Traces {
        let made = mix.profiles.map(|name| {
            let profile = builtin(name).expect("it checks").expect("there is one");
            let profile = profile.scaled(REQUESTS as f64 / profile.requests as f64);
            let mut requests = Vec::new();
            Generator::new(&profile).expect("it checks").next_batch(&mut requests, REQUESTS as usize);
            (name, Arc::new(requests))
        });
        Traces(made.into())
    }

    fn merge(&self) -> Merge {
        let reader = |(name, requests): &(&str, Arc<Vec<TraceRequest>>)| {
            let given = Given { requests: Arc::clone(requests), at: 0, volumes: [(*name).to_owned()] };
            Reader::given(Box::new(given), name, Recorded::TIMES)
        };
        Merge::new(self.0.iter().map(reader).collect(), MergeOptions::default()).expect("a merge")
    }
}

/// All ways to cut `parts` into three.
fn cuts(parts: u32) -> Vec<[u32; 3]> {
    let two = (0..=parts).flat_map(|one| (0..=parts - one).map(move |two| (one, two)));
    two.map(|(one, two)| [one, two, parts - one - two]).collect()
}

/// A division to replay.
struct Try {
    settings: Settings,
    shares: Vec<Quota>,
}

/// Both levels with `etica` in each of its modes, divided by all `parts`.
fn two_levels(levels: LevelBytes, parts: u32) -> Vec<Try> {
    let blocks = |bytes: u64, part: u32| (bytes / BLOCK_BYTES * u64::from(part) / u64::from(parts)) as u32;
    let mut tries = Vec::new();
    for etica in TwoLevels::etica() {
        let settings = etica.settings().expect("settings");
        for dram in if levels.dram_bytes > 0 { cuts(parts) } else { vec![[0; 3]] } {
            for ssd in if levels.ssd_bytes > 0 { cuts(parts) } else { vec![[0; 3]] } {
                let share = |vm: usize| {
                    Quota::new(blocks(levels.dram_bytes, dram[vm]), blocks(levels.ssd_bytes, ssd[vm]))
                };
                tries.push(Try { settings: settings.clone(), shares: (0..3).map(share).collect() });
            }
        }
    }
    tries
}

/// One SSD level of so many bytes, divided by all `parts`.
fn one_level(ssd_bytes: u64, parts: u32) -> Vec<Try> {
    let mut settings = SchemeInfo::find("lru").expect("a scheme").settings();
    settings.set("assoc", "0").expect("a setting");
    let share =
        |part: u32| Quota::new(0, (ssd_bytes / BLOCK_BYTES * u64::from(part) / u64::from(parts)) as u32);
    let tried = |cut: [u32; 3]| Try { settings: settings.clone(), shares: cut.map(share).into() };
    cuts(parts).into_iter().map(tried).collect()
}

fn run(traces: &Traces, host: &Host, tries: &[Try]) -> Vec<Report> {
    in_parallel(tries, THREADS, |one| {
        let sum = |blocks: fn(&Quota) -> u32| one.shares.iter().map(blocks).sum();
        let options = Options {
            settings: one.settings.clone(),
            physical: Quota::new(sum(|share| share.dram_blocks), sum(|share| share.ssd_blocks)),
            block_size: BlockSize::KIB_4,
            host: host.clone(),
            shares: Some(one.shares.clone()),
            daily_ssd_bytes: None,
        };
        replay(traces.merge(), &options, Some(3), &mut |_, _| {}).map_err(PlanError::from)
    })
    .expect("replays")
}

/// What the objective minimises: the mean of the VMs' mean latencies.
fn of_vms_us(report: &Report) -> f64 {
    report.vms.iter().map(|vm| vm.counts.mean_latency_us.expect("requests")).sum::<f64>() / 3.0
}

fn of_requests_us(report: &Report) -> f64 {
    report.total.mean_latency_us.expect("requests")
}

fn least(reports: &[Report], value: fn(&Report) -> f64) -> f64 {
    reports.iter().map(value).fold(f64::INFINITY, f64::min)
}

/// The plan, replayed.
fn planned(traces: &Traces, load: &Load, host: &Host, means: Means) -> (Answer, SizeOptions) {
    let times = host.service_times(BlockSize::KIB_4);
    let us = |ns: u64| ns as f64 / 1000.0;
    let options = SizeOptions {
        objective: Objective::Latency {
            cache_us: us(times.ssd_read_ns),
            backing_us: us(times.backing.random_read.ns),
        },
        solver: Default::default(),
        rules: Vec::new(),
        times,
        granule_bytes: SHARE_GRANULE_BYTES,
    };
    let mut answer = answer(load, means, Wish::Best, &options).expect("a plan");
    answer.replay(load, &|| Ok(traces.merge()), &serve(host, THREADS), &|_| {}).expect("replays");
    (answer, options)
}

/// Says how far a plan is behind the best of the grid, and that it is not far.
fn hold(what: &str, planned_us: f64, best_us: f64, tries: usize) {
    let behind = planned_us / best_us - 1.0;
    let gap = 100.0 * behind.abs();
    let side = if behind > 0.0 { "behind" } else { "ahead" };
    println!(
        "{what}: planned {planned_us:.0} us, best of {tries} replays {best_us:.0} us: {gap:.1} % {side}"
    );
    assert!(behind <= MOST_BEHIND, "{what}: {planned_us} us, and the grid has {best_us} us");
}

#[test]
fn plans_are_close_to_the_best_of_an_exhaustive_grid() {
    let host = Host::find("default").expect("a host");
    let prices = Prices::of(&host);
    for mix in &MIXES {
        let traces = Traces::of(mix);
        let load = measure(&mut traces.merge(), &stream_options(THREADS), Method::Exact, &mut |_| {})
            .expect("a load");
        let touched: u64 = load.vms.iter().map(lode_plan::VmLoad::most_distinct_blocks).sum();
        let bytes = |share: f64| {
            (touched as f64 * share * BLOCK_BYTES as f64) as u64 / SHARE_GRANULE_BYTES * SHARE_GRANULE_BYTES
        };
        let levels = LevelBytes {
            dram_bytes: bytes(mix.dram_share),
            ssd_bytes: bytes(mix.ssd_share),
            ..LevelBytes::default()
        };
        // Sizes are given: how they are divided, by the objective; and what is recommended, by what a request takes.
        let (given, options) = planned(&traces, &load, &host, Means::Levels(levels));
        let report =
            given.report(&load, &options, &host, String::new(), &traces.merge(), false).expect("a report");
        let recommended_us = report.recommended.mean_latency_us.expect("it was replayed");
        let divisions = run(&traces, &host, &two_levels(levels, PARTS));
        let with_etica = given.replayed.iter().filter(|(served, _)| served.scheme() == "etica");
        let own = with_etica.map(|(_, report)| of_vms_us(report)).fold(f64::INFINITY, f64::min);
        let name = mix.name;
        hold(&format!("{name}, division"), own, least(&divisions, of_vms_us), divisions.len());
        let alone =
            run(&traces, &host, &one_level(given.one_level.as_ref().expect("money").0.ssd_bytes, 2 * PARTS));
        let best = least(&divisions, of_requests_us).min(least(&alone, of_requests_us));
        let tries = divisions.len() + alone.len();
        hold(&format!("{name}, {}", report.recommended.label), recommended_us, best, tries);
        // A budget of the same money: sizes have to be found, too.
        let usd = prices.cost_usd(levels);
        let (bought, options) = planned(&traces, &load, &host, Means::Budget { usd, prices });
        let report =
            bought.report(&load, &options, &host, String::new(), &traces.merge(), false).expect("a report");
        let recommended_us = report.recommended.mean_latency_us.expect("it was replayed");
        let per_byte = |of: LevelBytes| prices.cost_usd(of) / (of.dram_bytes + of.ssd_bytes) as f64;
        let [dram_usd, ssd_usd] = [
            per_byte(LevelBytes { dram_bytes: 1 << 30, ..LevelBytes::default() }),
            per_byte(LevelBytes { ssd_bytes: 1 << 30, ..LevelBytes::default() }),
        ];
        let pair = |part: u64| LevelBytes {
            dram_bytes: (usd * (PAIRS - part) as f64 / PAIRS as f64 / dram_usd) as u64,
            ssd_bytes: (usd * part as f64 / PAIRS as f64 / ssd_usd) as u64,
            ..LevelBytes::default()
        };
        let mut tries: Vec<Try> =
            (0..=PAIRS).flat_map(|part| two_levels(pair(part), PARTS_OF_A_BUDGET)).collect();
        tries.extend(one_level(pair(PAIRS).ssd_bytes, 2 * PARTS));
        let bought = run(&traces, &host, &tries);
        let what = format!("{name}, {} of {usd:.4} usd", report.recommended.label);
        hold(&what, recommended_us, least(&bought, of_requests_us), tries.len());
    }
}
