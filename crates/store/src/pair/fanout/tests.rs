use lode_types::Bytes;

use super::super::member::STRIPE_BYTES;
use super::*;

const WELL: PairHealth =
    PairHealth { in_sync: [true; MEMBERS], is_recorded: true, is_lost: false, resilvering: None };
const TAG: VolumeTag = VolumeTag(5);
const BLOCK: usize = 4096;
const MOST_TICKS: u64 = 3;

fn block(name: u8) -> Vec<u8> {
    vec![name; BLOCK]
}

fn write_of(id: u64, one_copy: bool) -> PairCommand {
    let kind = CommandKind::write(8192, Bytes::from(block(1)));
    PairCommand { id, kind, options: PairOptions { one_copy, ..PairOptions::default() } }
}

fn flush(id: u64) -> PairCommand {
    PairCommand { kind: CommandKind::Flush, ..write_of(id, false) }
}

fn legs(fanout: &mut Fanout) -> Vec<Leg> {
    std::iter::from_fn(|| fanout.next_leg()).collect()
}

fn write(fanout: &mut Fanout, id: u64) -> Vec<Leg> {
    fanout.begin(write_of(id, false), &WELL);
    legs(fanout)
}

/// A read of two blocks, of which the members have these.
fn read(fanout: &mut Fanout, members: [[u8; 2]; MEMBERS], want: PairOptions) -> (Vec<(usize, u64)>, PairEnd) {
    let bufs = [0, 1].map(|_| Buf::for_overwrite(BLOCK)).into_iter().collect();
    let kind = CommandKind::Read { offset_bytes: 0, bufs };
    fanout.begin(PairCommand { id: 7, kind, options: want }, &WELL);
    let mut written = Vec::new();
    while let Some(Leg { token, member, kind }) = fanout.next_leg() {
        let mut found = Bufs::new();
        match kind {
            CommandKind::Read { offset_bytes: PairLabel::DATA_START_BYTES, bufs } => {
                let fill = |mut buf: Buf, name| {
                    buf.as_mut_slice().copy_from_slice(&block(name));
                    buf
                };
                found = bufs.into_iter().zip(members[member]).map(|(buf, name)| fill(buf, name)).collect();
            }
            CommandKind::Write { offset_bytes, .. } => {
                written.push((member, offset_bytes - PairLabel::DATA_START_BYTES));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(fanout.leg_ended(token, Ok(()), found, &WELL), None);
    }
    (written, fanout.next_end(&WELL).expect("it is over"))
}

/// Of what both have the member is read that is asked for less; what one alone has is read from that one.
#[test]
fn what_both_have_is_read_from_the_member_that_is_less_busy() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    let begin = |fanout: &mut Fanout, one_copy| {
        let bufs = [Buf::for_overwrite(BLOCK)].into_iter().collect();
        let options = PairOptions { one_copy, ..PairOptions::default() };
        fanout
            .begin(PairCommand { id: 1, kind: CommandKind::Read { offset_bytes: 0, bufs }, options }, &WELL);
        let Leg { token, member, .. } = fanout.next_leg().expect("one member is asked");
        (token, member)
    };
    let home = home_member(0);
    let (slow, first) = begin(&mut fanout, false);
    assert_eq!(first, home, "both are idle");
    assert_eq!((0..3).map(|_| begin(&mut fanout, true).1).collect::<Vec<_>>(), [home; 3]);
    // The other one is asked until it has as much to do.
    assert_eq!((0..4).map(|_| begin(&mut fanout, false).1).collect::<Vec<_>>(), [other(home); 4]);
    assert_eq!(begin(&mut fanout, false).1, home);
    // What has ended or was given up keeps nobody busy.
    let found = [Buf::for_overwrite(BLOCK)].into_iter().collect();
    assert_eq!(fanout.leg_ended(slow, Ok(()), found, &WELL), None);
    assert_eq!(begin(&mut fanout, false).1, home);
    fanout.give_up(other(home), &WELL);
    assert_eq!(legs(&mut fanout).len(), 4, "the home is asked for what the other one was");
    assert_eq!(begin(&mut fanout, false).1, other(home));
}

fn checks(names: [u8; 2]) -> PairOptions {
    let check = |(number, name): (u64, u8)| (number, data_checksum(TAG, number, &block(name)));
    PairOptions { checks: (0..).zip(names).map(check).collect(), ..PairOptions::default() }
}

#[test]
fn each_block_of_a_read_comes_from_the_member_that_has_it() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    for (members, expected) in [
        ([[1, 2], [9, 9]], vec![]),
        ([[9, 2], [1, 9]], vec![(0, 0), (1, BLOCK as u64)]),
        ([[9, 9], [1, 2]], vec![(0, 0), (0, BLOCK as u64)]),
    ] {
        let (written, end) = read(&mut fanout, members, checks([1, 2]));
        assert_eq!(written, expected);
        let found: Vec<u8> = end.bufs.iter().map(|buf| buf.as_slice()[0]).collect();
        assert_eq!((end.id, end.result, found), (7, Ok(()), vec![1, 2]));
    }
    // What is wrong on both is given as it is, and written nowhere.
    let (written, end) = read(&mut fanout, [[1, 8], [9, 9]], checks([1, 2]));
    assert_eq!((written, end.bufs[1].as_slice()[0]), (vec![(1, 0)], 8));
    assert_eq!(fanout.healed(), 5);
    // A scrub looks at both although the first is right.
    let want = PairOptions { every_copy: true, ..checks([1, 2]) };
    let (written, _) = read(&mut fanout, [[1, 2], [1, 9]], want);
    assert_eq!(written, [(1, BLOCK as u64)]);
    assert!(fanout.is_idle());
}

