//! What the host must remember for starts to come after a device failed: one thing after the other, and again at the next
//! tick where it could not be remembered. It must not know where.

use lode_store::Distrust;

/// What starts to come must know of a volume whose device failed ([`Engine::next_fence`](crate::Engine::next_fence)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// The SSD failed: the next start drops the volume's clean blocks, which may be older than the backing disk.
    Clean,
    /// The SSD failed, and the backing disk has everything: the next start drops all blocks of the volume.
    All,
    /// A flush of the backing disk failed. Until the host goes down that disk may return what is lost then, so that a clean
    /// block that was filled from it would be newer than the disk: every start drops clean blocks, the first one after a reboot
    /// for the last time.
    CleanUntilReboot,
}

impl Fence {
    /// What the next start is not to believe.
    pub fn distrust(self) -> Distrust {
        match self {
            Fence::Clean | Fence::CleanUntilReboot => Distrust::Clean,
            Fence::All => Distrust::All,
        }
    }
}

/// What the host was asked to remember.
#[derive(Debug, Default)]
pub(crate) struct Fencing {
    under_way: Option<Fence>,
    /// The last attempt failed; the next one waits for a tick.
    is_paused: bool,
}

impl Fencing {
    /// What is to be remembered now, of what is wanted; told once.
    pub(crate) fn next(&mut self, wanted: Option<Fence>) -> Option<Fence> {
        if self.under_way.is_some() || self.is_paused {
            return None;
        }
        self.under_way = wanted;
        wanted
    }

    /// An attempt has ended. What is remembered now.
    pub(crate) fn ended(&mut self, ok: bool) -> Option<Fence> {
        self.is_paused = !ok;
        self.under_way.take().filter(|_| ok)
    }

    /// It is tried again.
    pub(crate) fn resume(&mut self) {
        self.is_paused = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_attempt_at_a_time_and_again_after_a_tick() {
        let mut fencing = Fencing::default();
        assert_eq!(fencing.next(None), None);
        assert_eq!(fencing.next(Some(Fence::Clean)), Some(Fence::Clean));
        assert_eq!(fencing.next(Some(Fence::Clean)), None);
        assert_eq!(fencing.ended(false), None);
        assert_eq!(fencing.next(Some(Fence::Clean)), None);
        fencing.resume();
        assert_eq!(fencing.next(Some(Fence::Clean)), Some(Fence::Clean));
        assert_eq!(fencing.ended(true), Some(Fence::Clean));
        assert_eq!(fencing.next(Some(Fence::All)), Some(Fence::All));
        // What ends without having begun changes nothing.
        assert_eq!((fencing.ended(true), fencing.ended(true)), (Some(Fence::All), None));
    }
}
