//! Which pair of a cache a command of an operator is about: the one that has a path, or the one that lacks an SSD. It must not know
//! whether the pairs are served.

use std::path::{Path, PathBuf};

use lode_store::pair::MEMBERS;

/// A pair, in the order of numbers.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// By member; none of one that has not come yet.
    pub paths: [Option<PathBuf>; MEMBERS],
    pub in_sync: [bool; MEMBERS],
    pub is_resilvering: bool,
}

/// The pair and the member at a path.
///
/// # Errors
/// In words, when none is there.
pub(super) fn member_at(pairs: &[[Option<PathBuf>; MEMBERS]], path: &Path) -> Result<(usize, usize), String> {
    let same = |one: &Path| {
        one == path
            || one.canonicalize().ok().is_some_and(|one| path.canonicalize().is_ok_and(|path| one == path))
    };
    let of_pair = |(number, paths): (usize, &[Option<PathBuf>; MEMBERS])| {
        let is_it = |&member: &usize| paths[member].as_deref().is_some_and(same);
        (0..MEMBERS).find(is_it).map(|member| (number, member))
    };
    pairs.iter().enumerate().find_map(of_pair).ok_or_else(|| {
        let path = path.display();
        match pairs {
            [[Some(one), Some(other)]] => {
                format!(
                    "{path} is not an SSD of the pair, which are {} and {}",
                    one.display(),
                    other.display()
                )
            }
            pairs => {
                let paths: Vec<_> =
                    pairs.iter().flatten().flatten().map(|path| path.display().to_string()).collect();
                format!("{path} is not an SSD of a pair, which are {}", paths.join(", "))
            }
        }
    })
}

/// Refuses an SSD for this pair that another one is named with.
///
/// # Errors
/// In words.
pub(super) fn refuse_if_of_another(
    pairs: &[[Option<PathBuf>; MEMBERS]],
    path: &Path,
    number: usize,
) -> Result<(), String> {
    match member_at(pairs, path) {
        Ok((named, _)) if named != number => Err(format!(
            "{} is named as an SSD of pair {}; give another one for pair {}",
            path.display(),
            named + 1,
            number + 1
        )),
        _ => Ok(()),
    }
}

/// The pair that an SSD comes to: the one that is asked for, from 1, the one that has its path, or the only one that lacks an SSD.
///
/// # Errors
/// In words, when it cannot be told, or none lacks one.
pub(super) fn pair_for(pairs: &[Known], path: &Path, wanted: Option<usize>) -> Result<usize, String> {
    let paths: Vec<_> = pairs.iter().map(|pair| pair.paths.clone()).collect();
    let named = member_at(&paths, path).ok().map(|(number, _)| number);
    match (wanted, named) {
        (Some(wanted), _) if !(1..=pairs.len()).contains(&wanted) => {
            return Err(format!("There is no pair {wanted}; they are numbered from 1 to {}", pairs.len()));
        }
        (Some(wanted), _) => return refuse_if_of_another(&paths, path, wanted - 1).map(|()| wanted - 1),
        (None, Some(named)) => return Ok(named),
        (None, None) => {}
    }
    let lacking: Vec<usize> =
        (0..pairs.len()).filter(|&number| pairs[number].in_sync != [true; MEMBERS]).collect();
    let at_rest: Vec<usize> =
        lacking.iter().copied().filter(|&number| !pairs[number].is_resilvering).collect();
    match (&at_rest[..], &lacking[..]) {
        ([one], _) => Ok(*one),
        // Whoever asks it is told that one is being resilvered.
        ([], [one, ..]) => Ok(*one),
        ([], []) if pairs.len() == 1 => Ok(0),
        ([], []) => {
            Err("All SSDs of all pairs are in use; take one out first (`lode device remove`)".to_owned())
        }
        (several, _) => {
            let each = several.iter().map(|&number| {
                let out = pairs[number].paths.iter().zip(pairs[number].in_sync).find(|(_, in_sync)| !in_sync);
                let out = out.and_then(|(path, _)| path.as_ref());
                let out = out.map(|path| path.display().to_string()).unwrap_or_default();
                format!("pair {} ({out})", number + 1)
            });
            let each = each.collect::<Vec<_>>().join(" and ");
            Err(format!("An SSD is missing in {each}; say which pair {} is for with --pair", path.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(in_sync: &[[bool; MEMBERS]]) -> Vec<Known> {
        let pair = |(number, &in_sync): (usize, &[bool; MEMBERS])| {
            let paths = [0, 1].map(|member| Some(PathBuf::from(format!("/dev/none{}", 2 * number + member))));
            Known { paths, in_sync, is_resilvering: false }
        };
        in_sync.iter().enumerate().map(pair).collect()
    }

    #[test]
    fn an_ssd_comes_to_the_pair_that_lacks_one_or_is_asked_for() {
        let new = Path::new("/dev/new");
        let one_lacks = pairs(&[[true, true], [true, false], [true, true]]);
        assert_eq!(pair_for(&one_lacks, new, None), Ok(1));
        // It has a place.
        assert_eq!(pair_for(&one_lacks, Path::new("/dev/none4"), None), Ok(2));
        assert_eq!(pair_for(&one_lacks, new, Some(3)), Ok(2));
        assert!(pair_for(&one_lacks, new, Some(4)).unwrap_err().contains("from 1 to 3"));
        assert!(pair_for(&one_lacks, new, Some(0)).unwrap_err().contains("from 1 to 3"));
        let said = pair_for(&one_lacks, Path::new("/dev/none4"), Some(2)).unwrap_err();
        assert!(said.contains("is named as an SSD of pair 3"), "{said}");
        let mut two_lack = pairs(&[[false, true], [true, true], [true, false]]);
        let said = pair_for(&two_lack, new, None).unwrap_err();
        assert!(
            said.contains("pair 1 (/dev/none0) and pair 3 (/dev/none5)") && said.contains("--pair"),
            "{said}"
        );
        two_lack[0].is_resilvering = true;
        assert_eq!(pair_for(&two_lack, new, None), Ok(2));
        two_lack[2].is_resilvering = true;
        assert_eq!(pair_for(&two_lack, new, None), Ok(0), "which says so");
        assert!(pair_for(&pairs(&[[true; 2]; 2]), new, None).unwrap_err().contains("All SSDs"));
        assert_eq!(pair_for(&pairs(&[[true; 2]]), new, None), Ok(0), "which says so");
    }

    #[test]
    fn a_member_is_found_by_its_path() {
        let paths: Vec<_> = pairs(&[[true; 2]; 2]).into_iter().map(|pair| pair.paths).collect();
        assert_eq!(member_at(&paths, Path::new("/dev/none2")), Ok((1, 0)));
        let said = member_at(&paths, Path::new("/dev/x")).unwrap_err();
        assert!(said.contains("/dev/none0, /dev/none1, /dev/none2, /dev/none3"), "{said}");
        // The second has not come yet.
        let awaiting = [[Some(PathBuf::from("/dev/none0")), None]];
        assert_eq!(member_at(&awaiting, Path::new("/dev/none0")), Ok((0, 0)));
        let said = member_at(&awaiting, Path::new("/dev/none1")).unwrap_err();
        assert!(said.contains("/dev/none1 is not an SSD of a pair, which are /dev/none0"), "{said}");
    }
}
