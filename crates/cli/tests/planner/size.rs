//! `lode size`.

use serde_json::Value;

use crate::common::*;

fn size<'a>(trace: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["size", trace, "--dram", "512KiB", "--ssd", "2MiB", "--no-replay"][..], more].concat()
}

fn assert_outcome(outcome: &Value) {
    let hits = whole(&outcome["dram_hits"]) + whole(&outcome["ssd_hits"]);
    let reads = whole(&outcome["block_reads"]);
    assert!(hits <= reads, "{outcome}");
    assert!((real(&outcome["read_hit_ratio"]) - hits as f64 / reads as f64).abs() < 1e-9);
    assert!(real(&outcome["mean_latency_us"]) > 0.0);
}

fn sum(list: &[Value], value: impl Fn(&Value) -> u64) -> u64 {
    list.iter().map(value).sum()
}

/// That every number of a plan agrees with the others.
fn assert_plan(plan: &Value) {
    let vms = list(&plan["vms"]);
    assert_outcome(&plan["total"]);
    for key in ["block_reads", "block_writes", "dram_hits", "ssd_hits"] {
        assert_eq!(sum(vms, |vm| whole(&vm[key])), whole(&plan["total"][key]), "{key}");
        let none = whole(&plan["without_cache"][key]);
        assert_eq!(none, if key.ends_with("hits") { 0 } else { whole(&plan["total"][key]) });
    }
    for level in ["dram", "ssd"] {
        let key = format!("{level}_blocks");
        let (of_level, totals) = (&plan[level], &plan["totals"][level]);
        let given = sum(vms, |vm| whole(&vm["share"][&key]));
        assert_eq!(given, whole(&of_level["given_blocks"]));
        assert!(given <= whole(&of_level["capacity_blocks"]));
        assert_eq!(sum(vms, |vm| whole(&vm["demand"][&key])), whole(&of_level["demand_blocks"]));
        let sizes: Vec<u64> = list(&totals["sizes_bytes"]).iter().map(whole).collect();
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "{sizes:?}");
        let asked = whole(&totals["asked"]) as usize;
        assert_eq!(sizes[asked], whole(&plan["levels"][format!("{level}_bytes")]));
        let shares = list(&totals["shares_blocks"]);
        assert_eq!(shares.len(), sizes.len());
        for (at, vm) in vms.iter().enumerate() {
            assert_eq!(shares[asked][at], vm["share"][&key], "{level}: the plan is in its totals");
        }
        for (size, shares) in sizes.iter().zip(shares) {
            assert!(sum(list(shares), whole) * BLOCK <= *size, "{level}: {shares} of {size}");
        }
    }
    let asked = |level: &str| whole(&plan["totals"][level]["asked"]) as usize;
    assert_eq!(plan["totals"]["outcomes"][asked("dram")][asked("ssd")], plan["total"]);
    assert_eq!(
        whole(&plan["totals"]["ssd_writes"][asked("ssd")]) * BLOCK,
        whole(&plan["wear"]["written_bytes"])
    );
    for row in list(&plan["totals"]["outcomes"]) {
        assert_eq!(list(row).len(), list(&plan["totals"]["ssd"]["sizes_bytes"]).len());
        list(row).iter().for_each(assert_outcome);
    }
    for vm in vms {
        assert_curve(&points(&vm["dram_curve"]));
        assert_curve(&points(&vm["ssd_curve"]));
    }
}

#[test]
fn a_plan_agrees_with_itself_whatever_it_maximises() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let mut hits = Vec::new();
    for (objective, more) in [
        ("sum-hit-ratio", &[][..]),
        ("hits", &[]),
        ("latency", &[]),
        ("ppc-total", &["--floor", "0.1"]),
        ("ppc-literal", &["--least", "64KiB"]),
        ("maxmin", &[]),
    ] {
        let plan = json(&size(&trace, &[&["--objective", objective], more].concat()));
        assert_eq!(plan["objective"], objective.replace('-', "_"));
        assert_plan(&plan);
        assert!(plan["front"].is_null() && list(&plan["replayed"]).is_empty());
        hits.push(whole(&plan["total"]["dram_hits"]));
    }
    assert!(hits[1] == *hits.iter().max().expect("hits"), "of all objectives, hits has most hits: {hits:?}");
    assert!(hits[4] < hits[1], "the literal formula starves VMs");
}

