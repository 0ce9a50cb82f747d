//! The other end of the control socket: asking a running daemon. It must not know what answers look like on a
//! terminal.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::commands::{ControlRequest, PROTOCOL};
use crate::config::new_vm;
use crate::error::{ServerError, ServerErrorKind};
use crate::pair::PairView;

/// Longest answer that is read.
const MAX_ANSWER_BYTES: u64 = 64 << 20;
/// How long an answer may take: longer than a stop. While a stop drains, it answers every second.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The same for changes, which wait for others before them.
const CHANGE_LIMIT: Duration = Duration::from_secs(600);
/// How often a drain is looked at.
const DRAIN_PAUSE: Duration = Duration::from_millis(250);
/// How long a drain may get no further before it is given up.
const DRAIN_PATIENCE: Duration = Duration::from_secs(20);

/// A command sent to a running daemon, whose answers are to be read line by line.
struct Conversation<'c> {
    control: &'c Path,
    answers: std::io::Take<BufReader<UnixStream>>,
}

impl Conversation<'_> {
    fn begin<'c>(control: &'c Path, request: &ControlRequest) -> Result<Conversation<'c>, ServerError> {
        let failed = |error| no_answer(control, error);
        let mut stream = UnixStream::connect(control).map_err(failed)?;
        let limit = if request.changes() { CHANGE_LIMIT } else { ANSWER_LIMIT };
        stream.set_read_timeout(Some(limit)).map_err(failed)?;
        let mut request = serde_json::to_value(request).unwrap_or_default();
        request["protocol"] = PROTOCOL.into();
        // What the daemon says to a request that it does not read to its end is there to be read all the same.
        let _ = stream.write_all(format!("{request}\n").as_bytes());
        Ok(Conversation { control, answers: BufReader::new(stream).take(MAX_ANSWER_BYTES) })
    }

    fn answer(&mut self) -> Result<String, ServerError> {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|error| no_answer(self.control, error))?;
        if answer.ends_with('\n') {
            return Ok(answer);
        }
        let text = format!("The daemon at {} ended before it answered; see its log", self.control.display());
        Err(ServerError::new(ServerErrorKind::Socket, text))
    }

    /// The next answer, when it is what was asked for.
    fn understand<'a, T: Deserialize<'a>>(&mut self, line: &'a mut String) -> Result<T, ServerError> {
        *line = self.answer()?;
        if let Ok(Refusal { error }) = serde_json::from_str(line) {
            return Err(ServerError::new(ServerErrorKind::Refused, error));
        }
        serde_json::from_str(line).map_err(|error| {
            let what = format!("The daemon at {} is of another version", self.control.display());
            ServerError::because(ServerErrorKind::Socket, what, error)
        })
    }
}

fn no_answer(control: &Path, error: std::io::Error) -> ServerError {
    let what = format!("Cannot talk to the daemon at {}; is it running?", control.display());
    ServerError::because(ServerErrorKind::Socket, what, error)
}

/// What the daemon did not do, and why.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// Asks a running daemon for its status, as JSON.
///
/// # Errors
/// [`ServerErrorKind::Socket`] when it is not running or does not answer.
pub fn status(control: &Path) -> Result<String, ServerError> {
    Conversation::begin(control, &ControlRequest::Status {})?.answer()
}

/// How a stop went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Blocks that are newer than their backing disks and stay on the SSD.
    pub dirty_blocks: u64,
    /// Of those, damaged ones: neither the SSD nor the backing disk has what guests wrote.
    pub lost_blocks: u64,
}

/// The daemon's answers to a stop: how it goes on, and at last how it ended.
#[derive(Deserialize)]
#[serde(untagged)]
enum StopAnswer {
    Ended { saved: bool, dirty_blocks: u64, lost_blocks: u64 },
    Draining { draining_blocks: u64 },
    Stopping { stopping: bool },
}

/// Asks a running daemon to stop, with `drain` after it has written everything back; returns when it has.
/// `progress` is told how many blocks are still to be written back.
///
/// # Errors
/// As [`status`], and [`ServerErrorKind::Media`] when it stopped without everything saved.
pub fn stop(control: &Path, drain: bool, mut progress: impl FnMut(u64)) -> Result<Stopped, ServerError> {
    let mut conversation = Conversation::begin(control, &ControlRequest::Stop { drain })?;
    let mut line = String::new();
    loop {
        match conversation.understand(&mut line)? {
            StopAnswer::Stopping { stopping: true } => {}
            StopAnswer::Draining { draining_blocks } => progress(draining_blocks),
            StopAnswer::Ended { saved: true, dirty_blocks, lost_blocks } => {
                return Ok(Stopped { dirty_blocks, lost_blocks });
            }
            StopAnswer::Stopping { .. } | StopAnswer::Ended { .. } => {
                let text = "The daemon stopped, but not everything could be saved; see its log before it is started again";
                return Err(ServerError::new(ServerErrorKind::Media, text));
            }
        }
    }
}

