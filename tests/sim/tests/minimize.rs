//! A host that fails is said with how little of it fails as well. The fault is an SSD that says of flushes that they have ended and does
//! nothing: no guarantee holds against that, and a simulator that does not see it would see nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lode_sim::{Changing, Crash, PartOfHost, Plan, attack_host, attack_plans, run_together};

/// Hosts that are to be found failing.
const HOSTS: usize = 3;
/// What may be left of one: runs, and requests of each.
const MOST_ROUNDS: u32 = 2;
const MOST_REQUESTS: u32 = 4;
/// So many times fewer requests than the whole host has at most.
const LEAST_SHRINKAGE: u64 = 100;

/// The value of a variable in a command.
fn value(command: &str, name: &str) -> Option<String> {
    let words = command.split_whitespace();
    words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')).next().map(str::to_owned)
}

fn fails(plans: &[Plan]) -> bool {
    !catch_unwind(AssertUnwindSafe(|| run_together(plans))).is_ok_and(|outcome| outcome.is_ok())
}

/// Requests of all volumes in all runs, at most.
fn requests(plans: &[Plan]) -> u64 {
    plans.iter().map(|plan| u64::from(plan.rounds) * u64::from(plan.requests)).sum()
}

/// What a host may be without.
fn names() -> Vec<String> {
    let said =
        PartOfHost::of(|asked| (asked == "LODE_SIM_WITHOUT").then(|| "?".to_owned())).expect_err("no name");
    let (_, names) = said.split_once("but ").expect("the names");
    names.split(", ").map(str::to_owned).collect()
}

fn part_without(name: &str) -> PartOfHost {
    PartOfHost::of(|asked| (asked == "LODE_SIM_WITHOUT").then(|| name.to_owned())).expect("a name")
}

/// What may happen in a host, of all that a host may be without.
fn may_happen(plans: &[Plan]) -> Vec<String> {
    let changes = |name: &String| format!("{:?}", part_without(name).of_host(plans)) != format!("{plans:?}");
    names().into_iter().filter(changes).collect()
}

/// What is left of a host is a small part of it, in each respect.
fn assert_smaller(left: &[Plan], host: &[Plan], command: &str) {
    let (few, many) = (requests(left), requests(host));
    assert!(few * LEAST_SHRINKAGE <= many, "{few} requests of {many}: {command}");
    let (now, before) = (may_happen(left), may_happen(host));
    assert!(now.iter().all(|name| before.contains(name)), "{now:?} of {before:?}");
    assert!(now.len() * 3 <= before.len(), "{now:?} of {before:?}: {command}");
    let most = |plans: &[Plan], of: fn(&Plan) -> u64| plans.iter().map(of).max().unwrap_or(0);
    // What is left is needed, each of it.
    for name in &now {
        assert!(!fails(&part_without(name).of_host(left)), "it fails without {name} as well: {command}");
    }
    for of in [(|plan| plan.depth as u64) as fn(&Plan) -> u64, |plan| plan.longest_sectors] {
        let (now, before) = (most(left, of), most(host, of));
        assert!(now < before || before == 1, "{now} of {before}: {command}");
    }
    println!("    {few} requests of {many}, {now:?} of {before:?}");
}

#[test]
fn a_host_that_fails_is_minimized_and_fails_as_the_command_says() {
    let mut found = 0;
    for seed in 0..60 {
        let mut host = attack_plans(seed, Crash::Power, Changing::Anything);
        host.iter_mut().for_each(|plan| plan.ssd_lies = true);
        let Err(said) = attack_host(&host) else { continue };
        let (_, command) = said.split_once("repeat with: ").expect("a command");
        let command = command.split_once(", which says").expect("what it says").0;
        assert_eq!(value(command, "LODE_SIM_SEED"), Some(seed.to_string()));
        assert!(command.ends_with(
            "cargo test -p lode-sim minimize::a_host_that_fails_is_minimized_and_fails_as_the_command_says"
        ));
        let part = PartOfHost::of(|name| value(command, name)).expect("variables that are known");
        let left = part.of_host(&host);
        println!("{command}");
        assert!(fails(&left), "it does not fail: {command}");
        assert_eq!(left.len(), 1, "one volume is left");
        assert_smaller(&left, &host, command);
        assert!(left[0].rounds <= MOST_ROUNDS && left[0].requests <= MOST_REQUESTS, "{command}");
        found += 1;
        if found == HOSTS {
            return;
        }
    }
    panic!("{found} hosts lost something with an SSD that lies");
}

#[test]
fn a_part_is_said_and_understood() {
    let part = PartOfHost {
        volumes: Some(vec![0, 2]),
        rounds: Some(1),
        requests: Some(7),
        depth: None,
        sectors: Some(8),
        without: vec!["rot", "faults"],
    };
    let text = part.to_environment();
    assert_eq!(PartOfHost::of(|name| value(&text, name)), Ok(part));
    assert_eq!(PartOfHost::of(|_| None), Ok(PartOfHost::default()));
    for (name, text) in
        [("LODE_SIM_ROUNDS", "some"), ("LODE_SIM_WITHOUT", "faults,luck"), ("LODE_SIM_VOLUMES", "0,")]
    {
        let said =
            PartOfHost::of(|asked| (asked == name).then(|| text.to_owned())).expect_err("it says nothing");
        assert!(said.contains(name), "{said}");
    }
}
