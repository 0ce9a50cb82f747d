//! Whether a cache may serve a disk with what it holds of it: from what the disk's sidecar says, what this host remembers, and
//! what an image file looks like. Pure; it must not know where any of this is kept.
//!
//! | the disk since this cache last served it | clean blocks | dirty blocks |
//! |---|---|---|
//! | as it was left | stay | stay |
//! | served by another cache, which has given everything back | dropped | refused |
//! | another cache may hold newer blocks, or serves it now | refused | refused |
//! | written without a cache, after an orderly end | dropped | refused |
//! | touched in another way then: renamed, another owner, or written and given its old time again | dropped | stay |
//! | its sidecar is gone, or an older one | dropped | refused |

use lode_format::CacheId;
use serde::{Deserialize, Serialize};

use super::{CacheOwner, DiskState, Sidecar};

/// What the time of an image's last change follows, at the end of what is said of it.
pub(super) const CHANGED: &str = ", changed ";

/// What a host remembers of a disk that its cache served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seen {
    /// What the sidecar said when it was last looked at or written: its generation and cache; none where there is no sidecar.
    pub generation: Option<u64>,
    pub cache: Option<String>,
    /// The generation that this cache is about to write there.
    pub next: Option<u64>,
    /// Size and times of the image file at the orderly end of the last run; none while it is served, and after a kill.
    pub image: Option<String>,
}

/// What is known when a disk is to be served.
#[derive(Debug)]
pub(crate) struct DiskFacts<'a> {
    pub owner: &'a CacheOwner,
    /// The tag of the VM's volume on the SSD, if it has one.
    pub volume: Option<&'a str>,
    /// What there is beside the disk, and what is remembered.
    pub sidecar: Option<&'a Sidecar>,
    pub seen: Option<&'a Seen>,
    /// Size and times of the image file now, where they tell something.
    pub image: Option<&'a str>,
    /// Caches that are gone for good.
    pub lost_caches: &'a [CacheId],
}

/// Why a cache must not be believed as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The disk is as this cache left it.
    AsLeft,
    /// It is not, in these words: what the cache holds of it must not be believed.
    Changed(String),
    /// Its image was touched, and was most likely not written: clean blocks are not worth the doubt.
    Touched(String),
    /// This cache may hold newer blocks, or serves the disk now.
    HeldElsewhere(Sidecar),
}

/// See the module's documentation.
pub(crate) fn decide(facts: &DiskFacts<'_>) -> Verdict {
    let is_own = |sidecar: &Sidecar| facts.owner.wrote(sidecar);
    if let Some(sidecar) =
        facts.sidecar.filter(|sidecar| !is_own(sidecar) && sidecar.state == DiskState::Held)
    {
        let id = sidecar.cache.as_ref().and_then(|text| text.parse::<CacheId>().ok());
        if id.is_none_or(|id| !facts.lost_caches.contains(&id)) {
            return Verdict::HeldElsewhere(sidecar.clone());
        }
    }
    if facts.volume.is_none() {
        // Nothing is held that could be believed.
        return Verdict::AsLeft;
    }
    if let Some(why) = why_changed(facts) {
        return Verdict::Changed(why);
    }
    let (Some(then), Some(now)) = (facts.seen.and_then(|seen| seen.image.as_deref()), facts.image) else {
        return Verdict::AsLeft;
    };
    let since = format!("since this cache stopped (then {then}; now {now})");
    if then == now {
        Verdict::AsLeft
    } else if written(then) == written(now) {
        Verdict::Touched(format!("the image was touched, but not written, {since}"))
    } else {
        Verdict::Changed(format!("the image was written or replaced {since}"))
    }
}

/// How an image looks to whoever has not touched it: without the time of its last change.
fn written(image: &str) -> &str {
    image.rsplit_once(CHANGED).map_or(image, |(written, _)| written)
}

