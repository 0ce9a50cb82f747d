//! What two paths are together: the pair that they belong to, or why they are not one, in words that name the device and what helps.
//! It must not know what a pair holds.

use std::path::Path;
use std::time::Duration;

use lode_format::PairLabel;
use lode_media::{FaultKind, MediaFile, OpenOptions};
use lode_store::pair::{MEMBERS, Pair, probe_pair};
use lode_store::{Store, StoreErrorKind, probe_read_ssd};

use super::device::{MemberDevice, PairFiles};
use crate::error::{ServerError, ServerErrorKind};
use crate::files::open_patiently;

/// What was found at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FoundAtPath {
    /// A member of a pair.
    Label(PairLabel),
    /// Something else, or a member that is not what it was.
    Other(String),
    /// It is there and may not be used, which an operator can change.
    Refused(String),
    /// It is not there, or cannot be read.
    Missing(String),
}

/// What two paths are together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Together {
    pub pair: Pair,
    /// Which path is which member.
    pub paths: [usize; MEMBERS],
    /// By member.
    pub left_out: [Option<String>; MEMBERS],
}

/// Opens the SSDs of a pair. `known_generation` gives the generation that this host remembers of a pair, by its identity.
///
/// # Errors
/// [`ServerErrorKind::Identity`] when they are not a pair, or something is at a path where a member that has everything is to be.
pub(crate) fn find_pair(
    paths: [&Path; MEMBERS],
    limit: Duration,
    known_generation: impl Fn(&str) -> Result<Option<u64>, ServerError>,
) -> Result<PairFiles, ServerError> {
    find(paths, limit, known_generation, None)
}

/// The same, when the one at `gone` of the paths is to go, whatever is there.
///
/// # Errors
/// As [`find_pair`].
pub(super) fn find_pair_without(
    paths: [&Path; MEMBERS],
    limit: Duration,
    known_generation: impl Fn(&str) -> Result<Option<u64>, ServerError>,
    gone: usize,
) -> Result<PairFiles, ServerError> {
    find(paths, limit, known_generation, Some(gone))
}

fn find(
    paths: [&Path; MEMBERS],
    limit: Duration,
    known_generation: impl Fn(&str) -> Result<Option<u64>, ServerError>,
    gone: Option<usize>,
) -> Result<PairFiles, ServerError> {
    let mut opened = [0, 1].map(|at| {
        let path: &Path = paths[at];
        let (file, found) = match look(path, limit) {
            (_, FoundAtPath::Other(why) | FoundAtPath::Refused(why)) if gone == Some(at) => {
                (None, FoundAtPath::Missing(why))
            }
            found => found,
        };
        (Some(path.to_path_buf()), file, found)
    });
    let founds = [0, 1].map(|at| (paths[at], &opened[at].2));
    let id = founds.iter().find_map(|(_, found)| match found {
        FoundAtPath::Label(label) => Some(label.pair.to_string()),
        _ => None,
    });
    let known = id.map_or(Ok(None), |id| known_generation(&id))?;
    let Together { pair, paths: places, left_out } =
        judge(founds, known).map_err(|text| ServerError::new(ServerErrorKind::Identity, text))?;
    let labels = places.map(|at| match opened[at].2 {
        FoundAtPath::Label(label) => Some(label),
        _ => None,
    });
    let files = places.map(|at| opened[at].1.take());
    let paths = places.map(|at| opened[at].0.take().expect("each path is one member's"));
    Ok(PairFiles { pair, labels, paths, files, left_out, limit })
}

