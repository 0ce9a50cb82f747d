//! A value for each level that VMs divide. It must not know what the values mean.

use lode_types::Level;

/// A value for each of [`Level::SIZED`]. Asked for another level it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfSized<T>([T; 2]);

impl<T> OfSized<T> {
    /// Of these, in the order of [`Level::SIZED`].
    pub const fn new(values: [T; 2]) -> OfSized<T> {
        OfSized(values)
    }

    /// That of a level; none of one that VMs do not divide.
    pub fn of(&self, level: Level) -> Option<&T> {
        self.0.get(level.index())
    }

    /// As [`OfSized::of`], to be changed.
    pub fn of_mut(&mut self, level: Level) -> Option<&mut T> {
        self.0.get_mut(level.index())
    }

    /// All of them, in the order of [`Level::SIZED`].
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

impl<T> OfSized<Option<T>> {
    /// What there is of a level.
    pub fn get(&self, level: Level) -> Option<&T> {
        self.of(level)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_are_not_divided_have_none() {
        let mut values = OfSized::new([Some(7), None]);
        assert_eq!(Level::ALL.map(|level| values.of(level).copied()), [Some(Some(7)), Some(None), None]);
        assert_eq!(Level::ALL.map(|level| values.get(level).copied()), [Some(7), None, None]);
        for level in Level::ALL {
            values.of_mut(level).into_iter().for_each(|value| *value = Some(9));
        }
        assert!(values.iter().all(|value| *value == Some(9)));
    }
}
