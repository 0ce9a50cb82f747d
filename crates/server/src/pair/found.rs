//! What the paths of a configuration are together: the pairs that they belong to, or why they are not those of one cache, in words that
//! name the device and what helps. It must not know what a pair holds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lode_format::{CacheId, PairLabel};
use lode_media::{FaultKind, MediaFile, OpenOptions};
use lode_store::pair::{MEMBERS, Pair, probe_pair};
use lode_store::{Store, StoreError, StoreErrorKind, probe_read_ssd};

use super::device::{MemberDevice, PairFiles};
use crate::config::Size;
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

/// Two paths that are a pair together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Together {
    pub pair: Pair,
    /// Which path is which member.
    pub paths: [usize; MEMBERS],
    /// By member.
    pub left_out: [Option<String>; MEMBERS],
}

/// A path, and what was found there.
type Found<'a> = (&'a Path, &'a FoundAtPath);

/// Opens the SSDs of the pairs of a cache. `known_generation` gives the generation that this host remembers of a pair, by the identity of
/// its cache and its number. Gives them in the order of their numbers, whatever that of the paths is.
///
/// # Errors
/// [`ServerErrorKind::Identity`] when they are not the pairs of one cache, or something is at a path where a member that has everything
/// is to be.
pub(crate) fn find_pairs(
    paths: &[[PathBuf; MEMBERS]],
    limit: Duration,
    known_generation: impl Fn(&str, usize) -> Result<Option<u64>, ServerError>,
) -> Result<Vec<PairFiles>, ServerError> {
    find(paths, limit, known_generation, None)
}

/// The same, when the one at the path `gone` is to go, whatever is there.
///
/// # Errors
/// As [`find_pairs`].
pub(super) fn find_pairs_without(
    paths: &[[PathBuf; MEMBERS]],
    limit: Duration,
    known_generation: impl Fn(&str, usize) -> Result<Option<u64>, ServerError>,
    gone: &Path,
) -> Result<Vec<PairFiles>, ServerError> {
    find(paths, limit, known_generation, Some(gone))
}

