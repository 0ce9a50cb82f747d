//! What holds of every scheme under any settings. The driver checks each effect as it comes.

use lode_policy::{
    Geometry, MapKind, Mirroring, NullSink, Points, Quota, Scheme, SchemeInfo, Settings, all_schemes, build,
};
use lode_types::{Access, Level};
use proptest::prelude::*;

use crate::driver::{Driver, Observed, Step, any_settings, any_share, any_step, for_each_case, settings};
use crate::write_policies::keeps_dirty;

const PHYSICAL: Quota = Quota::new(16, 24).with(Level::ReadSsd, 24);

/// The sets of each level as they follow from the shares alone.
struct Sets([Geometry; Level::COUNT]);

impl Sets {
    fn new(settings: &Settings, quota: Quota) -> Sets {
        let value = |key| settings.values().find(|(known, _)| *known == key).map(|(_, value)| value);
        let map = if value("map") == Some("jhash") { MapKind::Jhash } else { MapKind::Modulo };
        // A scheme that does not speak of sets has one set of everything.
        let assoc = value("assoc").map_or(0, |text| text.parse().expect("a whole number"));
        Sets(Level::ALL.map(|level| Geometry::new(assoc, map, quota.of(level))))
    }

    fn resize(&mut self, quota: Quota) {
        self.0 = Level::ALL.map(|level| self.0[level.index()].resized(quota.of(level)));
    }

    fn check(&self, driver: &Driver) {
        for level in Level::ALL {
            let sets = &self.0[level.index()];
            let mut counts = vec![0; sets.sets() as usize];
            for block in driver.residents(level).keys() {
                counts[sets.set_of(*block) as usize] += 1;
            }
            for (set, &count) in counts.iter().enumerate() {
                assert!(count <= sets.ways(set as u32), "set {set} of {} holds {count}", level.name());
            }
        }
    }
}

fn leaves_ssd(observed: &Observed) -> bool {
    matches!(observed, Observed::Evict { level: Level::Ssd, .. })
}

/// Cases of each scheme.
const CASES: u32 = 25;

fn any_case(
    info: &'static SchemeInfo,
) -> impl Strategy<Value = (&'static SchemeInfo, Settings, Quota, Vec<Step>)> {
    let share = any_share(info, PHYSICAL);
    let steps = prop::collection::vec(any_step(300, share.clone()), 0..600);
    (Just(info), any_settings(info), share, steps)
}

/// Whether what the SSD holds may be newer than the backing disk.
fn may_be_dirty(settings: &Settings) -> bool {
    let policy = settings.values().find(|(key, _)| *key == "write_policy").map(|(_, value)| value);
    policy.is_none_or(keeps_dirty)
}

fn check_case(
    (info, settings, quota, steps): (&SchemeInfo, Settings, Quota, Vec<Step>),
) -> Result<(), TestCaseError> {
    let mut driver = Driver::with_future(&settings, PHYSICAL, quota, &steps);
    let mut sets = Sets::new(&settings, quota);
    let never_on_demand = info.name == "etica" && settings.text("mode") != "npe";
    let mut has_lost_copies = false;
    for step in steps {
        let observed = driver.step(step);
        if let Step::Resize(quota) = step {
            sets.resize(quota);
        }
        sets.check(&driver);
        if !may_be_dirty(&settings) {
            prop_assert!(driver.residents(Level::Ssd).values().all(|dirty| !dirty), "{:?}", step);
        }
        has_lost_copies |= matches!(step, Step::Forget(..) | Step::Restore(..));
        if let Some(mirrors) = driver.scheme.mirroring().map(Mirroring::mirrors) {
            let alone = driver.dirty_on_one_device();
            prop_assert_eq!(alone, mirrors.missing_blocks as usize);
            prop_assert!(alone == 0 || has_lost_copies, "{:?}", step);
        }
        let is_access = matches!(step, Step::Read(_) | Step::Write(..));
        prop_assert!(!(never_on_demand && is_access && observed.iter().any(leaves_ssd)));
        let promotes = observed.iter().any(|s| matches!(s, Observed::Promote { .. } | Observed::Move(_)));
        // Two move what leaves DRAM for what a read brings in; what leaves the DRAM of TICA is copied when it leaves.
        let on_demand = ["auto", "benefit-density", "ucache-like"].contains(&info.name)
            && matches!(step, Step::Read(_))
            || info.levels.contains(&Level::ReadSsd);
        prop_assert!(!promotes || on_demand || matches!(step, Step::EndRequest));
    }
    driver.check_counters();
    if let Some(demands) = driver.scheme.sizing().map(|sizing| sizing.demand(Points::All)) {
        for demand in demands {
            let last = demand.curve.last().map_or((0, 0), |point| (point.size_blocks, point.hits));
            prop_assert_eq!(last.0, u64::from(demand.blocks) + u64::from(demand.trial_blocks));
            prop_assert!(last.1 <= demand.accesses);
        }
    }
    Ok(())
}

/// Each scheme of the registry, so that none can be forgotten.
#[test]
fn hold_of_every_scheme_under_any_settings() {
    for info in all_schemes() {
        println!("{}", info.name);
        for_each_case(CASES, any_case(info), check_case);
    }
}

/// New blocks without end, all within one interval: the history stays within its limit, and finding a
/// block to forget does not look at all of them.
#[test]
fn history_is_bounded_and_cheap_to_bound() {
    let settings = settings(
        "etica",
        &[
            ("mode", "full-hybrid"),
            ("trigger", "time"),
            ("track_blocks", "50000"),
            ("popularity", "wb"),
            ("assoc", "8"),
        ],
    );
    let quota = Quota::new(1000, 4000);
    let mut scheme = build(&settings, quota, quota);
    let mut bytes_at_limit = 0;
    for block in 0..300_000u64 {
        let access = if block % 3 == 0 { Access::write(block) } else { Access::read(block) };
        scheme.access(access, &mut NullSink);
        scheme.end_request(0, &mut NullSink);
        if block == 100_000 {
            scheme.sizing().map(|sizing| sizing.demand(Points::All));
            bytes_at_limit = scheme.memory_bytes();
        }
    }
    scheme.sizing().map(|sizing| sizing.demand(Points::All));
    // The lists and heaps of the levels may still fill up a little.
    let most = bytes_at_limit + bytes_at_limit / 20;
    assert!(scheme.memory_bytes() <= most, "{} > {most}", scheme.memory_bytes());
}

/// Blocks that come and go by discards take no more memory than those that are there.
#[test]
fn discards_give_records_back() {
    let settings = settings("etica", &[("mode", "full-hybrid"), ("sizing", "off"), ("popularity", "wb")]);
    let quota = Quota::new(100, 400);
    let mut scheme = build(&settings, quota, quota);
    let mut bytes = 0;
    for block in 0..200_000u64 {
        scheme.access(Access::write(block), &mut NullSink);
        scheme.access(Access::read(block), &mut NullSink);
        scheme.discard(block, &mut NullSink);
        if block == 100_000 {
            bytes = scheme.memory_bytes();
        }
    }
    assert!(scheme.memory_bytes() <= bytes, "{} > {bytes}", scheme.memory_bytes());
}
