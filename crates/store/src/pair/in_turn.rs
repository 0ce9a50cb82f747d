//! A write or flush that members of a pair are asked for one after the other, as those of the directory are: who is asked next, who is to
//! be dropped for it, and what it is worth. It must not know devices, threads, or what is written.

use lode_types::{MediaError, planted};

use super::fanout::PairHealth;
use super::member::{MEMBERS, other};

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub struct InTurn {
    /// How the pair stood when it began.
    began: PairHealth,
    results: [Option<Result<(), MediaError>>; MEMBERS],
}

impl InTurn {
    /// One that begins while the pair stands like this.
    pub fn new(health: PairHealth) -> InTurn {
        InTurn { began: health, results: [None; MEMBERS] }
    }

    /// How the pair stood when it began.
    pub fn began(&self) -> &PairHealth {
        &self.began
    }

    /// The member that is to be asked next: each that has everything, or is about to.
    pub fn next_member(&self) -> Option<usize> {
        (0..MEMBERS).find(|&member| self.began.uses(member) && self.results[member].is_none())
    }

    /// Whether nobody else who has everything now has taken it, or is still to be asked: without this member it fails, and so it is waited
    /// for however long that takes.
    pub fn is_last(&self, member: usize, now: &PairHealth) -> bool {
        let may_take = |other: usize| self.took(other) || self.results[other].is_none();
        let mut others = (0..MEMBERS).filter(|&other| other != member && now.in_sync[other]);
        !others.any(may_take) && !planted("last-member-is-not-waited-for")
    }

    /// A member has taken it, or failed.
    pub fn ended(&mut self, member: usize, result: Result<(), MediaError>) {
        self.results[member] = Some(result);
    }

    /// Whether a member that was asked has not answered, or is gone, and the other one has everything: it is dropped before that one is asked, which
    /// otherwise might be dropped meanwhile, so that nobody would have it.
    pub fn must_be_dropped(&self, member: usize, now: &PairHealth) -> bool {
        let is_gone = self.results[member] == Some(Err(MediaError::Gone));
        is_gone && now.in_sync[other(member)] && !planted("late-member-stays-until-all-were-asked")
    }

    fn took(&self, member: usize) -> bool {
        self.results[member] == Some(Ok(()))
    }

    /// Whether one took it that had everything, or has by now: one that was being resilvered got it as well, and may count since; the other
    /// one may have been dropped for that.
    fn is_taken(&self, now: &PairHealth) -> bool {
        let counts_now =
            |member: usize| now.in_sync[member] && !planted("resilvered-meanwhile-does-not-count");
        (0..MEMBERS).any(|member| self.took(member) && (self.began.in_sync[member] || counts_now(member)))
    }

    /// All were asked: those that are to be dropped for what they failed. What failed on all that have everything has failed, and nobody is
    /// to be dropped for it.
    pub fn failed_members(&self, now: &PairHealth) -> impl Iterator<Item = usize> + use<> {
        let has_failed = [0, 1].map(|member| matches!(self.results[member], Some(Err(_))));
        let is_taken = self.is_taken(now);
        (0..MEMBERS).filter(move |&member| is_taken && has_failed[member])
    }

    /// All were asked, and those that failed were dropped: how it ended. `None`: labels have to say first who lacks it.
    pub fn end(&self, now: &PairHealth) -> Option<Result<(), MediaError>> {
        if !self.is_taken(now) {
            let error = self.results.into_iter().flatten().find_map(Result::err);
            return Some(Err(error.unwrap_or(MediaError::Gone)));
        }
        let is_somewhere = (0..MEMBERS).any(|member| now.in_sync[member] && self.took(member));
        match () {
            () if now.is_lost || !is_somewhere => Some(Err(MediaError::Gone)),
            () if now.is_recorded => Some(Ok(())),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(in_sync: [bool; MEMBERS], is_recorded: bool) -> PairHealth {
        let resilvering = in_sync.iter().position(|has_all| !has_all).filter(|_| is_recorded);
        PairHealth { in_sync, is_recorded, is_lost: false, resilvering }
    }

    fn asked(began: PairHealth, results: [Result<(), MediaError>; MEMBERS]) -> InTurn {
        let mut asked = InTurn::new(began);
        while let Some(member) = asked.next_member() {
            asked.ended(member, results[member]);
        }
        asked
    }

    const FAILED: Result<(), MediaError> = Err(MediaError::Io);

    #[test]
    fn what_one_lacks_is_told_when_labels_say_so() {
        let both = health([true, true], true);
        let lacks = asked(both, [Ok(()), FAILED]);
        assert_eq!(lacks.failed_members(&both).collect::<Vec<_>>(), [1]);
        assert_eq!(lacks.end(&health([true, false], false)), None);
        assert_eq!(lacks.end(&health([true, false], true)), Some(Ok(())));
        // Who took it was found to fail meanwhile.
        assert_eq!(lacks.end(&health([false, true], false)), Some(Err(MediaError::Gone)));
        let nowhere = asked(both, [FAILED, FAILED]);
        assert_eq!((nowhere.failed_members(&both).count(), nowhere.end(&both)), (0, Some(FAILED)));
    }

    #[test]
    fn the_last_one_is_waited_for() {
        let both = health([true, true], true);
        let mut asked = InTurn::new(both);
        assert!(!asked.is_last(0, &both), "the other one may take it");
        asked.ended(0, FAILED);
        assert!(asked.is_last(1, &both));
        asked.ended(0, Ok(()));
        assert!(!asked.is_last(1, &both));
        assert!(asked.is_last(1, &health([false, true], true)), "the one that took it was taken out");
        let before = health([false, true], true);
        assert!(InTurn::new(before).is_last(1, &before), "one that is resilvered is not enough");
    }

    #[test]
    fn one_that_does_not_answer_goes_before_the_other_one_is_asked() {
        let both = health([true, true], true);
        let mut asked = InTurn::new(both);
        asked.ended(0, Err(MediaError::Gone));
        assert!(asked.must_be_dropped(0, &both) && !asked.must_be_dropped(1, &both));
        assert!(!asked.must_be_dropped(0, &health([true, false], true)), "it is the last one");
        asked.ended(0, FAILED);
        assert!(!asked.must_be_dropped(0, &both), "the other one may fail it as well");
    }

    #[test]
    fn one_that_is_resilvered_meanwhile_has_it() {
        let before = health([false, true], true);
        let taken = asked(before, [Ok(()), FAILED]);
        assert_eq!((taken.failed_members(&before).count(), taken.end(&before)), (0, Some(FAILED)));
        // It counts, and the other one was dropped before it was asked.
        let after = health([true, false], true);
        assert_eq!(taken.failed_members(&after).collect::<Vec<_>>(), [1]);
        assert_eq!(taken.end(&after), Some(Ok(())));
    }
}
