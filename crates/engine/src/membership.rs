//! Volumes that are added, removed and renamed, as far as the broker carries it ([`crate::SpaceBroker`]): one change at a time, each
//! with a number of its own, so that how one ended is never taken for the end of another. It must not know directories.

use lode_format::VolumeTag;
use lode_store::{MembershipChange, StoreError};

/// How a change of what volumes there are has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipEnd {
    /// The directory says so durably, of this volume.
    Done(VolumeTag),
    /// Nothing was changed.
    Refused(StoreError),
    /// The SSD failed on the way: which of two directories counts is not known before the next start.
    Unknown,
}

/// Why a change of what volumes there are does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipRefusal {
    /// The host has no SSD.
    NoSsd,
    /// Another one has not ended.
    Busy,
    /// A write or a flush of the directory failed in this run.
    Failed,
}

impl std::fmt::Display for MembershipRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MembershipRefusal::NoSsd => "The host has no cache SSD",
            MembershipRefusal::Busy => "Another VM is being added, removed or renamed; try again when that has ended",
            MembershipRefusal::Failed => {
                "The cache SSD's directory could not be written in this run; look at the SSD, then restart the service"
            }
        })
    }
}

impl std::error::Error for MembershipRefusal {}

/// The change that waits or is under way, and how the last one ended.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    last_number: u64,
    waiting: Option<(u64, MembershipChange)>,
    under_way: Option<u64>,
    ended: Option<(u64, MembershipEnd)>,
}

impl Membership {
    /// Takes a change that is to begin when it can. How the last one ended is forgotten.
    pub(crate) fn put(&mut self, change: MembershipChange) -> Result<u64, MembershipRefusal> {
        if self.waiting.is_some() || self.under_way.is_some() {
            return Err(MembershipRefusal::Busy);
        }
        self.last_number += 1;
        self.waiting = Some((self.last_number, change));
        self.ended = None;
        Ok(self.last_number)
    }

    /// The change that has not begun.
    pub(crate) fn waiting(&self) -> Option<&MembershipChange> {
        self.waiting.as_ref().map(|(_, change)| change)
    }

    /// The number of it, if it is this one.
    pub(crate) fn is_waiting(&self, number: u64) -> bool {
        self.waiting.as_ref().is_some_and(|(waiting, _)| *waiting == number)
    }

    /// It has begun, or was refused.
    pub(crate) fn begun(&mut self, outcome: Result<VolumeTag, StoreError>) {
        let Some((number, _)) = self.waiting.take() else { return };
        match outcome {
            Ok(_) => self.under_way = Some(number),
            Err(error) => self.ended = Some((number, MembershipEnd::Refused(error))),
        }
    }

    /// What is under way is done.
    pub(crate) fn done(&mut self, volume: VolumeTag) {
        self.ended = self.under_way.take().map(|number| (number, MembershipEnd::Done(volume)));
    }

    /// The directory cannot be written any more.
    pub(crate) fn fail(&mut self) {
        if let Some((number, _)) = self.waiting.take() {
            let refused = MembershipEnd::Refused(StoreError::directory_failed());
            self.ended = Some((number, refused));
        }
        if let Some(number) = self.under_way.take() {
            self.ended = Some((number, MembershipEnd::Unknown));
        }
    }

    /// Takes the end of the change of this number.
    pub(crate) fn take_end(&mut self, number: u64) -> Option<MembershipEnd> {
        self.ended.take_if(|(ended, _)| *ended == number).map(|(_, end)| end)
    }

    /// Gives up the change of this number, if it has not begun.
    pub(crate) fn cancel(&mut self, number: u64) -> bool {
        self.waiting.take_if(|(waiting, _)| *waiting == number).is_some()
    }
}