/// What a drain needs of a status.
#[derive(Deserialize)]
struct Progress {
    vms: Vec<VmProgress>,
}

#[derive(Deserialize)]
struct VmProgress {
    name: String,
    draining_blocks: Option<u64>,
    drain_cancelled: bool,
    gauges: Damage,
}

#[derive(Deserialize)]
struct Damage {
    dirty_blocks: u64,
    lost_blocks: u64,
}

/// The daemon's answer to a drain.
#[derive(Deserialize)]
struct Began {
    draining_blocks: u64,
}

/// Has a running daemon write back what is dirty now in the caches of these VMs (all when there are none named),
/// while their guests go on; returns when it has, and how many blocks these were. `progress` is told how many are still to be
/// written back.
///
/// # Errors
/// As [`status`]; [`ServerErrorKind::Refused`] for a VM that is not there; [`ServerErrorKind::Media`] when it gets no
/// further.
pub fn drain(control: &Path, vms: &[String], progress: impl FnMut(u64)) -> Result<u64, ServerError> {
    write_back(control, vms, false, progress)
}

/// As [`drain`], of one VM, whose writes go around its SSD from now on: nothing is dirty when this returns, and nothing becomes so.
///
/// # Errors
/// As [`drain`].
pub fn drain_for_migration(control: &Path, vm: &str, progress: impl FnMut(u64)) -> Result<u64, ServerError> {
    write_back(control, &[vm.to_owned()], true, progress)
}

/// The list of a request, in which none stands for all.
fn named(vms: &[String]) -> Option<Vec<String>> {
    (!vms.is_empty()).then(|| vms.to_vec())
}

fn write_back(
    control: &Path,
    vms: &[String],
    for_migration: bool,
    mut progress: impl FnMut(u64),
) -> Result<u64, ServerError> {
    let request = ControlRequest::Drain { vms: named(vms), cancel: false, for_migration };
    let mut line = String::new();
    let began: Began = Conversation::begin(control, &request)?.understand(&mut line)?;
    let (mut least, mut since) = (began.draining_blocks, Instant::now());
    progress(least);
    loop {
        let now: Progress =
            Conversation::begin(control, &ControlRequest::Status {})?.understand(&mut line)?;
        let asked: Vec<_> = now.vms.iter().filter(|vm| vms.is_empty() || vms.contains(&vm.name)).collect();
        let is_over = |vm: &&VmProgress| {
            let dirty = vm.gauges.dirty_blocks.saturating_sub(vm.gauges.lost_blocks);
            vm.draining_blocks.is_none() && (!for_migration || dirty == 0 || vm.drain_cancelled)
        };
        if asked.iter().all(is_over) {
            return ended(&asked).map(|()| began.draining_blocks);
        }
        let left = asked.iter().filter_map(|vm| vm.draining_blocks).sum();
        progress(left);
        if left < least {
            (least, since) = (left, Instant::now());
        } else if since.elapsed() > DRAIN_PATIENCE {
            let text = format!(
                "{left} blocks could not be written back for {} s; see the alarms of `lode status`. The daemon goes on \
                 trying until `lode drain --cancel`",
                DRAIN_PATIENCE.as_secs()
            );
            return Err(ServerError::new(ServerErrorKind::Media, text));
        }
        std::thread::sleep(DRAIN_PAUSE);
    }
}

/// What came of the drains of these VMs.
fn ended(vms: &[&VmProgress]) -> Result<(), ServerError> {
    if let Some(vm) = vms.iter().find(|vm| vm.drain_cancelled) {
        let text = format!("The drain of VM {} was cancelled; not everything is written back", vm.name);
        return Err(ServerError::new(ServerErrorKind::Refused, text));
    }
    let Some(vm) = vms.iter().find(|vm| vm.gauges.lost_blocks > 0) else { return Ok(()) };
    let text = format!(
        "VM {}: {} blocks are damaged on the SSD and could not be written back; all others were. Guests get errors \
         for them until they overwrite them: restore the files from a backup",
        vm.name, vm.gauges.lost_blocks
    );
    Err(ServerError::new(ServerErrorKind::Media, text))
}

