//! Whether the group that a redo log holds belongs on the disk that the log lies beside: from the log's label and state, what the
//! disk's sidecar says, and which volume the cache has for the disk that is about to serve it. Asked before a block is
//! written there. Pure; it must not know where any of this is kept.
//!
//! | who asks | a group is taken when the log is of |
//! |---|---|
//! | a start | the volume that this cache has for the disk, which is as this cache left it; a sidecar, where there is one, says that this volume holds the disk, in the group's generation |
//! | a start | a volume of another cache that the disk's sidecar says holds it, in the group's generation (a cache that is lost: any other one keeps the start from coming so far) |
//! | an operator | the volume that the sidecar says holds the disk, in the group's generation |
//! | an operator | any volume, where there is no sidecar: disk and log may be all that is left, and who names them says that they belong together |
//!
//! A log without a group changes no byte of a disk, and is nobody's business at a start. To an operator it says that the disk has
//! everything; so it has to be the disk's.

use lode_format::{CacheId, RedoLabel, VolumeTag};
use lode_store::RedoLog;
use lode_types::planted;

use crate::sidecar::{DiskState, Sidecar};

/// The cache that is about to serve a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server<'a> {
    /// None without an SSD.
    pub cache: Option<CacheId>,
    /// Its volume for the disk, if it has one.
    pub volume: Option<VolumeTag>,
    /// Why the disk is not as this cache left it.
    pub changed: Option<&'a str>,
}

/// What is known of a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskFacts<'a> {
    pub sidecar: Option<&'a Sidecar>,
    /// None: an operator asks, and no cache serves it.
    pub server: Option<Server<'a>>,
}

/// Why a log is not for a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// The disk is another volume's, or nobody says that it is this one's.
    OtherVolume,
    /// The disk alone is the VM's disk.
    Clean,
    /// The sidecar is of this generation, and the group of another one.
    OtherGeneration(u64),
    /// This cache has given the volume up.
    GivenUp,
    /// The disk was changed since, in these words.
    Changed(String),
}

/// See the module's documentation.
pub(crate) fn check(log: &RedoLog, disk: &DiskFacts<'_>) -> Result<(), Mismatch> {
    if planted("log-of-another-disk-applied") {
        return Ok(());
    }
    let label = &log.label;
    let is_named = disk.sidecar.is_some_and(|sidecar| names(sidecar, label));
    let is_own = disk.server.is_some_and(|server| server.cache == Some(label.cache));
    if log.entries.is_empty() {
        let is_known = match disk.server {
            // What the disk has already is written there again, at most.
            Some(_) => log.is_empty() || is_own || is_named,
            None => disk.sidecar.is_none() || is_named,
        };
        return if is_known { Ok(()) } else { Err(Mismatch::OtherVolume) };
    }
    if let Some(sidecar) = disk.sidecar {
        if !is_named {
            return Err(Mismatch::OtherVolume);
        }
        if sidecar.state == DiskState::Clean && !planted("log-beside-a-clean-disk-applied") {
            return Err(Mismatch::Clean);
        }
        let is_known = log.generation != 0 && !planted("log-of-an-earlier-generation-applied");
        if is_known && log.generation != sidecar.generation {
            return Err(Mismatch::OtherGeneration(sidecar.generation));
        }
    }
    match disk.server {
        Some(server) if is_own && server.volume == Some(label.volume) => {
            server.changed.map_or(Ok(()), |why| Err(Mismatch::Changed(why.to_owned())))
        }
        Some(_) if is_own && is_named && !planted("log-of-a-removed-volume-applied") => {
            Err(Mismatch::GivenUp)
        }
        Some(_) if !is_named => Err(Mismatch::OtherVolume),
        _ => Ok(()),
    }
}

fn names(sidecar: &Sidecar, label: &RedoLabel) -> bool {
    let cache = sidecar.cache.as_deref().and_then(|cache| cache.parse::<CacheId>().ok());
    let volume = sidecar.volume.as_deref().and_then(|volume| volume.parse().ok());
    cache == Some(label.cache) && volume == Some(label.volume.0)
}

