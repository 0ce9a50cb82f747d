//! Counters of what there is or is under way. It must not know of what.

/// A number that never goes below 0. A wrong one would wrap in a release build, so that what it counts would never be over: this
/// stops there, too.
pub trait Counter: Copy {
    /// One less.
    ///
    /// # Panics
    /// When there is none.
    fn count_down(&mut self);

    /// So many less.
    ///
    /// # Panics
    /// When there are fewer.
    fn count_down_by(&mut self, count: Self);
}

macro_rules! counters {
    ($($number:ty)*) => {$(
        impl Counter for $number {
            #[inline]
            #[track_caller]
            fn count_down(&mut self) {
                self.count_down_by(1);
            }

            #[inline]
            #[track_caller]
            fn count_down_by(&mut self, count: Self) {
                *self = self.checked_sub(count).expect("no more is over than there was");
            }
        }
    )*};
}

counters!(u32 u64 usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_stops_at_0() {
        let mut left = 3_u32;
        left.count_down();
        left.count_down_by(2);
        assert_eq!(left, 0);
        let below = std::panic::catch_unwind(move || left.count_down());
        assert!(below.is_err());
    }
}