/// What the sidecar says against it.
fn why_changed(facts: &DiskFacts<'_>) -> Option<String> {
    let seen = facts.seen.filter(|seen| seen.generation.is_some() || seen.next.is_some());
    match (facts.sidecar, seen) {
        // It never had one that this host knows of.
        (None, None) => None,
        // The first one of this cache may not have been written any more.
        (None, Some(Seen { generation: None, .. })) => None,
        (None, Some(_)) => {
            Some("the disk's sidecar is gone, so that nobody knows who served it since".to_owned())
        }
        // This host remembers nothing: the sidecar knows the volume.
        (Some(sidecar), None) if facts.owner.wrote(sidecar) && sidecar.volume.as_deref() == facts.volume => {
            None
        }
        (Some(sidecar), Some(seen)) if is_same(facts.owner, sidecar, seen) => None,
        (Some(sidecar), seen) if facts.owner.wrote(sidecar) => Some(format!(
            "the disk's sidecar is another one than this cache wrote last (generation {}; {} was written), as after a restore",
            sidecar.generation,
            seen.and_then(|seen| seen.generation)
                .map_or("none".to_owned(), |generation| generation.to_string())
        )),
        (Some(sidecar), _) => Some(format!(
            "the disk was served by {} since (generation {})",
            sidecar.who(),
            sidecar.generation
        )),
    }
}

/// Whether the sidecar is what was seen last, or what this cache was about to write then.
fn is_same(owner: &CacheOwner, sidecar: &Sidecar, seen: &Seen) -> bool {
    let as_seen = seen.generation == Some(sidecar.generation) && seen.cache == sidecar.cache;
    as_seen || (owner.wrote(sidecar) && seen.next == Some(sidecar.generation))
}

