//! A host: folders, mounted devices, and the daemon, which is the real one. It must not know what guests ask.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fuser::BackgroundSession;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::PATIENCE;
use crate::fuse;
use crate::image::Image;
use crate::model::Model;
use crate::plan::Plan;
use crate::sector::SECTOR_BYTES;
use crate::state::StateFiles;
use crate::tape::Start;
use crate::world::{SharedWorld, World};

/// Where Linux has a file system in memory.
const MEMORY: &str = "/dev/shm";
/// What the name of a host's folder begins with; the number of its process follows.
const FOLDER: &str = "lode-attack-";
/// What the name of a folder on which a device is mounted begins with.
const DEVICE: &str = "device-";
/// The file with the number of the latest daemon's process.
const DAEMON: &str = "daemon";
/// The end of a log that goes into a report.
const LOG_BYTES: usize = 3000;

/// See the module's documentation.
pub struct Host {
    /// The devices and their log.
    pub world: SharedWorld,
    plan: Plan,
    lode: PathBuf,
    devices: Vec<PathBuf>,
    sessions: Vec<BackgroundSession>,
    folder: TempDir,
}

/// A running daemon; killed, by its own process id, when dropped.
pub struct Daemon<'h> {
    child: Child,
    host: &'h Host,
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

impl Host {
    /// A host with new, formatted devices.
    ///
    /// # Errors
    /// When it cannot be had: the message begins with "FUSE" when that is why.
    pub fn new(plan: &Plan, lode: &Path) -> Result<Host, String> {
        let prefix = format!("{FOLDER}{}-", std::process::id());
        let folder = TempDir::with_prefix_in(prefix, MEMORY)
            .map_err(|error| format!("Cannot make a folder in {MEMORY}: {error}"))?;
        for name in ["state", "shm"] {
            fs::create_dir(folder.path().join(name)).map_err(|error| error.to_string())?;
        }
        let images = plan.device_bytes().into_iter().map(Image::new).collect();
        let models = (0..).zip(&plan.vms).map(|(vm, plan)| {
            let model = Model::new(vm, plan.disk_bytes / SECTOR_BYTES);
            if plan.is_ordered { model.in_order() } else { model }
        });
        let start = Start { images, state: Arc::default(), models: models.collect() };
        let state_dir = folder.path().join("state");
        let world = Arc::new(World::new(start, &state_dir, plan.seed));
        let (devices, sessions) = (Vec::new(), Vec::new());
        let mut host = Host { world, plan: plan.clone(), lode: lode.to_owned(), devices, sessions, folder };
        (0..plan.device_bytes().len()).try_for_each(|number| host.mount(number))?;
        host.configure(plan)?;
        host.format()?;
        host.make_redo_logs()?;
        Ok(host)
    }

    /// Devices are files that are there already, and a daemon makes the redo logs of new VMs: the first one makes them elsewhere, and
    /// they come to their devices.
    fn make_redo_logs(&self) -> Result<(), String> {
        let path = |number: usize| self.path(&format!("redo-{number}"));
        if self.plan.redo_logs().next().is_none() {
            return Ok(());
        }
        let mut devices = self.devices.clone();
        self.plan.redo_logs().for_each(|number| devices[number] = path(number));
        let configuration = self.plan.configuration(self.folder.path(), &devices);
        fs::write(self.path("host.toml"), configuration).map_err(|error| error.to_string())?;
        self.serve()?.stop(true)?;
        let mut start = self.as_it_is()?;
        for number in self.plan.redo_logs() {
            let bytes = fs::read(path(number)).map_err(|error| error.to_string())?;
            if bytes.len() as u64 > start.images[number].size_bytes() {
                return Err(format!("a redo log of {} bytes does not fit on its device", bytes.len()));
            }
            start.images[number].write_pages(&bytes);
            fs::remove_file(path(number)).map_err(|error| error.to_string())?;
        }
        self.begin(start)?;
        self.configure(&self.plan)
    }

    /// The path of a device.
    pub fn device(&self, number: usize) -> String {
        text(&self.devices[number])
    }

