//! VMs that are added, removed and renamed while others are served, as the control thread sees it: what is asked for waits until
//! what was asked for before has ended, a thread of its own carries each step out, and the control thread takes over what came of
//! it. It must not know how a step is carried out.

mod add;
mod device;
mod disk_check;
mod parts;
mod release;
mod remove;
mod rename;
mod steps;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use serde_json::{Value, json};

pub(crate) use self::add::AddedVm;
pub(crate) use self::device::{DeviceChange, resume_device};
pub(crate) use self::parts::Parts;

use self::add::AddVm;
use self::device::ChangeDevice;
use self::disk_check::DiskCheck;
use self::release::{ReleaseVm, ResumeVm};
use self::remove::RemoveVm;
use self::rename::RenameVm;
use crate::commands::{ControlRequest, Refusal, Session};
use crate::config::Config;
use crate::error::{ServerError, ServerErrorKind};
use crate::guard::guarded;
use crate::pair::PairView;
use crate::sidecar::claims::SidecarView;
use crate::status::ChangeView;

/// Requests that wait for the one under way.
const MOST_WAITING: usize = 16;

/// One step of a change, and the configuration that holds when it is done.
#[derive(Clone, Debug)]
pub(crate) enum ChangeStep {
    /// The disks of VMs to be added are checked, before anything is changed.
    CheckDisks { vms: Vec<String>, config: Box<Config> },
    /// A VM is removed.
    Remove { vm: String, disconnect: bool, config: Box<Config> },
    /// Settings change of VMs that are served before and after.
    Keys(Box<Config>),
    /// A VM is added.
    Add { vm: String, config: Box<Config> },
    /// A VM is renamed.
    Rename { from: String, to: String, config: Box<Config> },
    /// A VM's disk is to be opened elsewhere.
    Release { vm: String, refuse_clients: bool },
    /// A VM's disk is served here again.
    Resume { vm: String },
    /// An SSD of the pair is removed or added.
    Device(DeviceChange),
}

/// What came of a step that a thread carried out.
#[derive(Debug)]
pub(crate) enum Done {
    DisksChecked,
    Removed {
        vm: String,
        /// The broker has let it go.
        has_left: bool,
        warning: Option<String>,
    },
    Added(Box<AddedVm>),
    Renamed {
        from: String,
        to: String,
        /// What is left for the next start.
        warning: Option<String>,
    },
    Released {
        vm: String,
        sidecar: Option<SidecarView>,
    },
    Resumed {
        vm: String,
    },
    Device {
        view: PairView,
        /// The configuration that names the SSD which came.
        config: Option<Box<Config>>,
    },
}

/// Why a change is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Everything is as it was.
    Unchanged(String),
    /// Not everything is: in whole sentences.
    Partly(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::Unchanged(why)
    }
}

/// Why a VM with so many clients and dirty blocks does not go by itself, if it does not; `drain` writes them back.
pub(crate) fn keeps(vm: &str, drain: &str, clients: u32, dirty_blocks: u64) -> Option<String> {
    let clients = match clients {
        0 => None,
        1 => Some("1 client is connected; disconnect it, or use `lode vm remove --disconnect`".to_owned()),
        many => Some(format!(
            "{many} clients are connected; disconnect them, or use `lode vm remove --disconnect`"
        )),
    };
    let dirty = (dirty_blocks > 0).then(|| {
        let are = if dirty_blocks == 1 { "is" } else { "are" };
        format!("{dirty_blocks} of its blocks {are} newer than the backing disk; first `{drain}`")
    });
    let why = [clients, dirty].into_iter().flatten().collect::<Vec<_>>();
    (!why.is_empty()).then(|| format!("Cannot remove VM {vm}: {}", why.join(", and ")))
}

/// What a thread is to do.
pub(crate) enum Work {
    CheckDisks(DiskCheck),
    Add(Box<AddVm>),
    Remove(Box<RemoveVm>),
    Rename(Box<RenameVm>),
    Release(ReleaseVm),
    Resume(ResumeVm),
    Device(Box<ChangeDevice>),
}