/// Opens a path, and looks whether a member is there.
fn look(path: &Path, limit: Duration) -> (Option<MediaFile>, FoundAtPath) {
    let file = match open_patiently(path, &OpenOptions::default()) {
        Ok(file) => file,
        Err(fault) => {
            let text = fault.to_string();
            return match fault.kind() {
                FaultKind::Busy | FaultKind::Denied => (None, FoundAtPath::Refused(text)),
                FaultKind::Mismatch => (None, FoundAtPath::Other(format!("it cannot be one: {text}"))),
                _ => (None, FoundAtPath::Missing(text)),
            };
        }
    };
    let mut device = MemberDevice::new(file.clone(), limit);
    match probe_pair(&mut device) {
        Ok(label) => (Some(file), FoundAtPath::Label(label)),
        Err(error) if error.kind() == StoreErrorKind::Media => {
            (None, FoundAtPath::Missing(error.to_string()))
        }
        Err(error) if error.kind() == StoreErrorKind::WrongSize => {
            (None, FoundAtPath::Other(error.to_string()))
        }
        Err(error) => {
            let text = match (Store::probe(&mut device), probe_read_ssd(&mut device), file.identify()) {
                (Ok(superblock), _, _) => {
                    format!("it holds cache {} by itself, and is not one SSD of a pair", superblock.cache)
                }
                (_, Ok(label), _) => format!("it is read SSD {}", label.id),
                (_, _, Ok(Some(what))) => format!("it holds: {what}"),
                _ => error.to_string(),
            };
            (None, FoundAtPath::Other(text))
        }
    }
}

/// Decides what was found at two paths is together.
pub(super) fn judge(
    founds: [(&Path, &FoundAtPath); MEMBERS],
    known_generation: Option<u64>,
) -> Result<Together, String> {
    let label = |at: usize| match founds[at].1 {
        FoundAtPath::Label(label) => Some(*label),
        _ => None,
    };
    let [first, second] = [0, 1].map(|at| founds[at].0.display());
    let paths = match [label(0), label(1)] {
        [None, None] => return Err(neither(founds)),
        [Some(one), Some(other)] if one.pair != other.pair => {
            return Err(format!(
                "{first} and {second} are SSDs of different pairs, {} and {}; correct `ssd.path` or `ssd.mirror`",
                one.pair, other.pair
            ));
        }
        [Some(one), Some(other)] if one.member == other.member => {
            return Err(format!(
                "{first} and {second} are both said to be the same SSD of pair {}: one of them is a copy, or the other one took its \
                 place (label generations {} and {}); name the two that belong together in `ssd.path` and `ssd.mirror`",
                one.pair, one.generation, other.generation
            ));
        }
        // In either order: devices get other names when a host starts.
        [Some(one), _] => [one.member, 1 - one.member],
        [None, Some(other)] => [1 - other.member, other.member],
    };
    let labels = paths.map(label);
    let pairs = Pair::all_of(&[labels], &[known_generation]);
    let pair = pairs.map_err(|error| format!("{first} and {second}: {error}"))?[0];
    let mut left_out = [None, None];
    for member in 0..MEMBERS {
        let (path, found) = founds[paths[member]];
        let is_needed =
            labels.iter().flatten().any(|label| label.generation == pair.generation && label.in_sync[member]);
        left_out[member] = match found {
            FoundAtPath::Label(_) if pair.in_sync[member] => None,
            FoundAtPath::Label(_) => Some("it lacks what was written since it was dropped".to_owned()),
            FoundAtPath::Missing(why) => Some(why.clone()),
            // What is at the path of a member that is not used is nobody's business here.
            FoundAtPath::Refused(why) | FoundAtPath::Other(why) if !is_needed => Some(why.clone()),
            FoundAtPath::Refused(why) => {
                return Err(format!(
                    "{} is to be an SSD of pair {}, and cannot be opened: {why}",
                    path.display(),
                    pair.id
                ));
            }
            FoundAtPath::Other(why) => return Err(stranger(path, founds[paths[1 - member]].0, pair, why)),
        };
    }
    Ok(Together { pair, paths, left_out })
}

fn neither(founds: [(&Path, &FoundAtPath); MEMBERS]) -> String {
    let each = founds.map(|(path, found)| {
        let why = match found {
            FoundAtPath::Other(why) | FoundAtPath::Refused(why) | FoundAtPath::Missing(why) => why.as_str(),
            FoundAtPath::Label(_) => "",
        };
        format!("{}: {why}", path.display())
    });
    let [first, second] = founds.map(|(path, _)| path.display());
    format!(
        "Neither SSD of the pair can be used ({}; {}). Correct `ssd.path` and `ssd.mirror`; take `ssd.mirror` out for a cache on one \
         SSD; or if both are new run `lode format {first} --mirror {second}` first",
        each[0], each[1]
    )
}

