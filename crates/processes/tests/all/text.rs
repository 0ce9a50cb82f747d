//! Scripts as users write them: the paper's figure, and complaints with their lines.

use lode_policy::Settings;
use lode_policy::criticality::AdmissionPolicy;
use lode_processes::{
    CacheKind, MachineSettings, PostgresSettings, RedisSettings, RequestsError, RequestsReport, RunConfig,
    ScriptText, run_script,
};

use crate::options;

fn run(text: &str, policy: AdmissionPolicy) -> Result<(ScriptText, RequestsReport), String> {
    let script = ScriptText::read(text).map_err(|error| error.to_string())?;
    let mut settings = Settings::new("requests", &[MachineSettings::TABLE]);
    for (key, value, _) in &script.settings {
        settings.set(key, value).map_err(|error| error.to_string())?;
    }
    let config = RunConfig::new(options(policy), MachineSettings::of(&settings), CacheKind::Ssd);
    let config = RunConfig { cache_blocks: 16, warm_up_ns: 0, ..config };
    let report =
        run_script(script.script(), &config).map_err(|error: RequestsError| script.explain(&error))?;
    Ok((script, report))
}

fn complaint(text: &str) -> String {
    run(text, AdmissionPolicy::CpPiIoi).expect_err("a complaint")
}

#[test]
fn the_papers_figure_3_is_written_and_comes_out() {
    let figure = lode_testdata::vector("reqorient_fig3");
    let texts = [
        ("a", include_str!("../../../../docs/examples/figure-3a.requests")),
        ("b", include_str!("../../../../docs/examples/figure-3b.requests")),
        ("c", include_str!("../../../../docs/examples/figure-3c.requests")),
    ];
    for (part, text) in texts {
        for (key, policy) in [
            ("CP", AdmissionPolicy::Cp),
            ("CP+PI", AdmissionPolicy::CpPi),
            ("CP+PI+IOI", AdmissionPolicy::CpPiIoi),
        ] {
            let (script, report) = run(text, policy).unwrap();
            assert_eq!(script.processes()[0], "P1");
            let proceeds_ms = report.finished_ns[0].unwrap() as f64 / 1e6;
            let expected = figure["expected_P1_proceeds"][part][key].as_f64();
            assert_eq!(Some(proceeds_ms), expected, "{part} {key}");
        }
    }
}

#[test]
fn complaints_name_their_line() {
    for (text, line, says) in [
        ("process P\n  lock M\n", 2, "there is no lock 'M'"),
        ("process P\n\n  wait E\n", 3, "there is no event 'E'"),
        ("event E by Q\nprocess P\n  wait E\n", 1, "there is no process 'Q'"),
        ("lock L\nlock L\n", 2, "a lock 'L' already"),
        ("cpu 1ms\n", 1, "belongs to a process"),
        ("process P\n  cpu 1\n", 2, "is not a time"),
        ("process P\n  write x\n", 2, "is not a whole number"),
        ("process P\n  write 1 65\n", 2, "is not a whole number from 1 to 64"),
        ("process P\n  write 1 soon\n", 2, "says nothing of a write"),
        ("process P\n  append 1\n", 2, "there is no log"),
        ("process P\n  fly\n", 2, "is not a step"),
        ("process P\n  repeat 3\n  cpu 1ms\n", 2, "no 'end'"),
        ("process P\n  repeat 1000000\n  fsync\n  fsync\n  end\n", 5, "steps"),
        ("# nothing\n", 1, "there is no process"),
        ("process P\n  cpu 1ms\n  unlock L\n", 3, "there is no lock 'L'"),
        ("lock L\nprocess P\n  cpu 1ms\n  unlock L\n", 4, "cannot release a lock that it does not own"),
    ] {
        let found = complaint(text);
        assert!(found.starts_with(&format!("Line {line}: ")) && found.contains(says), "{text}: {found}");
    }
}

#[test]
fn a_cycle_of_waits_is_named_whole() {
    let text = "lock A\nlock B\nprocess P\n  lock A\n  cpu 1ms\n  lock B\nprocess Q\n  lock B\n  cpu 1ms\n  lock A\n\
                process R\n  cpu 5ms\n";
    let found = complaint(text);
    let cycle = "P waits for lock B in line 6; Q waits for lock A in line 10";
    assert!(found.contains(cycle) && !found.contains('R'), "{found}");
    let never = complaint("event E by Q\nprocess P\n  wait E\nprocess Q\n  cpu 1ms\n");
    assert!(never.starts_with("Nobody ends a wait: P waits for event E in line 3"), "{never}");
}

#[test]
fn repetitions_are_written_out() {
    let text =
        "log 1000 16\nprocess P critical\n  repeat 5\n  request begins\n  append 2\n  request ends\n  end\n";
    let (_, report) = run(text, AdmissionPolicy::Cp).unwrap();
    assert_eq!((report.requests, report.writes.cached, report.writes.submitted_blocks), (5, 5, 10));
}

#[test]
fn every_setting_is_on_its_page() {
    let page = include_str!("../../../../docs/schemes/request-oriented.md");
    for table in [MachineSettings::TABLE, PostgresSettings::TABLE, RedisSettings::TABLE] {
        for info in table {
            let row = format!("| `{}` | {} | ", info.key, info.default);
            // Two models may have settings of one name.
            let mut rows = page.lines().filter(|line| line.starts_with(&row));
            assert!(
                rows.any(|line| line.contains(info.about) && line.contains(info.source)),
                "docs/schemes/request-oriented.md has no row '{row}' of '{}' and '{}'",
                info.about,
                info.source
            );
        }
    }
}
