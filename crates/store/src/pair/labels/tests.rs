//! What labels of pairs are together, and which of them are refused.

use super::*;

fn pair() -> Pair {
    Pair::new(CacheId([3; 16]), [9 << 20, 8 << 20]).unwrap()
}

fn kind(found: Result<Pair, StoreError>) -> StoreErrorKind {
    found.expect_err("it is refused").kind()
}

#[test]
fn the_newest_label_speaks_for_both() {
    let pair = pair();
    assert_eq!((pair.pair_bytes, pair.first_in_sync()), (7 << 20, 0));
    let both = [Some(pair.label(0)), Some(pair.label(1))];
    assert_eq!(Pair::of(both, None), Ok(pair));
    assert_eq!(Pair::of(both, Some(1)), Ok(pair));
    // The first was dropped, and does not know it.
    let alone = pair.without(0, 1);
    let found = Pair::of([Some(pair.label(0)), Some(alone.label(1))], None).unwrap();
    assert_eq!((found.in_sync, found.generation, found.first_in_sync()), ([false, true], 2, 1));
    // It has everything again, and only one of the two says so yet.
    let again = alone.with(0, 10 << 20);
    let found = Pair::of([Some(again.label(0)), Some(alone.label(1))], Some(2)).unwrap();
    assert_eq!((found.in_sync, found.device_bytes), ([true, true], [10 << 20, 8 << 20]));
    // Of two of one generation that do not say the same nobody is believed whom one of them says to lack something.
    let other = Pair { generation: again.generation, ..alone };
    for labels in [[again.label(0), other.label(1)], [other.label(0), again.label(1)]] {
        assert_eq!(Pair::of(labels.map(Some), None).unwrap().in_sync, [false, true]);
    }
}

#[test]
fn one_alone_is_believed_when_the_other_one_cannot_have_gone_on() {
    let pair = pair();
    let alone = pair.without(0, 1);
    assert!(Pair::of([None, Some(alone.label(1))], None).is_ok());
    assert!(Pair::of([None, Some(pair.label(1))], Some(1)).is_ok());
    // It has everything again, and nobody remembers it yet.
    assert!(Pair::of([Some(alone.with(0, 9 << 20).label(0)), None], Some(2)).is_ok());
    for (labels, known) in [
        ([None, Some(pair.label(1))], None),
        ([Some(pair.label(0)), None], Some(2)),
        ([Some(alone.label(0)), None], Some(2)),
        ([None, None], None),
        // Both are copies of what they were.
        ([Some(pair.label(0)), Some(pair.label(1))], Some(2)),
    ] {
        assert_eq!(kind(Pair::of(labels, known)), StoreErrorKind::WrongMember, "{labels:?} {known:?}");
    }
}

#[test]
fn one_that_was_replaced_is_not_believed_when_it_comes_back() {
    let pair = pair();
    let again = pair.without(0, 1).with(0, 9 << 20);
    // The first is the one in whose place another came, which has everything and is elsewhere.
    let labels = [Some(pair.label(0)), Some(again.label(1))];
    let found = Pair::of(labels, Some(again.generation)).unwrap();
    assert_eq!((found.in_sync, found.generation), ([false, true], 3));
    // The one that came may have gone on without the second.
    assert_eq!(kind(Pair::of(labels, None)), StoreErrorKind::WrongMember);
    assert_eq!(kind(Pair::of(labels, Some(1))), StoreErrorKind::WrongMember);
    assert_eq!(kind(Pair::of(labels, Some(4))), StoreErrorKind::WrongMember);
}

/// One is put back as it was in an earlier run: labels of runs are two generations apart at least, those of a start that was cut short one.
#[test]
fn one_as_it_was_in_an_earlier_run_is_not_believed() {
    let older = pair();
    let (mut begun, mut later) = (older, older);
    begun.generation += 1;
    later.generation += 2;
    let of = |one: &Pair, other: &Pair, known| Pair::of([Some(one.label(0)), Some(other.label(1))], known);
    let in_sync = |one, other| of(one, other, Some(later.generation)).unwrap().in_sync;
    assert_eq!(in_sync(&later, &older), [true, false]);
    assert_eq!(in_sync(&older, &later), [false, true]);
    assert_eq!(of(&begun, &older, Some(1)).unwrap().in_sync, [true; MEMBERS]);
    assert_eq!(in_sync(&later, &begun), [true; MEMBERS]);
    // Where nobody remembers, the one that is newer there may not be the newest.
    let refused = of(&later, &older, None).unwrap_err();
    assert!(refused.to_string().contains("an old copy of one SSD"), "{refused}");
    let refused = of(&older, &older, Some(later.generation)).unwrap_err();
    assert!(refused.to_string().contains("both SSDs of pair"), "{refused}");
}