#[test]
fn what_a_member_lacks_is_told_when_its_label_says_so() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    let legs = write(&mut fanout, 3);
    assert_eq!(fanout.leg_ended(legs[0].token, Err(MediaError::Io), Bufs::new(), &WELL), None);
    assert_eq!(fanout.leg_ended(legs[1].token, Ok(()), Bufs::new(), &WELL), Some(0));
    assert!(fanout.next_end(&WELL).is_none(), "nobody was told that the first one lacks it");
    let dropped =
        PairHealth { in_sync: [false, true], is_recorded: false, is_lost: false, resilvering: None };
    assert!(fanout.next_end(&dropped).is_none(), "the label does not say so");
    // Nor is anything else acknowledged that it lacks.
    fanout.begin(flush(4), &dropped);
    let leg = fanout.next_leg().expect("to the other one");
    assert_eq!((leg.member, fanout.next_leg().is_none()), (1, true));
    assert_eq!(fanout.leg_ended(leg.token, Ok(()), Bufs::new(), &dropped), None);
    assert!(fanout.next_end(&dropped).is_none());
    let recorded = PairHealth { is_recorded: true, ..dropped };
    let told: Vec<_> =
        std::iter::from_fn(|| fanout.next_end(&recorded)).map(|end| (end.id, end.result)).collect();
    assert_eq!(told, [(3, Ok(())), (4, Ok(()))]);
}

/// It counts by the time its failure is known, and the other one, which took the write, was dropped.
#[test]
fn what_the_last_member_lacks_since_it_was_resilvered_has_failed() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    let resilvering = PairHealth { in_sync: [true, false], resilvering: Some(1), ..WELL };
    fanout.begin(flush(3), &resilvering);
    let legs: Vec<_> = std::iter::from_fn(|| fanout.next_leg()).collect();
    assert_eq!(fanout.leg_ended(legs[0].token, Ok(()), Bufs::new(), &resilvering), None);
    assert_eq!(fanout.leg_ended(legs[1].token, Err(MediaError::Io), Bufs::new(), &resilvering), Some(1));
    let alone = PairHealth { in_sync: [false, true], ..WELL };
    assert_eq!(fanout.next_end(&alone).map(|end| end.result), Some(Err(MediaError::Gone)));
    // While it does not count, nobody waits for what it lacks.
    fanout.begin(flush(4), &resilvering);
    let legs: Vec<_> = std::iter::from_fn(|| fanout.next_leg()).collect();
    assert_eq!(fanout.leg_ended(legs[1].token, Err(MediaError::Io), Bufs::new(), &resilvering), Some(1));
    assert_eq!(fanout.leg_ended(legs[0].token, Ok(()), Bufs::new(), &resilvering), Some(1));
    assert_eq!(fanout.next_end(&resilvering).map(|end| end.result), Some(Ok(())));
}

