//! `lode curve`.

use serde_json::Value;

use crate::common::*;

/// Hit ratio at so many blocks.
fn at(curve: &[(u64, f64)], blocks: u64) -> f64 {
    curve.iter().take_while(|point| point.0 <= blocks).last().expect("a point").1
}

#[test]
fn every_metric_has_a_table_and_numbers_that_fit() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let mut best = Vec::new();
    for (metric, policy) in [("trd", ""), ("urd", ""), ("pod", "wb"), ("pod", "ro"), ("pod", "wbwo")] {
        let policy_arguments = if policy.is_empty() { vec![] } else { vec!["--policy", policy] };
        let arguments =
            [&["curve", &trace, "--sample", "exact", "--metric", metric][..], &policy_arguments].concat();
        let (table, errors) = both(&arguments);
        assert_eq!(errors, "");
        let what = format!("{metric} {policy}");
        assert!(table.contains(&format!("{}, exact, blocks of 4 KiB", what.trim_end())), "{table}");
        let report = json(&arguments);
        assert_eq!(report["metric"], metric);
        assert_eq!(report["policy"], if policy.is_empty() { Value::Null } else { policy.into() });
        let vms = list(&report["vms"]);
        assert_eq!((vms.len(), &vms[0]["name"], &vms[1]["name"]), (2, &"web_0".into(), &"db_0".into()));
        let mut sum = 0.0;
        for vm in vms {
            assert!(table.contains(&format!(" {} ", vm["name"].as_str().expect("text"))), "{table}");
            let curve = points(&vm["curve"]);
            assert_curve(&curve);
            let blocks = whole(&vm["blocks"]);
            assert_eq!(whole(&vm["max_distance"]) + 1, blocks);
            assert_eq!(curve.last().expect("a point").0, blocks, "no size beyond is worth a point");
            assert!(list(&vm["standard_error"]).iter().all(|error| real(error) == 0.0));
            assert!(whole(&vm["reads"]) < whole(&vm["accesses"]) && whole(&vm["requests"]) == 1500);
            assert!(whole(&vm["distinct_blocks"]) <= 900 + 1);
            let hits = curve.last().expect("a point").1 * real(&vm["accesses"]);
            assert!(metric == "trd" || hits <= real(&vm["reads"]) + 1e-6, "only reads hit");
            sum += hits;
        }
        best.push(sum.round());
    }
    // Of what is accessed again, reads are a part; each write policy serves a part of them.
    assert!(best[0] > best[1] && best[1] == best[2] && best[3] < best[2] && best[4] < best[2], "{best:?}");
}

#[test]
fn samples_are_close_and_say_how_far_off_they_may_be() {
    let folder = Folder::new();
    let trace = folder.file("one.csv", msr_csv(&[Guest { name: "m", blocks: 30_000, reads: 70 }], 80_000));
    let of = |sample: &str| {
        let report = json(&["curve", &trace, "--sample", sample, "--points", "4000000000"]);
        assert_eq!(report["method"], sample);
        report["vms"][0].clone()
    };
    let exact = points(&of("exact")["curve"]);
    let needed = exact.last().expect("a point").0;
    for (sample, most) in [("rate=0.2", 0.05), ("size=2000", 0.05), ("aet", 0.05), ("counter-stacks", 0.05)] {
        let vm = of(sample);
        let curve = points(&vm["curve"]);
        assert_curve(&curve);
        let sizes = (1..=100).map(|part| needed * part / 100);
        let error = sizes.map(|size| (at(&curve, size) - at(&exact, size)).abs()).sum::<f64>() / 100.0;
        assert!(error < most, "{sample}: {error}");
        if sample.contains('=') {
            assert!(real(&vm["rate"]) < 0.7, "{sample}");
            assert!(list(&vm["standard_error"]).iter().any(|error| real(error) > 0.0), "{sample}");
        }
    }
}

#[test]
fn little_memory_makes_a_sample_and_says_so() {
    let folder = Folder::new();
    let guest = [Guest { name: "m", blocks: 60_000, reads: 70 }];
    let trace = folder.file("large.csv", msr_csv(&guest, 140_000));
    let arguments = ["curve", &trace, "--memory", "512KiB"];
    let (table, errors) = both(&arguments);
    assert!(table.contains("Not all blocks were followed, to keep within --memory"), "{table}");
    let said = errors.lines().filter(|line| line.starts_with("lode: sampling 1 block in ")).count();
    assert!(said == 1 && errors.contains(" to stay within 512 KiB"), "{errors}");
    let refused = bad(&["curve", &trace, "--memory", "1"], 1);
    assert!(refused.contains("The tables of 1 VM need") && refused.contains("with --memory"), "{refused}");
    let report = json(&arguments);
    assert!(whole(&report["shrinks"]) > 0 && real(&report["vms"][0]["rate"]) < 1.0);
    // A plan takes three tables, one for each kind of cache.
    let plan = ["size", &trace, "--memory", "1MiB", "--dram", "16MiB", "--ssd", "64MiB", "--no-replay"];
    let (table, errors) = both(&plan);
    assert!(errors.contains("is not replayed"), "{errors}");
    assert!(table.contains("Not all blocks were followed, to keep within --memory"), "{table}");
    let plan = json(&plan);
    assert!(whole(&plan["shrinks"]) > 0 && real(&plan["vms"][0]["rate"]) < 1.0);
}