/// The host goes down between the two labels that say that a member has everything, its own and then the other one's.
#[test]
fn g9_one_that_came_and_is_missed_at_the_next_start_is_not_believed_when_it_is_back() {
    let before = pair().without(1, 1);
    let after = before.with(1, 9 << 20);
    let both = [Some(before.label(0)), Some(after.label(1))];
    assert_eq!(Pair::of(both, Some(before.generation)).unwrap().in_sync, [true; MEMBERS]);
    // Either of them may be missing.
    assert!(Pair::of([None, both[1]], Some(before.generation)).is_ok());
    let alone = Pair::of([both[0], None], Some(before.generation)).unwrap().begun([both[0], None]);
    let back = Pair::of([Some(alone.label(0)), both[1]], Some(alone.generation)).unwrap();
    assert_eq!(back.in_sync, [true, false], "what was written meanwhile it lacks");
    // The one in whose place it came may be there instead.
    let older = [both[0], Some(pair().label(1))];
    let alone = Pair::of(older, Some(before.generation)).unwrap().begun(older);
    let back = Pair::of([Some(alone.label(0)), both[1]], Some(alone.generation)).unwrap();
    assert_eq!(back.in_sync, [true, false], "what was written meanwhile it lacks");
}

/// What labels say is resilvered a start takes for that only of the device that had it, and no longer than that got what was written.
#[test]
fn g9_so_much_of_a_member_is_resilvered_as_all_newest_labels_and_its_own_say() {
    let alone = pair().without(1, 1);
    let begun = alone.label_of_new(9 << 20);
    let some = alone.with_resilvered(9 << 20, 4096);
    let more = some.with_resilvered(9 << 20, 8192);
    let found = |own: PairLabel, other: &Pair| {
        let labels = [Some(other.label(0)), Some(own)];
        let found = Pair::of(labels, Some(other.generation)).unwrap();
        assert_eq!(found.in_sync, [true, false]);
        let is_alone = found.begun(labels).generation > found.generation;
        assert_eq!(is_alone, found.resilvered_member().is_none());
        found.resilvered_bytes
    };
    // From label to label: the other one has the newer one first.
    assert_eq!(found(begun, &alone), 0);
    assert_eq!(found(begun, &some), 0);
    assert_eq!(found(some.label(1), &some), 4096);
    assert_eq!(found(some.label(1), &more), 4096);
    assert_eq!(found(more.label(1), &more), 8192);
    // It was dropped, and does not know it; so it is after whatever came then.
    let mut later = more.without_resilvered();
    assert_eq!(found(more.label(1), &later), 0);
    later = later.with_resilvered(9 << 20, 4096);
    assert_eq!(found(more.label(1), &later), 0);
    // Another one in its place has nothing, whatever its label is made of.
    assert_eq!(found(more.label_of_new(9 << 20), &more), 0);
    // A start that goes on without it says so, and skips what it may have.
    let without = Pair::of([Some(more.label(0)), None], Some(more.generation)).unwrap();
    assert_eq!(without.resilvered_bytes, 0);
    let without = without.begun([Some(more.label(0)), None]);
    assert_eq!(found(more.label(1), &without), 0);
    // One as it was in an earlier run.
    let run = Pair { generation: more.generation + 2, ..more };
    assert_eq!(found(more.label(1), &run), 0);
    // With everything, or when the other one went, nothing is said of it.
    assert_eq!(more.with(1, 9 << 20).resilvered_bytes, 0);
    assert_eq!(more.with(1, 9 << 20).without(0, 2).resilvered_bytes, 0);
}

#[test]
fn strangers_and_copies_are_refused() {
    let (one, other) = (pair(), Pair { id: CacheId([4; 16]), ..pair() });
    for labels in [[one.label(0), other.label(1)], [one.label(0), one.label(0)], [one.label(1), one.label(0)]]
    {
        assert_eq!(kind(Pair::of(labels.map(Some), None)), StoreErrorKind::WrongMember);
    }
    assert_eq!(
        Pair::new(CacheId([3; 16]), [1 << 20, 8 << 20]).expect_err("no room").kind(),
        StoreErrorKind::Geometry
    );
}

fn three() -> Vec<Pair> {
    Pair::several(CacheId([3; 16]), &[[9 << 20, 8 << 20], [8 << 20; 2], [30 << 20; 2]]).unwrap()
}

fn labels_of(pair: &Pair) -> [Option<PairLabel>; MEMBERS] {
    [0, 1].map(|member| Some(pair.label(member)))
}

