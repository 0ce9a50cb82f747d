//! The demonstration's VMs: fio with a different workload each.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::host::Host;
use super::number;
use crate::error::CliError;

/// Bytes of every VM's disk.
pub const DISK_BYTES: u64 = 64 << 20;

/// One made-up VM.
pub struct Guest {
    /// Name of the VM and of its disk.
    pub name: &'static str,
    /// What it is like, for people.
    pub about: &'static str,
    read_percent: u32,
    block: &'static str,
    depth: u32,
    zipf: &'static str,
}

/// The three VMs.
pub const GUESTS: &[Guest] = &[
    Guest { name: "web", about: "95 % reads", read_percent: 95, block: "4k", depth: 4, zipf: "1.2" },
    Guest {
        name: "database",
        about: "70 % reads, 8 KiB",
        read_percent: 70,
        block: "8k",
        depth: 8,
        zipf: "1.2",
    },
    Guest { name: "mail", about: "60 % writes", read_percent: 40, block: "4k", depth: 4, zipf: "1.1" },
];

/// What a VM experienced.
pub struct GuestResult {
    /// Requests a second.
    pub requests_per_second: f64,
    /// Mean time of a request.
    pub latency_us_mean: f64,
}

/// A VM at work. Dropping it ends it.
pub struct Running {
    name: &'static str,
    fio: Child,
}

/// Says what to install when there is no fio.
pub fn require_fio() -> Result<(), CliError> {
    let found = Command::new("fio").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => Ok(()),
        _ => Err(CliError::Failure(
            "The demonstration needs fio to play the VMs; install it (Debian, Ubuntu: apt-get install fio), \
             or run ./dev demo, which does"
                .to_owned(),
        )),
    }
}

impl Guest {
    /// Lets the VM work on its disk for `run_time`.
    pub fn start(&self, host: &Host, run_time: Duration) -> Result<Running, CliError> {
        let load = [
            "--rw=randrw".to_owned(),
            format!("--rwmixread={}", self.read_percent),
            format!("--bs={}", self.block),
            format!("--iodepth={}", self.depth),
            format!("--size={DISK_BYTES}"),
            format!("--random_distribution=zipf:{}", self.zipf),
        ];
        self.run(host, run_time, &load)
    }

    /// Lets the VM read the first bytes of its disk again and again, at a moderate pace.
    pub fn read_again(
        &self,
        host: &Host,
        run_time: Duration,
        region_bytes: u64,
    ) -> Result<Running, CliError> {
        let load = ["--rw=randread", "--bs=4k", "--iodepth=4", "--rate_iops=4000"].map(str::to_owned);
        self.run(host, run_time, &[&load[..], &[format!("--size={region_bytes}")]].concat())
    }

    fn run(&self, host: &Host, run_time: Duration, load: &[String]) -> Result<Running, CliError> {
        let fio = Command::new("fio")
            .args(load)
            .args([
                &format!("--name={}", self.name),
                "--ioengine=nbd",
                &format!("--uri=nbd+unix:///{}?socket={}", self.name, host.socket(self.name).display()),
                "--norandommap",
                "--randrepeat=1",
                "--time_based",
                &format!("--runtime={}ms", run_time.as_millis()),
                "--output-format=json",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| CliError::Failure(format!("Cannot start fio: {error}")))?;
        Ok(Running { name: self.name, fio })
    }
}

impl Running {
    /// Fails when the VM ended with an error.
    pub fn check(&mut self) -> Result<(), CliError> {
        match self.fio.try_wait() {
            Ok(Some(status)) if !status.success() => Err(self.failure(&format!("ended with {status}"))),
            _ => Ok(()),
        }
    }

    /// Waits for the VM's end and says how it fared.
    pub fn finish(mut self) -> Result<GuestResult, CliError> {
        use std::io::Read;
        let mut text = String::new();
        if let Some(mut out) = self.fio.stdout.take() {
            out.read_to_string(&mut text).map_err(|error| self.failure(&error.to_string()))?;
        }
        let status = self.fio.wait().map_err(|error| self.failure(&error.to_string()))?;
        if !status.success() {
            return Err(self.failure(&format!("ended with {status}")));
        }
        // Notes may stand before the JSON.
        let json = text.find('{').map_or("", |at| &text[at..]);
        let report: serde_json::Value = serde_json::from_str(json)
            .map_err(|error| self.failure(&format!("reported nothing readable: {error}")))?;
        let of = |key: &str| number(&report, &format!("/jobs/0/{key}"));
        let requests = of("read/total_ios") + of("write/total_ios");
        let busy_ns =
            of("read/total_ios") * of("read/clat_ns/mean") + of("write/total_ios") * of("write/clat_ns/mean");
        Ok(GuestResult {
            requests_per_second: of("read/iops") + of("write/iops"),
            latency_us_mean: if requests > 0.0 { busy_ns / requests / 1000.0 } else { 0.0 },
        })
    }

    fn failure(&self, what: &str) -> CliError {
        CliError::Failure(format!("The VM '{}' (fio) {what}", self.name))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already unless the demonstration is being broken off.
        let _ = self.fio.kill();
        let _ = self.fio.wait();
    }
}
