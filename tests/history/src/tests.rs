use lode_types::Rng;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Data,
    Zero,
    Trim,
}

/// The number of the write whose bytes a sector holds; 0: zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Of(u32);

impl Content for Of {
    type Change = Change;

    fn may_follow(&self, _sector: usize, write: u32, change: Change) -> bool {
        match change {
            Change::Data => self.0 == write,
            Change::Zero => self.0 == 0,
            Change::Trim => self.0 < write,
        }
    }

    fn is_certain_after(change: Change) -> bool {
        change != Change::Trim
    }

    fn as_change(&self) -> (u32, Change) {
        (self.0, if self.0 == 0 { Change::Zero } else { Change::Data })
    }
}

fn history(sectors: usize) -> History<Change> {
    History::new(sectors, Change::Zero)
}

fn write(history: &mut History<Change>, write: u32, sector: usize) {
    history.submit(write, sector..sector + 1, Change::Data);
}

fn check(history: &History<Change>, writes: &[u32], earliest: u64) -> Result<u64, String> {
    history.check(&writes.iter().copied().map(Of).collect::<Vec<_>>(), earliest)
}

#[test]
fn g11_a_state_has_a_moment_that_suits_all_sectors() {
    let mut history = history(3);
    write(&mut history, 1, 0);
    history.acknowledge(1);
    write(&mut history, 2, 1);
    write(&mut history, 3, 0);
    history.acknowledge(3);
    history.acknowledge(2);
    write(&mut history, 4, 2);
    for good in [[0, 0, 0], [1, 0, 0], [1, 2, 0], [3, 0, 0], [3, 2, 0], [3, 2, 4]] {
        assert!(check(&history, &good, 0).is_ok(), "{good:?}");
    }
    // The second without the first, the last one without what was acknowledged before it, and what was never there.
    for bad in [[0, 2, 0], [1, 2, 4], [3, 0, 4], [9, 0, 0]] {
        assert!(check(&history, &bad, 0).is_err(), "{bad:?}");
    }
    assert_eq!(check(&history, &[1, 2, 0], 4), Ok(4));
    assert!(check(&history, &[1, 2, 0], 5).is_err(), "later than the acknowledgement of 3");
}

#[test]
fn g11_a_state_is_no_earlier_than_was_told() {
    let mut history = history(2);
    write(&mut history, 1, 0);
    history.acknowledge(1);
    let then = history.now();
    write(&mut history, 2, 1);
    history.acknowledge(2);
    assert_eq!(check(&history, &[1, 0], then), Ok(3));
    assert!(check(&history, &[0, 0], then).unwrap_err().contains("said to be of 2 or later"));
    assert!(check(&history, &[1, 0], history.now()).is_err());
    assert_eq!(check(&history, &[1, 2], history.now()), Ok(4));
}

#[test]
fn what_a_power_cut_left_of_an_acknowledged_write_is_older() {
    let mut history = history(2);
    for number in [1, 2] {
        write(&mut history, number, 0);
        history.acknowledge(number);
    }
    write(&mut history, 3, 1);
    history.acknowledge(3);
    assert!(check(&history, &[1, 3], 0).is_err());
    history.found(0, &Of(1), true);
    assert!(check(&history, &[1, 3], history.now()).is_ok());
    assert!(check(&history, &[2, 3], history.now()).is_err(), "it was found to be older");
    assert!(check(&history, &[1, 0], 0).is_ok(), "the disk may be of long before");
    write(&mut history, 4, 1);
    history.acknowledge(4);
    assert!(check(&history, &[1, 4], history.now()).is_ok());
}

#[test]
fn what_was_found_and_may_not_stay_is_there_or_not() {
    let mut history = history(1);
    write(&mut history, 1, 0);
    history.end();
    history.found(0, &Of(1), false);
    for content in [0, 1] {
        assert!(check(&history, &[content], history.now()).is_ok(), "{content}");
    }
    history.found(0, &Of(1), true);
    assert!(check(&history, &[1], history.now()).is_ok());
    assert!(check(&history, &[0], history.now()).is_err());
}

#[test]
fn a_failed_write_and_a_trim_may_be_there_or_not() {
    let mut history = history(2);
    write(&mut history, 1, 0);
    history.acknowledge(1);
    write(&mut history, 2, 0);
    history.fail(2);
    history.submit(3, 1..2, Change::Trim);
    history.acknowledge(3);
    write(&mut history, 4, 1);
    history.acknowledge(4);
    for good in [[1, 4], [2, 4], [1, 0]] {
        assert!(check(&history, &good, 0).is_ok(), "{good:?}");
    }
    assert!(check(&history, &[0, 4], 0).is_err());
}

/// Every moment of a few random histories, tried one after the other: what the steps count is what each sector says by itself.
#[test]
fn a_state_is_in_order_where_some_moment_suits_each_sector_by_itself() {
    const SECTORS: usize = 3;
    let mut rng = Rng::new(11);
    let mut below = |end: u64| rng.below(end);
    let (mut in_order, mut not) = (0, 0);
    for _ in 0..2000 {
        let mut history = history(SECTORS);
        // By sector its writes: number, submission, acknowledgement.
        let mut known = vec![vec![(0, 0, 0)]; SECTORS];
        let mut open = Vec::new();
        let (mut now, mut number) = (0, 0);
        for _ in 0..below(12) {
            now += 1;
            if open.is_empty() || below(2) == 0 {
                number += 1;
                let sector = below(SECTORS as u64) as usize;
                write(&mut history, number, sector);
                known[sector].push((number, now, u64::MAX));
                open.push((sector, known[sector].len() - 1, number));
            } else {
                let (sector, at, number) = open.swap_remove(below(open.len() as u64) as usize);
                history.acknowledge(number);
                known[sector][at].2 = now;
            }
        }
        let state: Vec<u32> =
            (0..SECTORS).map(|sector| known[sector][below(known[sector].len() as u64) as usize].0).collect();
        let suits = |moment: u64| {
            (0..SECTORS).all(|sector| {
                let at = known[sector].iter().position(|&(write, ..)| write == state[sector]).unwrap_or(0);
                // Sent by then, and nothing later of the sector was answered by then.
                known[sector][at].1 <= moment
                    && known[sector][at + 1..].iter().all(|&(_, _, acknowledged)| moment < acknowledged)
            })
        };
        let latest = (0..=now).rev().find(|&moment| suits(moment));
        assert_eq!(check(&history, &state, 0).ok(), latest, "{state:?} of {known:?}");
        *if latest.is_some() { &mut in_order } else { &mut not } += 1;
    }
    assert!(in_order > 300 && not > 300, "{in_order} and {not}: both have to come up");
}