/// The other one is slow: it is the last then, and waited for.
#[test]
fn one_that_is_gone_or_fails_a_resilver_goes_before_the_other_one_has_answered() {
    let alone = PairHealth { in_sync: [true, false], ..WELL };
    let resilvering = PairHealth { resilvering: Some(1), ..alone };
    let either = [(WELL, MediaError::Gone), (resilvering, MediaError::Gone), (resilvering, MediaError::Io)];
    for (health, error) in either {
        let mut fanout = Fanout::new(TAG, MOST_TICKS);
        fanout.begin(flush(3), &health);
        let legs = legs(&mut fanout);
        assert_eq!(fanout.leg_ended(legs[1].token, Err(error), Bufs::new(), &health), Some(1));
        fanout.give_up(1, &alone);
        assert!((0..3 * MOST_TICKS).all(|_| fanout.tick(&alone).is_none()));
        assert_eq!(fanout.leg_ended(legs[0].token, Ok(()), Bufs::new(), &alone), None);
        assert_eq!(fanout.next_end(&alone).map(|end| end.result), Some(Ok(())));
    }
    // The last one is not dropped.
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    fanout.begin(flush(3), &resilvering);
    let legs = legs(&mut fanout);
    assert_eq!(fanout.leg_ended(legs[0].token, Err(MediaError::Gone), Bufs::new(), &resilvering), None);
}

/// A write that is slow on the other member ends when another device is there already.
#[test]
fn a_device_is_not_dropped_for_what_the_one_before_it_lacks() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    let legs = write(&mut fanout, 3);
    let dropped = PairHealth { in_sync: [true, false], ..WELL };
    fanout.give_up(1, &dropped);
    let resilvering = PairHealth { resilvering: Some(1), ..dropped };
    assert_eq!(fanout.leg_ended(legs[0].token, Ok(()), Bufs::new(), &resilvering), None);
    assert_eq!(fanout.next_end(&resilvering).map(|end| end.result), Some(Ok(())));
}

#[test]
fn what_both_members_fail_has_failed_and_nobody_is_dropped() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    let legs = write(&mut fanout, 3);
    for leg in &legs {
        assert_eq!(fanout.leg_ended(leg.token, Err(MediaError::Io), Bufs::new(), &WELL), None);
    }
    assert_eq!(fanout.next_end(&WELL).map(|end| end.result), Some(Err(MediaError::Io)));
}

#[test]
fn a_member_that_does_not_answer_is_given_up() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    let legs = write(&mut fanout, 3);
    assert_eq!(fanout.leg_ended(legs[1].token, Ok(()), Bufs::new(), &WELL), None);
    let given_up: Vec<_> = (0..MOST_TICKS + 2).filter_map(|_| fanout.tick(&WELL)).collect();
    assert_eq!(given_up, [0]);
    let dropped = PairHealth { in_sync: [false, true], ..WELL };
    assert_eq!(fanout.next_end(&dropped).map(|end| (end.id, end.result)), Some((3, Ok(()))));
    // It answers after all.
    assert_eq!(fanout.leg_ended(legs[0].token, Ok(()), Bufs::new(), &dropped), None);
    assert!(fanout.is_idle());
}

#[test]
fn where_neither_member_answers_none_is_given_up() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    let legs = write(&mut fanout, 3);
    let ticks = |fanout: &mut Fanout, count| (0..count).find_map(|_| fanout.tick(&WELL));
    assert_eq!(ticks(&mut fanout, 3 * MOST_TICKS), None);
    // One of them answers, and the other one does not.
    assert_eq!(fanout.leg_ended(legs[0].token, Ok(()), Bufs::new(), &WELL), None);
    assert_eq!(ticks(&mut fanout, MOST_TICKS + 1), Some(1));
}

