//! Checking devices without the configuration that names them: one cache SSD, or SSDs of pairs. What is written is what changes nothing for whoever
//! remembers the cache: copies that one SSD has and another one lacks, and lost copies of superblock and directory.

use std::path::{Path, PathBuf};

use lode_format::PairLabel;
use lode_media::{MediaFile, OpenOptions};
use lode_store::pair::{MEMBERS, Pair, PairArray, PairDevice, count_labels, probe_pair};
use lode_store::{StoreErrorKind, StoreView, SyncDevice, probe_read_ssd};

use super::report::Looked;
use super::target::neither;
use super::{
    CheckOptions, CheckProgress, CheckReport, CheckedSsd, Verdict, look, missed_text, refusing_text,
};
use crate::error::{ServerError, ServerErrorKind};
use crate::foreign::other_version;
use crate::pair::MemberState;
use crate::sync_device::FileDevice;

/// Checks SSDs that belong together without a configuration. Records of the last run that memory may still have are not looked for, and what takes
/// them into account is not mended.
///
/// # Errors
/// When a daemon serves them, or they hold no cache together.
pub fn check_devices(
    paths: &[PathBuf],
    options: &CheckOptions,
    progress: CheckProgress<'_>,
) -> Result<CheckReport, ServerError> {
    let open = |path: &PathBuf| {
        MediaFile::open(path, &OpenOptions { write: options.repair, ..OpenOptions::default() })
    };
    let files = paths.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let shown = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ");
    let labels: Result<Vec<_>, _> = files.iter().map(|file| probe_pair(&mut FileDevice::new(file))).collect();
    match labels {
        Ok(labels) => {
            let (mut device, ssds) = pairs_of(&files, &labels, &shown)?;
            let view = StoreView::read(&mut device).map_err(|error| ServerError::store(&shown, error))?;
            let shown = if paths.len() == 1 { format!("{shown}, one SSD of a pair") } else { shown };
            return check_found(&mut device, (&view, shown, ssds), options, progress);
        }
        // One of them says that it is of the others' cache, and cannot be read.
        Err(error) if files.len() > 1 => {
            let mut each = paths.iter().zip(&files);
            let of_another = each.find_map(|(path, file)| other_version(path, &mut FileDevice::new(file)));
            return Err(of_another.unwrap_or_else(|| ServerError::store(&shown, error)));
        }
        Err(_) => {}
    }
    let (path, file) = (&paths[0], &files[0]);
    let mut device = FileDevice::new(file);
    let view = StoreView::read(&mut device).map_err(|error| match error.kind() {
        StoreErrorKind::NotACache => no_cache(path, file, error),
        _ => ServerError::store(&shown, error),
    })?;
    let ssds = vec![CheckedSsd::there(Some(path.clone()), MemberState::Single, 0, None)];
    check_found(&mut device, (&view, shown, ssds), options, progress)
}

/// Why a device that holds no cache is not checked.
fn no_cache(path: &Path, file: &MediaFile, error: lode_store::StoreError) -> ServerError {
    let mut device = FileDevice::new(file);
    if probe_read_ssd(&mut device).is_ok() {
        let text = format!(
            "{} is a read SSD, which holds nothing that outlives a run: there is nothing to check",
            path.display()
        );
        return ServerError::new(ServerErrorKind::Store, text);
    }
    match other_version(path, &mut device) {
        Some(error) => error,
        None if lode_store::signature_of(&mut device).is_some() => ServerError::store(path.display(), error),
        None => neither(path, "it is a device"),
    }
}