#[test]
fn every_solver_says_its_name_and_the_exact_one_is_not_beaten() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let mut hits = Vec::new();
    for solver in ["exact", "greedy", "talus", "auto"] {
        let plan = json(&size(&trace, &["--solver", solver, "--objective", "hits"]));
        assert_plan(&plan);
        let name = plan["dram"]["solver"].as_str().expect("text");
        assert!(name == solver || solver == "auto" && name == "exact", "{name} for {solver}");
        assert_eq!(plan["vms"][0]["split"].is_object(), solver == "talus");
        if solver == "talus" {
            let split = &plan["vms"][0]["split"]["dram"];
            assert!(whole(&split["smaller_blocks"]) <= whole(&split["larger_blocks"]));
            assert!((0.0..=1.0).contains(&real(&split["smaller_share"])));
        }
        hits.push(whole(&plan["total"]["dram_hits"]));
    }
    assert!(hits[1] <= hits[0] && hits[0] == hits[3], "{hits:?}");
    // Where there is enough for all there is nothing to solve.
    let plan = json(&["size", &trace, "--dram", "64MiB", "--ssd", "64MiB", "--no-replay"]);
    assert_eq!((&plan["dram"]["solver"], &plan["ssd"]["solver"]), (&"granted".into(), &"granted".into()));
    assert_plan(&plan);
}

#[test]
fn rules_bind() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let share = |rules: &[&str], vm: usize, level: &str| {
        let rules: Vec<&str> = rules.iter().flat_map(|rule| ["--vm", rule]).collect();
        let plan = json(&size(&trace, &rules));
        assert_plan(&plan);
        whole(&plan["vms"][vm]["share"][level]) * BLOCK
    };
    let (web, db) = (0, 1);
    assert!(share(&[], db, "dram_blocks") < 256 << 10);
    assert!(share(&["db_0:min-dram=256KiB"], db, "dram_blocks") >= 256 << 10);
    assert!(share(&["db*:min-dram=512KiB"], db, "dram_blocks") == 512 << 10, "a guarantee of everything");
    assert!(share(&["web_0:max-ssd=128KiB"], web, "ssd_blocks") <= 128 << 10);
    assert_eq!(share(&["*:max-dram=0", "db_0:max-dram=1MiB"], web, "dram_blocks"), 0);
    assert!(share(&["*:max-dram=0", "db_0:max-dram=1MiB"], db, "dram_blocks") > 256 << 10);
    assert!(share(&["db_0:weight=100"], db, "dram_blocks") > share(&[], db, "dram_blocks"));
    for (rule, code, expected) in [
        ("none:weight=2", 2, "No VM of these traces is called none"),
        ("db_0:weight=0", 2, "A weight is a number from 0.000001 to 1000000, and this is '0'"),
        ("*:weight=1e308", 2, "from 0.000001 to 1000000"),
        ("db_0:weight=1.1e6", 2, "from 0.000001 to 1000000"),
        ("db_0:weight=9e-7", 2, "from 0.000001 to 1000000"),
        ("db_0:weight=NaN", 2, "from 0.000001 to 1000000"),
        ("db_0:colour=red", 2, "the keys are weight, min-dram, max-dram, min-ssd, max-ssd"),
        ("db_0", 2, "Write NAME:KEY=VALUE"),
        ("db_0:min-dram", 2, "is not KEY=VALUE"),
        ("db_0:min-dram=4MiB", 2, "VMs are guaranteed 4 MiB of dram, and there are 512 KiB"),
        ("db_0:min-ssd=1MiB,max-ssd=512KiB", 2, "db_0, ssd: the guaranteed size is above the largest size"),
    ] {
        let message = bad(&size(&trace, &["--vm", rule]), code);
        assert!(message.contains(expected), "{rule}: {message}");
    }
}