/// Of two volumes, one finds that the first member fails, and the other one that the second does.
#[test]
fn what_only_a_dropped_member_took_has_failed() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    let legs = write(&mut fanout, 3);
    assert_eq!(fanout.leg_ended(legs[0].token, Ok(()), Bufs::new(), &WELL), None);
    assert_eq!(fanout.leg_ended(legs[1].token, Err(MediaError::Io), Bufs::new(), &WELL), Some(1));
    let dropped =
        PairHealth { in_sync: [false, true], is_recorded: false, is_lost: false, resilvering: None };
    assert_eq!(fanout.next_end(&dropped).map(|end| end.result), Some(Err(MediaError::Gone)));
    assert!(fanout.is_idle());
}

#[test]
fn what_waits_for_a_member_that_is_given_up_is_not_sent() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    fanout.begin(flush(3), &WELL);
    let dropped = PairHealth { in_sync: [false, true], ..WELL };
    fanout.give_up(0, &dropped);
    let members: Vec<usize> = std::iter::from_fn(|| fanout.next_leg()).map(|leg| leg.member).collect();
    assert_eq!(members, [1]);
}

#[test]
fn a_member_that_is_being_filled_gets_all_writes_and_nothing_waits_for_it() {
    let resilvering = PairHealth { in_sync: [true, false], resilvering: Some(1), ..WELL };
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    let begin = |fanout: &mut Fanout, health: &PairHealth| {
        fanout.begin(write_of(3, false), health);
        std::iter::from_fn(|| fanout.next_leg()).collect::<Vec<Leg>>()
    };
    let legs = begin(&mut fanout, &resilvering);
    assert_eq!(legs.iter().map(|leg| leg.member).collect::<Vec<_>>(), [0, 1]);
    // It fails there: that ends the resilvering, and no write.
    assert_eq!(fanout.leg_ended(legs[1].token, Err(MediaError::Io), Bufs::new(), &resilvering), Some(1));
    assert_eq!(fanout.leg_ended(legs[0].token, Ok(()), Bufs::new(), &resilvering), Some(1));
    assert_eq!(fanout.next_end(&resilvering).map(|end| end.result), Some(Ok(())));
    // What only the one that is being filled took has failed.
    let legs = begin(&mut fanout, &resilvering);
    assert_eq!(fanout.leg_ended(legs[0].token, Err(MediaError::Io), Bufs::new(), &resilvering), None);
    assert_eq!(fanout.leg_ended(legs[1].token, Ok(()), Bufs::new(), &resilvering), None);
    assert_eq!(fanout.next_end(&resilvering).map(|end| end.result), Some(Err(MediaError::Io)));
    // What was begun before it was filled is not waited for there when it has everything.
    let alone = PairHealth { resilvering: None, ..resilvering };
    let legs = begin(&mut fanout, &alone);
    assert_eq!(legs.len(), 1);
    assert_eq!(fanout.leg_ended(legs[0].token, Ok(()), Bufs::new(), &WELL), None);
    assert_eq!(fanout.next_end(&WELL).map(|end| end.result), Some(Ok(())));
    assert!(fanout.is_idle());
}

#[test]
fn a_write_for_which_one_member_is_enough_goes_to_the_first_one_by_stripes() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    for (offset_bytes, first) in [(0, 0), (STRIPE_BYTES - 4096, 0), (STRIPE_BYTES, 1), (2 * STRIPE_BYTES, 0)]
    {
        let kind = CommandKind::write(offset_bytes, Bytes::from(block(1)));
        fanout.begin(PairCommand { kind, ..write_of(3, true) }, &WELL);
        let legs = legs(&mut fanout);
        assert_eq!(legs.iter().map(|leg| leg.member).collect::<Vec<_>>(), [first]);
        assert_eq!(fanout.leg_ended(legs[0].token, Ok(()), Bufs::new(), &WELL), None);
        assert_eq!(fanout.next_end(&WELL).map(|end| end.result), Some(Ok(())));
    }
    // Beside one that lacks something, everything goes to both.
    let resilvering = PairHealth { in_sync: [true, false], resilvering: Some(1), ..WELL };
    fanout.begin(write_of(3, true), &resilvering);
    assert_eq!(legs(&mut fanout).len(), 2);
}

