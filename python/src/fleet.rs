//! The page of a fleet, out of the rows that are collected of it. It must not know what collects them.

use std::collections::BTreeMap;

use lode_plan::{Fleet, FleetHost, FleetReplay, FleetVolume, Made, Prices};
use pyo3::prelude::*;

use crate::asked::Devices;
use crate::error::Failure;

/// A volume's curve, a dictionary in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CurveRow {
    trace: String,
    volume: String,
    requests: u64,
    read_bytes: u64,
    written_bytes: u64,
    needed_blocks: u64,
    block_bytes: u64,
    rate: f64,
    hit_ratios: Vec<f64>,
}

/// A volume's share of its host, a dictionary in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SizeRow {
    host: String,
    host_bytes: u64,
    accesses: u64,
    hits: u64,
    hits_with_gib_more: u64,
}

/// A host's replay, a dictionary in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ReplayRow {
    host: String,
    volumes: u64,
    hit_ratio: Option<f64>,
    mean_latency_us: Option<f64>,
    span_s: Option<f64>,
    ssd_written_bytes: u64,
    ssd_life_years: Option<f64>,
    cost_usd: f64,
}

impl From<CurveRow> for FleetVolume {
    fn from(row: CurveRow) -> FleetVolume {
        FleetVolume {
            name: format!("{}/{}", row.trace, row.volume),
            requests: row.requests,
            read_bytes: row.read_bytes,
            written_bytes: row.written_bytes,
            needed_bytes: row.needed_blocks.saturating_mul(row.block_bytes),
            hit_ratio: row.hit_ratios.last().copied(),
            is_sampled: row.rate < 1.0,
        }
    }
}

impl From<ReplayRow> for FleetReplay {
    fn from(row: ReplayRow) -> FleetReplay {
        FleetReplay {
            name: row.host,
            volumes: row.volumes,
            read_hit_ratio: row.hit_ratio,
            mean_latency_us: row.mean_latency_us,
            span_s: row.span_s,
            ssd_written_bytes: row.ssd_written_bytes,
            ssd_life_years: row.ssd_life_years,
            cost_usd: row.cost_usd,
        }
    }
}

/// The hosts, each with the sums of its volumes.
fn hosts_of(rows: Vec<SizeRow>) -> Vec<FleetHost> {
    let mut hosts: BTreeMap<String, FleetHost> = BTreeMap::new();
    for row in rows {
        let host = hosts.entry(row.host).or_insert_with_key(|name| FleetHost {
            name: name.clone(),
            volumes: 0,
            cache_bytes: row.host_bytes,
            accesses: 0,
            hits: 0,
            hits_with_gib_more: 0,
        });
        host.volumes += 1;
        host.accesses += row.accesses;
        host.hits += row.hits;
        host.hits_with_gib_more += row.hits_with_gib_more;
    }
    hosts.into_values().collect()
}

/// The page as HTML; `made` is the day and the call that makes it.
#[pyfunction]
#[pyo3(signature = (curves, sizes, replays, title, devices, made))]
pub fn fleet_page(
    curves: Vec<CurveRow>,
    sizes: Vec<SizeRow>,
    replays: Vec<ReplayRow>,
    title: String,
    devices: Devices,
    made: (String, String),
) -> PyResult<String> {
    let prices = Prices::of(&devices.host()?);
    let fleet = Fleet {
        title,
        devices: devices.name,
        prices,
        volumes: curves.into_iter().map(FleetVolume::from).collect(),
        hosts: hosts_of(sizes),
        replays: replays.into_iter().map(FleetReplay::from).collect(),
    };
    let made = Made { date: made.0, command: made.1 };
    Ok(lode_plan::fleet_page(&fleet, &made).map_err(Failure::from)?)
}