    /// The next daemons are configured so. Devices and VMs are those of the plan that the host was made with.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn configure(&self, plan: &Plan) -> Result<(), String> {
        let configuration = plan.configuration(self.folder.path(), &self.devices);
        fs::write(self.path("host.toml"), configuration).map_err(|error| error.to_string())
    }

    fn mount(&mut self, number: usize) -> Result<(), String> {
        let path = self.path(&format!("{DEVICE}{number}"));
        fs::create_dir(&path).map_err(|error| error.to_string())?;
        let session = fuse::mount(&self.world, number, &path);
        self.sessions.push(session.map_err(|error| format!("FUSE cannot be mounted here: {error}"))?);
        self.devices.push(path.join(fuse::FILE));
        Ok(())
    }

    fn format(&self) -> Result<(), String> {
        let ssd = text(&self.devices[0]);
        let mirror = self.plan.mirror().map(|number| text(&self.devices[number]));
        let mut format = vec!["format", &ssd, "--block", &self.plan.block];
        format.extend(mirror.iter().flat_map(|mirror| ["--mirror", mirror]));
        self.run(&format)?;
        if let Some(number) = self.plan.read_ssd() {
            self.run(&["format", "--read-ssd", &text(&self.devices[number])])?;
        }
        Ok(())
    }

    /// Runs `lode`, which must succeed.
    ///
    /// # Errors
    /// What it said.
    pub fn run(&self, arguments: &[&str]) -> Result<(), String> {
        let output = self.output(arguments)?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("lode {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))
    }

    /// Runs `lode` to its end, which may be any.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn output(&self, arguments: &[&str]) -> Result<Output, String> {
        let output = Command::new(&self.lode).args(arguments).stdin(Stdio::null()).output();
        output.map_err(|error| format!("Cannot run {}: {error}", self.lode.display()))
    }

    /// Begins another boot: devices, state folder and memory are as they are found.
    ///
    /// # Errors
    /// When files cannot be written, or somebody has a device open.
    pub fn begin(&self, start: Start) -> Result<(), String> {
        self.wait_until_closed()?;
        self.lose_memory()
            .and_then(|()| start.state.write(&self.path("state")))
            .map_err(|e| e.to_string())?;
        self.world.begin(start, &self.path("state"));
        Ok(())
    }

    /// Takes away what was in memory only.
    fn lose_memory(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.path("shm"))? {
            fs::remove_dir_all(entry?.path())?;
        }
        Ok(())
    }

    /// What a daemon finds that starts now, after everything was written.
    ///
    /// # Errors
    /// When the state folder cannot be read.
    pub fn as_it_is(&self) -> Result<Start, String> {
        self.wait_until_closed()?;
        let images = (0..self.devices.len()).map(|device| self.world.image(device)).collect();
        let state = StateFiles::read(&self.path("state")).map_err(|error| error.to_string())?;
        Ok(Start { images, state: Arc::new(state), models: self.world.models() })
    }

    /// A process that has ended lets go of its files a little later.
    fn wait_until_closed(&self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while self.world.open_files() > 0 {
            if Instant::now() > deadline {
                return Err("Somebody keeps a device open that no daemon serves".to_owned());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Starts a daemon and waits until it serves.
    ///
    /// # Errors
    /// When it does not: with its log.
    pub fn serve(&self) -> Result<Daemon<'_>, String> {
        let mut daemon = self.start()?;
        let deadline = Instant::now() + PATIENCE;
        let serves = |vm| UnixStream::connect(self.socket(vm)).is_ok();
        while !(0..self.plan.vms.len()).all(serves) {
            if let Ok(Some(status)) = daemon.child.try_wait() {
                return Err(format!("the daemon refused to start ({status}): {}", self.log()));
            }
            if Instant::now() > deadline {
                return Err(format!("the daemon neither serves nor ends: {}", self.log()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(daemon)
    }

    /// Starts a daemon and does not wait for anything.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn start(&self) -> Result<Daemon<'_>, String> {
        self.wait_until_closed()?;
        let log = fs::File::create(self.path("log")).map_err(|error| error.to_string())?;
        let child = Command::new(&self.lode)
            .args(["serve", &self.configuration()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // What is typed at a terminal ends the attack, and is no end that a daemon is to have.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("Cannot run {}: {error}", self.lode.display()))?;
        let daemon = Daemon { child, host: self };
        let number = daemon.child.id().to_string();
        fs::write(self.path(DAEMON), number).map_err(|error| error.to_string())?;
        Ok(daemon)
    }

    /// The end of the daemon's log.
    pub fn log(&self) -> String {
        let text = fs::read(self.path("log")).unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_BYTES)..]).into_owned()
    }

    /// A VM's socket.
    pub fn socket(&self, vm: usize) -> PathBuf {
        self.path(&format!("{}.sock", self.plan.vms[vm].name))
    }

    /// The path of the configuration.
    pub fn configuration(&self) -> String {
        text(&self.path("host.toml"))
    }

    /// A command of `lode` for this host, in the background.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn spawn(&self, arguments: &[&str]) -> io::Result<Child> {
        let mut command = Command::new(&self.lode);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// How many devices there are.
    pub fn devices(&self) -> usize {
        self.sessions.len()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A device that somebody still has open is unmounted all the same.
        let _ = self.wait_until_closed();
        for (number, session) in self.sessions.drain(..).enumerate() {
            if session.umount_and_join().is_err() {
                fuse::detach(&self.folder.path().join(format!("{DEVICE}{number}")));
            }
        }
    }
}

/// Removes what attacks left behind that were killed.
pub fn remove_remains() {
    for entry in fs::read_dir(MEMORY).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(FOLDER).and_then(|rest| rest.split('-').next());
        if process.is_none_or(|process| Path::new("/proc").join(process).exists()) {
            continue;
        }
        kill_remaining_daemon(&entry.path());
        let devices = fs::read_dir(entry.path()).into_iter().flatten().flatten();
        let is_device = |path: &fs::DirEntry| path.file_name().to_string_lossy().starts_with(DEVICE);
        devices.filter(is_device).for_each(|device| fuse::detach(&device.path()));
        if let Err(error) = fs::remove_dir_all(entry.path()) {
            println!("{} was left behind and cannot be removed: {error}", entry.path().display());
        }
    }
}

/// A number may be another process's by now: what was started for this folder names it.
fn kill_remaining_daemon(folder: &Path) {
    let number = fs::read_to_string(folder.join(DAEMON)).ok().and_then(|text| text.parse::<i32>().ok());
    let Some(process) = number.and_then(Pid::from_raw) else { return };
    let started = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    if String::from_utf8_lossy(&started).contains(&text(folder)) {
        // It fails when the daemon has ended since.
        let _ = kill_process(process, Signal::KILL);
    }
}

impl Daemon<'_> {
    /// Ends it in the middle of whatever it does.
    pub fn kill_now(&mut self) {
        // Fails when it has ended already; whoever minds has asked before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it ended by itself, and how.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!("the daemon ended by itself ({status}): {}", self.host.log()))
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// When it does not.
    pub fn stop(mut self, drained: bool) -> Result<(), String> {
        let configuration = self.host.configuration();
        let mut arguments = vec!["stop", &configuration];
        arguments.extend(drained.then_some("--drain"));
        self.host.run(&arguments)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("a stop ended with {status}: {}", self.host.log())),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                Ok(None) => return Err(format!("a stop does not end: {}", self.host.log())),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        self.kill_now();
    }
}