/// For people: what such a log holds and whose that is, why it is not brought to the disk, and what to do. `disk` is how the
/// disk is named, and `volume_name` the VM that this cache has the log's volume for.
pub(crate) fn tell(
    (log, path): (&RedoLog, &std::path::Path),
    why: &Mismatch,
    facts: &DiskFacts<'_>,
    disk: &std::path::Path,
    volume_name: Option<String>,
) -> String {
    let (disk, blocks, label) = (disk.display(), log.entries.len(), &log.label);
    let vm = volume_name.map(|name| format!(" (VM {name})")).unwrap_or_default();
    let keep = "If the disk as it is counts, remove the log";
    let why = match why {
        Mismatch::OtherVolume => {
            let owner = match (facts.sidecar, facts.server) {
                (Some(sidecar), _) => format!(
                    "its sidecar names volume {} of {}",
                    sidecar.volume.as_deref().unwrap_or("-"),
                    sidecar.who()
                ),
                (None, Some(Server { volume: Some(volume), .. })) => {
                    format!("this cache has volume {} for it", volume.0)
                }
                (None, _) => "this cache has no volume for it, and no sidecar names one".to_owned(),
            };
            let anyway = match facts.sidecar {
                Some(_) => "restore the sidecar of the same moment, or move it away, and `lode recover`",
                None => "`lode recover`",
            };
            format!(
                "and {disk} is not known as the disk of that volume: {owner}. Move the log to the disk that it belongs to, and \
                 start again: a log is missed only where the cache SSD is lost. If it belongs to this one all the same, as after a \
                 restore of both: {anyway} {disk}"
            )
        }
        Mismatch::Clean => format!(
            "and the sidecar of {disk} says that the disk alone has everything: the group would be written over what is newer. \
             {keep}; otherwise restore disk, log and sidecar of one moment"
        ),
        Mismatch::OtherGeneration(now) => format!(
            "written in generation {} of the disk's sidecar, and {disk} is of generation {now}: it was served by others, or \
             restored, since. {keep}; otherwise restore disk, log and sidecar of one moment",
            log.generation
        ),
        Mismatch::GivenUp => format!(
            "and this cache has given that volume of {disk} up (`lode volume remove`). {keep}; if it lacks the group, \
             `lode recover {disk}` first"
        ),
        Mismatch::Changed(why) => format!(
            "and {disk} is not as this cache left it: {why}. {keep}; otherwise restore disk, log and sidecar of one moment"
        ),
    };
    format!(
        "the redo log {} holds {blocks} blocks of group {} of volume {}{vm} of cache {}, {why}",
        path.display(),
        log.group,
        label.volume.0,
        label.cache
    )
}

#[cfg(test)]
mod tests {
    use lode_format::{RedoEntry, RedoLayout};
    use lode_types::BlockSize;

    use super::*;
    use crate::sidecar::CacheOwner;

    const OWN: CacheId = CacheId([1; 16]);
    const OTHER: CacheId = CacheId([2; 16]);
    const TAG: VolumeTag = VolumeTag(7);
    const NEXT_TAG: VolumeTag = VolumeTag(8);
    const GENERATION: u64 = 3;

    fn log(cache: CacheId, volume: VolumeTag) -> RedoLog {
        let layout = RedoLayout { block: BlockSize::KIB_4, capacity_blocks: 8 };
        RedoLog {
            label: RedoLabel { cache, volume, volume_bytes: 1 << 20, layout },
            group: 227,
            generation: GENERATION,
            entries: vec![RedoEntry { block: 1, crc: 2 }],
            ranges: Vec::new(),
        }
    }

    fn sidecar(cache: CacheId, volume: VolumeTag, state: DiskState) -> Sidecar {
        let owner = CacheOwner { cache: Some(cache.to_string()), name: "a".to_owned(), host: "h".to_owned() };
        let mut sidecar = Sidecar::new(&owner, "web", Some(volume.0.to_string()), GENERATION);
        sidecar.state = state;
        sidecar
    }

