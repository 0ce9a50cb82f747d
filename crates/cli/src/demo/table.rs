//! The tables at the end: where the cache served each VM from, and each VM with the cache and without.

use std::fmt;

use super::guests::GUESTS;
use super::{Outcome, number, vm};

/// The two runs side by side.
pub struct Comparison<'a> {
    /// With the cache.
    pub cached: &'a Outcome,
    /// Without.
    pub plain: &'a Outcome,
}

const FIRST_NUMBER: usize = 1;

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Where reads were served from, with the median time; writes likewise")?;
        writeln!(f, "{}\n", self.served())?;
        writeln!(f, "The same guests without a cache")?;
        writeln!(f, "{}\n", self.gains())?;
        writeln!(
            f,
            "The guests, their disks and the disks' slowness are synthetic; the daemon and its clients are real."
        )
    }
}

impl Comparison<'_> {
    fn served(&self) -> comfy_table::Table {
        let titles = ["VM", "DRAM", "SSD", "disk", "writes", "SSD writes", "per guest write"];
        let mut table = crate::output::table(&titles, FIRST_NUMBER);
        for guest in GUESTS {
            let Some(vm) = vm(&self.cached.status, guest.name) else { continue };
            let reads = number(vm, "/counters/block_reads").max(1.0);
            let share = |hits: &str, kind: &str| {
                let percent = number(vm, hits) / reads * 100.0;
                format!("{percent:.1} %, {}", median(vm, kind))
            };
            table.add_row(vec![
                format!("{} ({})", guest.name, guest.about),
                share("/counters/read_hits/dram", "read/dram"),
                share("/counters/read_hits/ssd", "read/ssd"),
                share("/counters/read_misses", "read/backing"),
                median(vm, "write"),
                format!("{:.0}", number(vm, "/counters/ssd_writes/total")),
                format!("{:.2}", number(vm, "/counters/cwf")),
            ]);
        }
        table
    }

    fn gains(&self) -> comfy_table::Table {
        let titles = ["VM", "requests/s", "without", "gain", "mean latency", "without", "SSD writes without"];
        let mut table = crate::output::table(&titles, FIRST_NUMBER);
        for (i, guest) in GUESTS.iter().enumerate() {
            let (with, without) = (&self.cached.guests[i], &self.plain.guests[i]);
            let plain_writes =
                vm(&self.plain.status, guest.name).map_or(0.0, |vm| number(vm, "/counters/ssd_writes/total"));
            table.add_row(vec![
                guest.name.to_owned(),
                format!("{:.0}", with.requests_per_second),
                format!("{:.0}", without.requests_per_second),
                format!("{:.1}x", with.requests_per_second / without.requests_per_second.max(1e-9)),
                duration(with.latency_us_mean),
                duration(without.latency_us_mean),
                format!("{plain_writes:.0}"),
            ]);
        }
        table
    }
}

/// The median time of a kind of request; a dash without any.
fn median(vm: &serde_json::Value, kind: &str) -> String {
    if number(vm, &format!("/latency/{kind}/count")) == 0.0 {
        return "-".to_owned();
    }
    duration(number(vm, &format!("/latency/{kind}/p50_us")))
}

fn duration(us: f64) -> String {
    if us < 1000.0 { format!("{us:.0} us") } else { format!("{:.1} ms", us / 1000.0) }
}
