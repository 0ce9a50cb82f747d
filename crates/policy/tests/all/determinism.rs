//! The same calls give the same effects, and a restored block is as good as one that never left.

use lode_policy::{
    Effect, NextUses, NullSink, Quota, Scheme, SchemeInfo, Settings, all_schemes, build_with_future,
};
use lode_types::{Access, Direction, Level, Origin};
use proptest::prelude::*;

use crate::driver::{
    Driver, Observed, Step, any_scheme, any_settings, any_share, any_step, future_of, prefetch, settings,
    used_levels,
};

const PHYSICAL: Quota = Quota::new(12, 20).with(Level::ReadSsd, 20);

fn effects_of(settings: &Settings, quota: Quota, steps: &[Step], prefetches: bool) -> Vec<Effect> {
    let mut scheme = build_with_future(settings, PHYSICAL, quota, &future_of(steps));
    let mut effects = Vec::new();
    for &step in steps {
        match step {
            Step::Read(block) | Step::Write(block, _) if prefetches => {
                prefetch(&scheme, block ^ 1);
            }
            _ => {}
        }
        match step {
            Step::Read(block) => scheme.access(Access::read(block), &mut effects),
            Step::Write(block, partial) => {
                scheme.access(
                    Access { block, op: Direction::Write, partial, origin: Origin::UNKNOWN },
                    &mut effects,
                );
            }
            Step::EndRequest => scheme.end_request(effects.len() as u64 * 1_000_000, &mut effects),
            Step::Discard(block) => scheme.discard(block, &mut effects),
            Step::Forget(level, block) => scheme.forget(level, block),
            Step::Cleaned(block) => scheme.cleaned(block),
            Step::Restore(block, dirty) => {
                scheme.restore(block, dirty);
            }
            Step::Resize(quota) => scheme.resize(quota, &mut effects),
        }
    }
    effects
}

fn any_case() -> impl Strategy<Value = (Settings, Quota, Vec<Step>)> {
    any_scheme().prop_flat_map(|info: &'static SchemeInfo| {
        let share = any_share(info, PHYSICAL);
        (any_settings(info), share.clone(), prop::collection::vec(any_step(60, share), 0..400))
    })
}

proptest! {
    #[test]
    fn the_same_calls_give_the_same_effects((settings, quota, steps) in any_case()) {
        let first = effects_of(&settings, quota, &steps, false);
        prop_assert_eq!(&first, &effects_of(&settings, quota, &steps, false));
        prop_assert_eq!(first, effects_of(&settings, quota, &steps, true), "prefetching changes nothing");
    }

    /// A scheme that is given back its blocks, from least to most recent, goes on as the one that had
    /// them, where the order of use is all that decides.
    #[test]
    fn a_restored_cache_goes_on_as_before(
        before in prop::collection::vec((0u64..40, any::<bool>()), 0..100),
        after in prop::collection::vec((0u64..40, any::<bool>()), 0..100),
        scheme in prop::sample::select(vec!["lru", "etica"]),
    ) {
        let pairs = [("assoc", "4")];
        let mut settings = settings(scheme, &pairs);
        if scheme == "etica" {
            settings.set_pair("mode=npe").unwrap();
        }
        let quota = Quota::new(0, 16);
        let step = |(block, read): (u64, bool)| if read { Step::Read(block) } else { Step::Write(block, false) };
        let mut lived = Driver::new(&settings, quota, quota);
        let mut last_use = Vec::new();
        for entry in before {
            lived.step(step(entry));
            last_use.retain(|block| *block != entry.0);
            last_use.push(entry.0);
        }
        let mut restored = Driver::new(&settings, quota, quota);
        let residents = lived.residents(Level::Ssd);
        for block in last_use {
            if let Some(&dirty) = residents.get(&block) {
                prop_assert_eq!(restored.step(Step::Restore(block, dirty)), [Observed::Restored(true)]);
            }
        }
        prop_assert_eq!(restored.residents(Level::Ssd), residents);
        for entry in after {
            prop_assert_eq!(restored.step(step(entry)), lived.step(step(entry)));
        }
    }
}

/// Schemes whose SSD never holds what is newer than the disk, whatever they are told.
const NEVER_DIRTY: &[&str] = &["l2arc-like"];

#[test]
fn restoring_twice_or_beyond_the_share_is_refused() {
    for info in all_schemes() {
        let mut settings = info.settings();
        if settings.values().any(|(key, _)| key == "write_policy") {
            settings.set("write_policy", "wb").unwrap();
        }
        let quota = used_levels(info, Quota::new(0, 2).with(Level::ReadSsd, 2));
        let mut scheme = build_with_future(&settings, quota, quota, &NextUses::default());
        let dirty = !NEVER_DIRTY.contains(&info.name);
        assert!(scheme.restore(7, dirty).is_some(), "{}", info.name);
        assert!(scheme.restore(7, false).is_none(), "{}", info.name);
        assert!(scheme.restore(8, false).is_some(), "{}", info.name);
        assert!(scheme.restore(9, false).is_none(), "{}", info.name);
        scheme.resize(Quota::default(), &mut NullSink);
        assert!(scheme.restore(7, false).is_none(), "{}", info.name);
    }
}
