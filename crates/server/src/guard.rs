//! Work that may panic, by a defect, without an end to what is beside it. It must not know what the work is.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// How many calls of [`guarded`] the thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Does the work. What it was at must not be used again after an error, which is what it said in its panic.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    DEPTH.set(DEPTH.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    done.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
    })
}

/// Something whose panics must not end more than itself: it is used within [`guarded`] alone, which builds with assertions check at
/// every use.
pub(crate) struct UnderGuard<T> {
    inner: T,
    #[cfg(test)]
    defect: Option<Cell<u32>>,
}

impl<T> UnderGuard<T> {
    pub(crate) fn new(inner: T) -> UnderGuard<T> {
        UnderGuard {
            inner,
            #[cfg(test)]
            defect: None,
        }
    }

    /// Every use panics from now on.
    #[cfg(test)]
    pub(crate) fn bring_about_a_defect(&mut self) {
        self.defect = Some(Cell::new(0));
    }

    /// How often it was used since.
    #[cfg(test)]
    pub(crate) fn uses_since_defect(&self) -> u32 {
        self.defect.as_ref().map_or(0, Cell::get)
    }

    fn check(&self) {
        debug_assert!(DEPTH.get() > 0, "used without a guard");
        #[cfg(test)]
        if let Some(uses) = &self.defect {
            uses.set(uses.get() + 1);
            panic!("brought about");
        }
    }
}

impl<T> Deref for UnderGuard<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.check();
        &self.inner
    }
}

impl<T> DerefMut for UnderGuard<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        self.check();
        &mut self.inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_words() {
        assert_eq!(guarded(|| 7), Ok(7));
        let number = 3;
        assert_eq!(guarded(|| panic!("the {number}rd")), Err::<(), _>("the 3rd".to_owned()));
        assert_eq!(guarded(|| panic!("plain")), Err::<(), _>("plain".to_owned()));
        assert!(
            guarded(|| std::panic::panic_any(7)).is_err_and(|text: String| text.contains("without words"))
        );
    }

    #[test]
    fn what_is_under_guard_is_used_there_alone() {
        let mut number = UnderGuard::new(7);
        assert_eq!(guarded(|| *number), Ok(7));
        // Also after a panic, which has left the guard.
        let _ = guarded(|| guarded(|| panic!("within")));
        let outside = catch_unwind(AssertUnwindSafe(|| *number));
        assert_eq!(outside.is_err(), cfg!(debug_assertions));
        number.bring_about_a_defect();
        assert!(guarded(|| *number).is_err() && number.uses_since_defect() == 1);
    }
}
