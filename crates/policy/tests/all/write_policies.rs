//! Every write policy that a scheme of the registry offers, by the words of its setting: how reads that miss and writes
//! may end under it (ETICA section 3; wt, wa and pt are common practice). Which block leaves, the oracles say.

use lode_policy::{Quota, SchemeInfo, SettingKind, Settings, all_schemes};
use lode_types::Level;
use proptest::prelude::*;

use crate::driver::{Driver, Observed, Step, any_settings, any_step, for_each_case, settings};
use crate::ledger::{Ending, Leaving};

const KEY: &str = "write_policy";

/// Cases of each scheme and policy, and steps of a case.
const CASES: u32 = 12;
const STEPS: std::ops::Range<usize> = 0..300;

/// Schemes that offer other write policies than LRU does; the test against their oracle draws their own.
const WORDS_OF_THEIR_OWN: [&str; 1] = ["opencas-like"];

/// The words of a scheme's write policy; none if it has no such setting.
pub fn write_policies(info: &SchemeInfo) -> &'static [&'static str] {
    match info.setting_infos().find(|setting| setting.key == KEY).map(|setting| setting.kind) {
        Some(SettingKind::Choice(words)) => words,
        Some(kind) => panic!("{}: {kind:?}", info.name),
        None => &[],
    }
}

/// Any write policy of a scheme. Most cases are about victims, and wb shows most of them.
pub fn any_policy_of(scheme: &str) -> impl Strategy<Value = &'static str> + use<> {
    let words = write_policies(SchemeInfo::find(scheme).unwrap());
    let weight = |word: &str| if word == "wb" { 4 } else { 1 };
    prop::sample::select(words.iter().flat_map(|&word| vec![word; weight(word)]).collect::<Vec<_>>())
}

/// What a policy's word promises.
#[derive(Clone, Copy, Debug)]
struct Promise {
    /// Reads that miss may fill the SSD.
    fills: bool,
    /// How a write of a cached block ends, unless it passes by the cache, and of another one, if it is let in.
    hit: Ending,
    miss: Ending,
}

fn promise_of(word: &str) -> Promise {
    use Ending::{Around, Kept, Through};
    let (fills, hit, miss) = match word {
        "wb" => (true, Kept, Kept),
        "wt" => (true, Through, Through),
        "ro" => (true, Around, Around),
        "wbwo" => (false, Kept, Kept),
        "wa" => (true, Through, Around),
        "pt" => (false, Around, Around),
        _ => panic!("nobody said what write_policy={word} promises"),
    };
    Promise { fills, hit, miss }
}

/// Whether the SSD may be newer than the disk.
pub fn keeps_dirty(word: &str) -> bool {
    promise_of(word).hit == Ending::Kept
}

/// What was seen of a scheme under a policy.
#[derive(Clone, Copy, Debug)]
struct Seen {
    fills: u64,
    kept: u64,
    through: u64,
    around: u64,
    invalidated: u64,
}

impl Seen {
    fn of(driver: &Driver) -> Seen {
        Seen {
            fills: driver.counters.ssd_writes.fill,
            kept: driver.ledger.ended(Ending::Kept),
            through: driver.ledger.ended(Ending::Through),
            around: driver.ledger.ended(Ending::Around),
            invalidated: driver.ledger.gone(Level::Ssd, Leaving::Invalidated),
        }
    }

    /// Whether all that the policy promises came to pass.
    fn shows(&self, promise: Promise) -> bool {
        let ends = [promise.hit, promise.miss];
        (self.fills > 0) == promise.fills
            && (self.kept > 0) == ends.contains(&Ending::Kept)
            && (self.through > 0) == ends.contains(&Ending::Through)
            && (self.around > 0 || !ends.contains(&Ending::Around))
            && (self.invalidated > 0) == (promise.fills || promise.hit == Ending::Kept)
    }
}

fn check_step(driver: &mut Driver, step: Step, promise: Promise) {
    let before = driver.residents(Level::Ssd);
    let observed = driver.step(step);
    let after = driver.residents(Level::Ssd);
    if let Some(ending) = driver.ending {
        let Step::Write(block, _) = step else { panic!("{step:?} ended as {ending:?}") };
        let expected = if before.contains_key(&block) { promise.hit } else { promise.miss };
        assert!(ending == expected || ending == Ending::Around, "{step:?}: {observed:?}");
        // An older copy beside a newer disk would be read.
        assert_eq!(after.contains_key(&block), ending != Ending::Around, "{step:?}: {observed:?}");
    }
    assert!(promise.fills || !observed.contains(&Observed::Fill(Level::Ssd)), "{step:?}: {observed:?}");
    assert!(promise.hit == Ending::Kept || after.values().all(|dirty| !dirty), "{step:?}: {observed:?}");
}