#[test]
fn a_budget_buys_what_no_other_pair_beats() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    for (budget, devices) in [("0.01usd", "default"), ("500", "nvme-hdd")] {
        let arguments = ["size", &trace, "--budget", budget, "--devices", devices, "--no-replay"];
        let plan = json(&arguments);
        assert_plan(&plan);
        assert_eq!(plan["devices"], devices);
        let most: f64 = budget.trim_end_matches("usd").parse().expect("a number");
        let front = list(&plan["front"]);
        // Years of which ten times as many, or more, are rated are as good as none; more than are rated are no better.
        let measures = |point: &Value| {
            let years = &point["wear"]["life_years"];
            let wear = years.as_f64().map_or(0.0, |years| real(&plan["ssd_rating"]["years"]) / years);
            let wear = if wear > 0.0 { wear.clamp(1.0, 10.0) } else { 0.0 };
            [real(&point["cost_usd"]), real(&point["mean_latency_us"]), wear]
        };
        for (at, point) in front.iter().enumerate() {
            assert_outcome(point);
            let ours = measures(point);
            assert!(ours[0] <= most && (at == 0 || measures(&front[at - 1])[0] <= ours[0]), "{ours:?}");
            for (other, theirs) in front.iter().map(measures).enumerate() {
                let beaten = other != at && theirs.iter().zip(ours).all(|(theirs, ours)| *theirs <= ours);
                assert!(!beaten, "{theirs:?} beats {ours:?}");
            }
        }
        assert!(front.len() > 2, "{}", front.len());
        let best = front.iter().find(|point| point["levels"] == plan["levels"]).expect("one of the front");
        assert_eq!(
            (&best["cost_usd"], &best["read_hit_ratio"]),
            (&plan["cost_usd"], &plan["total"]["read_hit_ratio"])
        );
        let least = front.iter().map(|point| measures(point)[1]).fold(f64::INFINITY, f64::min);
        assert!(measures(best)[1] <= 1.01 * least);
        let [dram_spare, ssd_spare] = ["dram", "ssd"]
            .map(|level| whole(&plan[level]["capacity_blocks"]) - whole(&plan[level]["given_blocks"]));
        assert_eq!(dram_spare, 0, "no more is bought");
        let for_life =
            list(&plan["advice"]).iter().any(|text| text.to_string().contains("bought for its life"));
        assert_eq!(ssd_spare > 0, for_life);
        let table = good(&arguments);
        assert!(table.contains("No other pair of sizes that was compared beats these"), "{table}");
    }
}

#[test]
fn plans_are_replayed_unless_told_otherwise() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let arguments = ["size", &trace, "--dram", "512KiB", "--ssd", "2MiB"];
    let (table, errors) = both(&arguments);
    assert_eq!(errors, "");
    for expected in [
        "Replayed with auto: ",
        "Replayed with etica mode=full-hybrid: ",
        "Replayed with etica mode=npe: ",
        "The levels cost",
        " Tables: at most ",
    ] {
        assert!(table.contains(expected), "{table}");
    }
    let run = |threads: &str| json(&[&arguments[..], &["--threads", threads]].concat());
    let plan = run("1");
    assert_eq!(plan, run("2"));
    assert_plan(&plan);
    let modes: Vec<_> = list(&plan["replayed"]).iter().map(|replayed| replayed["mode"].clone()).collect();
    assert_eq!(modes, [Value::Null, "full-hybrid".into(), "npe".into()]);
    let schemes: Vec<_> = list(&plan["replayed"]).iter().map(|replayed| replayed["scheme"].clone()).collect();
    assert_eq!(schemes, ["auto", "etica", "etica"]);
    for replayed in list(&plan["replayed"]) {
        let difference = real(&replayed["read_hit_ratio"]) - real(&plan["total"]["read_hit_ratio"]);
        assert!(difference.abs() < 0.1, "curves and replays differ by {difference}");
        let written = whole(&replayed["wear"]["written_bytes"]);
        assert!(
            written > 0
                && (replayed["mode"] != "full-hybrid" || written <= whole(&plan["wear"]["written_bytes"]))
        );
        assert!(real(&replayed["wear"]["life_years"]) > 0.0);
    }
    let (table, errors) = both(&size(&trace, &[]));
    assert!(errors.contains("the plan is not replayed, so that wear is an upper bound"), "{errors}");
    assert!(table.contains("At most ") && !table.contains("Replayed"), "{table}");
}