#[test]
fn each_pair_of_a_cache_is_judged_by_its_own_labels() {
    let pairs = three();
    let sizes = pairs.iter().map(|pair| pair.pair_bytes >> 20);
    assert_eq!(sizes.collect::<Vec<_>>(), [7, 7, 29]);
    let mut labels: Vec<_> = pairs.iter().map(labels_of).collect();
    assert_eq!(Pair::all_of(&labels, &[None; 3]).unwrap(), pairs);
    // In each another member is missing, or was dropped.
    let alone = pairs[1].without(0, 1);
    labels[0][1] = None;
    labels[1][1] = Some(alone.label(1));
    let found = Pair::all_of(&labels, &[Some(1), None, Some(1)]).unwrap();
    assert_eq!(
        found.iter().map(|pair| pair.in_sync).collect::<Vec<_>>(),
        [[true; 2], [false, true], [true; 2]]
    );
    // Nobody remembers the first.
    let refused = Pair::all_of(&labels, &[None; 3]).unwrap_err();
    assert!(refused.to_string().contains("pair 1 of 3: one SSD"), "{refused}");
    // All of the third is missing.
    labels[2] = [None, None];
    let refused = Pair::all_of(&labels, &[Some(1); 3]).unwrap_err();
    assert!(refused.to_string().contains("pair 3 of 3: neither SSD"), "{refused}");
    assert_eq!(refused.kind(), StoreErrorKind::WrongMember);
}

#[test]
fn pairs_that_are_not_one_cache_are_refused_by_number() {
    let pairs = three();
    let all: Vec<_> = pairs.iter().map(labels_of).collect();
    let stranger = labels_of(&Pair { id: CacheId([4; 16]), ..pairs[1] });
    let mixed = [Some(pairs[1].label(0)), Some(pairs[2].label(1))];
    for (given, words) in [
        (vec![all[0], stranger, all[2]], "for pair 2 of 3 is of cache 04"),
        (vec![all[0], all[2], all[1]], "for pair 2 of 3 is of pair 3"),
        (vec![all[0], all[1], all[1]], "for pair 3 of 3 is of pair 2"),
        (vec![all[0], mixed, all[2]], "for pair 2 of 3 is of pair 3"),
        (vec![all[0], all[1]], "pair 1 of the 3 of cache 03"),
        (vec![all[2]], "pair 3 of the 3"),
        (vec![all[0], all[1], all[2], all[0]], "and 4 were given"),
        (vec![labels_of(&pair()), labels_of(&pair())], "pair 1 of the 1"),
    ] {
        let refused = Pair::all_of(&given, &vec![Some(1); given.len()]).unwrap_err();
        assert!(refused.to_string().contains(words), "{words}: {refused}");
        assert_eq!(refused.kind(), StoreErrorKind::WrongMember);
    }
    assert_eq!(kind(Pair::of(mixed, Some(1))), StoreErrorKind::WrongMember);
    assert!(pairs[1..].iter().all(|pair| Pair::of(labels_of(pair), Some(1)) == Ok(*pair)));
    let many = vec![[8 << 20; 2]; PairLabel::MOST_PAIRS + 1];
    assert_eq!(Pair::several(CacheId([3; 16]), &many).unwrap_err().kind(), StoreErrorKind::Geometry);
}

/// Of a pair that was formatted with one SSD: until the other one counts, nothing went with it, and nothing of it is believed.
#[test]
fn g9_an_ssd_that_has_not_come_yet_was_not_dropped() {
    let pair = Pair::new(CacheId([3; 16]), [9 << 20; MEMBERS]).unwrap().awaiting();
    assert_eq!((pair.in_sync, pair.least_device_bytes()), ([true, false], 9 << 20));
    // Alone, also where nobody remembers it: there is nobody who could have gone on.
    let labels = [Some(pair.label(0)), None];
    assert_eq!(Pair::of(labels, None), Ok(pair));
    let begun = pair.begun(labels).since(7);
    assert_eq!((begun.awaits_other, begun.dropped_in), (true, [0; MEMBERS]));
    assert!((0..MEMBERS).all(|member| !begun.was_dropped_since(member, 1)));
    // It comes, and has a part.
    let came = [Some(begun.label(0)), Some(begun.label_of_new(9 << 20))];
    let found = Pair::of(came, None).unwrap();
    assert_eq!((found.in_sync, found.awaits_other, found.resilvered_bytes), ([true, false], true, 0));
    let some = begun.with_resilvered(9 << 20, 4096);
    let found = Pair::of([Some(some.label(0)), Some(some.label(1))], None).unwrap();
    assert_eq!((found.in_sync, found.awaits_other, found.resilvered_bytes), ([true, false], true, 4096));
    // It is away again: the first goes on as before.
    let without = Pair::of([Some(some.label(0)), None], None).unwrap();
    assert_eq!((without.awaits_other, without.dropped_in), (true, [0; MEMBERS]));
    // By itself it is nothing.
    assert_eq!(kind(Pair::of([None, Some(some.label(1))], None)), StoreErrorKind::WrongMember);
    // From when it is about to count it has come: whoever misses it then, misses what it alone had.
    let (before, counts) = some.counting(1, 9 << 20, 7);
    assert!(!before.awaits_other && before.was_dropped_since(1, 7));
    assert!(!counts.awaits_other && counts.in_sync == [true; MEMBERS]);
    let dropped = counts.without(1, 8);
    assert!(!dropped.awaits_other && dropped.was_dropped_since(1, 8));
    for said in [begun, some, before, counts, dropped] {
        let label = said.label(0);
        assert_eq!(PairLabel::decode(&label.encode()[..]), Ok(label));
    }
}
