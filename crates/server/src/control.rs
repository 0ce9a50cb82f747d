//! The control thread: accepts clients, leads them through their handshakes and hands them to the shards;
//! answers the control socket; starts and ends everything. It never touches a request of a guest.

use std::cell::Cell;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use lode_format::VolumeTag;
use lode_nbd::{ExportInfo, Negotiated};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::commands::{ControlRequest, Session, SessionStep};
use crate::config::Config;
use crate::connection::Permit;
use crate::ending::end;
use crate::error::{ServerError, ServerErrorKind};
use crate::events::Events;
use crate::guard::guarded;
use crate::handshake::{End, PendingHandshake};
use crate::host::Host;
use crate::listen::Listener;
use crate::membership::{Changes, Parts};
use crate::messages::{NewConnection, ToShard};
use crate::scrape::ScrapeThread;
use crate::served::ServedVms;
use crate::sharing::Sharing;
use crate::threads::ShardThread;

/// Handshakes at once on one listening socket. A newcomer takes the place of the oldest.
const MAX_HANDSHAKES: usize = 32;
/// Clients of the control socket at once. A newcomer takes the place of the oldest.
const MAX_SESSIONS: usize = 16;
/// Clients accepted from one listening socket before others are looked at.
const ACCEPTS_PER_TURN: usize = 16;
/// How long nobody is accepted after the system had no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// At most one line about misbehaving clients in this time.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(1);

/// Where guests connect, and what they find there.
pub(crate) struct Endpoint {
    pub listener: Listener,
    /// The VMs by their numbers, in the order of `exports`.
    pub vms: Vec<usize>,
    pub exports: Vec<ExportInfo>,
}

/// The control thread's state. See the module's documentation.
pub(crate) struct Control {
    pub host: Host,
    /// The configuration that is served.
    pub config: Config,
    pub endpoints: Vec<Endpoint>,
    pub commands: Listener,
    /// VM number `i` is volume `i / shards.len()` of shard `i % shards.len()`.
    pub shards: Vec<ShardThread>,
    /// The VMs, in the order of the configuration.
    pub served: ServedVms,
    /// Changes of what VMs there are.
    pub changes: Changes,
    pub parts: Arc<Parts>,
    /// Readable once the process is asked to end.
    pub signals: UnixStream,
    /// Readable once it is asked to read its configuration again.
    pub reloads: UnixStream,
    pub handshakes: Vec<PendingHandshake>,
    pub sessions: Vec<Session>,
    /// Those who asked to stop; they are told how it ended.
    pub stoppers: Vec<Session>,
    /// Whether the caches are written back before the end.
    pub drain_at_stop: bool,
    /// Who has which share.
    pub sharing: Sharing,
    pub events: Events,
    /// Answers scrapers, if they may come.
    pub scraping: Option<ScrapeThread>,
    pub accept_after: Option<Instant>,
    pub complain_after: Instant,
}

/// What a poll found, in the order in which [`Control::wait`] asks.
struct Ready {
    signal: bool,
    reload: bool,
    shard_ended: bool,
    change_ended: bool,
    command: bool,
    endpoints: Vec<bool>,
    handshakes: Vec<bool>,
    sessions: Vec<bool>,
}

/// What there is to note when nothing is served any more.
pub(crate) struct EndOfService {
    /// The volumes that were served at the end.
    pub tags: Vec<VolumeTag>,
    /// VMs by their numbers, with whether their disks have everything durably.
    pub disks: Vec<(usize, bool)>,
    /// How it went.
    pub outcome: Result<(), ServerError>,
}

impl Control {
    /// Serves until asked to stop, then ends everything.
    pub(crate) fn run(mut self) -> EndOfService {
        let outcome = self.serve();
        let Control {
            endpoints,
            commands,
            handshakes,
            sessions,
            stoppers,
            shards,
            signals,
            drain_at_stop,
            scraping,
            host,
            served,
            changes,
            ..
        } = self;
        drop((endpoints, commands, handshakes, sessions, scraping, host));
        changes.give_up();
        let (disks, ended) = end(shards, stoppers, drain_at_stop, &signals, outcome.err());
        // Its thread waits for no shard any more.
        changes.end();
        EndOfService { tags: served.tags(), disks, outcome: ended }
    }