/// Advice is checked against a plan with the sizes that it speaks of.
#[test]
fn advice_is_true() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let hits = |plan: &Value, vm: usize| {
        let vm = &plan["vms"][vm];
        (whole(&vm["dram_hits"]) + whole(&vm["ssd_hits"])) as f64 / whole(&vm["block_reads"]) as f64
    };
    // With others the SSD behind that DRAM would be divided anew.
    let plan = json(&size(&trace, &["--scheme", "etica"]));
    let advice: Vec<&str> = list(&plan["advice"]).iter().filter_map(Value::as_str).collect();
    let gain = advice.iter().find(|line| line.starts_with("web_0 gains ") && line.ends_with("more DRAM."));
    let words: Vec<&str> = gain.expect("web_0 lacks DRAM").split(' ').collect();
    let (percent, more_kib) =
        (words[2].parse::<f64>().expect("a number"), words[7].parse::<u64>().expect("KiB"));
    assert_eq!((words[4], words[8]), ("read", "KiB"));
    let share = |vm: usize| whole(&plan["vms"][vm]["share"]["dram_blocks"]) * BLOCK;
    let (web, db) = (share(0) + (more_kib << 10), share(1));
    let total = (web + db).to_string();
    let rules = [format!("web_0:min-dram={web}"), format!("db_0:min-dram={db},max-dram={db}")];
    let larger = json(&[
        "size",
        &trace,
        "--dram",
        &total,
        "--ssd",
        "2MiB",
        "--no-replay",
        "--scheme",
        "etica",
        "--vm",
        &rules[0],
        "--vm",
        &rules[1],
    ]);
    assert_eq!(whole(&larger["vms"][0]["share"]["dram_blocks"]) * BLOCK, web);
    let found = 100.0 * (hits(&larger, 0) - hits(&plan, 0));
    assert!((found - percent).abs() < 0.06, "{found} for {percent}");
    // Nothing that is nothing is offered.
    for line in advice {
        assert!(!line.contains(" 0.0 %"), "{line}");
    }
}

#[test]
fn any_number_of_threads_sizes_a_trace_alike() {
    traces("cloudphysics-2h").for_each(|trace| assert_sized_alike(&trace));
}

fn assert_sized_alike(trace: &str) {
    let run = |threads: &str| {
        good(&[
            "size",
            trace,
            "--dram",
            "32MiB",
            "--ssd",
            "256MiB",
            "--no-replay",
            "--threads",
            threads,
            "--json",
        ])
    };
    let one = run("1");
    assert_eq!(one, run("2"));
    let plan: Value = serde_json::from_str(&one).expect("JSON");
    assert_plan(&plan);
    assert!(list(&plan["vms"][0]["dram_curve"]).len() <= 200);
    let sampled =
        json(&["size", trace, "--dram", "32MiB", "--ssd", "256MiB", "--no-replay", "--sample", "rate=0.1"]);
    let ratio = |plan: &Value| real(&plan["total"]["read_hit_ratio"]);
    assert!((ratio(&plan) - ratio(&sampled)).abs() < 0.05, "{} {}", ratio(&plan), ratio(&sampled));
}

