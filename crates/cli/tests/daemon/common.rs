//! Daemons to test, in folders of their own.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::StatVfs;
use tempfile::TempDir;

use crate::client::{Client, PATIENCE};
use crate::counts;

pub const MIB: u64 = 1 << 20;
/// Where Linux has a file system in memory.
const MEMORY: &str = "/dev/shm";
const SSD_MIB: u64 = 128;
const DISK_MIB: u64 = 64;

/// Longer than any command takes that is waited for, also on a host that does much else.
const COMMAND_LIMIT: Duration = Duration::from_secs(300);

/// Waits for a process that has its end. One that does not come to it is killed, and fails the test by its name.
fn end_of(mut child: Child, name: &str) -> Output {
    // What it says has to be read meanwhile: a pipe that is full would keep it waiting.
    let said = (child.stdout.take().map(read_all), child.stderr.take().map(read_all));
    let deadline = Instant::now() + COMMAND_LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() >= deadline {
            let _ = child.kill();
            panic!("{name} does not end within {COMMAND_LIMIT:?}, and was killed");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text =
        |reader: Option<JoinHandle<Vec<u8>>>| reader.map_or_else(Vec::new, |reader| reader.join().unwrap());
    Output { status, stdout: text(said.0), stderr: text(said.1) }
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read until then is what it said.
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// Has it end, whatever comes of it.
pub fn output_of(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).spawn().unwrap();
    end_of(child, &format!("{command:?}"))
}

/// Runs `lode` to its end.
pub fn lode(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lode"));
    output_of(command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()))
}

/// Runs `lode`, which must succeed.
pub fn lode_ok(arguments: &[&str]) -> String {
    let output = lode(arguments);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "lode {arguments:?}: {out}{err}");
    out.into_owned()
}

