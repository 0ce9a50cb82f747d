//! What the host must remember for the next start, after the SSD failed, before the engine goes on: one thing after the
//! other, and again at the next tick where it could not be remembered. It must not know where.

use lode_store::Distrust;

/// What the host was asked to remember.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    under_way: Option<Distrust>,
    /// The last attempt failed; the next one waits for a tick.
    is_paused: bool,
}

impl Fence {
    /// What is to be remembered now, of what is wanted; told once.
    pub(crate) fn next(&mut self, wanted: Option<Distrust>) -> Option<Distrust> {
        if self.under_way.is_some() || self.is_paused {
            return None;
        }
        self.under_way = wanted;
        wanted
    }

    /// An attempt has ended. What is remembered now.
    pub(crate) fn ended(&mut self, ok: bool) -> Option<Distrust> {
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
        let mut fence = Fence::default();
        assert_eq!(fence.next(None), None);
        assert_eq!(fence.next(Some(Distrust::Clean)), Some(Distrust::Clean));
        assert_eq!(fence.next(Some(Distrust::Clean)), None);
        assert_eq!(fence.ended(false), None);
        assert_eq!(fence.next(Some(Distrust::Clean)), None);
        fence.resume();
        assert_eq!(fence.next(Some(Distrust::Clean)), Some(Distrust::Clean));
        assert_eq!(fence.ended(true), Some(Distrust::Clean));
        assert_eq!(fence.next(Some(Distrust::All)), Some(Distrust::All));
        // What ends without having begun changes nothing.
        assert_eq!((fence.ended(true), fence.ended(true)), (Some(Distrust::All), None));
    }
}
