//! `lode vm add|remove|rename`: VMs that are added, removed and renamed while others are served.

use std::path::PathBuf;

use clap::Args;
use lode_server::MembershipChanged;

use crate::arguments::Daemon;
use crate::error::CliError;
use crate::output::write;

/// Serve a VM more, while the others go on.
///
/// Keys are those of a [[vm]] section of the configuration, such as backing=PATH, listen=unix:PATH (several of them: one for each
/// address), dram, ssd, scheme, settings.…, weight, min.dram, max.ssd, writeback.age, limits.connections and read_only. The VM gets
/// an empty volume on the cache SSD; where shares move, its own grows as others give space up.
#[derive(Args)]
#[command(after_help = "Example: lode vm add /etc/lodestore/host1.toml web backing=/dev/vg/web ssd=64GiB \
                        listen=unix:/run/lode/web.sock --save")]
pub struct Add {
    /// The daemon's configuration file (not with --socket), the VM, and its keys with their values.
    #[arg(value_names = ["CONFIG.toml", "VM", "KEY=VALUE"], required = true, num_args = 2..)]
    words: Vec<String>,

    /// The daemon's control socket, instead of the one that its configuration names.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Write it to the configuration file, too, so that it outlasts a restart.
    #[arg(long)]
    save: bool,
}

/// Serve a VM no more, and give its space back, while the others go on.
///
/// Its backing disk has everything durably then. Dirty blocks are drained first (lode drain) and clients have to be gone; with
/// --disconnect what is dirty is written back while clients go on, then they are cut off, and what they wrote last follows. Where
/// that gets no further for ten seconds, the VM is served on.
#[derive(Args)]
#[command(after_help = "Example: lode vm remove /etc/lodestore/host1.toml web --save")]
pub struct Remove {
    /// The daemon's configuration file (not with --socket), and the VM.
    #[arg(value_names = ["CONFIG.toml", "VM"], required = true, num_args = 1..=2)]
    words: Vec<String>,

    /// The daemon's control socket, instead of the one that its configuration names.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Cut its clients off.
    #[arg(long)]
    disconnect: bool,

    /// Take it out of the configuration file, too; otherwise it comes back, empty, with a restart or reload.
    #[arg(long)]
    save: bool,
}

/// Give a VM another name, in the configuration file as well, while it is served: its cache keeps what it holds.
///
/// Clients that are connected stay; new ones ask for the export by its new name.
#[derive(Args)]
#[command(after_help = "Example: lode vm rename /etc/lodestore/host1.toml web www")]
pub struct Rename {
    /// The daemon's configuration file (not with --socket), the VM, and its new name.
    #[arg(value_names = ["CONFIG.toml", "VM", "NAME"], required = true, num_args = 2..=3)]
    words: Vec<String>,

    /// The daemon's control socket, instead of the one that its configuration names.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Add {
    pub fn run(&self) -> Result<(), CliError> {
        let mut words = self.words.clone();
        let daemon = Daemon::of(&mut words, self.socket.clone());
        let [vm, pairs @ ..] = &words[..] else { return Err(usage("a VM")) };
        let pair = |pair: &String| {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                CliError::Usage(format!("'{pair}' is not KEY=VALUE; write for example ssd=64GiB"))
            })?;
            let (key, value) = (key.trim(), value.trim());
            Ok((key.to_owned(), value_from_here(key, value)?))
        };
        let pairs = pairs.iter().map(pair).collect::<Result<Vec<_>, CliError>>()?;
        tell(&lode_server::add_vm(&daemon.control()?, vm, &pairs, self.save)?, |file| {
            format!("it is gone with a restart or reload (--save writes it to {file})")
        })
    }
}

impl Remove {
    pub fn run(&self) -> Result<(), CliError> {
        let mut words = self.words.clone();
        let daemon = Daemon::of(&mut words, self.socket.clone());
        let [vm] = &words[..] else { return Err(usage("a VM")) };
        let changed = lode_server::remove_served_vm(&daemon.control()?, vm, self.disconnect, self.save)?;
        tell(&changed, |file| format!("it comes back with a restart or reload (--save writes it to {file})"))
    }
}

impl Rename {
    pub fn run(&self) -> Result<(), CliError> {
        let mut words = self.words.clone();
        let daemon = Daemon::of(&mut words, self.socket.clone());
        let [vm, to] = &words[..] else { return Err(usage("a VM, and its new name")) };
        let unsaved = |file: &str| {
            format!(
                "{file} has no such VM, because it was added without --save: it is gone with a restart or reload"
            )
        };
        tell(&lode_server::rename_vm(&daemon.control()?, vm, to)?, unsaved)
    }
}

/// A value of a key: paths may begin in the folder in which the command runs, as the daemon's is another one.
fn value_from_here(key: &str, value: &str) -> Result<String, CliError> {
    let is_path = match key {
        "backing" | "backing.path" => true,
        "backing.sidecar" => value != lode_server::config::NOWHERE,
        _ => false,
    };
    if !is_path {
        return Ok(value.to_owned());
    }
    let refused =
        |why: &str| CliError::Usage(format!("'{value}' cannot be a path: {why}; write an absolute one"));
    let absolute = std::path::absolute(value).map_err(|error| refused(&error.to_string()))?;
    absolute.into_os_string().into_string().map_err(|_| refused("the name of this folder is not UTF-8"))
}

fn usage(what: &str) -> CliError {
    CliError::Usage(format!("Give the daemon's configuration file (or --socket) and {what}"))
}

/// `unsaved` says what becomes of the change where this file does not say so.
fn tell(changed: &MembershipChanged, unsaved: impl Fn(&str) -> String) -> Result<(), CliError> {
    let MembershipChanged { vm, done, saved, path, warning } = changed;
    let file = path.display().to_string();
    let mut text = match saved {
        true => format!("VM {vm} is {done}; {file} says so\n"),
        false => format!("VM {vm} is {done}; {}\n", unsaved(&file)),
    };
    if let Some(warning) = warning {
        text += &format!("Warning: {warning}\n");
    }
    write(&text)
}
