//! The demonstration's host: a temporary folder, a configuration, and a `lode serve` on it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::guests::{DISK_BYTES, GUESTS};
use crate::error::CliError;

const SSD_BYTES: u64 = 160 << 20;
const START_LIMIT: Duration = Duration::from_secs(10);
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Memory that the VMs divide in the second act.
pub const SHARED_DRAM_BYTES: u64 = 18 << 20;

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// VMs with a share of each level, on slow disks.
    Cached,
    /// VMs without a cache, on slow disks.
    Plain,
    /// VMs that divide memory, on disks as fast as their files.
    Shared,
}

/// A running daemon. Dropping it kills it, and removes everything it had.
pub struct Host {
    daemon: Child,
    control: PathBuf,
    folder: tempfile::TempDir,
}

impl Host {
    /// Makes the files and starts the daemon on them.
    pub fn start(kind: Kind) -> Result<Host, CliError> {
        let folder = tempfile::Builder::new()
            .prefix("lode-demo-")
            .tempdir()
            .map_err(|e| failure("make a folder", &e))?;
        let at = |name: &str| folder.path().join(name);
        for guest in GUESTS {
            let disk =
                File::create(at(&format!("{}.disk", guest.name))).map_err(|e| failure("make a disk", &e))?;
            disk.set_len(DISK_BYTES).map_err(|e| failure("make a disk", &e))?;
        }
        let config = at("config.toml");
        std::fs::write(&config, configuration(folder.path(), kind)).map_err(|e| failure("write", &e))?;
        let lode = std::env::current_exe().map_err(|e| failure("find the lode program", &e))?;
        if kind == Kind::Cached {
            let mut format = Command::new(&lode);
            format.arg("format").arg(at("ssd")).args(["--create", &format!("{}MiB", SSD_BYTES >> 20)]);
            let output = format.output().map_err(|e| failure("run lode format", &e))?;
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(CliError::Failure(format!("The demonstration's SSD cannot be made: {text}")));
            }
        }
        let log = File::create(at("daemon.log")).map_err(|e| failure("make a log", &e))?;
        let mut serve = Command::new(&lode);
        serve.arg("serve").arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let daemon = serve.spawn().map_err(|e| failure("start lode serve", &e))?;
        let mut host = Host { daemon, control: at("control.sock"), folder };
        host.wait_until_ready()?;
        Ok(host)
    }

    fn wait_until_ready(&mut self) -> Result<(), CliError> {
        let start = Instant::now();
        loop {
            if self.status().is_ok() {
                return Ok(());
            }
            let ended = self.daemon.try_wait().ok().flatten().is_some();
            if ended || start.elapsed() > START_LIMIT {
                let log = std::fs::read_to_string(self.folder.path().join("daemon.log")).unwrap_or_default();
                return Err(CliError::Failure(format!("The demonstration's daemon did not start:\n{log}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The daemon's control socket.
    pub fn control(&self) -> &Path {
        &self.control
    }

    /// The socket of a VM's disk.
    pub fn socket(&self, vm: &str) -> PathBuf {
        self.folder.path().join(format!("{vm}.sock"))
    }

    /// The daemon's status.
    pub fn status(&self) -> Result<serde_json::Value, CliError> {
        let answer = lode_server::status(&self.control)?;
        serde_json::from_str(&answer)
            .map_err(|e| CliError::Failure(format!("The daemon's answer is not JSON: {e}")))
    }

    /// Ends the daemon cleanly.
    pub fn stop(mut self) -> Result<(), CliError> {
        lode_server::stop(&self.control, false, |_| ())?;
        let start = Instant::now();
        while start.elapsed() < STOP_LIMIT {
            if self.daemon.try_wait().map_err(|e| failure("wait for lode serve", &e))?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(CliError::Failure("The demonstration's daemon did not stop in time".to_owned()))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It has ended already unless something went wrong; then there is nobody to tell.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn failure(what: &str, error: &std::io::Error) -> CliError {
    CliError::Failure(format!("Cannot {what} for the demonstration: {error}"))
}

fn configuration(folder: &Path, kind: Kind) -> String {
    let folder = folder.display();
    let mut text =
        format!("name = \"demo\"\nstate_dir = \"{folder}\"\ncontrol = \"{folder}/control.sock\"\n");
    match kind {
        Kind::Cached => text += &format!("[ssd]\npath = \"{folder}/ssd\"\n"),
        Kind::Plain => {}
        Kind::Shared => {
            text += &format!(
                "[host]\nmode = \"auto\"\ndram = {SHARED_DRAM_BYTES}\ninterval = \"2s\"\nrate = \"8MiB\"\n"
            );
        }
    }
    for guest in GUESTS {
        let name = guest.name;
        let shares = match kind {
            Kind::Cached => "dram = \"8MiB\"\nssd = \"32MiB\"\n",
            Kind::Plain => "dram = 0\nssd = 0\n",
            Kind::Shared => "",
        };
        let delay = if kind == Kind::Shared { "" } else { ", delay = \"hdd\"" };
        text += &format!(
            "[[vm]]\nname = \"{name}\"\nbacking = {{ path = \"{folder}/{name}.disk\"{delay} }}\n\
             scheme = \"etica\"\n{shares}listen = [\"unix:{folder}/{name}.sock\"]\n"
        );
    }
    text
}
