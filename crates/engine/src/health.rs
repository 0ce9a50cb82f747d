//! The health of a volume: what can still be promised after a device failed, and what is done about it. A table of its
//! transitions is in `docs/design.md`. It must not know what failed devices held, or who waits.

use lode_types::planted;

use crate::command::DeviceId;
use crate::fence::Fence;

/// What can be promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    /// Everything.
    #[default]
    Well,
    /// Nothing is durable on the SSD any more: what it held dirty is brought to the backing disk.
    SsdFailed(Rescue),
    /// What the backing disk was told to keep may be lost: nothing more is brought to it.
    BackingFailed {
        /// The SSD failed as well, before or after.
        ssd_too: bool,
        /// Starts to come know of it.
        is_fenced: bool,
    },
}

/// How far dirty blocks of an SSD that failed have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rescue {
    /// The next start is to be told first, if there are any.
    Wanted,
    /// They are written to the backing disk.
    On,
    /// The next start knows that the disk has everything.
    Over,
}

impl Health {
    /// Whether what is acknowledged as durable is.
    pub(crate) fn is_well(self) -> bool {
        self == Health::Well
    }

    /// Whether a device failed in a way that ends durability.
    pub(crate) fn has_failed(self, device: DeviceId) -> bool {
        match (device, self) {
            (DeviceId::Ssd, Health::SsdFailed(_) | Health::BackingFailed { ssd_too: true, .. }) => true,
            // The redo log is a part of what the backing disk promises.
            (DeviceId::Backing | DeviceId::Redo, Health::BackingFailed { .. }) => true,
            // What the read SSD holds is promised to nobody.
            _ => false,
        }
    }

    /// Whether dirty blocks may be written to the backing disk.
    pub(crate) fn writes_back(self) -> bool {
        matches!(self, Health::Well | Health::SsdFailed(Rescue::On | Rescue::Over))
    }

    /// Whether dirty blocks of an SSD that failed are on their way to the backing disk.
    pub(crate) fn is_rescue_on(self) -> bool {
        self == Health::SsdFailed(Rescue::On)
    }

    /// What starts to come must be told, with so many dirty blocks left.
    pub(crate) fn wants_fence(self, dirty_blocks: u32) -> Option<Fence> {
        match self {
            Health::SsdFailed(Rescue::Wanted) if dirty_blocks > 0 => Some(Fence::Clean),
            Health::SsdFailed(Rescue::On) if dirty_blocks == 0 && !planted("rescued-copies-believed") => {
                Some(Fence::All)
            }
            Health::BackingFailed { is_fenced: false, .. } if !planted("failed-disk-believed") => {
                Some(Fence::CleanUntilReboot)
            }
            _ => None,
        }
    }

    /// The SSD failed.
    pub(crate) fn ssd_failed(&mut self) {
        *self = match *self {
            Health::Well if planted("rescue-without-fence") => Health::SsdFailed(Rescue::On),
            Health::Well => Health::SsdFailed(Rescue::Wanted),
            Health::BackingFailed { is_fenced, .. } => Health::BackingFailed { ssd_too: true, is_fenced },
            failed => failed,
        };
    }

    /// The backing disk failed.
    pub(crate) fn backing_failed(&mut self) {
        let ssd_too = self.has_failed(DeviceId::Ssd);
        let is_fenced = matches!(self, Health::BackingFailed { is_fenced: true, .. });
        *self = Health::BackingFailed { ssd_too, is_fenced };
    }

    /// Starts to come know this.
    pub(crate) fn fenced(&mut self, fence: Fence) {
        *self = match (*self, fence) {
            (Health::SsdFailed(Rescue::Wanted), Fence::Clean) => Health::SsdFailed(Rescue::On),
            (Health::SsdFailed(Rescue::On), Fence::All) => Health::SsdFailed(Rescue::Over),
            (Health::BackingFailed { ssd_too, .. }, Fence::CleanUntilReboot) => {
                Health::BackingFailed { ssd_too, is_fenced: true }
            }
            (health, _) => health,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Transition = fn(&mut Health);

    const ALL: [Health; 8] = [
        Health::Well,
        Health::SsdFailed(Rescue::Wanted),
        Health::SsdFailed(Rescue::On),
        Health::SsdFailed(Rescue::Over),
        Health::BackingFailed { ssd_too: false, is_fenced: false },
        Health::BackingFailed { ssd_too: true, is_fenced: false },
        Health::BackingFailed { ssd_too: false, is_fenced: true },
        Health::BackingFailed { ssd_too: true, is_fenced: true },
    ];

    fn after(mut health: Health, transition: impl FnOnce(&mut Health)) -> Health {
        transition(&mut health);
        health
    }

    #[test]
    fn transitions_are_those_of_the_table() {
        let [well, wanted, on, over, backing, both, backing_told, both_told] = ALL;
        let transitions: [(Transition, [Health; 8]); 5] = [
            (Health::ssd_failed, [wanted, wanted, on, over, both, both, both_told, both_told]),
            (Health::backing_failed, [backing, both, both, both, backing, both, backing_told, both_told]),
            (
                |health| health.fenced(Fence::Clean),
                [well, on, on, over, backing, both, backing_told, both_told],
            ),
            (
                |health| health.fenced(Fence::All),
                [well, wanted, over, over, backing, both, backing_told, both_told],
            ),
            (
                |health| health.fenced(Fence::CleanUntilReboot),
                [well, wanted, on, over, backing_told, both_told, backing_told, both_told],
            ),
        ];
        for (transition, expected) in transitions {
            assert_eq!(ALL.map(|health| after(health, transition)), expected);
        }
    }

    /// Before the disk is written to without the SSD, clean copies are not to be believed any more; when it has everything,
    /// nothing is. Whether a failed disk has anything to be written is no matter.
    #[test]
    fn the_next_start_is_told_before_anything_that_would_deceive_it() {
        let with = |dirty| ALL.map(|health| health.wants_fence(dirty));
        let failed = Some(Fence::CleanUntilReboot);
        assert_eq!(with(1), [None, Some(Fence::Clean), None, None, failed, failed, None, None]);
        assert_eq!(with(0), [None, None, Some(Fence::All), None, failed, failed, None, None]);
    }

    #[test]
    fn nothing_that_failed_is_well_again_or_forgotten() {
        let transitions: [Transition; 5] = [
            Health::ssd_failed,
            Health::backing_failed,
            |health| health.fenced(Fence::Clean),
            |health| health.fenced(Fence::All),
            |health| health.fenced(Fence::CleanUntilReboot),
        ];
        for health in ALL {
            for transition in transitions {
                let then = after(health, transition);
                assert!(health.is_well() || !then.is_well());
                for device in [DeviceId::Ssd, DeviceId::Backing] {
                    assert!(then.has_failed(device) || !health.has_failed(device));
                }
                // Once the backing disk has failed nothing is brought to it any more.
                assert!(!(then.has_failed(DeviceId::Backing) && then.writes_back()));
            }
        }
    }
}
