//! The volumes of an output that has several traces as its input. It must not know where names come from.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use crate::error::{ErrorKind, TraceError};
use crate::limits::MAX_VOLUMES;

/// Stands for a volume that has no number yet.
const UNKNOWN: u32 = u32::MAX;

/// Numbers for volumes, in the order in which they are asked for. Volumes of one name are one volume, whichever
/// trace they are in.
#[derive(Debug, Default)]
pub(super) struct Naming {
    names: Vec<String>,
    number_of_name: HashMap<String, u32>,
    /// The input that named each volume first.
    first_input: Vec<usize>,
    shared: BTreeSet<u32>,
    /// Number of each volume of each input.
    known: Vec<Vec<u32>>,
}

impl Naming {
    /// The number of the volume that is number `volume` in the `input`-th trace, at `path`, and is called `name` there.
    ///
    /// # Errors
    /// [`ErrorKind::TooManyVolumes`].
    #[inline]
    pub(super) fn number(
        &mut self,
        input: usize,
        volume: u32,
        name: impl Fn() -> String,
        path: &Path,
    ) -> Result<u32, TraceError> {
        match self.known.get(input).and_then(|known| known.get(volume as usize)) {
            Some(&number) if number != UNKNOWN => Ok(number),
            _ => self.learn(input, volume, name(), path),
        }
    }

    #[cold]
    fn learn(&mut self, input: usize, volume: u32, name: String, path: &Path) -> Result<u32, TraceError> {
        let number = match self.number_of_name.get(&name) {
            Some(&number) => number,
            None if self.names.len() >= MAX_VOLUMES => {
                let message = "More than 65,536 volumes in all; take fewer traces, or fewer volumes of them";
                return Err(TraceError::new(ErrorKind::TooManyVolumes, path, message));
            }
            None => {
                let number = self.names.len() as u32;
                self.names.push(name.clone());
                self.first_input.push(input);
                self.number_of_name.insert(name, number);
                number
            }
        };
        if self.first_input[number as usize] != input {
            self.shared.insert(number);
        }
        if self.known.len() <= input {
            self.known.resize(input + 1, Vec::new());
        }
        let known = &mut self.known[input];
        if known.len() <= volume as usize {
            known.resize(volume as usize + 1, UNKNOWN);
        }
        known[volume as usize] = number;
        Ok(number)
    }

    /// The names by number.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Names of the volumes that several traces have.
    pub(super) fn shared(&self) -> impl Iterator<Item = &str> {
        self.shared.iter().map(|&number| self.names[number as usize].as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_volume() {
        let mut naming = Naming::default();
        let mut number = |input, volume, name: &str| {
            naming.number(input, volume, || name.to_owned(), Path::new("x")).map_err(|error| error.kind())
        };
        assert_eq!(number(0, 5, "b"), Ok(0));
        assert_eq!(number(1, 0, "a"), Ok(1));
        assert_eq!(number(1, 1, "b"), Ok(0));
        assert_eq!(number(0, 5, "not asked again"), Ok(0));
        for volume in 2..MAX_VOLUMES as u32 {
            assert_eq!(number(2, volume, &format!("v{volume}")), Ok(volume));
        }
        assert_eq!(number(3, 0, "one more"), Err(ErrorKind::TooManyVolumes));
        assert_eq!(number(3, 1, "a"), Ok(1));
        assert_eq!(naming.names()[..2], ["b", "a"]);
        assert_eq!(naming.shared().collect::<Vec<_>>(), ["b", "a"]);
    }
}
