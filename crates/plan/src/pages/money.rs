//! Parts of a plan's page besides the plan itself: what other money buys, what a replay gave. It must not compute either.

use std::collections::HashMap;

use lode_draw::{Axis, Cells, Column, LineChart, Series, Shape, States, Table, Tint, Unit};
use lode_types::show_size;

use crate::host_memory::HostMemory;
use crate::levels::LevelBytes;
use crate::report::{FrontReport, SizeReport, WearReport};

/// Latency over cost. Each pair is called as its row in the table is, to which a click leads; the plan of `levels` is apart from
/// the others.
pub(super) fn front_chart(front: &[FrontReport], levels: LevelBytes) -> LineChart {
    let mut chart = LineChart::new(
        "Latency by cost",
        "Mean latency of a block access over the price of both levels, for pairs of sizes that no other pair beats, each called \
         by its DRAM + SSD; without the writing back to the disk, of which a small SSD has much. A click leads to the row below",
        Axis::linear("Cost of both levels", Unit::Dollars),
        Axis::linear("Mean latency of a block access", Unit::Microseconds),
    );
    let names = pair_names(front, levels);
    for (name, tint, is_plan) in [("This plan", Tint::Chosen, true), ("Other pairs", Tint::Neutral, false)] {
        let shown = front.iter().zip(&names).filter(|(point, _)| (point.levels == levels) == is_plan);
        let (points, labels): (Vec<(f64, f64)>, Vec<String>) = shown
            .filter_map(|(point, name)| {
                Some(((point.cost_usd, point.outcome.mean_latency_us?), name.clone()))
            })
            .unzip();
        if !points.is_empty() {
            chart.series.push(Series::new(name, Shape::Points, points).with_labels(labels).tinted(tint));
        }
    }
    chart
}

/// What pairs are called: by DRAM + SSD, and the plan of `levels` by that it is this; with numbers where sizes read the same.
fn pair_names(front: &[FrontReport], levels: LevelBytes) -> Vec<String> {
    let sizes = |point: &FrontReport| {
        let LevelBytes { dram_bytes, ssd_bytes, .. } = point.levels;
        format!("{} + {}", show_size(dram_bytes), show_size(ssd_bytes))
    };
    let mut seen = HashMap::new();
    let named = front.iter().map(|point| {
        let times = seen.entry(sizes(point)).and_modify(|times| *times += 1).or_insert(1_usize);
        let number = if *times > 1 { format!(" ({times})") } else { String::new() };
        let mark = if point.levels == levels { ", this plan" } else { "" };
        format!("{}{number}{mark}", sizes(point))
    });
    named.collect()
}

/// Every pair of sizes of the front. Every write of a VM with a share of the SSD counts, so that what is said of the SSD is
/// an upper bound.
pub(super) fn front_table(front: &[FrontReport], levels: LevelBytes, has_times: bool) -> Table {
    let numbers = |title: &str, unit: Unit, value: fn(&FrontReport) -> Option<f64>| Column {
        title: title.to_owned(),
        cells: Cells::Numbers(unit, States::fixed(front.iter().map(value).collect())),
    };
    let mut columns = vec![
        Column { title: "DRAM + SSD".to_owned(), cells: Cells::Text(pair_names(front, levels)) },
        numbers("Cost", Unit::Dollars, |point| Some(point.cost_usd)),
        numbers("DRAM", Unit::Bytes, |point| Some(point.levels.dram_bytes as f64)),
        numbers("SSD", Unit::Bytes, |point| Some(point.levels.ssd_bytes as f64)),
        numbers("Hits of block reads", Unit::Ratio, |point| point.outcome.read_hit_ratio),
        numbers("Latency of a block access", Unit::Microseconds, |point| point.outcome.mean_latency_us),
    ];
    if has_times {
        columns.push(numbers("SSD written, at most", Unit::BytesPerDay, |point| point.wear.bytes_per_day));
        columns.push(numbers("SSD life, at least", Unit::Years, |point| point.wear.life_years));
    } else {
        let written = |point: &FrontReport| Some(point.wear.written_bytes as f64);
        columns.push(numbers("SSD written, at most", Unit::Bytes, written));
    }
    let wear = if has_times { "SSD life" } else { "SSD writes" };
    Table {
        title: format!("Pairs of sizes that no other pair beats in cost, latency and {wear} at once"),
        columns,
    }
}

