//! What the threads that carry changes out need of the daemon. It must not know what they do with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lode_engine::MembershipEnd;
use lode_format::{CacheId, VolumeTag};
use lode_store::MembershipChange;
use lode_types::BlockSize;

use crate::host::Host;
use crate::read_ssd::ReadSsdParts;
use crate::records::Records;
use crate::shared::Disks;
use crate::sidecar::claims::Claims;
use crate::space::SharedSpace;

/// How long a change waits for space, or for its turn.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked at.
const TICK: Duration = Duration::from_millis(5);

/// See the module's documentation.
pub(crate) struct Parts {
    pub host: Host,
    pub space: Arc<SharedSpace>,
    pub records: Option<Records>,
    /// Who has which part of the read SSD, if there is one.
    pub read_ssd: Option<ReadSsdParts>,
    pub disks: Mutex<Disks>,
    /// Volumes that nobody has served since the start, and that hold nothing which their backing disks do not have.
    pub expendable: Vec<String>,
    /// The disks that are served.
    pub claims: Claims,
    pub block: BlockSize,
    /// Places of an extent of the cache SSD.
    pub extent_places: u32,
}

/// How a change of the SSD's directory ended.
pub(super) enum DirectoryEnd {
    Done(VolumeTag),
    /// Nothing was changed, for this reason.
    Refused(String),
    /// The SSD failed on the way: the next start knows what came of it.
    Unknown,
}

impl Parts {
    pub(super) fn disks(&self) -> MutexGuard<'_, Disks> {
        self.disks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A volume with this tag, as others know it.
    pub(super) fn volume(&self, tag: Option<VolumeTag>) -> Option<(CacheId, VolumeTag)> {
        Some((self.claims.cache()?, tag?))
    }

    /// That the SSD can be changed.
    pub(super) fn check_ssd(&self) -> Result<(), String> {
        match self.space.ssd().is_some_and(|ssd| ssd.disks.have_failed()) {
            true => Err("The cache SSD has failed; look at it and restart the service first".to_owned()),
            false => Ok(()),
        }
    }

    /// Carries a change out on the SSD, and waits for its end.
    pub(super) fn change_directory(&self, change: MembershipChange, give_up: &AtomicBool) -> DirectoryEnd {
        let deadline = Instant::now() + PATIENCE;
        let number = match self.space.with_broker(|broker| broker.change_membership(change)) {
            Ok(number) => number,
            Err(refusal) => return DirectoryEnd::Refused(refusal.to_string()),
        };
        loop {
            match self.space.with_broker(|broker| broker.membership_ended(number)) {
                Some(MembershipEnd::Done(tag)) => return DirectoryEnd::Done(tag),
                Some(MembershipEnd::Refused(error)) => return DirectoryEnd::Refused(error.to_string()),
                Some(MembershipEnd::Unknown) => return DirectoryEnd::Unknown,
                None => {}
            }
            if Instant::now() >= deadline || give_up.load(Ordering::Acquire) {
                let (shortage, is_given_up) = self.space.with_broker(|broker| {
                    (broker.membership_waits_for(number), broker.cancel_membership(number))
                });
                if is_given_up {
                    let why = shortage.map_or_else(
                        || "others change their space on the SSD without an end".to_owned(),
                        |shortage| shortage.to_string(),
                    );
                    return DirectoryEnd::Refused(why);
                }
            }
            std::thread::sleep(TICK);
        }
    }

    /// Waits until something is so.
    pub(super) fn wait_until(&self, give_up: &AtomicBool, mut is_so: impl FnMut() -> bool) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            if Instant::now() >= deadline || give_up.load(Ordering::Acquire) {
                return false;
            }
            std::thread::sleep(TICK);
        }
        true
    }
}
