//! What `lode size` found, as tables and sentences. It must not know how it was found.

use comfy_table::Table;
use lode_hardware::Drives;
use lode_plan::{FrontReport, HostMemory, LevelReport, OneLevelReport, SizeReport, VmSizeReport, WearReport};
use lode_replay::InputReport;

use super::planning::{MAX_TABLE_VMS, SAMPLED};
use crate::amounts::{show_count, show_life, show_size};
use crate::arguments::inputs_text;
use crate::output::{self, dollars, number, percent};
use crate::results::{Columns, Rows, cell};

/// What the file with the plan's JSON is called in the command that needs it.
pub const PLAN_FILE: &str = "plan.json";

/// The plan itself: all that is known before it is replayed.
pub fn plan_text(report: &SizeReport) -> String {
    let size = |blocks: u64| show_size(blocks.saturating_mul(report.block_bytes));
    let mut text = level_text("DRAM", &report.dram, &size) + &level_text("SSD", &report.ssd, &size);
    if report.shrinks > 0 {
        text += SAMPLED;
    }
    text += &format!("Curves: {}, of an SSD that keeps {}\n", report.method, report.ssd_keeps.in_words());
    let mut titles = vec![
        "VM",
        "requests",
        "DRAM",
        "of useful",
        "SSD",
        "of useful",
        "hits % of reads",
        "of DRAM %",
        "of SSD %",
    ];
    let is_sampled = report.vms.iter().any(|vm| vm.rate < 1.0);
    if is_sampled {
        titles.extend(["rate", "error %"]);
    }
    let mut table = output::table(&titles, 1);
    for vm in report.vms.iter().take(MAX_TABLE_VMS) {
        let mut cells = row(vm, &size).to_vec();
        if is_sampled {
            cells.extend([format!("{:.2e}", vm.rate), percent(vm.standard_error)]);
        }
        table.add_row(cells);
    }
    text += &format!("{table}\n");
    if report.vms.len() > MAX_TABLE_VMS {
        let more = show_count((report.vms.len() - MAX_TABLE_VMS) as u64, "more VM");
        text += &format!("{more}; --json shows them all.\n");
    }
    text += &format!(
        "All VMs: {} % of block reads hit, by their curves. Devices '{}'.\n",
        percent(report.total.read_hit_ratio),
        report.devices,
    );
    text += &format!("The levels cost {} usd{}.\n", dollars(report.cost_usd), priced_text(report));
    if let Some(front) = &report.front {
        text += &front_text(front, InputReport::all_have_times(&report.inputs));
    }
    text
}

/// The plan that the outcome is of, where what it was replayed with asks for other shares than were `shown`.
pub fn other_plan_text(shown: &SizeReport, report: &SizeReport) -> String {
    if shown.ssd_keeps == report.ssd_keeps {
        return String::new();
    }
    let scheme = report.two_levels.as_deref().unwrap_or(&report.recommended.label);
    format!(
        "\nBoth levels are best with {scheme}, divided as suits that:\n{}",
        plan_text(&SizeReport { front: None, ..report.clone() })
    )
}

/// Which drives the price is of, and of when it is.
fn priced_text(report: &SizeReport) -> String {
    let priced = |drives: &Drives| {
        format!(" with {}, '{}' at its price of {}", drives.words, drives.drive, drives.price_date)
    };
    report.wear.drives.as_ref().map(priced).unwrap_or_default()
}

