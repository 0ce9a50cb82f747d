//! Parts of a plan's page besides the plan itself: what other money buys, what a replay gave. It must not compute either.

use lode_draw::{Axis, Cells, Column, LineChart, Series, Shape, States, Table, Unit};
use lode_types::show_size;

use crate::levels::LevelBytes;
use crate::report::{FrontReport, SizeReport, WearReport};

/// Points of one kind that have labels; more of them cover each other, and the table has all.
const MOST_LABELS: usize = 8;

/// Latency over cost, the plan of `levels` apart from the others.
pub(super) fn front_chart(front: &[FrontReport], levels: LevelBytes) -> LineChart {
    let mut chart = LineChart::new(
        "Latency by cost",
        "Mean latency of a block access over the price of both levels, for pairs of sizes that no other pair beats; without the \
         writing back to the disk, of which a small SSD has much",
        Axis::linear("Cost of both levels", Unit::Dollars),
        Axis::linear("Mean latency of a block access", Unit::Microseconds),
    );
    let label = |point: &FrontReport| {
        let LevelBytes { dram_bytes, ssd_bytes, .. } = point.levels;
        format!("DRAM {}, SSD {}", show_size(dram_bytes), show_size(ssd_bytes))
    };
    for (name, is_plan) in [("This plan", true), ("Other pairs", false)] {
        let shown = front.iter().filter(|point| (point.levels == levels) == is_plan);
        let shown: Vec<(&FrontReport, f64)> = shown
            .filter_map(|point| point.outcome.mean_latency_us.map(|latency_us| (point, latency_us)))
            .collect();
        if shown.is_empty() {
            continue;
        }
        let points = shown.iter().map(|(point, latency_us)| (point.cost_usd, *latency_us)).collect();
        let series = Series::new(name, Shape::Points, points);
        let labels = || shown.iter().map(|(point, _)| label(point)).collect();
        chart.series.push(if shown.len() <= MOST_LABELS { series.with_labels(labels()) } else { series });
    }
    chart
}

/// Every pair of sizes of the front. Every write of a VM with a share of the SSD counts, so that what is said of the SSD is
/// an upper bound.
pub(super) fn front_table(front: &[FrontReport], has_times: bool) -> Table {
    let numbers = |title: &str, unit: Unit, value: fn(&FrontReport) -> Option<f64>| Column {
        title: title.to_owned(),
        cells: Cells::Numbers(unit, States::fixed(front.iter().map(value).collect())),
    };
    let pairs = (1..=front.len()).map(|number| number.to_string()).collect();
    let mut columns = vec![
        Column { title: "Pair".to_owned(), cells: Cells::Text(pairs) },
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
        name: format!("{} mode={}", one.scheme, one.mode),
        levels: report.levels,
        read_hit_ratio: one.read_hit_ratio,
        mean_latency_us: one.mean_latency_us,
        wear: &one.wear,
    });
    let instead = report.one_level.iter().map(|one| Replayed {
        name: format!("{}, the same money", one.label),
        levels: one.levels,
        read_hit_ratio: one.read_hit_ratio,
        mean_latency_us: one.mean_latency_us,
        wear: &one.wear,
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
    let mut title = "The plan as the scheme serves it".to_owned();
    if has_times {
        title += "; SSD life as the devices' profile rates it";
        columns.push(numbers("A day", Unit::BytesPerDay, |one| one.wear.bytes_per_day));
        columns.push(numbers("SSD life", Unit::Years, |one| one.wear.life_years));
    }
    Table { title, columns }
}

/// Which mode was taken and why, and what one level does better for the same money.
pub(super) fn about_replays(report: &SizeReport) -> Vec<String> {
    let mode = report.mode.zip(report.mode_reason.as_ref());
    let taken = mode.map(|(mode, reason)| format!("Of both levels with etica, mode={mode}: {reason}."));
    let instead = report.one_level.as_ref().and_then(|instead| Some((instead.sentence.clone()?, instead)));
    let (sentence, command) = instead.map_or((None, None), |(sentence, instead)| {
        (
            Some(sentence),
            instead.command.as_ref().map(|command| format!("The command that shows both: {command}")),
        )
    });
    taken.into_iter().chain(sentence).chain(command).collect()
}

/// One line of that table.
struct Replayed<'a> {
    name: String,
    levels: LevelBytes,
    read_hit_ratio: Option<f64>,
    mean_latency_us: Option<f64>,
    wear: &'a WearReport,
}