fn find(
    paths: &[[PathBuf; MEMBERS]],
    limit: Duration,
    known_generation: impl Fn(&str, usize) -> Result<Option<u64>, ServerError>,
    gone: Option<&Path>,
) -> Result<Vec<PairFiles>, ServerError> {
    let pairs = paths.len();
    let paths: Vec<&Path> = paths.iter().flatten().map(PathBuf::as_path).collect();
    let open = |path: &&Path| match look(path, limit) {
        (_, FoundAtPath::Other(why) | FoundAtPath::Refused(why)) if gone == Some(*path) => {
            (None, FoundAtPath::Missing(why))
        }
        found => found,
    };
    let mut opened: Vec<_> = paths.iter().map(open).collect();
    let founds: Vec<Found<'_>> = paths.iter().copied().zip(opened.iter().map(|(_, found)| found)).collect();
    let known = match founds.iter().find_map(label_of) {
        Some(label) => {
            let cache = label.pair.to_string();
            (0..pairs).map(|number| known_generation(&cache, number)).collect::<Result<Vec<_>, _>>()?
        }
        None => vec![None; pairs],
    };
    let together =
        judge(&founds, &known).map_err(|text| ServerError::new(ServerErrorKind::Identity, text))?;
    let files = together.into_iter().map(|Together { pair, paths: places, left_out }| PairFiles {
        pair,
        labels: places.map(|at| label_of(&(paths[at], &opened[at].1))),
        paths: places.map(|at| Some(paths[at].to_path_buf())),
        files: places.map(|at| opened[at].0.take()),
        left_out,
        limit,
    });
    Ok(files.collect())
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
        Err(error) if error.kind() == StoreErrorKind::OtherVersion => {
            (None, FoundAtPath::Refused(format!("{error}. Nothing was changed: use the lode that made it")))
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

fn label_of((_, found): &Found<'_>) -> Option<PairLabel> {
    match found {
        FoundAtPath::Label(label) => Some(*label),
        _ => None,
    }
}

/// Decides what was found at the paths of a configuration, two for each pair, is together. In the order of the numbers of pairs.
pub(super) fn judge(
    founds: &[Found<'_>],
    known_generations: &[Option<u64>],
) -> Result<Vec<Together>, String> {
    let places = arrange(founds)?;
    let labels: Vec<_> = places.iter().map(|paths| paths.map(|at| label_of(&founds[at]))).collect();
    let refused = |error: StoreError| {
        let of_pair = |number: &usize| Pair::of(labels[*number], known_generations[*number]).is_err();
        let paths = (0..places.len()).find(of_pair).map_or(places[0], |number| places[number]);
        let [first, second] = paths.map(|at| founds[at].0.display());
        // What is wrong with the one that is missed may be all that has to be mended.
        let unlabelled: Vec<_> =
            paths.map(|at| founds[at]).into_iter().filter(|found| label_of(found).is_none()).collect();
        match &unlabelled[..] {
            [] => format!("{first} and {second}: {error}"),
            unlabelled => format!("{first} and {second}: {error} ({})", reasons(unlabelled)),
        }
    };
    let pairs = Pair::all_of(&labels, known_generations).map_err(refused)?;
    let together = pairs.into_iter().zip(places).map(|(pair, paths)| {
        let left_out = left_out(paths.map(|at| founds[at]), &pair)?;
        Ok(Together { pair, paths, left_out })
    });
    together.collect()
}

/// Which paths are the members of which pair: as labels say, because devices get other names when a host starts, and they may get
/// those of other pairs. One without a label has the place beside the one that it is named with, or else one that is left.
fn arrange(founds: &[Found<'_>]) -> Result<Vec<[usize; MEMBERS]>, String> {
    let pairs = founds.len() / MEMBERS;
    let labels: Vec<_> = founds.iter().map(label_of).collect();
    let there = || labels.iter().enumerate().filter_map(|(at, label)| Some((at, label.as_ref()?)));
    let Some(first) = there().next() else { return Err(none_there(founds)) };
    let mut places = vec![[None; MEMBERS]; pairs];
    for (at, label) in there() {
        check_is_of_cache(founds, first, (at, label))?;
        if let Some(before) = places[label.number][label.member].replace(at) {
            return Err(same_twice(founds, before, at));
        }
    }
    let mut left: Vec<usize> = Vec::new();
    for at in (0..founds.len()).filter(|&at| labels[at].is_none()) {
        match labels[at ^ 1].map(|beside| &mut places[beside.number][1 - beside.member]) {
            Some(place @ None) => *place = Some(at),
            _ => left.push(at),
        }
    }
    let mut left = left.into_iter();
    let places: Vec<_> = places
        .into_iter()
        .map(|pair| pair.map(|at| at.or_else(|| left.next()).expect("there are as many paths as places")))
        .collect();
    match places.iter().position(|paths| paths.iter().all(|&at| labels[at].is_none())) {
        Some(number) => {
            let why = reasons(&places[number].map(|at| founds[at]));
            Err(format!(
                "Neither SSD of pair {} of {pairs} of cache {} can be used ({why}), and without that pair nothing of the cache can be \
                 served: correct `ssd.pairs`, or bring one of them back",
                number + 1,
                first.1.pair
            ))
        }
        None => Ok(places),
    }
}

/// Refuses an SSD that is of another cache than the first one, or of one with more or fewer pairs than there are paths for.
fn check_is_of_cache(
    founds: &[Found<'_>],
    (first_at, first): (usize, &PairLabel),
    (at, label): (usize, &PairLabel),
) -> Result<(), String> {
    let pairs = founds.len() / MEMBERS;
    let [one, other] = [first_at, at].map(|at| founds[at].0.display());
    if first.pair != label.pair {
        let of = if pairs == 1 { "pairs" } else { "caches" };
        return Err(format!(
            "{one} and {other} are SSDs of different {of}, {} and {}; correct {}",
            first.pair,
            label.pair,
            keys(pairs)
        ));
    }
    if label.pairs != pairs {
        let named = match label.pairs {
            1 => "name its two SSDs in `ssd.path` and `ssd.mirror`",
            _ => "name all of them in `ssd.pairs`, and no others",
        };
        return Err(format!(
            "{other} is of pair {} of {} of cache {}, and the configuration names {pairs}; {named}",
            label.number + 1,
            label.pairs,
            label.pair
        ));
    }
    Ok(())
}

fn same_twice(founds: &[Found<'_>], before: usize, at: usize) -> String {
    let generation = |at: usize| label_of(&founds[at]).map_or(0, |label| label.generation);
    let of = label_of(&founds[at]).map(|label| name_of(label.pair, label.number, label.pairs));
    format!(
        "{} and {} are both said to be the same SSD of {}: one of them is a copy, or the other one took its place (label generations {} \
         and {}); name those that belong together in {}",
        founds[before].0.display(),
        founds[at].0.display(),
        of.unwrap_or_default(),
        generation(before),
        generation(at),
        keys(founds.len() / MEMBERS)
    )
}

/// Why each member of a pair is not used, if it is not.
fn left_out(founds: [Found<'_>; MEMBERS], pair: &Pair) -> Result<[Option<String>; MEMBERS], String> {
    let labels = founds.map(|found| label_of(&found));
    let mut left_out = [None, None];
    for member in 0..MEMBERS {
        let (path, found) = founds[member];
        let is_needed =
            labels.iter().flatten().any(|label| label.generation == pair.generation && label.in_sync[member]);
        left_out[member] = match found {
            FoundAtPath::Label(_) if pair.in_sync[member] => None,
            FoundAtPath::Label(_) if pair.resilvered_member() == Some(member) => Some(format!(
                "the first {} of it are resilvered, and the rest follows while guests are served",
                Size(pair.resilvered_bytes)
            )),
            FoundAtPath::Label(_) if is_needed => Some(
                "it is as it was in an earlier run, or another one was put in its place, and lacks what was written since".to_owned(),
            ),
            FoundAtPath::Label(_) if pair.awaits_other => Some("it has come, and has nothing yet".to_owned()),
            FoundAtPath::Label(_) => Some("it lacks what was written since it was dropped".to_owned()),
            FoundAtPath::Missing(why) => Some(why.clone()),
            // What is at the path of a member that is not used is nobody's business here.
            FoundAtPath::Refused(why) | FoundAtPath::Other(why) if !is_needed => Some(why.clone()),
            FoundAtPath::Refused(why) => {
                return Err(format!(
                    "{} is to be an SSD of {}, and cannot be opened: {why}",
                    path.display(),
                    name_of(pair.id, pair.number, pair.pairs)
                ));
            }
            FoundAtPath::Other(why) => return Err(stranger(path, founds[1 - member].0, pair, why)),
        };
    }
    Ok(left_out)
}

/// The keys that name the SSDs of so many pairs.
fn keys(pairs: usize) -> &'static str {
    if pairs == 1 { "`ssd.path` and `ssd.mirror`" } else { "`ssd.pairs`" }
}

/// A pair, for people.
pub(super) fn name_of(cache: CacheId, number: usize, pairs: usize) -> String {
    match pairs {
        1 => format!("pair {cache}"),
        _ => format!("pair {} of {pairs} of cache {cache}", number + 1),
    }
}

/// What there is instead of labels.
fn reasons(founds: &[Found<'_>]) -> String {
    let each = founds.iter().map(|(path, found)| {
        let why = match found {
            FoundAtPath::Other(why) | FoundAtPath::Refused(why) | FoundAtPath::Missing(why) => why.as_str(),
            FoundAtPath::Label(_) => "",
        };
        format!("{}: {why}", path.display())
    });
    each.collect::<Vec<_>>().join("; ")
}

fn none_there(founds: &[Found<'_>]) -> String {
    let (why, keys) = (reasons(founds), keys(founds.len() / MEMBERS));
    if founds.iter().any(|(_, found)| matches!(found, FoundAtPath::Refused(_))) {
        return format!("No SSD of a pair can be used ({why}). Mend what is told of them, or correct {keys}");
    }
    let paths: Vec<_> = founds.iter().map(|(path, _)| path.display()).collect();
    match &paths[..] {
        [first, second] => format!(
            "Neither SSD of the pair can be used ({why}). Correct {keys}; take `ssd.mirror` out for a cache on one SSD; or if both are new \
             run `lode format {first} --mirror {second}` first"
        ),
        [first, second, others @ ..] => {
            let others = others.chunks(MEMBERS).map(|pair| format!(" --pair {} {}", pair[0], pair[1]));
            format!(
                "No SSD of any pair can be used ({why}). Correct {keys}; or if all are new run `lode format {first} --mirror \
                 {second}{}` first",
                others.collect::<String>()
            )
        }
        _ => why,
    }
}

fn stranger(path: &Path, other: &Path, pair: &Pair, why: &str) -> String {
    let (path, other) = (path.display(), other.display());
    format!(
        "{path} is to be an SSD of {}, of which {other} is one, and it is not: {why}. Correct {}. If the SSD is gone for good, `lode \
         device remove CONFIG.toml {path}` has the cache go on without it, and `lode device replace CONFIG.toml {path} DEVICE` gives it \
         another one",
        name_of(pair.id, pair.number, pair.pairs),
        keys(pair.pairs)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> Pair {
        Pair::new(CacheId([3; 16]), [9 << 20, 9 << 20]).unwrap()
    }

    fn of(label: PairLabel) -> FoundAtPath {
        FoundAtPath::Label(label)
    }

    fn judged(one: FoundAtPath, other: FoundAtPath, known: Option<u64>) -> Result<Together, String> {
        let founds = [(Path::new("/a"), &one), (Path::new("/b"), &other)];
        judge(&founds, &[known]).map(|mut pairs| pairs.remove(0))
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
        // The one that has gone on alone is there, and says why it is not used.
        let newer = FoundAtPath::Refused("written by a newer lode".to_owned());
        let said = judged(newer, of(pair.label(1)), Some(3)).unwrap_err();
        assert!(said.contains("gone on without") && said.contains("/a: written by a newer lode"), "{said}");
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
        let alone = pair().without(0, 1);
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

    /// The configuration names a second SSD that has not come yet: it is missed, whatever is at its path, and nothing else is.
    #[test]
    fn what_is_in_the_place_of_a_member_that_has_not_come_does_not_matter() {
        let alone = PairLabel { in_sync: [true, false], awaits_other: true, ..pair().label(0) };
        let begun = PairLabel { member: 1, ..alone };
        for (found, word) in [
            (FoundAtPath::Other("it holds: ext4".to_owned()), "ext4"),
            (FoundAtPath::Refused("in use".to_owned()), "in use"),
            (FoundAtPath::Missing("gone".to_owned()), "gone"),
            (of(begun), "has nothing yet"),
        ] {
            let together = judged(of(alone), found, None).unwrap();
            assert_eq!((together.pair.in_sync, together.pair.awaits_other), ([true, false], true));
            assert_eq!(together.left_out[0], None);
            assert!(together.left_out[1].as_ref().is_some_and(|why| why.contains(word)), "{word}");
        }
    }

    /// A member in whose place another came, and which comes back in the place of that one.
    #[test]
    fn an_outdated_member_is_left_out() {
        let again = pair().without(0, 1).with(0, 9 << 20);
        let (old, newest) = (of(pair().label(0)), of(again.label(1)));
        let together = judged(old.clone(), newest.clone(), Some(again.generation)).unwrap();
        assert_eq!(together.pair.in_sync, [false, true]);
        assert!(judged(old, newest, None).is_err(), "the one that came may have gone on");
    }

    fn three() -> Vec<Pair> {
        Pair::several(CacheId([3; 16]), &[[9 << 20; MEMBERS]; 3]).unwrap()
    }

    /// What six paths are together, of a host that remembers all pairs.
    fn judged_all(founds: &[FoundAtPath]) -> Result<Vec<Together>, String> {
        let paths = ["/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h"].map(Path::new);
        let founds: Vec<Found<'_>> = paths.into_iter().zip(founds).collect();
        judge(&founds, &vec![Some(1); founds.len() / MEMBERS])
    }

    /// The labels of three pairs, as paths name them.
    fn all() -> Vec<FoundAtPath> {
        three().iter().flat_map(|pair| [of(pair.label(0)), of(pair.label(1))]).collect()
    }

    #[test]
    fn pairs_are_found_whatever_names_their_devices_have() {
        let pairs = three();
        let founds = all();
        // Every turn of the six names, and the other way round.
        for turn in 0..6 {
            for is_back in [false, true] {
                let mut order: Vec<usize> = (0..6).map(|at| (at + turn) % 6).collect();
                if is_back {
                    order.reverse();
                }
                let turned: Vec<_> = order.iter().map(|&at| founds[at].clone()).collect();
                let together = judged_all(&turned).unwrap();
                assert_eq!(together.iter().map(|one| one.pair).collect::<Vec<_>>(), pairs, "{order:?}");
                let found: Vec<_> = together.iter().flat_map(|one| one.paths.map(|at| order[at])).collect();
                assert_eq!(found, [0, 1, 2, 3, 4, 5], "{order:?}");
            }
        }
    }

    #[test]
    fn a_member_of_each_pair_may_be_missing() {
        for gone in 0..6 {
            let mut founds = all();
            founds[gone] = FoundAtPath::Missing("no such device".to_owned());
            let together = judged_all(&founds).unwrap();
            for (number, one) in together.iter().enumerate() {
                let left_out = [0, 1].map(|member| one.left_out[member].is_some());
                assert_eq!(left_out, [2 * number, 2 * number + 1].map(|at| at == gone), "{gone}");
                assert_eq!(one.paths, [2 * number, 2 * number + 1]);
            }
        }
        // One of each pair, and names that have moved from pair to pair: those that are left belong to the places that are.
        let mut founds = all();
        (founds[1], founds[2], founds[5]) = (
            FoundAtPath::Missing("gone".to_owned()),
            FoundAtPath::Missing("gone".to_owned()),
            FoundAtPath::Missing("gone".to_owned()),
        );
        founds.swap(0, 4);
        let together = judged_all(&founds).unwrap();
        let mut paths: Vec<usize> = together.iter().flat_map(|one| one.paths).collect();
        assert_eq!((together[0].paths[0], together[1].paths[1], together[2].paths[0]), (4, 3, 0));
        paths.sort_unstable();
        assert_eq!(paths, [0, 1, 2, 3, 4, 5], "each path has a place");
    }

    #[test]
    fn what_is_not_all_pairs_of_one_cache_is_refused_by_name() {
        let text = |text: &str| text.to_owned();
        let missing = || FoundAtPath::Missing(text("gone"));
        let stranger = Pair { id: CacheId([4; 16]), ..three()[1] };
        let with = |changes: &[(usize, FoundAtPath)]| {
            let mut founds = all();
            changes.iter().for_each(|(at, found)| founds[*at] = found.clone());
            founds
        };
        let four = Pair::several(CacheId([3; 16]), &[[9 << 20; MEMBERS]; 4]).unwrap();
        for (founds, words) in [
            (with(&[(2, of(stranger.label(0)))]), ["/a and /c", "different caches"]),
            (
                with(&[(4, all()[2].clone()), (5, all()[3].clone())]),
                ["/c and /e", "the same SSD of pair 2 of 3"],
            ),
            (with(&[(3, all()[2].clone())]), ["/c and /d", "one of them is a copy"]),
            (all()[..4].to_vec(), ["/a is of pair 1 of 3", "names 2"]),
            (with(&[(2, of(four[1].label(0)))]), ["/c is of pair 2 of 4", "names 3"]),
            (with(&[(2, missing()), (3, missing())]), ["pair 2 of 3", "/c: gone; /d: gone"]),
            (
                with(&[(2, FoundAtPath::Other(text("it holds: ext4")))]),
                ["/c is to be an SSD of pair 2 of 3", "/d"],
            ),
            (
                with(&[(2, FoundAtPath::Refused(text("in use")))]),
                ["/c is to be an SSD of pair 2 of 3", "in use"],
            ),
            (
                vec![missing(); 6],
                ["No SSD of any pair", "lode format /a --mirror /b --pair /c /d --pair /e /f"],
            ),
        ] {
            let said = judged_all(&founds).unwrap_err();
            assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
        }
        // One pair alone of several, and one whose other SSD may have gone on.
        let founds = [of(three()[1].label(0)), of(three()[1].label(1))];
        let said = judged(founds[0].clone(), founds[1].clone(), Some(1)).unwrap_err();
        assert!(said.contains("/a is of pair 2 of 3") && said.contains("`ssd.pairs`"), "{said}");
        let paths = ["/a", "/b", "/c", "/d", "/e", "/f"].map(Path::new);
        let gone = with(&[(2, missing())]);
        let founds: Vec<Found<'_>> = paths.into_iter().zip(&gone).collect();
        let said = judge(&founds, &[Some(1), None, Some(1)]).unwrap_err();
        assert!(said.contains("/c and /d: ") && said.contains("pair 2 of 3: one SSD"), "{said}");
    }
}