/// A row for each VM's part of the plan.
pub fn csv_rows(report: &SizeReport) -> Rows {
    let columns: Columns<&VmSizeReport, 12> = [
        ("name", |vm| vm.name.clone()),
        ("requests", |vm| vm.requests.to_string()),
        ("dram_blocks", |vm| vm.share.dram_blocks.to_string()),
        ("ssd_blocks", |vm| vm.share.ssd_blocks.to_string()),
        ("dram_demand_blocks", |vm| vm.demand.dram_blocks.to_string()),
        ("ssd_demand_blocks", |vm| vm.demand.ssd_blocks.to_string()),
        ("block_reads", |vm| vm.outcome.block_reads.to_string()),
        ("block_writes", |vm| vm.outcome.block_writes.to_string()),
        ("dram_hits", |vm| vm.outcome.dram_hits.to_string()),
        ("ssd_hits", |vm| vm.outcome.ssd_hits.to_string()),
        ("read_hit_ratio", |vm| cell(vm.outcome.read_hit_ratio)),
        ("mean_latency_us", |vm| cell(vm.outcome.mean_latency_us)),
    ];
    Rows::of(&columns, &report.vms)
}

/// What the plan and the same money on one level led to when they were replayed, and what there is to do.
pub fn outcome_text(report: &SizeReport) -> String {
    let recommended = &report.recommended;
    let mut text = format!("\nRecommended: {}\n", recommended.sentence);
    text += &format!("Why {}: {}.\n", recommended.called, recommended.reason);
    if recommended.mean_latency_us.is_some() {
        text += &format!("{}\n", recommended_table(report));
    }
    text += &replayed_text(report);
    for sentence in &report.advice {
        text += &format!("- {sentence}\n");
    }
    text + &inputs_text(&report.inputs)
}

/// What each VM has and sees, as it was replayed.
fn recommended_table(report: &SizeReport) -> Table {
    let size = |blocks: u64| show_size(blocks.saturating_mul(report.block_bytes));
    let has_dram = report.recommended.levels.dram_bytes > 0;
    let mut titles = vec!["VM", "DRAM", "SSD", "hits % of block reads", "us a request"];
    titles.retain(|title| has_dram || *title != "DRAM");
    let mut table = output::table(&titles, 1);
    for vm in report.recommended.vms.iter().take(MAX_TABLE_VMS) {
        let mut row = vec![vm.name.clone()];
        row.extend(has_dram.then(|| size(vm.share.dram_blocks)));
        row.push(size(vm.share.ssd_blocks));
        row.extend([percent(vm.read_hit_ratio), number(vm.mean_latency_us, 1)]);
        table.add_row(row);
    }
    table
}

fn replayed_text(report: &SizeReport) -> String {
    let mut text = String::new();
    for replayed in &report.replayed {
        let is_divided_so = replayed.shares.iter().eq(report.vms.iter().map(|vm| &vm.share));
        text += &format!(
            "Replayed with {}: {} % of block reads hit, {} us a request; {}{}{}\n",
            replayed.called,
            percent(replayed.read_hit_ratio),
            number(replayed.mean_latency_us, 1),
            wear_text(&replayed.wear),
            tables_text(replayed.host_memory),
            if is_divided_so { "" } else { " Divided otherwise, as suits it." }
        );
    }
    for instead in report.one_level.iter().chain(&report.one_level_of_auto) {
        text += &one_level_text(instead);
    }
    // Beside what was replayed, which counts requests and knows sequential runs, it would be taken for the same.
    if report.replayed.is_empty() {
        text += &format!(
            "By the curves, {} us a block access, each alone and on disk a random one; without a cache {} us.\n",
            number(report.total.mean_latency_us, 1),
            number(report.without_cache.mean_latency_us, 1)
        );
        text += &format!("At most {}\n", wear_text(&report.wear));
    }
    text
}

/// What the same money would do as one SSD level.
fn one_level_text(instead: &OneLevelReport) -> String {
    let mut text = format!(
        "The same money on one SSD level of {}, replayed with {}: {} % of block reads hit, {} us a request; {}{}\n",
        show_size(instead.levels.ssd_bytes),
        instead.label,
        percent(instead.read_hit_ratio),
        number(instead.mean_latency_us, 1),
        wear_text(&instead.wear),
        tables_text(instead.host_memory)
    );
    if let Some(sentence) = &instead.sentence {
        text += &format!("{sentence}\n");
        text += &instead.command.iter().map(|command| seen_by(command)).collect::<String>();
    }
    text
}