fn stranger(path: &Path, other: &Path, pair: Pair, why: &str) -> String {
    let (path, other) = (path.display(), other.display());
    format!(
        "{path} is to be an SSD of pair {}, of which {other} is one, and it is not: {why}. Correct `ssd.path` or `ssd.mirror`. If the SSD \
         is gone for good, `lode device remove CONFIG.toml {path}` has the cache go on without it, and `lode device replace \
         CONFIG.toml {path} DEVICE` gives it another one",
        pair.id
    )
}

#[cfg(test)]
mod tests {
    use lode_format::CacheId;

    use super::*;

    fn pair() -> Pair {
        Pair::new(CacheId([3; 16]), [9 << 20, 9 << 20]).unwrap()
    }

    fn of(label: PairLabel) -> FoundAtPath {
        FoundAtPath::Label(label)
    }

    fn judged(one: FoundAtPath, other: FoundAtPath, known: Option<u64>) -> Result<Together, String> {
        judge([(Path::new("/a"), &one), (Path::new("/b"), &other)], known)
    }

    #[test]
    fn two_members_are_a_pair_in_either_order() {
        let pair = pair();
        for order in [[0, 1], [1, 0]] {
            let [one, other] = order.map(|member| of(pair.label(member)));
            let together = judged(one, other, Some(1)).unwrap();
            assert_eq!((together.paths, together.pair), (order, pair));
            assert_eq!(together.left_out, [None, None]);
        }
    }

    #[test]
    fn a_missing_member_is_done_without() {
        let pair = pair();
        let missing = || FoundAtPath::Missing("no such device".to_owned());
        let together = judged(missing(), of(pair.label(1)), Some(1)).unwrap();
        assert_eq!((together.paths, together.left_out[0].is_some()), ([0, 1], true));
        let together = judged(missing(), of(pair.label(0)), Some(1)).unwrap();
        assert_eq!((together.paths, together.left_out[1].is_some()), ([1, 0], true));
        // Whether it has gone on without this one nobody knows.
        let said = judged(missing(), of(pair.label(1)), None).unwrap_err();
        assert!(said.contains("/a") && said.contains(&pair.id.to_string()), "{said}");
    }

    #[test]
    fn whatever_else_is_there_is_refused_by_name() {
        let (pair, other) = (pair(), Pair { id: CacheId([4; 16]), ..pair() });
        let text = |text: &str| text.to_owned();
        for (one, two, words) in [
            (of(pair.label(0)), of(other.label(1)), ["different pairs", "/a and /b"]),
            (of(pair.label(0)), of(pair.label(0)), ["same SSD", "/a and /b"]),
            (
                of(pair.label(0)),
                FoundAtPath::Other(text("it holds: ext4")),
                ["/b is to be", "it holds: ext4"],
            ),
            (
                FoundAtPath::Other(text("small")),
                of(pair.label(0)),
                ["/a is to be", "lode device remove CONFIG.toml /a"],
            ),
            (of(pair.label(0)), FoundAtPath::Refused(text("in use")), ["/b is to be", "in use"]),
            (
                FoundAtPath::Missing(text("gone")),
                FoundAtPath::Other(text("noise")),
                ["/a: gone; /b: noise", "lode format /a --mirror /b"],
            ),
        ] {
            let said = judged(one, two, Some(1)).unwrap_err();
            assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
        }
    }

    #[test]
    fn what_is_in_the_place_of_a_dropped_member_does_not_matter() {
        let alone = pair().without(0);
        for found in [
            FoundAtPath::Other("it holds: ext4".to_owned()),
            FoundAtPath::Refused("in use".to_owned()),
            FoundAtPath::Missing("gone".to_owned()),
            of(pair().label(0)),
        ] {
            let together = judged(found, of(alone.label(1)), None).unwrap();
            assert_eq!((together.pair.in_sync, together.left_out[0].is_some()), ([false, true], true));
        }
    }

    /// A member in whose place another came, and which comes back in the place of that one.
    #[test]
    fn an_outdated_member_is_left_out() {
        let again = pair().without(0).with(0, 9 << 20);
        let (old, newest) = (of(pair().label(0)), of(again.label(1)));
        let together = judged(old.clone(), newest.clone(), Some(again.generation)).unwrap();
        assert_eq!(together.pair.in_sync, [false, true]);
        assert!(judged(old, newest, None).is_err(), "the one that came may have gone on");
    }
}