    fn serve(&mut self) -> Result<(), ServerError> {
        loop {
            let ready = self.wait()?;
            if ready.shard_ended {
                return Err(ServerError::new(ServerErrorKind::Thread, "A shard ended; see the log"));
            }
            if ready.signal {
                tracing::info!("Asked to stop by a signal");
                return Ok(());
            }
            // What a client or a request brings to light ends with it, and not what others are served by.
            if ready.reload {
                // Only to make it quiet: what is asked twice is done once.
                let _ = (&self.reloads).read(&mut [0; 64]);
                self.outlast(|control| _ = control.ask_change(None, ControlRequest::Reload {}));
            }
            if ready.change_ended {
                self.outlast(Control::advance_change);
            }
            let now = Instant::now();
            self.outlast(|control| control.advance_handshakes(&ready.handshakes, now));
            if self.outlast(|control| control.advance_sessions(&ready.sessions, now)) {
                tracing::info!("Asked to stop over the control socket");
                return Ok(());
            }
            self.outlast(|control| control.accept(&ready, now));
            self.sharing.advance(&self.host, now);
        }
    }

    /// Does something that a defect of the program may end half way.
    fn outlast<T: Default>(&mut self, work: impl FnOnce(&mut Control) -> T) -> T {
        guarded(|| work(self)).unwrap_or_else(|defect| {
            tracing::error!(
                "A defect of the program: {defect}. VMs are served on; report what the log says above"
            );
            T::default()
        })
    }

    fn wait(&self) -> Result<Ready, ServerError> {
        let accepting = self.accept_after.is_none();
        let interest = |wanted: bool| if wanted { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.push(PollFd::new(&self.reloads, PollFlags::IN));
        fds.extend(self.shards.iter().map(|shard| PollFd::new(shard, PollFlags::IN)));
        fds.push(PollFd::from_borrowed_fd(self.changes.fd(), PollFlags::IN));
        fds.push(PollFd::new(&self.commands, interest(accepting)));
        fds.extend(
            self.endpoints.iter().map(|endpoint| PollFd::new(&endpoint.listener, interest(accepting))),
        );
        fds.extend(self.handshakes.iter().map(|one| PollFd::from_borrowed_fd(one.fd(), one.waits_for())));
        fds.extend(self.sessions.iter().map(|s| PollFd::from_borrowed_fd(s.fd(), s.waits_for())));
        let pause = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
        match poll(&mut fds, pause.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                let what = "Cannot wait for clients; restart the service";
                return Err(ServerError::because(ServerErrorKind::Socket, what, error));
            }
        }
        let mut found = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut take = |count: usize| -> Vec<bool> { found.by_ref().take(count).collect() };
        Ok(Ready {
            signal: take(1)[0],
            reload: take(1)[0],
            shard_ended: take(self.shards.len()).contains(&true),
            change_ended: take(1)[0],
            command: take(1)[0],
            endpoints: take(self.endpoints.len()),
            handshakes: take(self.handshakes.len()),
            sessions: take(self.sessions.len()),
        })
    }

    fn next_deadline(&self) -> Option<Instant> {
        let handshakes = self.handshakes.iter().map(|handshake| handshake.deadline);
        let sessions = self.sessions.iter().map(|session| session.deadline);
        handshakes.chain(sessions).chain(self.accept_after).chain(self.sharing.due()).min()
    }

    fn advance_handshakes(&mut self, ready: &[bool], now: Instant) {
        let mut ready = ready.iter();
        for mut handshake in std::mem::take(&mut self.handshakes) {
            let endpoint = &self.endpoints[handshake.listener];
            let refused = Cell::new(None);
            let admit = |export: usize| {
                let vm = self.served.place_of(endpoint.vms[export])?;
                let connections = &self.served.list[vm].connections;
                let permit = Permit::take(connections, self.config.vms[vm].limits.connections);
                refused.set(permit.is_none().then_some(export));
                permit
            };
            let is_ready = ready.next() == Some(&true);
            let end = if is_ready { handshake.advance(&endpoint.exports, admit) } else { None };
            if let Some(export) = refused.get() {
                let text = format!(
                    "VM {} gets no more connections: it has {} already (`limits.connections`), or it is stopped",
                    endpoint.exports[export].name(),
                    self.served
                        .place_of(endpoint.vms[export])
                        .map_or(0, |vm| self.config.vms[vm].limits.connections)
                );
                self.complain(&text);
            }
            match end {
                None if now < handshake.deadline => self.handshakes.push(handshake),
                None => self.complain("A client took too long for its handshake"),
                Some(End::Closed(None)) => {}
                Some(End::Closed(Some(reason))) => self.complain(&format!("A handshake failed. {reason}")),
                Some(End::Done(negotiated, permit, early)) => {
                    self.hand_over(handshake, negotiated, permit, early);
                }
            }
        }
    }