/// A change under way.
pub(crate) struct ActiveChange {
    /// Who asked, unless it was a signal.
    pub session: Option<Session>,
    /// What is left to be done, the step under way first.
    pub steps: VecDeque<ChangeStep>,
    /// What was done, for people.
    pub done: Vec<String>,
    /// To be written to the configuration file at the end.
    pub save: Option<Box<Config>>,
    /// What is answered at the end.
    pub answer: Value,
    since: Instant,
    running: Option<Running>,
}

struct Running {
    thread: JoinHandle<()>,
    end: Receiver<Result<Done, Failure>>,
}

/// Changes, one after the other. See the module's documentation.
pub(crate) struct Changes {
    pub current: Option<ActiveChange>,
    /// What is asked for in the meantime.
    pub waiting: VecDeque<(Option<Session>, ControlRequest)>,
    /// A VM has another name, but not everywhere: none gets another one before a restart.
    pub half_renamed: bool,
    /// Tells threads to give up what can be given up.
    give_up: Arc<AtomicBool>,
    /// Readable once a thread has ended.
    ended: UnixStream,
    ends: Arc<UnixStream>,
}

impl Changes {
    pub(crate) fn new() -> std::io::Result<Changes> {
        let (ended, ends) = UnixStream::pair()?;
        ended.set_nonblocking(true)?;
        Ok(Changes {
            current: None,
            waiting: VecDeque::new(),
            half_renamed: false,
            give_up: Arc::default(),
            ended,
            ends: Arc::new(ends),
        })
    }

    /// Readable when [`Changes::next_end`] has something.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Has a request wait for the change under way. It is refused where too many do.
    pub(crate) fn put_off(&mut self, session: Option<Session>, request: ControlRequest) -> Option<Session> {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back((session, request));
            return None;
        }
        let mut session = session?;
        session.answer(&Refusal::new("Other changes are under way, and many wait for them; try again later"));
        Some(session)
    }

    /// Begins a change of these steps.
    pub(crate) fn begin(&mut self, session: Option<Session>, steps: Vec<ChangeStep>, answer: Value) {
        let (steps, done) = (steps.into(), Vec::new());
        let since = Instant::now();
        self.current = Some(ActiveChange { session, steps, done, save: None, answer, since, running: None });
    }

    /// What is under way, for whoever waits.
    pub(crate) fn view(&self) -> Option<ChangeView> {
        let ActiveChange { steps, since, .. } = self.current.as_ref()?;
        let text = match steps.front()? {
            ChangeStep::CheckDisks { .. } => "the disks of VMs to be added are being checked".to_owned(),
            ChangeStep::Remove { vm, .. } => {
                format!("VM {vm} is being removed, once its backing disk has everything")
            }
            ChangeStep::Keys(_) => "settings are being applied".to_owned(),
            ChangeStep::Add { vm, .. } => format!("VM {vm} is being added"),
            ChangeStep::Rename { from, to, .. } => format!("VM {from} is being renamed to {to}"),
            ChangeStep::Release { vm, .. } => {
                format!("VM {vm} is released, once its backing disk has everything")
            }
            ChangeStep::Resume { vm } => format!("VM {vm} is being resumed"),
            ChangeStep::Device(_) => "an SSD of the pair is being changed".to_owned(),
        };
        Some(ChangeView { text, for_s: since.elapsed().as_secs(), waiting: self.waiting.len() })
    }

    /// Has a thread carry out the step under way.
    pub(crate) fn run(&mut self, parts: &Arc<Parts>, work: Work) -> Result<(), String> {
        let (sender, end) = channel();
        let (parts, give_up, ends) = (Arc::clone(parts), Arc::clone(&self.give_up), Arc::clone(&self.ends));
        let body = move || {
            let done = guarded(|| match work {
                Work::CheckDisks(check) => {
                    check.run(&parts).map(|()| Done::DisksChecked).map_err(Failure::Unchanged)
                }
                Work::Add(add) => {
                    let added = add.run(&parts, &give_up);
                    added.map(|added| Done::Added(Box::new(added))).map_err(Failure::Unchanged)
                }
                Work::Remove(remove) => remove.run(&parts, &give_up),
                Work::Rename(rename) => rename.run(&parts, &give_up),
                Work::Release(release) => release.run(&parts),
                Work::Resume(resume) => resume.run(&parts).map_err(Failure::Unchanged),
                Work::Device(device) => device.run(&parts),
            });
            let done = done.unwrap_or_else(|defect| {
                Err(Failure::Partly(format!(
                    "A defect of the program ended this half way: {defect}; see the log, and restart the service"
                )))
            });
            // The service may have ended meanwhile.
            let _ = sender.send(done);
            let _ = (&*ends).write_all(&[0]);
        };
        let thread = std::thread::Builder::new().name("membership".to_owned()).spawn(body);
        let thread =
            thread.map_err(|error| format!("Cannot start a thread ({error}); raise the limit of threads"))?;
        if let Some(change) = &mut self.current {
            change.running = Some(Running { thread, end });
        }
        Ok(())
    }

    /// What came of the step that a thread carried out, once.
    pub(crate) fn next_end(&mut self) -> Option<Result<Done, Failure>> {
        let _ = self.ended.read(&mut [0; 64]);
        let running = &mut self.current.as_mut()?.running;
        let end = running.as_ref()?.end.try_recv().ok()?;
        let Running { thread, .. } = running.take()?;
        let _ = thread.join();
        Some(end)
    }

    /// Tells the step under way to give up what can be given up, for the end of the service.
    pub(crate) fn give_up(&self) {
        self.give_up.store(true, Ordering::Release);
    }

    /// Waits for it. Whoever waits for an answer is told that the service stops.
    pub(crate) fn end(mut self) {
        self.give_up();
        let mut sessions: Vec<Session> = self.waiting.drain(..).filter_map(|(session, _)| session).collect();
        if let Some(change) = self.current.take() {
            if let Some(Running { thread, .. }) = change.running {
                let _ = thread.join();
            }
            sessions.extend(change.session);
        }
        for mut session in sessions {
            session.answer(&Refusal::new(
                "The service stops; `lode vm list` says after its next start what came of this",
            ));
            let _ = session.send(Instant::now());
        }
    }
}