/// What replaying the plan gave: curves do not know how much of the writing a full SSD turns away. Last what one SSD level for
/// the same money gave.
pub(super) fn replayed_table(report: &SizeReport, has_times: bool) -> Table {
    let plan = report.replayed.iter().map(|one| Replayed {
        name: one.called.clone(),
        levels: report.levels,
        read_hit_ratio: one.read_hit_ratio,
        mean_latency_us: one.mean_latency_us,
        wear: &one.wear,
        host_memory: one.host_memory,
    });
    let instead = report.one_level.iter().chain(&report.one_level_of_auto).map(|one| Replayed {
        name: format!("{}, the same money", one.label),
        levels: one.levels,
        read_hit_ratio: one.read_hit_ratio,
        mean_latency_us: one.mean_latency_us,
        wear: &one.wear,
        host_memory: one.host_memory,
    });
    let replayed: Vec<Replayed<'_>> = plan.chain(instead).collect();
    let numbers = |title: &str, unit: Unit, value: fn(&Replayed<'_>) -> Option<f64>| Column {
        title: title.to_owned(),
        cells: Cells::Numbers(unit, States::fixed(replayed.iter().map(value).collect())),
    };
    let names = replayed.iter().map(|one| one.name.clone()).collect();
    let mut columns = vec![
        Column { title: "Scheme".to_owned(), cells: Cells::Text(names) },
        numbers("DRAM", Unit::Bytes, |one| Some(one.levels.dram_bytes as f64)),
        numbers("SSD", Unit::Bytes, |one| Some(one.levels.ssd_bytes as f64)),
        numbers("Hits of block reads", Unit::Ratio, |one| one.read_hit_ratio),
        numbers("Latency of a request", Unit::Microseconds, |one| one.mean_latency_us),
        numbers("SSD written", Unit::Bytes, |one| Some(one.wear.written_bytes as f64)),
    ];
    let tables = |one: &Replayed<'_>| one.host_memory.map(|memory| memory.tables_bytes as f64);
    columns.push(numbers("Tables in host memory, at most", Unit::Bytes, tables));
    let mut title = "The levels as schemes serve them, divided as suits each".to_owned();
    if has_times {
        title += "; SSD life as the devices' profile rates it";
        columns.push(numbers("A day", Unit::BytesPerDay, |one| one.wear.bytes_per_day));
        columns.push(numbers("SSD life", Unit::Years, |one| one.wear.life_years));
    }
    Table { title, columns }
}

/// With what both levels are best and why, and what one level does better for the same money.
pub(super) fn about_replays(report: &SizeReport) -> Vec<String> {
    let taken = report.two_levels.as_ref().zip(report.mode_reason.as_ref());
    let taken = taken.map(|(label, reason)| format!("Of both levels, {label}: {reason}."));
    let instead = report.one_level.as_ref().and_then(|instead| Some((instead.sentence.clone()?, instead)));
    let (sentence, command) = instead.map_or((None, None), |(sentence, instead)| {
        (
            Some(sentence),
            instead.command.as_ref().map(|command| format!("The command that shows both: {command}")),
        )
    });
    let of_auto = report.one_level_of_auto.as_ref().and_then(|of_auto| of_auto.sentence.clone());
    taken.into_iter().chain(sentence).chain(command).chain(of_auto).collect()
}

/// One line of that table.
struct Replayed<'a> {
    name: String,
    levels: LevelBytes,
    read_hit_ratio: Option<f64>,
    mean_latency_us: Option<f64>,
    wear: &'a WearReport,
    host_memory: Option<HostMemory>,
}