/// The daemon's answer to a reload.
#[derive(Deserialize)]
struct Reloaded {
    changed: Vec<String>,
}

/// Has a running daemon read its configuration again. Returns the keys that changed.
///
/// # Errors
/// As [`status`]; [`ServerErrorKind::Refused`] when it cannot be read, or has something new that needs a restart: then
/// nothing is changed.
pub fn reload(control: &Path) -> Result<Vec<String>, ServerError> {
    let mut line = String::new();
    let reloaded: Reloaded =
        Conversation::begin(control, &ControlRequest::Reload {})?.understand(&mut line)?;
    Ok(reloaded.changed)
}

/// The daemon's answer to other values of a VM's keys.
#[derive(Debug, Deserialize)]
pub struct KeysSet {
    /// The keys that are different from before.
    pub changed: Vec<String>,
    /// They are in the configuration file, too.
    pub saved: bool,
    /// The configuration file.
    pub path: PathBuf,
}

/// Has a running daemon change keys of a VM while it is served; an empty value stands for the usual one. With `save` they are
/// written to the configuration file as well.
///
/// # Errors
/// As [`status`]; [`ServerErrorKind::Refused`] for a key or value that cannot be: then nothing is changed.
pub fn set_keys(
    control: &Path,
    vm: &str,
    keys: &BTreeMap<String, String>,
    save: bool,
) -> Result<KeysSet, ServerError> {
    let request = ControlRequest::VmSet { vm: vm.to_owned(), set: keys.clone(), save };
    Conversation::begin(control, &request)?.understand(&mut String::new())
}

/// The daemon's answer when a VM was added, removed or renamed.
#[derive(Debug, Deserialize)]
pub struct MembershipChanged {
    /// Its name, as it is now.
    pub vm: String,
    /// What was done.
    pub done: String,
    /// The configuration file says so.
    pub saved: bool,
    /// The configuration file.
    pub path: PathBuf,
    /// What did not go as it should.
    pub warning: Option<String>,
}

/// Has a running daemon serve a VM more, with these keys of the configuration; `listen` may be there several times. With `save` it is
/// written to the configuration file as well.
///
/// # Errors
/// As [`status`]; [`ServerErrorKind::Refused`] when it cannot be: then nothing is changed.
pub fn add_vm(
    control: &Path,
    vm: &str,
    keys: &[(String, String)],
    save: bool,
) -> Result<MembershipChanged, ServerError> {
    let vm = new_vm(vm, keys).map_err(|error| ServerError::new(ServerErrorKind::Refused, error))?;
    Conversation::begin(control, &ControlRequest::VmAdd { vm, save })?.understand(&mut String::new())
}

/// Has a running daemon serve a VM no more, once its backing disk has everything durably, and give its space back. With `disconnect`
/// its clients are cut off; with `save` the configuration file forgets it, too.
///
/// # Errors
/// As [`status`]; [`ServerErrorKind::Refused`] when it has clients or dirty blocks, or cannot be written back: it is served on then.
pub fn remove_served_vm(
    control: &Path,
    vm: &str,
    disconnect: bool,
    save: bool,
) -> Result<MembershipChanged, ServerError> {
    let request = ControlRequest::VmRemove { vm: vm.to_owned(), disconnect, save };
    Conversation::begin(control, &request)?.understand(&mut String::new())
}

/// Has a running daemon give a VM another name, in the configuration file as well.
///
/// # Errors
/// As [`status`]; [`ServerErrorKind::Refused`] for a name that cannot be, or a file that cannot be written.
pub fn rename_vm(control: &Path, vm: &str, to: &str) -> Result<MembershipChanged, ServerError> {
    let request = ControlRequest::VmRename { vm: vm.to_owned(), to: to.to_owned() };
    Conversation::begin(control, &request)?.understand(&mut String::new())
}

/// The daemon's answer to a VM whose disk it has released.
#[derive(Debug, Deserialize)]
pub struct Released {
    /// The generation in the disk's sidecar; none where it has none.
    pub generation: Option<u64>,
    /// Where that is.
    pub sidecar: Option<PathBuf>,
}

/// Has a running daemon take nothing more of a VM. When this returns well, its backing disk has everything durably and may be opened
/// elsewhere, and not before.
///
/// # Errors
/// As [`status`]; [`ServerErrorKind::Refused`] when it has clients, unless these are to be refused, or cannot be written back: it is
/// served on then.
pub fn release_vm(control: &Path, vm: &str, refuse_clients: bool) -> Result<Released, ServerError> {
    let request = ControlRequest::VmRelease { vm: vm.to_owned(), refuse_clients };
    Conversation::begin(control, &request)?.understand(&mut String::new())
}

