//! The volumes of a shard to which something has happened, so that the others cost nothing. It must not know what.

/// Volumes by number, each at most once.
#[derive(Debug)]
pub(crate) struct Due {
    list: Vec<usize>,
    is_listed: Vec<bool>,
}

impl Due {
    /// All of so many.
    pub(crate) fn all(volumes: usize) -> Due {
        Due { list: (0..volumes).rev().collect(), is_listed: vec![true; volumes] }
    }

    /// Something has happened to this volume.
    pub(crate) fn insert(&mut self, volume: usize) {
        if self.is_listed.len() <= volume {
            self.is_listed.resize(volume + 1, false);
        }
        if !std::mem::replace(&mut self.is_listed[volume], true) {
            self.list.push(volume);
        }
    }

    /// Something may have happened to any of them.
    pub(crate) fn insert_all(&mut self) {
        (0..self.is_listed.len()).for_each(|volume| self.insert(volume));
    }

    /// The next one to look at.
    pub(crate) fn next(&mut self) -> Option<usize> {
        let volume = self.list.pop()?;
        self.is_listed[volume] = false;
        Some(volume)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_there_once() {
        let mut due = Due::all(3);
        due.insert(1);
        let mut rest: Vec<_> = std::iter::from_fn(|| due.next()).collect();
        rest.sort_unstable();
        assert_eq!(rest, [0, 1, 2]);
        due.insert(2);
        due.insert(2);
        assert_eq!((due.next(), due.next()), (Some(2), None));
        due.insert(1);
        due.insert_all();
        assert_eq!(std::iter::from_fn(|| due.next()).count(), 3);
        // One that comes later.
        due.insert(5);
        assert_eq!((due.next(), due.next()), (Some(5), None));
    }
}