fn any_case(info: &'static SchemeInfo, word: &'static str) -> impl Strategy<Value = (Settings, Vec<Step>)> {
    let share = (1u32..24).prop_map(|blocks| Quota::new(0, blocks)).boxed();
    let settings = any_settings(info).prop_map(move |mut settings| {
        settings.set(KEY, word).unwrap();
        settings
    });
    (settings, prop::collection::vec(any_step(40, share), STEPS))
}

#[test]
fn each_does_what_its_word_says() {
    let physical = Quota::new(0, 24);
    for info in all_schemes() {
        for &word in write_policies(info) {
            println!("{} {word}", info.name);
            let promise = promise_of(word);
            for_each_case(CASES, any_case(info, word), |(settings, steps)| {
                let mut driver = Driver::with_future(&settings, physical, physical, &steps);
                steps.into_iter().for_each(|step| check_step(&mut driver, step, promise));
                driver.check_counters();
                Ok(())
            });
            // What it allows does happen, at least at the defaults.
            let (settings, steps) = (settings(info.name, &[(KEY, word)]), mixed_steps());
            let mut driver = Driver::with_future(&settings, physical, physical, &steps);
            steps.into_iter().for_each(|step| check_step(&mut driver, step, promise));
            let seen = Seen::of(&driver);
            assert!(seen.shows(promise), "{} {word}: {seen:?}", info.name);
        }
    }
}

/// Reads, writes and a few discards of some blocks more than fit, without a pattern and always the same.
fn mixed_steps() -> Vec<Step> {
    let mut state = 1u64;
    let mut step = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let block = (state >> 33) % 40;
        match (state >> 50) % 16 {
            0..7 => Step::Read(block),
            7..14 => Step::Write(block, block.is_multiple_of(3)),
            14 => Step::Discard(block),
            _ => Step::EndRequest,
        }
    };
    (0..3000).map(|_| step()).collect()
}

/// The oracles' tests draw the policies of LRU, so that a word of another scheme alone would not be tried.
#[test]
fn no_word_is_left_out_of_the_oracles() {
    let common = write_policies(SchemeInfo::find("lru").unwrap());
    assert!(common.len() >= 5, "{common:?}");
    for info in all_schemes().iter().filter(|info| !write_policies(info).is_empty()) {
        let is_own = WORDS_OF_THEIR_OWN.contains(&info.name);
        assert_eq!(write_policies(info) != common, is_own, "{}: {:?}", info.name, write_policies(info));
    }
}

/// A partial write would invalidate, or hide behind a clean copy, the part of the block that only the SSD has.
#[test]
fn what_is_dirty_is_not_taken_over_by_a_policy_that_keeps_nothing_dirty() {
    let quota = Quota::new(0, 8);
    for info in all_schemes() {
        for &word in write_policies(info) {
            let mut driver = Driver::new(&settings(info.name, &[(KEY, word)]), quota, quota);
            driver.step(Step::Restore(1, true));
            let taken = usize::from(keeps_dirty(word));
            assert_eq!(driver.residents(Level::Ssd).len(), taken, "{} {word}", info.name);
            driver.step(Step::Restore(2, false));
            assert_eq!(driver.residents(Level::Ssd).len(), taken + 1, "{} {word}", info.name);
        }
    }
}

/// pt, step by step: what an earlier policy left is read, never renewed, and gone with the next write.
#[test]
fn pass_through_caches_nothing() {
    let quota = Quota::new(0, 8);
    let mut driver = Driver::new(&settings("opencas-like", &[(KEY, "pt")]), quota, quota);
    driver.step(Step::Restore(1, false));
    assert_eq!(driver.step(Step::Read(1)), [Observed::ReadLevel(Level::Ssd)]);
    assert_eq!(driver.step(Step::Write(1, true)), [Observed::Invalidate(Level::Ssd), Observed::WriteBacking]);
    for _ in 0..4 {
        assert_eq!(driver.step(Step::Read(1)), [Observed::ReadBacking]);
        assert_eq!(driver.step(Step::Write(1, true)), [Observed::WriteBacking]);
    }
    assert_eq!((driver.ledger.ssd_admissions(), driver.residents(Level::Ssd).len()), (0, 0));
    driver.check_counters();
}