    /// Gives a connection to the shard of its VM.
    fn hand_over(&self, handshake: PendingHandshake, negotiated: Negotiated, permit: Permit, early: Vec<u8>) {
        let number = self.endpoints[handshake.listener].vms[negotiated.export];
        self.host.tell(number, |volume| {
            ToShard::Connect(NewConnection { socket: handshake.socket, volume, negotiated, early, permit })
        });
    }

    /// A line about clients that misbehave; not one for each of them.
    fn complain(&mut self, text: &str) {
        let now = Instant::now();
        if now >= self.complain_after {
            self.complain_after = now + COMPLAINT_PAUSE;
            tracing::warn!("{text}");
        }
    }

    /// Whether one of them asked to stop.
    fn advance_sessions(&mut self, ready: &[bool], now: Instant) -> bool {
        let mut ready = ready.iter();
        let mut stop = false;
        for mut session in std::mem::take(&mut self.sessions) {
            let is_ready = ready.next() == Some(&true);
            let mut step = if is_ready { session.advance(now) } else { SessionStep::Wait };
            if let SessionStep::Ask(request) = step {
                tracing::debug!("Asked over the control socket: {request:?}");
                if let ControlRequest::Stop { drain } = request {
                    session.answer(&serde_json::json!({ "stopping": true }));
                    stop = true;
                    self.drain_at_stop |= drain;
                    // Its answer is on its way or it is gone; more come at the end.
                    let _ = session.send(now);
                    self.stoppers.push(session);
                    continue;
                }
                let Some(answered) = self.answer(session, request) else { continue };
                session = answered;
                step = session.send(now);
            }
            if matches!(step, SessionStep::Wait) && now < session.deadline {
                self.sessions.push(session);
            }
        }
        stop
    }

    fn accept(&mut self, ready: &Ready, now: Instant) {
        self.accept_after = self.accept_after.filter(|after| *after > now);
        if ready.command {
            self.accept_session(now);
        }
        // Sockets may have gone since, with their VMs; on another one in its place nobody may wait, and nobody is waited for.
        let endpoints = ready.endpoints.iter().enumerate().take(self.endpoints.len());
        for (endpoint, is_ready) in endpoints {
            for _ in 0..ACCEPTS_PER_TURN {
                if !is_ready || !self.accept_client(endpoint, now) {
                    break;
                }
            }
        }
    }

    fn accept_session(&mut self, now: Instant) {
        match self.commands.accept() {
            Ok(Some(socket)) => {
                if self.sessions.len() >= MAX_SESSIONS {
                    self.sessions.remove(0);
                }
                self.sessions.push(Session::new(socket, now));
            }
            Ok(None) => {}
            Err(error) => self.pause_accepting(&error, now),
        }
    }

    /// Whether there may be more clients.
    fn accept_client(&mut self, endpoint: usize, now: Instant) -> bool {
        match self.endpoints[endpoint].listener.accept() {
            Ok(Some(socket)) => {
                let mut here = self.handshakes.iter().enumerate().filter(|(_, one)| one.listener == endpoint);
                let oldest = here.next().map(|(at, _)| at);
                if here.count() + 1 >= MAX_HANDSHAKES
                    && let Some(oldest) = oldest
                {
                    self.handshakes.remove(oldest);
                    self.complain("Many handshakes at once; the slowest client was dropped");
                }
                self.handshakes.push(PendingHandshake::new(socket, endpoint, now));
                true
            }
            Ok(None) => false,
            Err(error) => {
                self.pause_accepting(&error, now);
                false
            }
        }
    }

    fn pause_accepting(&mut self, error: &std::io::Error, now: Instant) {
        self.accept_after = Some(now + ACCEPT_PAUSE);
        self.complain(&format!("Cannot accept a client: {error}; raise the limit of open files"));
    }
}

/// A socket that becomes readable when the process is asked to end, and what ends that again.
pub(crate) struct Signals {
    ids: Vec<signal_hook::SigId>,
}

impl Signals {
    /// Also returns what becomes readable when the process is to end, and when it is to read its configuration again.
    pub(crate) fn catch() -> std::io::Result<(Signals, UnixStream, UnixStream)> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let (reader, writer) = UnixStream::pair()?;
        let (reloads, reload) = UnixStream::pair()?;
        let mut signals = Signals { ids: Vec::new() };
        // A file that may not grow is an error of that write, and not the end of all VMs.
        let noticed = Arc::new(AtomicBool::new(false));
        signals.ids.push(signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noticed)?);
        for (signal, writer) in [(SIGTERM, &writer), (SIGINT, &writer), (SIGHUP, &reload)] {
            let writer = writer.as_fd().try_clone_to_owned()?;
            signals.ids.push(signal_hook::low_level::pipe::register(signal, UnixStream::from(writer))?);
        }
        Ok((signals, reader, reloads))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
