//! MIN against an oracle that looks through all steps, against every choice there is, and against every other scheme.

use std::cell::Cell;
use std::collections::BTreeMap;

use lode_policy::{Quota, SchemeInfo, SettingError, Settings, all_schemes, build};
use lode_types::Level;
use proptest::prelude::*;

use crate::driver::{
    Driver, Observed, Step, any_blocks, any_scheme, any_settings, any_step, for_each_case, settings,
};
use crate::one_level::compare_with;
use crate::oracle::belady::PlainMin;
use crate::oracle::one_level::PlainOneLevel;
use crate::write_policies::any_policy_of;

/// Hits of reads and writes; `None` if blocks came into the cache without being accessed, which no bound on demand knows.
fn hits_on_demand(settings: &Settings, blocks: u32, steps: &[Step]) -> Option<u64> {
    hits_of_levels(settings, Quota::new(0, blocks), steps)
}

/// The same with several levels.
fn hits_of_levels(settings: &Settings, quota: Quota, steps: &[Step]) -> Option<u64> {
    let mut driver = Driver::with_future(settings, quota, quota, steps);
    for &step in steps {
        if driver
            .step(step)
            .iter()
            .any(|observed| matches!(observed, Observed::Promote { from_dram: false, .. }))
        {
            return None;
        }
    }
    Some(driver.counters.read_hits.iter().sum::<u64>() + driver.counters.write_hits_ssd)
}

fn min(bypass: &str) -> Settings {
    settings("belady", &[("bypass", bypass)])
}

/// The most hits that any choice of victims leads to.
fn best_of_all(stream: &[u64], room: usize, may_bypass: bool) -> u64 {
    fn best(
        (stream, room, may_bypass): (&[u64], usize, bool),
        cached: u32,
        known: &mut BTreeMap<(usize, u32), u64>,
    ) -> u64 {
        let Some((&block, rest)) = stream.split_first() else { return 0 };
        if let Some(&hits) = known.get(&(stream.len(), cached)) {
            return hits;
        }
        let mut go_on = |cached: u32| best((rest, room, may_bypass), cached, known);
        let bit = 1u32 << block;
        let hits = if cached & bit != 0 {
            1 + go_on(cached)
        } else if (cached.count_ones() as usize) < room {
            go_on(cached | bit)
        } else {
            let victims = (0..u32::BITS).map(|at| 1u32 << at).filter(|victim| cached & victim != 0);
            let replaced = victims.map(|victim| cached & !victim | bit);
            let choices: Vec<u32> = replaced.chain(may_bypass.then_some(cached)).collect();
            choices.into_iter().map(go_on).max().unwrap_or(0)
        };
        known.insert((stream.len(), cached), hits);
        hits
    }
    best((stream, room, may_bypass), 0, &mut BTreeMap::new())
}

/// One set of everything, and both reads and writes come into it.
fn made_strong(mut settings: Settings) -> Settings {
    for (key, value) in [("assoc", "0"), ("write_policy", "wb")] {
        if settings.values().any(|(known, _)| known == key) {
            settings.set(key, value).unwrap();
        }
    }
    settings
}

fn any_rival() -> impl Strategy<Value = Settings> {
    any_scheme().prop_flat_map(any_settings).prop_map(made_strong)
}

/// `blocks` in the levels of a scheme, all of them in one that has no other.
fn any_division(info: &SchemeInfo, blocks: u32) -> BoxedStrategy<Quota> {
    let levels = info.levels;
    (0..=blocks, 0..=blocks)
        .prop_map(move |(first, second)| {
            let cuts = [first.min(second), first.max(second)];
            let parts = [cuts[0], cuts[1] - cuts[0], blocks - cuts[1]];
            match levels {
                [Level::Ssd] => Quota::new(0, blocks),
                [Level::Dram, Level::Ssd] => Quota::new(parts[0], blocks - parts[0]),
                _ => Quota::new(parts[0], parts[1]).with(Level::ReadSsd, parts[2]),
            }
        })
        .boxed()
}

