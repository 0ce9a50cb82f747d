//! Results as pages and pictures. It must not compute results, nor know where pages go.

mod compare;
mod curve;
mod fleet;
mod money;
mod plan;

pub use compare::{compare_page, compare_picture};
pub use curve::{curve_page, curve_picture};
pub use fleet::{Fleet, FleetHost, FleetReplay, FleetVolume, fleet_page};
pub use plan::{size_page, size_picture};

use std::collections::BTreeSet;

use lode_draw::{Axis, Series, Shape, Unit};
use lode_replay::InputReport;
use lode_types::show_size;

use crate::heading::Made;

/// VMs that pages and pictures show, those with most accesses; the JSON forms have all.
pub const MAX_PAGE_VMS: usize = 256;

/// What comes first on every page: the result in one sentence, and how it came about.
fn lead(in_short: Option<String>, made: &Made) -> Vec<String> {
    in_short.into_iter().chain([made.line()]).collect()
}

/// Where the numbers come from; it says so when they are synthetic.
fn subtitle(inputs: &[InputReport], more: &str) -> String {
    let names: Vec<&str> = inputs.iter().map(|input| file_name(&input.path)).collect();
    let shown = names.iter().take(3).copied().collect::<Vec<_>>().join(", ");
    let rest = names.len().saturating_sub(3);
    let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let synthetic = if inputs.iter().any(|input| input.synthetic) { "synthetic: " } else { "" };
    let taken: String = taken_for_granted(inputs).iter().map(|what| format!("; {what}")).collect();
    format!("{synthetic}{shown}{rest}; {more}{taken}")
}

/// What the traces do not say.
fn taken_for_granted(inputs: &[InputReport]) -> Vec<String> {
    let units: BTreeSet<u64> = inputs.iter().filter_map(|input| input.unit_bytes).collect();
    let mut taken: Vec<String> =
        units.into_iter().map(|bytes| format!("block numbers taken as {} each", show_size(bytes))).collect();
    if !InputReport::all_have_times(inputs) {
        let which = if inputs.len() == 1 { "this trace" } else { "some of the traces" };
        taken.push(format!("no times in {which}"));
    }
    taken
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Numbers of the VMs to show, those with most accesses first.
fn shown_vms(accesses: impl Iterator<Item = u64>) -> Vec<usize> {
    let mut vms: Vec<(u64, usize)> = accesses.enumerate().map(|(vm, accesses)| (accesses, vm)).collect();
    vms.sort_by_key(|&(accesses, vm)| (std::cmp::Reverse(accesses), vm));
    vms.truncate(MAX_PAGE_VMS);
    vms.into_iter().map(|(_, vm)| vm).collect()
}

/// One VM's staircase of hits by bytes of cache.
fn staircase(name: &str, curve: &[(u64, f64)], block_bytes: u64) -> Series {
    let points = curve.iter().map(|&(blocks, ratio)| (blocks as f64 * block_bytes as f64, ratio));
    Series::new(name, Shape::Steps, points.collect())
}

fn size_axis(label: &str, block_bytes: u64) -> Axis {
    Axis::log(label, Unit::Bytes).reaching(block_bytes as f64, 16.0 * block_bytes as f64)
}
