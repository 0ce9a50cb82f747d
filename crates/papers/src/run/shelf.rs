//! What several runs share, kept as long as one of them needs it. It must not know what that is.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Things by their keys, each made by the first run that needs it and dropped after the last one.
pub(crate) struct Shelf<K, T> {
    slots: Mutex<HashMap<K, Slot<T>>>,
}

struct Slot<T> {
    /// Runs that still need it.
    left: usize,
    /// Taken by whoever makes it, so that it is made once.
    made: Arc<Mutex<Option<Arc<T>>>>,
}

impl<K: Clone + Eq + Hash, T> Shelf<K, T> {
    /// A shelf for these runs, each of which needs the thing of its key.
    pub(crate) fn of(runs: impl Iterator<Item = K>) -> Shelf<K, T> {
        let mut slots = HashMap::new();
        for key in runs {
            slots.entry(key).or_insert_with(|| Slot { left: 0, made: Arc::default() }).left += 1;
        }
        Shelf { slots: Mutex::new(slots) }
    }

    /// Works with the thing of a key, which is made where it is not there yet.
    ///
    /// # Errors
    /// Those of making it and of the work.
    pub(crate) fn with<R, E>(
        &self,
        key: &K,
        make: impl FnOnce() -> Result<T, E>,
        work: impl FnOnce(&T) -> Result<R, E>,
    ) -> Result<R, E> {
        let slots = || self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let place = slots().get(key).map(|slot| slot.made.clone()).unwrap_or_default();
        let mut taken = place.lock().unwrap_or_else(PoisonError::into_inner);
        let thing = match &*taken {
            Some(thing) => thing.clone(),
            None => taken.insert(Arc::new(make()?)).clone(),
        };
        drop(taken);
        let result = work(&thing);
        drop(thing);
        let mut slots = slots();
        if let Some(slot) = slots.get_mut(key) {
            slot.left -= 1;
            if slot.left == 0 {
                slots.remove(key);
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_is_shared_is_made_once_and_goes_with_the_last() {
        let shelf: Shelf<&str, String> = Shelf::of(["one", "two", "one"].into_iter());
        let made = Cell::new(0);
        let length = |key: &'static str| {
            let make = || {
                made.set(made.get() + 1);
                Ok::<_, String>(format!("{key}, made"))
            };
            shelf.with(&key, make, |text| Ok(text.len()))
        };
        assert_eq!((length("one"), length("one"), made.get()), (Ok(9), Ok(9), 1));
        assert_eq!(shelf.slots.lock().expect("a lock").keys().collect::<Vec<_>>(), [&"two"]);
        let failed = shelf.with(&"two", || Err("no"), |_| Ok(()));
        assert_eq!((failed, length("two"), made.get()), (Err("no"), Ok(9), 2), "the next one makes it");
    }
}
