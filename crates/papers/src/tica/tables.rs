//! Tables 1 and 2 with what follows from them: reliability, cost, the workloads.

use lode_draw::Unit;
use lode_hardware::{Host, unreliability, unreliability_hybrid, unreliability_pair};
use lode_synth::builtin;

use super::{Kind, jobs_of};
use crate::chart::{Bars, Chart};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, less, most};
use crate::paper::Paper;
use crate::run::Results;
use crate::workload::TICA;

/// Section 5.6: the share of the time that dirty blocks are protected by DRAM.
const ALPHA: f64 = 0.8;
const YEAR_H: f64 = 8_760.0;
/// What the printed numbers follow from, see `docs/hardware.md`: the C-SSD's MTTF for the RO-SSD.
const C_SSD_MTTF_H: f64 = 1.5e6;
/// Section 5.1: DRAM for each part of SSD.
const DRAM_OF_SSD: f64 = 0.1;

/// Sections 3, 5.6 and 6.
pub(super) const TABLE_1: Experiment = Experiment {
    paper: Paper::Tica,
    figure: "T1",
    title: "reliability and cost",
    ran: "Chance of losing dirty data within a year, by Eqs. 3 to 5 with alpha = 0.8 and Table 1 (section 5.6); cost of SSDs \
          and DRAM (section 6)",
    here: &["A calculation with Eq. 3 turned over: as printed the hours of the year are in the denominator"],
    claims: &[
        Claim::new("tica-t1-tica", "TICA: chance of loss", Shown::Chance, Reported::Value(1.27e-5))
            .source("section 5.6, Eq. 4")
            .same(Bound::Within(1.0e-5, 1.6e-5)),
        Claim::new("tica-t1-ucache", "uCache: chance of loss", Shown::Chance, Reported::Value(1.14e-5))
            .source("section 5.6, Eq. 5")
            .same(Bound::Within(0.9e-5, 1.4e-5)),
        Claim::new("tica-t1-cost", "TICA: less cost than uCache", Shown::Percent, Reported::Value(0.05))
            .source("section 6"),
    ],
    jobs: Vec::new,
    measure: measure_table_1,
};

fn measure_table_1(_: &Results) -> Finding {
    let mut found = Finding::default();
    let (Ok(tica), Ok(ucache)) = (Host::find("tica"), Host::find("ucache")) else { return found };
    let chance = |mttf_h: f64| unreliability(mttf_h, YEAR_H);
    let (write, dram) = (chance(tica.ssd.mttf_h), chance(tica.dram.mttf_h));
    let hybrid = |read_ssd: f64| unreliability_hybrid(ALPHA, write, read_ssd, dram);
    let cost = |host: &Host, levels: u64| {
        let ssd: u64 = 1_000_000_000_000;
        let dram = (ssd as f64 * DRAM_OF_SSD) as u64;
        Some(host.cost_usd(dram, ssd, levels * ssd).total)
    };
    found
        .say("tica-t1-tica", hybrid(chance(tica.read_ssd().mttf_h)))
        .otherwise("RO-SSD with the MTTF of the C-SSD", hybrid(chance(C_SSD_MTTF_H)))
        .say("tica-t1-ucache", unreliability_pair(write))
        .otherwise("by Eq. 4 with two WO-SSDs", hybrid(write))
        .say("tica-t1-cost", less(cost(&tica, 1), cost(&ucache, 0)));
    let bars =
        Bars::new("Chance of loss within a year (Table 1)", Unit::Named("in a million"), ["TICA", "uCache"]);
    let millions = |chance: f64| Some(1e6 * chance);
    let printed = TABLE_1
        .claims
        .iter()
        .take(2)
        .map(|claim| claim.reported.numbers().first().and_then(|&one| millions(one)));
    let table = [hybrid(chance(tica.read_ssd().mttf_h)), unreliability_pair(write)];
    let derived = [hybrid(chance(C_SSD_MTTF_H)), hybrid(write)];
    let bars = bars.part("printed", printed).part("by Table 1", table.map(millions));
    found.draw(Chart::Bars(bars.part("by what is printed", derived.map(millions))));
    let bars = Bars::new(
        "Cost for a TB of each SSD and 100 GB of DRAM (section 6)",
        Unit::Dollars,
        ["TICA", "uCache"],
    );
    found.draw(Chart::Bars(bars.part("cost", [cost(&tica, 1), cost(&ucache, 0)])));
    found.note(
        "The printed chances do not follow from Table 1, by which TICA is the safer one: they follow when the RO-SSD has the \
         MTTF of the C-SSD and uCache is computed by TICA's Eq. 4. docs/hardware.md has the derivation",
    );
    found
}

/// Printed percentages of reads, in the order of the table.
const PRINTED_READS: [f64; 17] =
    [0.70, 0.61, 0.68, 0.71, 0.65, 0.24, 0.29, 0.64, 0.09, 0.57, 0.20, 0.18, 0.40, 0.94, 0.31, 0.22, 0.05];

/// Section 5.
pub(super) const TABLE_2: Experiment = Experiment {
    paper: Paper::Tica,
    figure: "T2",
    title: "workloads",
    ran: "Reads, writes and bytes of 17 workloads (Table 2)",
    here: &["Of the profiles, whose requests are those that the table counts"],
    claims: &[
        Claim::new(
            "tica-t2-reads",
            "workloads whose printed percentage of reads follows from the printed counts",
            Shown::Number,
            Reported::Value(17.0),
        )
        .source("Table 2")
        .same(Bound::AtLeast(12.0)),
        Claim::new(
            "tica-t2-made",
            "largest difference of the requests that were run from the counted share of reads",
            Shown::Percent,
            Reported::Value(0.0),
        )
        .source("Table 2")
        .same(Bound::Below(0.01)),
    ],
    jobs: || jobs_of(&[Kind::OneLevel]),
    measure: measure_table_2,
};

fn measure_table_2(results: &Results) -> Finding {
    let profiles: Vec<_> = TICA.iter().map(|workload| builtin(workload.vms[0]).ok().flatten()).collect();
    let counted = |at: usize| profiles[at].as_ref().map(|profile| profile.read_share);
    let follows = (0..TICA.len())
        .filter(|&at| counted(at).is_some_and(|share| (share - PRINTED_READS[at]).abs() <= 0.0101))
        .count();
    let run = |at: usize| {
        let total = &results.replay(&super::job(at, Kind::OneLevel)).total;
        Some(total.read_requests as f64 / total.counters.requests as f64)
    };
    let off = |at: usize| Some((run(at)? - counted(at)?).abs());
    let mut found = Finding::default();
    found.say("tica-t2-reads", follows as f64).say("tica-t2-made", most((0..TICA.len()).map(off)));
    found.note(
        "Mds_0, Prn_0, Prxy_0 and Hm_1 are printed with 31, 22, 5 and 94 % reads, and their counts give 11.9, 10.8, 3.1 and 95.3 %. What the \
         table calls Src1_2 has the requests of the MSR volume src1_0",
    );
    let bars = Bars::new("Share of reads (Table 2)", Unit::Ratio, TICA.iter().map(|workload| workload.name));
    let bars = bars.part("printed percentage", PRINTED_READS.map(Some));
    let bars = bars.part("printed counts", (0..TICA.len()).map(counted));
    found.draw(Chart::Bars(bars.part("run", (0..TICA.len()).map(run))));
    found
}