/// How to see what was said.
fn seen_by(command: &str) -> String {
    let first = if command.ends_with(PLAN_FILE) {
        format!("write this plan with --json={PLAN_FILE}, then ")
    } else {
        String::new()
    };
    format!("To see it: {first}{command}\n")
}

fn level_text(name: &str, level: &LevelReport, size: &dyn Fn(u64) -> String) -> String {
    if level.capacity_blocks == 0 {
        return String::new();
    }
    let how = match level.solver {
        "granted" => "which fits".to_owned(),
        solver => format!("solver: {solver}"),
    };
    format!(
        "{name}: {} given of {}; all VMs together could use {} ({how}).\n",
        size(level.given_blocks),
        size(level.capacity_blocks),
        size(level.demand_blocks)
    )
}

fn row(vm: &VmSizeReport, size: &dyn Fn(u64) -> String) -> [String; 9] {
    let of_reads = |hits: u64| {
        let reads = vm.outcome.block_reads;
        percent((reads > 0).then(|| hits as f64 / reads as f64))
    };
    [
        vm.name.clone(),
        vm.requests.to_string(),
        size(vm.share.dram_blocks),
        size(vm.demand.dram_blocks),
        size(vm.share.ssd_blocks),
        size(vm.demand.ssd_blocks),
        percent(vm.outcome.read_hit_ratio),
        of_reads(vm.outcome.dram_hits),
        of_reads(vm.outcome.ssd_hits),
    ]
}

fn wear_text(wear: &WearReport) -> String {
    let a_day =
        wear.bytes_per_day.map(|bytes| format!(", {} a day", show_size(bytes as u64))).unwrap_or_default();
    let years = wear
        .life_years
        .map(|years| match &wear.drives {
            Some(drives) => format!("; at that rate, {}: {}", drives.words, show_life(years)),
            None => format!(", {} of SSD life at that rate", show_life(years)),
        })
        .unwrap_or_default();
    format!("{} written to the SSD{a_day}{years}.", show_size(wear.written_bytes))
}

/// What the host needs memory for beside the DRAM level.
fn tables_text(memory: Option<HostMemory>) -> String {
    let tables =
        |memory: HostMemory| format!(" Tables: at most {} of host memory.", show_size(memory.tables_bytes));
    memory.map(tables).unwrap_or_default()
}

/// Every write of a VM with a share of the SSD counts, so that what is said of the SSD is an upper bound.
fn front_text(front: &[FrontReport], has_times: bool) -> String {
    let has_drives = front.iter().any(|point| point.wear.drives.is_some());
    let mut titles = vec!["cost usd", "DRAM", "SSD", "drives", "hits % of reads", "us a block access"];
    titles.retain(|title| has_drives || *title != "drives");
    if has_times {
        titles.extend(["SSD written a day at most", "SSD life at least"]);
    } else {
        titles.push("SSD written at most");
    }
    let mut table = output::table(&titles, 0);
    for point in front {
        let mut row = vec![
            dollars(point.cost_usd),
            show_size(point.levels.dram_bytes),
            show_size(point.levels.ssd_bytes),
        ];
        row.extend(
            has_drives.then(|| point.wear.drives.as_ref().map_or(0, |drives| drives.count).to_string()),
        );
        row.extend([percent(point.outcome.read_hit_ratio), number(point.outcome.mean_latency_us, 1)]);
        if has_times {
            row.push(point.wear.bytes_per_day.map_or("-".to_owned(), |bytes| show_size(bytes as u64)));
            row.push(point.wear.life_years.map_or("-".to_owned(), show_life));
        } else {
            row.push(show_size(point.wear.written_bytes));
        }
        table.add_row(row);
    }
    let wear = if has_times { "SSD life" } else { "SSD writes" };
    format!(
        "No other pair of sizes that was compared beats these in cost, latency and {wear} at once:\n{table}\n\
         Latencies leave out writing back to the disk, of which a small SSD has much; only the plan is replayed.\n"
    )
}
