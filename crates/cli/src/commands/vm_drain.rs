//! `lode vm drain`: writes back what is dirty of one VM; and, when its disk is to be opened elsewhere, lets it go.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use crate::amounts::show_count;
use crate::arguments::Daemon;
use crate::error::CliError;
use crate::output::{say, write};
use crate::progress::Countdown;

/// How often it is looked whether clients are gone.
const CLIENTS_PAUSE: Duration = Duration::from_millis(250);

/// Write back what is newer on the SSD than on a VM's backing disk; with --for-migration, so that the disk may be opened elsewhere.
///
/// With --for-migration everything is written back, and what the guest writes from then on goes to the backing disk as well, so that
/// nothing becomes dirty any more. Then the VM's clients are waited for, until they are gone, or are refused with --refuse-clients (a
/// paused guest notices nothing). Then the disk is flushed, its sidecar says that it has everything, and the command ends: from that
/// moment on, and not before, the disk may be opened elsewhere. Interrupted before, the daemon goes on writing past the SSD; --cancel
/// serves the VM as before, also after the end as long as nobody has opened the disk.
#[derive(Args)]
#[command(after_help = "Example: lode vm drain /etc/lodestore/host1.toml web --for-migration")]
pub struct Drain {
    /// The daemon's configuration file (not with --socket), and the VM.
    #[arg(value_names = ["CONFIG.toml", "VM"], required = true, num_args = 1..=2)]
    words: Vec<String>,

    /// The daemon's control socket, instead of the one that its configuration names.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Let the disk be opened elsewhere at the end.
    #[arg(long)]
    for_migration: bool,

    /// Do not wait for clients to go: refuse what they ask as soon as nothing is dirty.
    #[arg(long, requires = "for_migration")]
    refuse_clients: bool,

    /// Serve the VM as before.
    #[arg(long, conflicts_with_all = ["for_migration", "refuse_clients"])]
    cancel: bool,
}

impl Drain {
    pub fn run(&self) -> Result<(), CliError> {
        let mut words = self.words.clone();
        let control = Daemon::of(&mut words, self.socket.clone()).control()?;
        let [vm] = &words[..] else {
            let text = "Give the daemon's configuration file (or --socket) and a VM";
            return Err(CliError::Usage(text.to_owned()));
        };
        if self.cancel {
            lode_server::resume_vm(&control, vm)?;
            lode_server::cancel_drain(&control, std::slice::from_ref(vm))?;
            return write(&format!("VM {vm} is served as before\n"));
        }
        let mut bar = Countdown::new("writing back");
        let blocks = match self.for_migration {
            true => lode_server::drain_for_migration(&control, vm, |left| bar.update(left))?,
            false => lode_server::drain(&control, std::slice::from_ref(vm), |left| bar.update(left))?,
        };
        drop(bar);
        let blocks = show_count(blocks, "block");
        if !self.for_migration {
            return write(&format!(
                "Drained; {blocks} written back, and the backing disk has what was written before\n"
            ));
        }
        say(&format!(
            "VM {vm}: {blocks} written back; nothing is dirty, and writes go to the backing disk\n"
        ));
        self.release(&control, vm)
    }

    fn release(&self, control: &Path, vm: &str) -> Result<(), CliError> {
        if !self.refuse_clients && !await_clients(control, vm)? {
            return tell_released(vm, Vm::find(control, vm)?.sidecar);
        }
        let released = lode_server::release_vm(control, vm, self.refuse_clients)?;
        let sidecar = released.sidecar.zip(released.generation);
        tell_released(vm, sidecar.map(|(path, generation)| Sidecar { path, generation }))
    }
}

/// Waits until a VM has no clients. False: another one of these commands has released it meanwhile.
fn await_clients(control: &Path, vm: &str) -> Result<bool, CliError> {
    let mut told = 0;
    loop {
        let now = Vm::find(control, vm)?;
        match now.migration.as_deref() {
            // By another one of these commands.
            Some("released") => return Ok(false),
            None => {
                let text = format!("The drain of VM {vm} was cancelled; it is served as before");
                return Err(CliError::Failure(text));
            }
            Some(_) => {}
        }
        if now.connections == 0 {
            return Ok(true);
        }
        if now.connections != told {
            let clients = show_count(now.connections, "client");
            say(&format!(
                "VM {vm}: waits for {clients} to go (end the guest, or pause it and use --refuse-clients)\n"
            ));
        }
        told = now.connections;
        std::thread::sleep(CLIENTS_PAUSE);
    }
}

/// What is needed of a daemon's status; `docs/control.md` describes the whole of it.
#[derive(Deserialize)]
struct Status {
    vms: Vec<Vm>,
}

#[derive(Deserialize)]
struct Vm {
    name: String,
    connections: u64,
    migration: Option<String>,
    sidecar: Option<Sidecar>,
}

#[derive(Deserialize)]
struct Sidecar {
    path: PathBuf,
    generation: u64,
}

impl Vm {
    /// How a VM is now.
    fn find(control: &Path, vm: &str) -> Result<Vm, CliError> {
        let answer = lode_server::status(control)?;
        let status: Status = serde_json::from_str(&answer).map_err(|error| {
            CliError::Failure(format!("The daemon's answer is of another version: {error}"))
        })?;
        let found = status.vms.into_iter().find(|one| one.name == vm);
        found.ok_or_else(|| CliError::Failure(format!("There is no VM '{vm}' any more")))
    }
}

fn tell_released(vm: &str, sidecar: Option<Sidecar>) -> Result<(), CliError> {
    let noted = match sidecar {
        Some(Sidecar { path, generation }) => format!(" (generation {generation} in {})", path.display()),
        None => " (it has no sidecar: nobody else is told)".to_owned(),
    };
    write(&format!(
        "VM {vm} is released: its disk has everything, and may be opened elsewhere from now on{noted}\n"
    ))
}
