//! What a daemon's VMs did between two of its answers. It must not know where answers come from, or how rates are shown.

use std::collections::BTreeMap;

use lode_hardware::time::SECONDS_PER_DAY;
use lode_server::LATENCY_BOUNDS_US;
use serde::Deserialize;

use super::wear::Wear;
use crate::shares::{Host, Sharing};

/// The line of the read SSD among the kinds of requests.
pub const READ_SSD: &str = "read SSD";

const MIB: f64 = (1 << 20) as f64;

/// What is needed of a daemon's status; `docs/control.md` describes the whole of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Snapshot {
    pub name: String,
    pub uptime_s: u64,
    host: Option<Host>,
    cache: Option<Cache>,
    vms: Vec<Vm>,
}

#[derive(Clone, Debug, Deserialize)]
struct Cache {
    rated_write_bytes: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
struct Vm {
    name: String,
    scheme: String,
    connections: u64,
    block_bytes: u64,
    oldest_dirty_s: Option<u64>,
    sharing: Option<Sharing>,
    counters: Counters,
    gauges: Gauges,
    latency: Latencies,
}

#[derive(Clone, Debug, Deserialize)]
struct Counters {
    block_reads: u64,
    block_writes: u64,
    read_hits: Hits,
    read_misses: u64,
    write_hits: WriteHits,
}

#[derive(Clone, Debug, Deserialize)]
struct Hits {
    dram: u64,
    ssd: u64,
    read_ssd: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct WriteHits {
    ssd: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Gauges {
    dirty_blocks: u64,
    ssd_data_bytes: u64,
    ssd_metadata_bytes: u64,
    read_ssd_data_bytes: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Latencies {
    read: ReadLatencies,
    write: Latency,
    flush: Latency,
    /// Nothing of a daemon that is older than it.
    #[serde(default)]
    waited_for: BTreeMap<String, Waited>,
}

#[derive(Clone, Debug, Deserialize)]
struct Waited {
    sum_us: f64,
    buckets: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize)]
struct ReadLatencies {
    dram: Latency,
    read_ssd: Latency,
    ssd: Latency,
    backing: Latency,
}

#[derive(Clone, Debug, Deserialize)]
struct Latency {
    buckets: Vec<u64>,
}

/// One VM's rates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    pub name: String,
    pub scheme: String,
    pub connections: u64,
    /// Requests a second.
    pub reads: f64,
    pub writes: f64,
    /// Of the blocks that requests read and wrote.
    pub mib_per_s: f64,
    /// Shares of the blocks read that were in any level; none without reads.
    pub read_hits: Option<f64>,
    /// Of the blocks written, that the SSD held and kept; none without writes.
    pub write_hits: Option<f64>,
    pub read_p99_us: Option<f64>,
    pub write_p99_us: Option<f64>,
    pub dirty_mib: f64,
    /// Age of the oldest dirty block; none where there is none.
    pub oldest_dirty_s: Option<u64>,
    /// Its shares, and what it could use, in words.
    pub shares: Option<String>,
    /// Written to the SSDs, metadata included.
    pub ssd_mib_per_s: f64,
    /// The same of the cache SSD alone, and what it may take.
    pub wear: Wear,
    /// Written to the cache SSD since the daemon's start.
    pub ssd_written_mib: f64,
    /// Where reads came from, and then writes and flushes.
    pub kinds: Vec<Kind>,
    /// What reads, writes and flushes waited for longest, by the time that those took, most first.
    pub waits: Vec<Wait>,
}

/// Requests that waited longest for one thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wait {
    pub name: String,
    /// Of the time that all requests took.
    pub share: f64,
    pub p99_us: Option<f64>,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kind {
    pub name: &'static str,
    /// Requests a second.
    pub requests: f64,
    /// Of the blocks read, those from here; none without reads, and of other requests.
    pub share: Option<f64>,
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
}

/// Whether a daemon was not started anew in the time between two answers, which it has been up for longer by then. It says whole seconds.
pub fn is_same_run(before: &Snapshot, seconds: f64, now: &Snapshot) -> bool {
    now.uptime_s >= before.uptime_s && now.uptime_s as f64 + 1.5 >= before.uptime_s as f64 + seconds
}

/// The rates of all VMs between two answers, so many seconds apart; without an earlier one, or after a restart between them,
/// since the daemon's start.
pub fn rates(before: Option<(&Snapshot, f64)>, now: &Snapshot) -> Vec<Rates> {
    let same_run = before.filter(|(before, seconds)| is_same_run(before, *seconds, now));
    let seconds = same_run.map_or(now.uptime_s as f64, |(_, seconds)| seconds).max(1e-3);
    let earlier = same_run.map(|(before, _)| before.vms.iter().map(|vm| (vm.name.as_str(), vm)));
    let earlier: BTreeMap<&str, &Vm> = earlier.into_iter().flatten().collect();
    let shares = |vm: &Vm| Some(vm.sharing.as_ref()?.text(now.host.as_ref()?));
    let of_vm =
        |vm| Rates { shares: shares(vm), ..of_vm(earlier.get(vm.name.as_str()).copied(), vm, seconds) };
    now.vms.iter().map(of_vm).collect()
}

/// What all VMs together write to the cache SSD, and may.
pub fn host_wear(rates: &[Rates], now: &Snapshot) -> Wear {
    Wear {
        bytes_per_day: rates.iter().map(|vm| vm.wear.bytes_per_day).sum(),
        budget_bytes_per_day: now.host.as_ref().and_then(|host| host.ssd_write_budget_bytes_per_day),
        rated_bytes: now.cache.as_ref().and_then(|cache| cache.rated_write_bytes),
    }
}

/// Rates of several VMs together; percentiles and what only one of them has are left out.
pub fn total(rates: &[Rates]) -> Rates {
    let sum = |of: fn(&Rates) -> f64| rates.iter().map(of).sum();
    Rates {
        connections: rates.iter().map(|vm| vm.connections).sum(),
        reads: sum(|vm| vm.reads),
        writes: sum(|vm| vm.writes),
        mib_per_s: sum(|vm| vm.mib_per_s),
        dirty_mib: sum(|vm| vm.dirty_mib),
        ssd_mib_per_s: sum(|vm| vm.ssd_mib_per_s),
        ..Rates::default()
    }
}

fn of_vm(before: Option<&Vm>, now: &Vm, seconds: f64) -> Rates {
    let grown = |of: fn(&Vm) -> u64| of(now).saturating_sub(before.map_or(0, of)) as f64;
    let block_reads = grown(|vm| vm.counters.block_reads);
    let block_writes = grown(|vm| vm.counters.block_writes);
    let share = |blocks: f64, of: f64| (of > 0.0).then(|| blocks / of);
    let buckets = |of: fn(&Vm) -> &Latency| -> Vec<u64> {
        grown_buckets(before.map(|vm| of(vm).buckets.as_slice()), &of(now).buckets)
    };
    let kind = |name, of: fn(&Vm) -> &Latency, blocks: Option<f64>| {
        let buckets = buckets(of);
        Kind {
            name,
            requests: buckets.iter().sum::<u64>() as f64 / seconds,
            share: blocks.and_then(|blocks| share(blocks, block_reads)),
            p50_us: quantile_us(&buckets, 0.5),
            p99_us: quantile_us(&buckets, 0.99),
        }
    };
    let kinds = vec![
        kind("DRAM", |vm| &vm.latency.read.dram, Some(grown(|vm| vm.counters.read_hits.dram))),
        kind(READ_SSD, |vm| &vm.latency.read.read_ssd, Some(grown(|vm| vm.counters.read_hits.read_ssd))),
        kind("SSD", |vm| &vm.latency.read.ssd, Some(grown(|vm| vm.counters.read_hits.ssd))),
        kind("disk", |vm| &vm.latency.read.backing, Some(grown(|vm| vm.counters.read_misses))),
        kind("writes", |vm| &vm.latency.write, None),
        kind("flushes", |vm| &vm.latency.flush, None),
    ];
    let of_reads: [fn(&Vm) -> &Latency; 4] = [
        |vm| &vm.latency.read.dram,
        |vm| &vm.latency.read.read_ssd,
        |vm| &vm.latency.read.ssd,
        |vm| &vm.latency.read.backing,
    ];
    let mut all_reads = vec![0; LATENCY_BOUNDS_US.len() + 1];
    for of in of_reads {
        all_reads.iter_mut().zip(buckets(of)).for_each(|(all, more)| *all += more);
    }
    let to_cache_ssd = |vm: &Vm| vm.gauges.ssd_data_bytes + vm.gauges.ssd_metadata_bytes;
    let written = |vm: &Vm| to_cache_ssd(vm) + vm.gauges.read_ssd_data_bytes;
    let per_second = |of: &dyn Fn(&Vm) -> u64| of(now).saturating_sub(before.map_or(0, of)) as f64 / seconds;
    Rates {
        name: now.name.clone(),
        scheme: now.scheme.clone(),
        connections: now.connections,
        reads: kinds[..4].iter().map(|kind| kind.requests).sum(),
        writes: kinds[4].requests,
        mib_per_s: (block_reads + block_writes) * now.block_bytes as f64 / MIB / seconds,
        read_hits: share(block_reads - grown(|vm| vm.counters.read_misses), block_reads),
        write_hits: share(grown(|vm| vm.counters.write_hits.ssd), block_writes),
        read_p99_us: quantile_us(&all_reads, 0.99),
        write_p99_us: kinds[4].p99_us,
        oldest_dirty_s: now.oldest_dirty_s,
        shares: None,
        dirty_mib: (now.gauges.dirty_blocks * now.block_bytes) as f64 / MIB,
        ssd_mib_per_s: per_second(&written) / MIB,
        wear: Wear {
            bytes_per_day: per_second(&to_cache_ssd) * SECONDS_PER_DAY,
            budget_bytes_per_day: now
                .sharing
                .as_ref()
                .and_then(|sharing| sharing.ssd_write_budget_bytes_per_day),
            rated_bytes: None,
        },
        ssd_written_mib: to_cache_ssd(now) as f64 / MIB,
        kinds,
        waits: waits(before.map(|vm| &vm.latency.waited_for), &now.latency.waited_for),
    }
}

/// By how much each of them grew.
fn grown_buckets(before: Option<&[u64]>, now: &[u64]) -> Vec<u64> {
    let earlier = before.unwrap_or_default().iter().copied().chain(std::iter::repeat(0));
    now.iter().zip(earlier).map(|(now, before)| now.saturating_sub(before)).collect()
}

/// What the daemon calls what requests waited for, as it is shown.
fn wait_name(name: &str) -> String {
    let name = name.replace('_', " ").replace("backing", "disk").replace("read ssd", "read SSD");
    match name.strip_prefix("ssd ") {
        Some(what) => format!("SSD {what}"),
        None => name,
    }
}

fn waits(before: Option<&BTreeMap<String, Waited>>, now: &BTreeMap<String, Waited>) -> Vec<Wait> {
    let grown = now.iter().map(|(name, now)| {
        let before = before.and_then(|before| before.get(name));
        let buckets = grown_buckets(before.map(|before| before.buckets.as_slice()), &now.buckets);
        let took_us = (now.sum_us - before.map_or(0.0, |before| before.sum_us)).max(0.0);
        (Wait { name: wait_name(name), share: took_us, p99_us: quantile_us(&buckets, 0.99) }, took_us)
    });
    let (mut waits, took_us): (Vec<Wait>, Vec<f64>) = grown.filter(|(wait, _)| wait.p99_us.is_some()).unzip();
    let all_us = took_us.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    waits.iter_mut().for_each(|wait| wait.share /= all_us);
    waits.sort_by(|one, other| other.share.total_cmp(&one.share));
    waits
}

/// A quantile of times counted in buckets, as Prometheus's `histogram_quantile` estimates it: as if those within a bucket were
/// spread evenly. None without requests.
fn quantile_us(buckets: &[u64], quantile: f64) -> Option<f64> {
    let count: u64 = buckets.iter().sum();
    let rank = quantile * count as f64;
    let mut below = 0.0;
    for (i, &inside) in buckets.iter().enumerate().filter(|(_, inside)| **inside > 0) {
        let inside = inside as f64;
        if below + inside >= rank {
            let from = if i == 0 { 0.0 } else { LATENCY_BOUNDS_US[i - 1] };
            // Of those beyond the last bound nothing more is known.
            let to = LATENCY_BOUNDS_US.get(i).copied().unwrap_or(from);
            return Some(from + (to - from) * (rank - below) / inside);
        }
        below += inside;
    }
    None
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// An answer of a daemon with these VMs, which have each done so many of everything.
    pub fn snapshot(uptime_s: u64, vms: &[(&str, u64)]) -> Snapshot {
        serde_json::from_value(answer(uptime_s, vms)).expect("it is a status")
    }

    /// The same where the host has a budget of SSD writes, and an SSD that is rated for so many bytes; each VM may write a part.
    pub fn limited_snapshot(uptime_s: u64, vms: &[(&str, u64)], (budget, rated): (u64, u64)) -> Snapshot {
        let mut answer = answer(uptime_s, vms);
        answer["host"]["ssd_write_budget_bytes_per_day"] = budget.into();
        answer["cache"] = serde_json::json!({ "rated_write_bytes": rated });
        for at in 0..vms.len() {
            answer["vms"][at]["sharing"]["ssd_write_budget_bytes_per_day"] =
                (budget / vms.len() as u64).into();
        }
        serde_json::from_value(answer).expect("it is a status")
    }

    fn answer(uptime_s: u64, vms: &[(&str, u64)]) -> serde_json::Value {
        let level = |share_blocks: u64, demand_blocks: Option<u64>| {
            serde_json::json!({
                "share_blocks": share_blocks, "target_blocks": share_blocks, "wanted_blocks": share_blocks,
                "demand_blocks": demand_blocks, "min_blocks": 0, "max_blocks": 1 << 30, "reach_blocks": share_blocks,
                "expected_hit_ratio": null, "measured_hit_ratio": null
            })
        };
        let host = serde_json::json!({
            "mode": "auto", "block_bytes": 4096, "dram_blocks": 1 << 20, "ssd_blocks": 1 << 20, "interval_s": 600,
            "next_division_s": 7, "moving": false, "ssd_grows": false, "stopped": false
        });
        let vm = |(name, n): &(&str, u64)| {
            let latency = |bucket: usize, count: u64| {
                let mut buckets = vec![0; LATENCY_BOUNDS_US.len() + 1];
                buckets[bucket] = count;
                serde_json::json!({ "buckets": buckets })
            };
            let waited = |bucket: usize, count: u64, sum_us: u64| {
                let mut waited = latency(bucket, count);
                waited["sum_us"] = sum_us.into();
                waited
            };
            serde_json::json!({
                "name": name, "scheme": "etica", "connections": 2, "block_bytes": 4096, "oldest_dirty_s": n,
                "sharing": {
                    "weight": 1.0, "dram": level(256 * n, Some(512 * n)), "ssd": level(1 << 20, None),
                    "expected_hit_ratio": 0.5, "measured_hit_ratio": null
                },
                "counters": {
                    "block_reads": 100 * n, "block_writes": 28 * n,
                    "read_hits": {"dram": 50 * n, "ssd": 25 * n, "read_ssd": 0}, "read_misses": 25 * n,
                    "write_hits": {"ssd": 7 * n}
                },
                "gauges": {
                    "dirty_blocks": 256 * n, "ssd_data_bytes": n << 20, "ssd_metadata_bytes": n << 20,
                    "read_ssd_data_bytes": 0
                },
                "latency": {
                    "read": {
                        "dram": latency(1, 50 * n), "read_ssd": latency(0, 0), "ssd": latency(5, 25 * n),
                        "backing": latency(20, 25 * n)
                    },
                    "write": latency(4, 28 * n), "flush": latency(0, 0),
                    "waited_for": {"daemon": waited(1, 78 * n, 100 * n), "backing_read": waited(20, 25 * n, 300 * n)}
                }
            })
        };
        let vms: Vec<_> = vms.iter().map(vm).collect();
        serde_json::json!({"name": "host1", "uptime_s": uptime_s, "host": host, "vms": vms})
    }

    #[test]
    fn rates_are_of_the_interval() {
        let (before, now) = (snapshot(100, &[("a", 10)]), snapshot(102, &[("a", 30), ("new", 2)]));
        let rates = rates(Some((&before, 2.0)), &now);
        let [a, new] = &rates[..] else { panic!("two VMs") };
        assert_eq!((a.reads, a.writes, a.mib_per_s), (1000.0, 280.0, 5.0));
        assert_eq!((a.read_hits, a.write_hits), (Some(0.75), Some(0.25)));
        assert_eq!((a.dirty_mib, a.ssd_mib_per_s, a.ssd_written_mib), (30.0, 20.0, 60.0));
        assert_eq!(a.wear.bytes_per_day, 20.0 * MIB * 86_400.0);
        assert_eq!(host_wear(&rates, &now).bytes_per_day, 22.0 * MIB * 86_400.0);
        assert_eq!(a.oldest_dirty_s, Some(30));
        let [disk, daemon] = &a.waits[..] else { panic!("two waits: {:?}", a.waits) };
        assert_eq!((disk.name.as_str(), disk.share, disk.p99_us), ("disk read", 0.75, Some(10e6)));
        assert_eq!((daemon.name.as_str(), daemon.share, daemon.p99_us), ("daemon", 0.25, Some(4.975)));
        assert_eq!(a.shares.as_deref(), Some("DRAM 30 MiB, could use 60 MiB; SSD 4 GiB"));
        assert_eq!(
            a.kinds[0],
            Kind { name: "DRAM", requests: 500.0, share: Some(0.5), p50_us: Some(3.75), p99_us: Some(4.975) }
        );
        assert_eq!((a.kinds[1].share, a.kinds[1].p99_us), (Some(0.0), None));
        assert_eq!(a.read_p99_us, Some(10e6), "what is beyond the last bound counts as that");
        assert_eq!(new.reads, 100.0, "a VM that was not there before began with nothing");
        assert_eq!(total(&rates).reads, 1100.0);
    }

    #[test]
    fn after_a_restart_rates_are_since_then() {
        let (before, now) = (snapshot(100, &[("a", 10)]), snapshot(4, &[("a", 2)]));
        assert_eq!(rates(Some((&before, 2.0)), &now)[0].reads, 50.0);
        assert_eq!(rates(None, &now)[0].reads, 50.0);
        let idle = rates(Some((&now, 1.0)), &now);
        assert_eq!((idle[0].reads, idle[0].read_hits, idle[0].read_p99_us), (0.0, None, None));
    }
}