#[test]
fn a_rate_that_leaves_too_few_blocks_is_raised_and_the_table_says_so() {
    let folder = Folder::new();
    let trace = folder.file("one.csv", msr_csv(&[Guest { name: "m", blocks: 60_000, reads: 70 }], 60_000));
    let arguments = ["curve", &trace, "--sample", "rate=0.001"];
    let table = good(&arguments);
    assert!(table.contains("Rate 0.001 asked; 0."), "{table}");
    assert!(table.contains(" used: fewer than 8192 blocks would be followed."), "{table}");
    let rate = real(&json(&arguments)["vms"][0]["rate"]);
    assert!(rate > 0.1 && rate < 1.0, "{rate}");
    let tiny = good(&["curve", &trace, "--sample", "rate=1e-300"]);
    assert!(tiny.contains(", rate=1e-300, ") && tiny.contains("Rate 1e-300 asked; 0."), "{tiny}");
    assert!(!tiny.contains("00000000"), "{tiny}");
}

#[test]
fn parts_of_what_is_needed_are_those_of_the_whole_curve() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let of = |points: &str| json(&["curve", &trace, "--points", points]);
    let (all, few) = (of("4000000000"), of("2"));
    for (all, few) in list(&all["vms"]).iter().zip(list(&few["vms"])) {
        assert_eq!(list(&few["curve"]).len(), 2, "no cache, and all that is needed");
        assert_eq!(all["parts"], few["parts"]);
        let curve = points(&all["curve"]);
        for part in list(&all["parts"]) {
            let blocks = (whole(&all["blocks"]) as f64 * real(&part["share"])) as u64;
            assert_eq!(real(&part["hit_ratio"]), at(&curve, blocks));
        }
        assert!(list(&all["parts"]).iter().all(|part| real(&part["hit_ratio"]) > 0.0));
    }
    let table = |points: &str| good(&["curve", &trace, "--points", points]);
    assert_eq!(without_command(&table("2")), without_command(&table("1000")));
    let simulated = bad(&["curve", &trace, "--scheme", "arc", "--points", "5"], 2);
    assert!(simulated.contains("--points"), "{simulated}");
}

/// Exact is what followed every block, and nothing else, whatever was asked for.
#[test]
fn exact_is_said_of_what_is_exact() {
    let folder = Folder::new();
    let guest = [Guest { name: "m", blocks: 60_000, reads: 70 }];
    let large = folder.file("large.csv", msr_csv(&guest, 140_000));
    let small = two_vms(&folder);
    let page = folder.path("page.html");
    let levels = ["--dram", "1MiB", "--ssd", "1MiB", "--no-replay"];
    let size = [&["size"][..], &levels].concat();
    for (command, before, memory) in [(&["curve"][..], "trd,", "512KiB"), (&size, "urves", "1MiB")] {
        let sampled = [command, &[&large, "--memory", memory, "--sample", "exact"]].concat();
        let report = json(&sampled);
        let rate = real(&report["vms"][0]["rate"]);
        assert!(rate < 1.0);
        let method = format!("rate={rate}");
        assert_eq!(report["method"], method.as_str());
        let table = good(&[&sampled[..], &["--html", &page]].concat());
        let html = std::fs::read_to_string(&page).expect("a page");
        for text in [table, html] {
            assert!(text.contains(&method), "{text}");
            assert!(
                !text.contains(&format!("{before} exact")) && !text.contains(&format!("{before}: exact"))
            );
        }
        // Asked for a sample, and small enough to follow all.
        for sample in ["size=8192", "rate=0.5"] {
            let all = [command, &[&small, "--sample", sample, "--html", &page]].concat();
            assert_eq!(json(&all)["method"], "exact");
            let html = std::fs::read_to_string(&page).expect("a page");
            assert!(!without_command(&html).contains(sample), "{html}");
        }
    }
    let sampled = [&["size"][..], &levels, &[&small, "--sample", "size=64"]].concat();
    let (table, plan) = (good(&sampled), json(&sampled));
    assert!(table.contains("Curves: size=64") && table.contains("error %"), "{table}");
    for vm in list(&plan["vms"]) {
        assert!(real(&vm["rate"]) < 1.0 && real(&vm["standard_error"]) > 0.0, "{vm}");
    }
    let exact = json(&[&["size"][..], &levels, &[&small]].concat());
    assert!(list(&exact["vms"]).iter().all(|vm| real(&vm["standard_error"]) == 0.0));
}