/// Has a running daemon serve a VM as ever that it has released or drains for that.
///
/// # Errors
/// As [`status`]; [`ServerErrorKind::Refused`] when its disk was opened or written elsewhere since.
pub fn resume_vm(control: &Path, vm: &str) -> Result<(), ServerError> {
    let request = ControlRequest::VmResume { vm: vm.to_owned() };
    let _: serde_json::Value = Conversation::begin(control, &request)?.understand(&mut String::new())?;
    Ok(())
}

/// The cache SSDs of a running daemon, and how they stand; none where it has none.
///
/// # Errors
/// As [`status`].
pub fn devices(control: &Path) -> Result<Option<PairView>, ServerError> {
    Conversation::begin(control, &ControlRequest::DeviceList {})?.understand(&mut String::new())
}

/// Has a running daemon take an SSD out of its pair.
///
/// # Errors
/// As [`status`]; [`ServerErrorKind::Refused`] when it is the only one that has everything, or none of the pair.
pub fn remove_device(control: &Path, path: &Path) -> Result<PairView, ServerError> {
    let request = ControlRequest::DeviceRemove { path: path.to_owned() };
    Conversation::begin(control, &request)?.understand(&mut String::new())
}

/// Has a running daemon resilver an SSD as the one that its pair lacks, which goes on after this returns. Where several pairs lack
/// one, `pair` says which it is for, from 1.
///
/// # Errors
/// As [`status`]; [`ServerErrorKind::Refused`] when the pair lacks none, or for an SSD that is too small, or holds something and
/// `force` is not set.
pub fn add_device(
    control: &Path,
    path: &Path,
    force: bool,
    pair: Option<usize>,
) -> Result<PairView, ServerError> {
    let request = ControlRequest::DeviceAdd { path: path.to_owned(), force, pair };
    Conversation::begin(control, &request)?.understand(&mut String::new())
}

/// Has a running daemon take an SSD out of its pair, and resilver another one in its place.
///
/// # Errors
/// As [`remove_device`] and [`add_device`].
pub fn replace_device(control: &Path, path: &Path, by: &Path, force: bool) -> Result<PairView, ServerError> {
    let request = ControlRequest::DeviceReplace { path: path.to_owned(), by: by.to_owned(), force };
    Conversation::begin(control, &request)?.understand(&mut String::new())
}

/// What became of [`divide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Divided {
    /// Shares are still on their way to what they are to be.
    pub moving: bool,
}

/// Has a running daemon divide its levels between VMs now, and not at the end of the interval.
///
/// # Errors
/// As [`status`]; [`ServerErrorKind::Refused`] where it does not divide.
pub fn divide(control: &Path) -> Result<Divided, ServerError> {
    Conversation::begin(control, &ControlRequest::Divide {})?.understand(&mut String::new())
}

/// What happened lately in a running daemon.
#[derive(Debug, Deserialize)]
pub struct LatestEvents {
    /// As `docs/control.md` describes them, in the order in which they came.
    pub events: Vec<serde_json::Value>,
    /// The number of the latest event of any VM.
    pub last: u64,
    /// When the daemon began to number them, in milliseconds since 1970 began, UTC: with another time it was started anew, and
    /// counts from 1.
    pub began_ms: u64,
}

/// What happened in a running daemon: after the event of a number, or the latest; of one VM or of all; at most so many, and no
/// more than [`MAX_EVENTS`](crate::MAX_EVENTS).
///
/// # Errors
/// As [`status`]; [`ServerErrorKind::Refused`] for a VM that is not there.
pub fn events(
    control: &Path,
    after: Option<u64>,
    vm: Option<&str>,
    most: usize,
) -> Result<LatestEvents, ServerError> {
    let request = ControlRequest::Events { after, vm: vm.map(str::to_owned), most: Some(most) };
    Conversation::begin(control, &request)?.understand(&mut String::new())
}

/// Has a running daemon stop draining these VMs (all when there are none named).
///
/// # Errors
/// As [`drain`].
pub fn cancel_drain(control: &Path, vms: &[String]) -> Result<(), ServerError> {
    let request = ControlRequest::Drain { vms: named(vms), cancel: true, for_migration: false };
    let mut line = String::new();
    let _: Began = Conversation::begin(control, &request)?.understand(&mut line)?;
    Ok(())
}