/// The pairs of which these files are SSDs, as one device, and each SSD. One that is not given is without a path.
fn pairs_of<'f>(
    files: &'f [MediaFile],
    labels: &[PairLabel],
    shown: &str,
) -> Result<(PairArray<FileDevice<&'f MediaFile>>, Vec<CheckedSsd>), ServerError> {
    let refuse = |text: String| Err(ServerError::new(ServerErrorKind::Config, text));
    let PairLabel { pair: cache, pairs: count, .. } = labels[0];
    let mut places = vec![[None; MEMBERS]; count];
    for (at, label) in labels.iter().enumerate() {
        let place =
            places.get_mut(label.number).map(|pair: &mut [Option<usize>; MEMBERS]| &mut pair[label.member]);
        match place {
            Some(place @ None) => *place = Some(at),
            Some(Some(before)) => {
                return refuse(format!(
                    "{} and {} are the same SSD of cache {cache}, or one is a copy of the other: give the one that is in use",
                    files[*before].path().display(),
                    files[at].path().display()
                ));
            }
            None => {
                return refuse(format!(
                    "{shown}: their labels are of caches with different numbers of pairs"
                ));
            }
        }
    }
    if let Some(absent) = places.iter().position(|pair| *pair == [None; MEMBERS]) {
        return refuse(format!(
            "{shown}: of pair {} of {count} of cache {cache} no SSD was given, and what the others hold (this is of pair {} of {count}) can \
             only be read together: give SSDs of all pairs, or the configuration that names them in `ssd.pairs`",
            absent + 1,
            labels[0].number + 1
        ));
    }
    let fault = |error| ServerError::store(shown, error);
    let (mut devices, mut ssds) = (Vec::new(), Vec::new());
    let given: Vec<_> =
        places.iter().map(|pair| given_labels(pair.map(|at| at.map(|at| labels[at])))).collect();
    let known: Vec<_> = given.iter().map(|(_, known)| *known).collect();
    let given: Vec<_> = given.into_iter().map(|(labels, _)| labels).collect();
    for (number, pair) in Pair::all_of(&given, &known).map_err(fault)?.into_iter().enumerate() {
        let places = places[number];
        devices.push(PairDevice::new(pair, places.map(|at| at.map(|at| FileDevice::new(&files[at])))));
        let of_pair = places.map(|at| at.map(|at| labels[at]));
        let file = |member: usize| places[member].map(|at| &files[at]);
        ssds.extend((0..MEMBERS).filter_map(|member| ssd_of(&pair, of_pair, member, file(member))));
    }
    Ok((PairArray::new(devices).map_err(fault)?, ssds))
}

/// The labels of those of a pair that were given, and the generation that is taken for the newest. One that is alone is asked what it holds,
/// whoever has everything.
fn given_labels(labels: [Option<PairLabel>; MEMBERS]) -> ([Option<PairLabel>; MEMBERS], Option<u64>) {
    match labels {
        [Some(_), Some(_)] => (labels, None),
        _ => {
            let alone = |label: PairLabel| {
                let in_sync = [0, 1].map(|member| member == label.member || label.in_sync[member]);
                PairLabel { in_sync, awaits_other: false, ..label }
            };
            let known = labels.iter().flatten().map(|label| label.generation).max();
            (labels.map(|label| label.map(alone)), known)
        }
    }
}

/// An SSD of a pair, if there is anything to say of it.
fn ssd_of(
    pair: &Pair,
    labels: [Option<PairLabel>; MEMBERS],
    member: usize,
    file: Option<&MediaFile>,
) -> Option<CheckedSsd> {
    let device = (pair.number * MEMBERS + member) as u16;
    let says_in_sync = match labels {
        [Some(_), Some(_)] => pair.in_sync[member],
        _ => labels.iter().flatten().all(|label| label.in_sync[member]),
    };
    let state = if says_in_sync { MemberState::InSync } else { MemberState::OutOfSync };
    match file {
        Some(file) => {
            let copies = says_in_sync.then(|| count_labels(&mut FileDevice::new(file)));
            let why = (!says_in_sync).then(|| "it lacks what was written since it was dropped".to_owned());
            let ssd = CheckedSsd::there(Some(file.path().to_path_buf()), state, device, copies);
            Some(CheckedSsd { why, ..ssd })
        }
        None if labels.iter().flatten().any(|label| label.awaits_other) => None,
        None => {
            let ssd = CheckedSsd::there(None, state, device, None);
            Some(CheckedSsd { why: Some("it was not given".to_owned()), is_missed: says_in_sync, ..ssd })
        }
    }
}

/// Checks what was found, and mends of it what can be without the configuration.
fn check_found(
    device: &mut dyn SyncDevice,
    (view, shown, ssds): (&StoreView, String, Vec<CheckedSsd>),
    options: &CheckOptions,
    progress: CheckProgress<'_>,
) -> Result<CheckReport, ServerError> {
    let fault = |error| ServerError::store(&shown, error);
    let report = |looked: &Looked| CheckReport::new(shown.clone(), view, looked, (ssds.clone(), false));
    let missed = ssds.iter().any(|ssd| ssd.is_missed);
    let mends = options.repair && !missed;
    let mut looked = look(device, view, (options, mends), progress).map_err(fault)?;
    let mut found = report(&looked);
    if mends && looked.heads_are_lone() {
        view.mend_heads(device).map_err(fault)?;
    }
    if mends && (looked.heads_are_lone() || !looked.on_devices().mended.is_empty()) {
        looked = look(device, view, (options, false), &mut |_, _, _| {}).map_err(fault)?;
        found = report(&looked).after(&found, false);
    }
    if options.repair && found.verdict == Verdict::Mendable {
        found.not_mended = Some(match () {
            () if missed => missed_text(&[format!("the other SSD of {shown}")]),
            () if !looked.on_devices().is_whole() => refusing_text(&found),
            () => "What is left takes the configuration, because memory may still have what the last run acknowledged, and labels are the \
                   host's to remember: `lode check --repair CONFIG.toml`, or a start"
                .to_owned(),
        });
    }
    Ok(found)
}
