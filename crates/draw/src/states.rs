//! Values that follow sliders: one for each position, or for each combination of positions. It must not know what
//! the values are.

use serde::Serialize;

use crate::error::{DrawError, DrawErrorKind, check_length, check_limit, check_number};
use crate::limits::MAX_STATES;

/// A value for each combination of positions of the sliders it follows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct States<T> {
    pub(crate) sliders: Vec<usize>,
    pub(crate) states: Vec<T>,
}

impl<T> States<T> {
    /// The same whatever the sliders say.
    pub fn fixed(value: T) -> States<T> {
        States { sliders: Vec::new(), states: vec![value] }
    }

    /// One value for each position of one slider, which is named by its index in [`crate::Page::sliders`].
    pub fn by(slider: usize, values: Vec<T>) -> States<T> {
        States { sliders: vec![slider], states: values }
    }

    /// One value for each pair of positions of two sliders. Those for the first position of the first slider come first.
    pub fn by_two(sliders: (usize, usize), values: Vec<T>) -> States<T> {
        States { sliders: vec![sliders.0, sliders.1], states: values }
    }

    /// All values, in the order in which they were given.
    pub fn values(&self) -> &[T] {
        &self.states
    }

    /// The value when the sliders stand at `positions`, all of them in order of the page.
    ///
    /// Must be checked before.
    pub(crate) fn at(&self, counts: &[usize], positions: &[usize]) -> &T {
        let index = self.sliders.iter().fold(0, |index, &slider| index * counts[slider] + positions[slider]);
        &self.states[index]
    }

    /// Whether the sliders exist and there is a value for each combination. `counts` are their numbers of positions.
    pub(crate) fn check(&self, counts: &[usize], place: impl Fn() -> String) -> Result<(), DrawError> {
        let mut wanted = 1_usize;
        for &slider in &self.sliders {
            let Some(&count) = counts.get(slider) else {
                let problem =
                    format!("it follows slider {slider}, but there are {}; count from 0", counts.len());
                return Err(DrawError::new(DrawErrorKind::Control, place(), problem));
            };
            wanted = wanted.saturating_mul(count);
        }
        check_limit(wanted, MAX_STATES, &place)?;
        check_length(self.states.len(), wanted, place)
    }
}

/// Checks the numbers of every state.
pub(crate) fn check_numbers<'a>(
    values: impl IntoIterator<Item = &'a f64>,
    place: impl Fn() -> String,
) -> Result<(), DrawError> {
    values.into_iter().try_for_each(|&value| check_number(value, &place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_found_by_all_their_sliders() {
        let both = States::by_two((2, 0), (0..6).collect());
        both.check(&[3, 9, 2], String::new).unwrap();
        assert_eq!(*both.at(&[3, 9, 2], &[1, 8, 1]), 4);
        assert_eq!(*States::fixed(7).at(&[], &[]), 7);
        assert_eq!(*States::by(1, vec![5, 6]).at(&[3, 2], &[2, 1]), 6);
    }

    #[test]
    fn missing_states_are_refused() {
        let kind =
            |states: States<i32>, counts: &[usize]| states.check(counts, String::new).unwrap_err().kind();
        assert_eq!(kind(States::by(0, vec![1, 2]), &[3]), DrawErrorKind::Length);
        assert_eq!(kind(States::by(1, vec![1, 2]), &[2]), DrawErrorKind::Control);
        assert_eq!(kind(States::by_two((0, 1), vec![1]), &[usize::MAX, 3]), DrawErrorKind::Limit);
    }
}