/// A thousand million distinct blocks in few requests.
#[test]
fn huge_requests_are_sampled_in_seconds() {
    let folder = Folder::new();
    let bytes = (1_u64 << 32) - BLOCK;
    let line = |number: u64| format!("{},host,0,Read,{},{bytes},1\n", 100 + number, number << 32);
    // A sixteenth of it, with a sixteenth of the memory: this is the unoptimised program.
    let trace = folder.file("huge.csv", (0..60).map(line).collect::<String>());
    for threads in ["1", "2"] {
        let (out, errors) = both(&["curve", &trace, "--memory", "128MiB", "--json", "--threads", threads]);
        assert!(errors.contains("to stay within 128 MiB"), "{errors}");
        let report: Value = serde_json::from_str(&out).expect("JSON");
        let distinct = real(&report["vms"][0]["distinct_blocks"]) / (60.0 * (bytes / BLOCK) as f64);
        assert!((distinct - 1.0).abs() < 0.001, "{distinct} of the distinct blocks");
    }
}

#[test]
fn intervals_are_of_requests_or_of_time() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let whole_run = json(&["curve", &trace]);
    // Requests are a minute apart.
    for (interval, count) in [("500", 6), ("30000s", 6), ("3000min", 1), ("30h", 2)] {
        let report = json(&["curve", &trace, "--interval", interval]);
        for (vm, plain) in list(&report["vms"]).iter().zip(list(&whole_run["vms"])) {
            let intervals = list(&vm["intervals"]);
            assert_eq!(intervals.len(), count, "{interval}");
            let sum: u64 = intervals.iter().map(|interval| whole(&interval["accesses"])).sum();
            assert_eq!(sum, whole(&vm["accesses"]));
            assert!(intervals.iter().all(|i| whole(&i["working_set_blocks"]) <= whole(&i["accesses"])));
            assert_eq!(vm["curve"], plain["curve"], "the whole is as without intervals");
        }
    }
}

#[test]
fn lengths_of_intervals_have_a_range_that_is_named() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    for interval in ["99999999999h", "213504d", "99999999999999999999"] {
        let message = bad(&["curve", &trace, "--interval", interval], 2);
        assert!(message.contains("up to 213503d, or 18446744073709551615 requests"), "{interval}: {message}");
    }
    for interval in ["0", "0s", "10y", "h"] {
        let message = bad(&["curve", &trace, "--interval", interval], 2);
        assert!(message.contains("a time") && message.contains("such as 10min"), "{interval}: {message}");
    }
    for interval in ["213503d", "18446744073709551615"] {
        assert_eq!(list(&json(&["curve", &trace, "--interval", interval])["vms"][0]["intervals"]).len(), 1);
    }
}

/// What the help says of the models is what the program does.
#[test]
fn models_give_the_curves_that_their_help_names() {
    let help: Vec<String> = good(&["curve", "--help"]).split_whitespace().map(str::to_owned).collect();
    let help = help.join(" ");
    assert!(
        help.contains("aet (a model; not for pod of ro or wbwo) or counter-stacks (a model, trd only)"),
        "{help}"
    );
    let folder = Folder::new();
    let trace = two_vms(&folder);
    for (curve, aet, stacks) in [
        (&["trd"][..], true, true),
        (&["urd"], true, false),
        (&["pod", "--policy", "wb"], true, false),
        (&["pod", "--policy", "ro"], false, false),
        (&["pod", "--policy", "wbwo"], false, false),
    ] {
        for (model, works) in [("aet", aet), ("counter-stacks", stacks)] {
            let arguments = [&["curve", &trace, "--sample", model, "--metric"], curve].concat();
            let code = lode(&arguments).status.code();
            assert_eq!(code, Some(if works { 0 } else { 2 }), "{arguments:?}");
        }
    }
}

