//! Descriptions that hold together.

use std::collections::{HashMap, HashSet};

use lode_papers::{Bound, Claim, Paper, at_hand, experiments};

/// Of the figures, and of traces at hand.
fn claims() -> impl Iterator<Item = &'static Claim> {
    let of_figures = experiments().flat_map(|experiment| experiment.claims);
    of_figures.chain(at_hand().flat_map(|one| one.claims))
}

#[test]
fn every_paper_has_experiments_and_every_claim_a_place() {
    let mut figures = HashSet::new();
    for experiment in experiments() {
        assert!(figures.insert((experiment.paper, experiment.figure)), "{} twice", experiment.figure);
        assert!(experiment.is_called(experiment.figure) && !experiment.ran.is_empty());
    }
    let mut keys = HashSet::new();
    for claim in claims() {
        assert!(keys.insert(claim.key), "{} twice", claim.key);
        assert!(!claim.source.is_empty() && !claim.about.is_empty(), "{} has no source", claim.key);
        assert!(claim.key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c)));
    }
    let texts = experiments().flat_map(|one| one.here.iter().chain([&one.ran, &one.title]));
    for text in texts.chain(at_hand().flat_map(|one| one.here.iter().chain([&one.ran]))) {
        assert!(!text.ends_with('.'), "a full stop is added to: {text}");
    }
    for paper in Paper::ALL {
        assert!(experiments().any(|experiment| experiment.paper == paper), "{}", paper.name());
    }
}

/// Runs are known by the names of their workloads.
#[test]
fn no_two_workloads_have_one_name() {
    let mut named = HashMap::new();
    for job in experiments().flat_map(|experiment| (experiment.jobs)()) {
        if let Some(workload) = job.workload() {
            assert!(
                std::ptr::eq(*named.entry(workload.name).or_insert(workload), workload),
                "{}",
                workload.name
            );
        }
    }
}

/// What a paper reports points the same way as itself: else the bound is wrong.
#[test]
fn bounds_hold_for_what_the_papers_report() {
    for claim in claims() {
        for number in claim.reported.numbers() {
            let is_limit = matches!(claim.reported, lode_papers::Reported::MoreThan(_));
            let near = matches!(claim.same, Bound::Within(low, high) if low == high);
            let number = if near || is_limit { number } else { number.clamp(-1e9, 1e9) };
            assert!(claim.same.holds(number), "{}: {number} is not within {:?}", claim.key, claim.same);
            assert!(claim.goal.is_none_or(|goal| goal.holds(number) || claim.key == "etica-12-npe"));
        }
    }
}