/// Runs `lode`, which must fail, and returns what it says.
pub fn lode_fails(arguments: &[&str]) -> String {
    let output = lode(arguments);
    assert!(!output.status.success(), "lode {arguments:?} succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder with a cache SSD, two disks and a configuration.
pub struct Site {
    pub folder: TempDir,
    /// The state folder. It is in memory where there is such a file system, and so are the records that daemons keep there
    /// for their next run: those of a killed one go with the site.
    pub memory: TempDir,
}

impl Site {
    pub fn new() -> Site {
        Site::in_folder(TempDir::new().unwrap())
    }

    /// In memory where all tests at once have room there, for those that make thousands of small writes and ask nothing of a
    /// disk but its bytes.
    pub fn in_memory() -> Site {
        const MOST_BYTES: u64 = 256 << 20;
        let tests = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let has_room = |stats: StatVfs| stats.f_bavail.saturating_mul(stats.f_frsize) >= tests * MOST_BYTES;
        let folder = rustix::fs::statvfs(MEMORY).is_ok_and(has_room).then(|| TempDir::new_in(MEMORY).ok());
        Site::in_folder(folder.flatten().unwrap_or_else(|| TempDir::new().unwrap()))
    }

    fn in_folder(folder: TempDir) -> Site {
        let memory = TempDir::new_in(MEMORY).or_else(|_| TempDir::new()).unwrap();
        symlink(memory.path(), folder.path().join("state")).unwrap();
        let site = Site { folder, memory };
        lode_ok(&["format", site.text("ssd.img").as_str(), "--create", &format!("{SSD_MIB}MiB")]);
        for disk in ["vm1.img", "vm2.img"] {
            File::create(site.path(disk)).unwrap().set_len(DISK_MIB * MIB).unwrap();
        }
        site.configure("");
        site
    }

    /// Writes the configuration of two VMs, with `more` at its end.
    pub fn configure(&self, more: &str) {
        let folder = self.folder.path().display();
        let text = format!(
            r#"
name = "test"
state_dir = "{folder}/state"
shards = 2

[ssd]
path = "{folder}/ssd.img"

[[vm]]
name = "vm1"
backing = {{ path = "{folder}/vm1.img" }}
dram = "4MiB"
ssd = "32MiB"
scheme = "etica"
listen = ["unix:{folder}/vm1.sock", "unix:{folder}/both.sock"]

[[vm]]
name = "vm2"
backing = {{ path = "{folder}/vm2.img" }}
ssd = "16MiB"
scheme = "lru"
listen = ["unix:{folder}/vm2.sock", "unix:{folder}/both.sock"]
{more}
"#
        );
        std::fs::write(self.path("test.toml"), text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The folder where daemons keep the records of what they acknowledged, if there is one.
    pub fn records(&self) -> Option<PathBuf> {
        let entries = fs::read_dir(self.memory.path()).unwrap().map(|entry| entry.unwrap().path());
        let is_it = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("lodestore-");
        entries.into_iter().find(is_it)
    }

    /// A copy of a VM's image and the redo log beside it; the image's path.
    pub fn copy_of_disk(&self, vm: &str) -> String {
        for ending in [".img", ".img.redo"] {
            let copy = self.path(&format!("copy{ending}"));
            fs::copy(self.path(&format!("{vm}{ending}")), copy).unwrap();
        }
        self.text("copy.img")
    }

    /// Takes away what the end of the host would: all that was in its memory only.
    pub fn lose_memory(&self) {
        if let Some(folder) = self.records() {
            fs::remove_dir_all(folder).unwrap();
        }
    }

    /// Adds a line to the configuration that belongs to no section.
    pub fn configure_top(&self, line: &str) {
        let text = fs::read_to_string(self.path("test.toml")).unwrap();
        fs::write(self.path("test.toml"), format!("{line}\n{text}")).unwrap();
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    /// Serves, and waits until it does: at once a failure when it ends instead.
    pub fn serve_up(&self) -> Daemon<'_> {
        self.up(self.serve())
    }

    /// The same with a command of one's own.
    pub fn spawn_up(&self, command: Command) -> Daemon<'_> {
        self.up(self.spawn(command))
    }

    fn up<'s>(&'s self, mut daemon: Daemon<'s>) -> Daemon<'s> {
        if let Some(status) = daemon.wait_until_up() {
            panic!("it does not serve: {status}");
        }
        daemon
    }

    pub fn serve(&self) -> Daemon<'_> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lode"));
        command.args(["serve", &self.text("test.toml")]);
        self.spawn(command)
    }

    fn spawn(&self, mut command: Command) -> Daemon<'_> {
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Daemon { child: command.spawn().unwrap(), site: self }
    }

    /// What `lode serve` says when it refuses to start.
    pub fn serve_fails(&self) -> String {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lode"))
            .args(["serve", &self.text("test.toml")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            if Instant::now() >= deadline {
                child.kill().unwrap();
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(1 | 2)), "it served: {said}");
        said
    }

    pub fn uri(&self, vm: &str) -> String {
        format!("nbd+unix:///{vm}?socket={}", self.text(&format!("{vm}.sock")))
    }
}

/// A running daemon; killed, by its own process id, when dropped. What it counted is checked before each end that a test brings
/// about.
pub struct Daemon<'s> {
    pub child: Child,
    site: &'s Site,
}

impl Daemon<'_> {
    /// Waits until it answers, or until it ends and with what.
    pub fn wait_until_up(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(self.site.path("state/test.sock")).is_err() {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            assert!(Instant::now() < deadline, "the daemon neither serves nor ends");
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    pub fn client(&self, vm: &str) -> Client {
        Client::connect(&self.site.path(&format!("{vm}.sock")), vm, true)
    }

    pub fn status(&self) -> serde_json::Value {
        let text = lode_ok(&["status", "--json", &self.site.text("test.toml")]);
        serde_json::from_str(&text).unwrap()
    }

    /// The status when a VM's clients have gone and all that they asked is answered.
    pub fn status_at_rest(&self, vm: &str) -> serde_json::Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            let vms = status["vms"].as_array().unwrap();
            let one = vms.iter().find(|one| one["name"] == vm).unwrap();
            if one["connections"] == 0 && one["in_flight_bytes"] == 0 {
                return status;
            }
            assert!(Instant::now() < deadline, "its clients do not go: {one}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Guarantee 8: what it counted adds up, whatever is under way. Asked without a program, which takes a moment of its own; one
    /// that does not serve yet, or has ended, has counted nothing.
    pub fn check_counts(&self) {
        let Ok(mut control) = UnixStream::connect(self.site.path("state/test.sock")) else { return };
        control.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = String::new();
        let asked = control.write_all(b"{\"cmd\":\"status\"}\n");
        match asked.and_then(|()| BufReader::new(control).read_line(&mut answer)) {
            Ok(1..) => {
                let status = serde_json::from_str(&answer).unwrap();
                counts::check(&status).unwrap_or_else(|wrong| panic!("{wrong}"));
            }
            // It ends meanwhile.
            Ok(0) => {}
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            Err(error) => panic!("it does not say what it counted: {error}"),
        }
    }

    /// Ends it cleanly.
    pub fn stop(mut self) {
        self.check_counts();
        lode_ok(&["stop", &self.site.text("test.toml")]);
        self.wait_for_end();
    }

    /// Ends it with everything written back.
    pub fn stop_drained(mut self) {
        self.check_counts();
        lode_ok(&["stop", "--drain", &self.site.text("test.toml")]);
        self.wait_for_end();
    }

    /// Waits for a clean end that something else began.
    pub fn wait_for_end(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the daemon does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let log = std::fs::read_to_string(self.site.path("log")).unwrap();
        assert!(status.success(), "{status}\n{log}");
        assert!(log.contains("everything is saved"), "{log}");
    }

    /// Ends it in the middle of whatever it does. Its host goes on.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let is_running = matches!(self.child.try_wait(), Ok(None));
        // It must be killed whatever its counts are.
        let counted = (is_running && !std::thread::panicking())
            .then(|| catch_unwind(AssertUnwindSafe(|| self.check_counts())));
        // Fails when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("{}", std::fs::read_to_string(self.site.path("log")).unwrap_or_default());
        }
        if let Some(Err(wrong)) = counted {
            resume_unwind(wrong);
        }
    }
}

/// A folder with room for this many bytes, unmounted when dropped.
pub struct SmallFolder(pub PathBuf);

impl SmallFolder {
    pub fn new(path: PathBuf, bytes: u64) -> Option<SmallFolder> {
        fs::create_dir(&path).unwrap();
        let size = format!("size={bytes}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&path).output();
        let is_mounted = mounted.is_ok_and(|output| output.status.success());
        if !is_mounted {
            lode_testdata::skip("file systems can be mounted by root only");
        }
        is_mounted.then_some(SmallFolder(path))
    }
}

impl Drop for SmallFolder {
    fn drop(&mut self) {
        // A daemon that a failed test leaves behind may still be using it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Makes neighbouring versions differ in many bits. It is odd, so that it can be undone.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The version of bytes that begin as those of a [`pattern`] do.
pub fn version_of(bytes: &[u8]) -> u64 {
    // Newton's method: each step doubles the bits of the inverse that are right, three at first.
    let inverse = (0..5).fold(SPREAD, |x, _| x.wrapping_mul(2_u64.wrapping_sub(SPREAD.wrapping_mul(x))));
    u64::from_le_bytes(bytes[8..16].try_into().unwrap()).wrapping_mul(inverse)
}

/// Bytes that tell where they belong and which version they are.
pub fn pattern(offset: u64, version: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 16);
    let mut at = offset;
    while bytes.len() < length {
        bytes.extend_from_slice(&at.to_le_bytes());
        bytes.extend_from_slice(&version.wrapping_mul(SPREAD).to_le_bytes());
        at += 16;
    }
    bytes.truncate(length);
    bytes
}

/// A small generator of numbers, for tests that must be repeatable.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Whether a tool is installed; says so when it is not.
pub fn has_tool(name: &str) -> bool {
    let found =
        ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].iter().any(|dir| Path::new(dir).join(name).exists());
    if !found {
        lode_testdata::skip(format_args!("{name} is not installed"));
    }
    found
}