/// Whole blocks and the ends of requests; a few blocks are accessed more often than the others.
fn any_accesses() -> impl Strategy<Value = Vec<Step>> {
    let block = prop_oneof![0u64..12, 0u64..48];
    let access = (block, any::<bool>())
        .prop_map(|(block, read)| if read { Step::Read(block) } else { Step::Write(block, false) });
    prop::collection::vec(prop_oneof![6 => access, 1 => Just(Step::EndRequest)], 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn equals_the_oracle(
        policy in any_policy_of("belady"),
        bypass in any::<bool>(),
        blocks in any_blocks(),
        steps in prop::collection::vec(any_step(48, any_blocks().prop_map(|b| Quota::new(0, b)).boxed()), 0..300),
    ) {
        let bypass_text = if bypass { "on" } else { "off" };
        let settings = settings("belady", &[("write_policy", policy), ("bypass", bypass_text)]);
        compare_with(&settings, blocks, PlainOneLevel::new(PlainMin::new(bypass, &steps, blocks), policy), &steps);
    }

    #[test]
    fn has_as_many_hits_as_the_best_of_all_choices(
        stream in prop::collection::vec(0u64..7, 0..40), room in 1u32..6, bypass in any::<bool>(),
    ) {
        let steps: Vec<Step> = stream.iter().map(|&block| Step::Read(block)).collect();
        let hits = hits_on_demand(&min(if bypass { "on" } else { "off" }), room, &steps);
        prop_assert_eq!(hits, Some(best_of_all(&stream, room as usize, bypass)));
    }

    #[test]
    fn no_scheme_has_more_hits(rival in any_rival(), blocks in any_blocks(), steps in any_accesses()) {
        let bound = hits_on_demand(&min("on"), blocks, &steps).unwrap();
        let filling = hits_on_demand(&min("off"), blocks, &steps).unwrap();
        prop_assert!(filling <= bound);
        if let Some(hits) = hits_on_demand(&rival, blocks, &steps) {
            prop_assert!(hits <= bound, "{} of at most {bound}: {rival:?}", hits);
        }
    }
}

/// Reads alone, so that schemes that treat writes apart, and those of several levels, have to do with the same. Each scheme of
/// the registry, with its defaults and with any settings.
#[test]
fn no_scheme_of_any_levels_finds_more_reads() {
    const CASES: u32 = 24;
    for info in all_schemes() {
        let reads = any_accesses().prop_map(|mut steps| {
            for step in &mut steps {
                if let Step::Write(block, _) = *step {
                    *step = Step::Read(block);
                }
            }
            steps
        });
        let rival = prop_oneof![Just(info.settings()), any_settings(info).prop_map(made_strong)];
        let case = any_blocks().prop_flat_map(move |blocks| (Just(blocks), any_division(info, blocks)));
        let compared = Cell::new(0);
        for_each_case(CASES, (rival, case, reads), |(rival, (blocks, quota), steps)| {
            let bound = hits_on_demand(&min("on"), blocks, &steps).unwrap();
            if let Some(hits) = hits_of_levels(&rival, quota, &steps) {
                prop_assert!(hits <= bound, "{} of at most {bound}: {rival:?} {quota:?}", hits);
                compared.set(compared.get() + 1);
            }
            Ok(())
        });
        assert!(compared.get() > 0, "{} is never compared", info.name);
    }
}

#[test]
fn whoever_cannot_know_the_future_is_told_so() {
    let info = SchemeInfo::find("belady").unwrap();
    assert_eq!(info.check_without_future(), Err(SettingError::NeedsFuture { scheme: "belady" }));
    let blind: Vec<_> = all_schemes().iter().filter(|info| info.check_without_future().is_ok()).collect();
    assert_eq!(blind.len() + 1, all_schemes().len());
}

#[test]
#[should_panic(expected = "Scheme 'belady' decides by what comes next")]
fn it_is_not_built_without_the_future() {
    let quota = Quota::new(0, 8);
    build(&min("off"), quota, quota);
}

/// Blocks that nobody told it of: it goes on, and they leave first.
#[test]
fn beyond_the_known_future_nothing_is_used_again() {
    let steps: Vec<Step> = [1, 2, 1].map(Step::Read).to_vec();
    let quota = Quota::new(0, 2);
    let mut driver = Driver::with_future(&min("off"), quota, quota, &steps);
    steps.into_iter().for_each(|step| drop(driver.step(step)));
    driver.step(Step::Read(3));
    driver.step(Step::Read(4));
    assert_eq!(driver.residents(Level::Ssd).into_keys().collect::<Vec<_>>(), [1, 4]);
}