#[test]
fn schemes_are_simulated() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    for scheme in ["lru", "arc", "etica:mode=npe"] {
        let table = good(&["curve", &trace, "--scheme", scheme]);
        assert!(table.contains("web_0") && table.contains("db_0"), "{table}");
        let arguments = ["curve", &trace, "--scheme", scheme, "--sizes", "256KiB,1MiB,64MiB"];
        let report = json(&arguments);
        let name = scheme.split(':').next();
        assert_eq!((&report["metric"], report["policy"].as_str()), (&"scheme".into(), name));
        for vm in list(&report["vms"]) {
            assert_curve(&points(&vm["curve"]));
            assert_eq!(list(&vm["ssd_writes_per_access"]).len(), list(&vm["curve"]).len());
            assert!(vm["blocks"].is_null() && vm["max_distance"].is_null() && vm["standard_error"].is_null());
        }
    }
    // A least-recently-used cache has a curve without a simulation; it has no sets unless they are asked for.
    let curve_of = |scheme| json(&["curve", &trace, "--scheme", scheme, "--sizes", "1MiB"]);
    let simulated = curve_of("lru");
    assert_eq!(simulated["vms"], curve_of("lru:assoc=0")["vms"]);
    assert_ne!(simulated["vms"], curve_of("lru:assoc=8")["vms"]);
    let measured = json(&["curve", &trace]);
    for (simulated, measured) in list(&simulated["vms"]).iter().zip(list(&measured["vms"])) {
        let expected = at(&points(&measured["curve"]), (1 << 20) / BLOCK);
        assert!((points(&simulated["curve"])[1].1 - expected).abs() < 1e-9);
    }
}

#[test]
fn any_number_of_threads_measures_a_trace_alike() {
    traces("cloudphysics-2h").for_each(|trace| assert_measured_alike(&trace));
}

fn assert_measured_alike(trace: &str) {
    let run = |threads: &str| {
        good(&["curve", trace, "--metric", "pod", "--policy", "ro", "--threads", threads, "--json"])
    };
    let one = run("1");
    assert_eq!(one, run("2"));
    let report: Value = serde_json::from_str(&one).expect("JSON");
    let vm = &report["vms"][0];
    assert_eq!(vm["requests"], 113_872);
    assert_curve(&points(&vm["curve"]));
    assert!(list(&vm["curve"]).len() <= 1001);
    let exact = points(&vm["curve"]);
    let sampled = json(&["curve", trace, "--metric", "pod", "--policy", "ro", "--sample", "rate=0.1"]);
    let sampled = points(&sampled["vms"][0]["curve"]);
    let sizes = (1..=50).map(|part| whole(&vm["blocks"]) * part / 50);
    let error = sizes.map(|size| (at(&sampled, size) - at(&exact, size)).abs()).sum::<f64>() / 50.0;
    assert!(error < 0.02, "{error}");
}

#[test]
fn questions_that_do_not_fit_are_refused() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    for (more, code, expected) in [
        (&["--metric", "pod"][..], 2, "add --policy ro, wbwo or wb"),
        (&["--policy", "ro"], 2, "only goes with --metric pod"),
        (&["--metric", "urd", "--policy", "wb"], 2, "only goes with --metric pod"),
        (&["--metric", "pod", "--policy", "none"], 2, "possible values: ro, wbwo, wb"),
        (&["--points", "1"], 2, "not in 2..="),
        (&["--sample", "rate=0"], 2, "above 0 and at most 1"),
        (&["--sample", "rate=1.5"], 2, "above 0 and at most 1"),
        (&["--sample", "rate=NaN"], 2, "above 0 and at most 1"),
        (&["--sample", "size=0"], 2, "from 64 to 4294967295"),
        (&["--sample", "size=63"], 2, "from 64 to 4294967295"),
        (&["--sample", "some"], 2, "Write exact, rate=R, size=N, aet or counter-stacks"),
        (&["--interval", "0"], 2, "above 0"),
        (&["--interval", "99999999999d"], 2, "Intervals are of up to 213503d"),
        (&["--block", "3KiB"], 2, "a power of two from 4096 to 65536"),
        (&["--threads", "5000"], 2, "0..=1024"),
        (&["--scheme", "etica", "--dram-share", "2"], 2, "from 0 to 1"),
        (&["--scheme", "etica", "--sample", "aet"], 2, "exact or rate=R"),
        (&["--scheme", "etica", "--sizes", "2MiB,1MiB"], 2, "each larger than the one before"),
        (&["--scheme", "etica", "--sizes", "1"], 2, "from 1 to 1073741824 blocks"),
        (&["--scheme", "rpac", "--sample", "rate=0.1"], 2, "without --sample, or set region_blocks=1"),
        (&["--scheme", "opencas-like", "--sample", "rate=0.1"], 2, "or set seq_policy=never"),
        (&["--scheme", "etica:trigger=time"], 2, "no times"),
        (&["--scheme", "l2arc-like", "--dram-share", "0"], 2, "l2arc-like needs DRAM"),
        (&["--scheme", "none"], 2, "`lode schemes` lists them"),
        (&["--scheme", "etica", "--metric", "trd"], 2, "cannot be used with"),
        (&["--dram-share", "0.5"], 2, "--scheme"),
        (&["--metric", "pod", "--policy", "ro", "--sample", "counter-stacks"], 2, "choose another method"),
    ] {
        let message = bad(&[&["curve", &trace][..], more].concat(), code);
        assert!(message.contains(expected), "{more:?}: {message}");
    }
}