    /// The cache `OWN` with this volume for the disk.
    fn server(volume: Option<VolumeTag>) -> Option<Server<'static>> {
        Some(Server { cache: Some(OWN), volume, changed: None })
    }

    fn verdict(log: &RedoLog, sidecar: Option<&Sidecar>, server: Option<Server<'_>>) -> Result<(), Mismatch> {
        check(log, &DiskFacts { sidecar, server })
    }

    #[test]
    fn g4_a_group_of_another_volume_is_taken_by_nobody_who_knows_better() {
        let own = sidecar(OWN, TAG, DiskState::Held);
        for foreign in [log(OWN, NEXT_TAG), log(OTHER, TAG)] {
            for who in [server(Some(TAG)), server(None), None] {
                assert_eq!(verdict(&foreign, Some(&own), who), Err(Mismatch::OtherVolume));
            }
            for who in [server(Some(TAG)), server(None)] {
                assert_eq!(verdict(&foreign, None, who), Err(Mismatch::OtherVolume));
            }
            // All that is left after the host has died.
            assert_eq!(verdict(&foreign, None, None), Ok(()));
        }
        let without_ssd = Some(Server { cache: None, volume: None, changed: None });
        assert_eq!(verdict(&log(OWN, TAG), None, without_ssd), Err(Mismatch::OtherVolume));
        // A sidecar that names no volume, or none that can be, names no log.
        for volume in [None, Some("x".to_owned())] {
            let mut nobody = own.clone();
            nobody.volume = volume;
            assert_eq!(verdict(&log(OWN, TAG), Some(&nobody), None), Err(Mismatch::OtherVolume));
        }
    }

    #[test]
    fn a_group_comes_to_the_disk_that_it_was_written_for() {
        let held = sidecar(OWN, TAG, DiskState::Held);
        for sidecar in [None, Some(&held)] {
            assert_eq!(verdict(&log(OWN, TAG), sidecar, server(Some(TAG))), Ok(()));
            assert_eq!(verdict(&log(OWN, TAG), sidecar, None), Ok(()));
        }
        // That a cache is lost was said before.
        let lost = sidecar(OTHER, TAG, DiskState::Held);
        for volume in [None, Some(TAG), Some(NEXT_TAG)] {
            let changed = volume.map(|_| "it was served by another one");
            let server = server(volume).map(|server| Server { changed, ..server });
            assert_eq!(verdict(&log(OTHER, TAG), Some(&lost), server), Ok(()));
        }
        // Of a program that noted no generation.
        let older = RedoLog { generation: 0, ..log(OWN, TAG) };
        assert_eq!(verdict(&older, Some(&held), server(Some(TAG))), Ok(()));
    }

    #[test]
    fn g4_a_group_of_a_time_that_is_over_is_taken_by_nobody() {
        let clean = sidecar(OWN, TAG, DiskState::Clean);
        let [mut later, mut earlier] = [(); 2].map(|()| sidecar(OWN, TAG, DiskState::Held));
        later.generation += 1;
        earlier.generation -= 1;
        for who in [server(Some(TAG)), server(Some(NEXT_TAG)), server(None), None] {
            assert_eq!(verdict(&log(OWN, TAG), Some(&clean), who), Err(Mismatch::Clean));
            for moved in [&later, &earlier] {
                let mismatch = Mismatch::OtherGeneration(moved.generation);
                assert_eq!(verdict(&log(OWN, TAG), Some(moved), who), Err(mismatch));
            }
        }
        // It was removed, and nobody could say so beside the disk any more.
        let held = sidecar(OWN, TAG, DiskState::Held);
        for volume in [None, Some(NEXT_TAG)] {
            assert_eq!(verdict(&log(OWN, TAG), Some(&held), server(volume)), Err(Mismatch::GivenUp));
        }
        let changed = server(Some(TAG)).map(|server| Server { changed: Some("written"), ..server });
        for sidecar in [None, Some(&held)] {
            let mismatch = Mismatch::Changed("written".to_owned());
            assert_eq!(verdict(&log(OWN, TAG), sidecar, changed), Err(mismatch));
        }
    }

    #[test]
    fn a_log_without_a_group_keeps_no_start_and_tells_nothing_of_another_disk() {
        let held = sidecar(OTHER, TAG, DiskState::Held);
        let clean = sidecar(OWN, TAG, DiskState::Clean);
        let empty = RedoLog { entries: Vec::new(), ..log(OWN, TAG) };
        let ranges = RedoLog { ranges: vec![3..4, 6..9], ..empty.clone() };
        for sidecar in [None, Some(&held), Some(&clean)] {
            for volume in [None, Some(TAG), Some(NEXT_TAG)] {
                assert_eq!(verdict(&empty, sidecar, server(volume)), Ok(()));
                assert_eq!(verdict(&ranges, sidecar, server(volume)), Ok(()), "of a volume of this cache");
            }
        }
        let foreign = RedoLog { label: log(OTHER, NEXT_TAG).label, ..ranges.clone() };
        assert_eq!(verdict(&foreign, Some(&held), server(None)), Err(Mismatch::OtherVolume));
        assert_eq!(verdict(&empty, Some(&held), None), Err(Mismatch::OtherVolume));
        for sidecar in [None, Some(&clean)] {
            assert_eq!(verdict(&ranges, sidecar, None), Ok(()));
        }
    }
}