/// The steps from one configuration to another, in an order in which each of them can be.
pub(crate) fn steps_between(old: &Config, new: &Config) -> Result<Vec<ChangeStep>, ServerError> {
    let names = |config: &Config| config.vms.iter().map(|vm| vm.name.clone()).collect::<Vec<_>>();
    let (old_names, new_names) = (names(old), names(new));
    let mut added: Vec<String> = new_names.iter().filter(|name| !old_names.contains(name)).cloned().collect();
    let removed = old_names.iter().filter(|name| !new_names.contains(name));
    if added.len() == new_names.len() {
        let text = "Every VM would be another one; restart the service instead";
        return Err(ServerError::new(ServerErrorKind::Refused, text));
    }
    let (mut steps, mut config) = (Vec::new(), old.clone());
    for vm in removed {
        config = config.without(vm)?;
        steps.push(ChangeStep::Remove {
            vm: vm.clone(),
            disconnect: false,
            config: Box::new(config.clone()),
        });
    }
    let mut later = vec![new.clone()];
    while let Some(vm) = added.pop() {
        let config = later[later.len() - 1].clone();
        later.push(config.without(&vm)?);
        steps.push(ChangeStep::Add { vm, config: Box::new(config) });
    }
    // The last VM that comes was put first.
    let adds = steps.len() - (later.len() - 1);
    steps[adds..].reverse();
    let keys = later.pop().unwrap_or_else(|| new.clone());
    steps.insert(adds, ChangeStep::Keys(Box::new(keys)));
    Ok(steps)
}

/// What is answered to a change of one VM.
pub(crate) fn answer(vm: &str, what: &str, save: bool, config: &Config) -> Value {
    json!({ "vm": vm, "done": what, "saved": save, "path": config.path })
}