#[test]
fn what_the_first_member_does_not_take_goes_to_the_other_one() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    let dropped = PairHealth { in_sync: [false, true], ..WELL };
    fanout.begin(write_of(3, true), &WELL);
    let first = legs(&mut fanout);
    assert_eq!(fanout.leg_ended(first[0].token, Err(MediaError::Io), Bufs::new(), &WELL), None);
    let second = legs(&mut fanout);
    let CommandKind::Write { data, .. } = &second[0].kind else { panic!("{second:?}") };
    assert_eq!((second.len(), second[0].member, data.concat()), (1, 1, block(1)));
    assert_eq!(fanout.leg_ended(second[0].token, Ok(()), Bufs::new(), &WELL), Some(0));
    assert!(fanout.next_end(&WELL).is_none(), "labels do not say yet that the first was dropped");
    assert_eq!(fanout.next_end(&dropped).map(|end| end.result), Some(Ok(())));
    // The same where the first one is given up.
    fanout.begin(write_of(3, true), &WELL);
    assert_eq!(legs(&mut fanout).len(), 1);
    fanout.give_up(0, &dropped);
    let second = legs(&mut fanout);
    assert_eq!(fanout.leg_ended(second[0].token, Err(MediaError::Io), Bufs::new(), &dropped), None);
    assert_eq!(fanout.next_end(&dropped).map(|end| end.result), Some(Err(MediaError::Io)));
    assert!(fanout.is_idle());
}

/// It was written, and nobody has heard of it yet when the only member that has it is dropped.
#[test]
fn what_only_a_dropped_member_took_goes_to_the_other_one_unless_it_was_told() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    fanout.begin(write_of(3, true), &WELL);
    let first = legs(&mut fanout);
    assert_eq!(fanout.leg_ended(first[0].token, Ok(()), Bufs::new(), &WELL), None);
    let dropped = PairHealth { in_sync: [false, true], ..WELL };
    fanout.give_up(0, &dropped);
    assert!(fanout.next_end(&dropped).is_none());
    let second = legs(&mut fanout);
    let CommandKind::Write { data, .. } = &second[0].kind else { panic!("{second:?}") };
    assert_eq!((second.len(), second[0].member, data.concat()), (1, 1, block(1)));
    assert_eq!(fanout.leg_ended(second[0].token, Ok(()), Bufs::new(), &dropped), None);
    assert_eq!(fanout.next_end(&dropped).map(|end| (end.id, end.result)), Some((3, Ok(()))));
    assert!(fanout.is_idle());
}

/// In the place of a clean block the other member has something else.
#[test]
fn what_only_its_home_has_is_looked_for_nowhere_else() {
    let mut fanout = Fanout::new(TAG, MOST_TICKS);
    let want = PairOptions { one_copy: true, ..checks([1, 2]) };
    let (written, end) = read(&mut fanout, [[1, 9], [1, 2]], want.clone());
    assert_eq!((written, end.bufs[1].as_slice()[0]), (vec![], 9));
    assert_eq!(fanout.healed(), 0);
    // It cannot be read at all.
    let bufs = [0, 1].map(|_| Buf::for_overwrite(BLOCK)).into_iter().collect();
    let kind = CommandKind::Read { offset_bytes: 0, bufs };
    fanout.begin(PairCommand { id: 7, kind, options: want }, &WELL);
    let asked = legs(&mut fanout);
    assert_eq!(fanout.leg_ended(asked[0].token, Err(MediaError::Io), Bufs::new(), &WELL), None);
    assert!(legs(&mut fanout).is_empty());
    assert_eq!(fanout.next_end(&WELL).map(|end| end.result), Some(Err(MediaError::Io)));
}