#[test]
fn a_plan_is_shown_where_its_replay_does_not_fit_the_memory() {
    let folder = Folder::new();
    let trace = folder.file("long.csv", msr_csv(&TWO, 20_000));
    let arguments = [
        "size", &trace, "--dram", "1MiB", "--ssd", "2MiB", "--sample", "size=64", "--scheme", "etica",
        "--memory",
    ];
    let (text, errors) = both(&[&arguments[..], &["128KiB"]].concat());
    assert!(text.contains("web_0") && text.contains("At most ") && !text.contains("Replayed"), "{text}");
    assert!(
        errors.contains("the plan is not replayed, so that wear is an upper bound: that may take"),
        "{errors}"
    );
    let plan = json(&[&arguments[..], &["128KiB"]].concat());
    assert!(errors.contains(plan["not_replayed"].as_str().expect("a reason")), "{errors}");
    assert!(list(&plan["replayed"]).is_empty() && plan["mode"].is_null());
    // What the message says to do is enough.
    let enough =
        errors.split("; --memory ").nth(1).and_then(|rest| rest.split(' ').next()).expect("an amount");
    let (text, errors) = both(&[&arguments[..], &[enough]].concat());
    assert_eq!(errors, "");
    // First the plan, then what it led to, then what there is to do.
    let places: Vec<usize> =
        ["web_0", "The levels cost", "Recommended: ", "Replayed with etica", "The same money", "\n- "]
            .map(|part| text.find(part).unwrap_or_else(|| panic!("no {part}: {text}")))
            .to_vec();
    assert!(places.is_sorted(), "{places:?}: {text}");
    assert!(json(&[&arguments[..], &[enough]].concat())["not_replayed"].is_null());
}

#[test]
fn a_share_that_is_too_large_to_be_replayed_is_still_planned() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let arguments = ["size", &trace, "--ssd", "8TiB", "--vm", "db_0:min-ssd=5TiB"];
    let (text, errors) = both(&arguments);
    assert!(text.contains("5 TiB"), "{text}");
    assert!(errors.contains("the plan is not replayed") && errors.contains("make blocks larger"), "{errors}");
}

#[test]
fn money_that_buys_nothing_is_said() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let budget = |usd: &'static str| ["size", &trace, "--budget", usd, "--no-replay"];
    let said =
        |plan: &Value| list(&plan["advice"]).iter().any(|line| line.to_string().contains("usd buy nothing"));
    let plan = json(&budget("0.00001usd"));
    assert_eq!(plan["levels"], serde_json::json!({"dram_bytes": 0, "ssd_bytes": 0}));
    assert!(said(&plan), "{}", plan["advice"]);
    assert!(
        good(&budget("0.00001usd")).contains("- 0.00001 usd buy nothing: the smallest share, 64 KiB, costs")
    );
    assert!(!said(&json(&budget("1usd"))));
}

/// Of several traces each VM says which it is of; rules may leave that out.
#[test]
fn vms_of_several_traces_carry_their_traces_names() {
    let folder = Folder::new();
    let traces = ["one.csv", "two.csv"].map(|name| folder.file(name, msr_csv(&TWO, 500)));
    let arguments = |rule| ["size", &traces[0], &traces[1], "--dram", "512KiB", "--no-replay", "--vm", rule];
    for (rule, most) in [("web_0:max-dram=64KiB", [true, true]), ("two:web_0:max-dram=64KiB", [false, true])]
    {
        let plan = json(&arguments(rule));
        let names: Vec<&str> = list(&plan["vms"]).iter().filter_map(|vm| vm["name"].as_str()).collect();
        assert_eq!(names, ["one:web_0", "two:web_0", "one:db_0", "two:db_0"]);
        let bound = [0, 1].map(|vm| whole(&plan["vms"][vm]["demand"]["dram_blocks"]) <= 16);
        assert_eq!(bound, most, "{rule}");
    }
    assert!(
        bad(&arguments("three:web_0:weight=2"), 2).contains("No VM of these traces is called three:web_0")
    );
}