/// What the sidecar is to say while the disk is served: as it is, where it says so already and nobody else had the disk; else of
/// a later generation than any that is known.
pub(crate) fn claimed(facts: &DiskFacts<'_>, vm: &str, changed: bool) -> Sidecar {
    let known = [
        facts.sidecar.map(|sidecar| sidecar.generation),
        facts.seen.and_then(|seen| seen.generation),
        facts.seen.and_then(|seen| seen.next),
    ];
    // What a file can say.
    let generation = known.into_iter().flatten().max().unwrap_or(0).saturating_add(1).min(i64::MAX as u64);
    let next = Sidecar::new(facts.owner, vm, facts.volume.map(str::to_owned), generation);
    match facts.sidecar {
        Some(sidecar) if !changed && facts.owner.wrote(sidecar) && sidecar.state == next.state => {
            Sidecar { generation: sidecar.generation, ..next }
        }
        _ => next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str = "00112233-4455-4677-8899-aabbccddeeff";

    fn owner(cache: &str) -> CacheOwner {
        CacheOwner { cache: Some(cache.to_owned()), name: format!("cache of {cache}"), host: "h".to_owned() }
    }

    fn sidecar(cache: &str, generation: u64, state: DiskState) -> Sidecar {
        Sidecar { state, ..Sidecar::new(&owner(cache), "vm", Some("1".to_owned()), generation) }
    }

    fn seen(cache: &str, generation: u64) -> Seen {
        Seen { generation: Some(generation), cache: Some(cache.to_owned()), ..Seen::default() }
    }

    fn verdict(sidecar: Option<&Sidecar>, seen: Option<&Seen>) -> Verdict {
        let (volume, image) = (Some("1"), None);
        decide(&DiskFacts { owner: &owner("own"), volume, sidecar, seen, image, lost_caches: &[] })
    }

    #[test]
    fn what_was_left_as_it_was_is_believed() {
        for state in [DiskState::Held, DiskState::Clean] {
            let own = sidecar("own", 3, state);
            assert_eq!(verdict(Some(&own), Some(&seen("own", 3))), Verdict::AsLeft);
            // Killed between what is remembered and what is written.
            let between = Seen { next: Some(3), ..seen("own", 2) };
            assert_eq!(verdict(Some(&own), Some(&between)), Verdict::AsLeft);
            assert_eq!(verdict(Some(&own), None), Verdict::AsLeft, "the state file is gone");
        }
        assert_eq!(verdict(None, None), Verdict::AsLeft, "of an older version");
        let first = Seen { next: Some(1), ..Seen::default() };
        assert_eq!(verdict(None, Some(&first)), Verdict::AsLeft, "the first one was not written");
        // A reader saw what another one left.
        let other = sidecar(OTHER, 5, DiskState::Clean);
        assert_eq!(verdict(Some(&other), Some(&seen(OTHER, 5))), Verdict::AsLeft);
    }

    #[test]
    fn what_changed_is_not() {
        let changed =
            |sidecar: Option<&Sidecar>, seen: Option<&Seen>, said: &str| match verdict(sidecar, seen) {
                Verdict::Changed(why) => assert!(why.contains(said), "{why}"),
                verdict => panic!("{verdict:?}"),
            };
        let other = sidecar(OTHER, 4, DiskState::Clean);
        changed(Some(&other), Some(&seen("own", 3)), "served by cache cache of");
        changed(Some(&other), Some(&Seen { next: Some(4), ..seen("own", 3) }), "served by");
        changed(Some(&other), None, "served by");
        changed(None, Some(&seen("own", 3)), "gone");
        changed(Some(&sidecar("own", 2, DiskState::Held)), Some(&seen("own", 3)), "restore");
        let uncached = Sidecar { cache: None, volume: None, ..sidecar("own", 4, DiskState::Uncached) };
        changed(Some(&uncached), Some(&seen("own", 3)), "served by");
        // Of another volume of this cache, and nothing is remembered.
        let volume = Sidecar { volume: Some("2".to_owned()), ..sidecar("own", 3, DiskState::Held) };
        changed(Some(&volume), None, "another one");
    }

    #[test]
    fn what_another_cache_may_hold_is_not_served_past_it() {
        let held = sidecar(OTHER, 4, DiskState::Held);
        for known in [None, Some(seen("own", 3)), Some(seen(OTHER, 4))] {
            assert_eq!(verdict(Some(&held), known.as_ref()), Verdict::HeldElsewhere(held.clone()));
        }
        // Not even without anything of one's own.
        let own = owner("own");
        let lost = [OTHER.parse().unwrap()];
        let (volume, sidecar, seen, image) = (None, Some(&held), None, None);
        let facts = DiskFacts { owner: &own, volume, sidecar, seen, image, lost_caches: &[] };
        assert_eq!(decide(&facts), Verdict::HeldElsewhere(held.clone()));
        assert_eq!(decide(&DiskFacts { lost_caches: &lost, ..facts }), Verdict::AsLeft);
        let facts = DiskFacts { volume: Some("1"), lost_caches: &lost, ..facts };
        assert!(matches!(decide(&facts), Verdict::Changed(_)));
        assert_eq!(claimed(&facts, "vm", true).generation, 5);
    }

    #[test]
    fn an_image_that_was_touched_is_noticed_after_an_orderly_end() {
        let (own, file) = (owner("own"), sidecar("own", 3, DiskState::Clean));
        let ended = Seen { image: Some("then".to_owned()), ..seen("own", 3) };
        let facts = |seen, image| DiskFacts {
            owner: &own,
            volume: Some("1"),
            sidecar: Some(&file),
            seen: Some(seen),
            image,
            lost_caches: &[],
        };
        assert_eq!(decide(&facts(&ended, Some("then"))), Verdict::AsLeft);
        assert!(matches!(decide(&facts(&ended, Some("now"))), Verdict::Changed(_)));
        let ended_so = Seen { image: Some("7 bytes, written 1.0, changed 1.0".to_owned()), ..seen("own", 3) };
        let verdict = |now| decide(&facts(&ended_so, Some(now)));
        assert!(matches!(verdict("7 bytes, written 1.0, changed 2.0"), Verdict::Touched(_)));
        assert!(matches!(verdict("7 bytes, written 2.0, changed 2.0"), Verdict::Changed(_)));
        assert!(matches!(verdict("8 bytes, written 1.0, changed 1.0"), Verdict::Changed(_)));
        assert_eq!(decide(&facts(&ended, None)), Verdict::AsLeft);
        assert_eq!(decide(&facts(&seen("own", 3), Some("now"))), Verdict::AsLeft, "it was killed");
    }

    #[test]
    fn a_generation_rises_whenever_others_could_have_seen_the_one_before() {
        let own = owner("own");
        let claim = |sidecar: Option<&Sidecar>, seen: Option<&Seen>, changed| {
            let facts =
                DiskFacts { owner: &own, volume: Some("1"), sidecar, seen, image: None, lost_caches: &[] };
            let next = claimed(&facts, "vm", changed);
            assert_eq!((next.state, next.vm.as_str()), (DiskState::Held, "vm"));
            next.generation
        };
        assert_eq!(claim(None, None, false), 1);
        assert_eq!(claim(Some(&sidecar("own", 3, DiskState::Held)), Some(&seen("own", 3)), false), 3);
        assert_eq!(claim(Some(&sidecar("own", 3, DiskState::Clean)), Some(&seen("own", 3)), false), 4);
        assert_eq!(claim(Some(&sidecar("own", 3, DiskState::Held)), Some(&seen("own", 9)), true), 10);
        assert_eq!(claim(Some(&sidecar(OTHER, 7, DiskState::Clean)), Some(&seen("own", 3)), true), 8);
        assert_eq!(claim(None, Some(&Seen { next: Some(12), ..seen("own", 3) }), true), 13);
    }
}
