//! `lode device`: the SSDs that a cache is on, while a daemon serves it or not.

use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use lode_server::{Config, MemberState, MemberView, PairView, ServerError};

use crate::amounts::show_size;
use crate::error::CliError;
use crate::output::table;
use crate::results::JsonArgs;

/// Look at the SSDs of a cache, and take one of a pair out or put one in, while guests are served or not.
#[derive(Args)]
pub struct DeviceCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    List(List),
    Add(Add),
    Replace(Replace),
    Remove(Remove),
}

/// List the SSDs, and how each of them stands.
#[derive(Args)]
struct List {
    #[command(flatten)]
    target: Target,
}

/// Resilver an SSD as the one that the pair lacks.
///
/// It may be the one that was dropped, or another one, or the second one of a pair that was formatted with `--mirror later`: then the
/// configuration file names it from now on. A daemon that serves the pair begins at once, and `lode device list` shows how far it is;
/// otherwise the next start does. Guests are served meanwhile.
#[derive(Args)]
#[command(after_help = "Example: lode device add /etc/lodestore/host1.toml /dev/nvme2n1")]
struct Add {
    #[command(flatten)]
    target: Target,

    /// The device or file.
    device: PathBuf,

    /// Lose whatever it holds.
    #[arg(long)]
    force: bool,

    /// Where several pairs lack an SSD, the one that it is for, as `lode device list` numbers them.
    #[arg(long, value_name = "N")]
    pair: Option<usize>,
}

/// Take an SSD out of the pair, and resilver another one in its place.
///
/// Until that one has everything, what is dirty is on one SSD.
#[derive(Args)]
#[command(after_help = "Example: lode device replace /etc/lodestore/host1.toml /dev/nvme1n1 /dev/nvme2n1")]
struct Replace {
    #[command(flatten)]
    target: Target,

    /// The device to be replaced.
    device: PathBuf,

    /// The device that replaces it.
    by: PathBuf,

    /// Lose whatever that one holds.
    #[arg(long)]
    force: bool,
}

/// Take an SSD out of the pair. The last one that has everything stays.
#[derive(Args)]
#[command(after_help = "Example: lode device remove /etc/lodestore/host1.toml /dev/nvme1n1")]
struct Remove {
    #[command(flatten)]
    target: Target,

    /// The device or file, as the configuration names it.
    device: PathBuf,
}

/// Which cache, and how to answer.
#[derive(Args)]
struct Target {
    /// The configuration file.
    #[arg(value_name = "CONFIG.toml")]
    config: PathBuf,

    #[command(flatten)]
    json: JsonArgs,
}

impl Target {
    /// Asks the daemon that serves the cache, or does it here where there is none.
    fn ask(
        &self,
        of_daemon: impl FnOnce(&Path) -> Result<PairView, ServerError>,
        alone: impl FnOnce(&Config) -> Result<PairView, ServerError>,
    ) -> Result<(), CliError> {
        let config = Config::load(&self.config)?;
        let is_served = UnixStream::connect(&config.control).is_ok();
        let view = if is_served { of_daemon(&config.control)? } else { alone(&config)? };
        self.json.write(&view, || text(&view, is_served))
    }
}

impl DeviceCommand {
    pub fn run(&self) -> Result<(), CliError> {
        match &self.action {
            Action::List(List { target }) => target
                .ask(|control| Ok(lode_server::devices(control)?.unwrap_or_default()), lode_server::members),
            Action::Add(Add { target, device, force, pair }) => {
                let device = &absolute(device)?;
                target.ask(
                    |control| lode_server::add_device(control, device, *force, *pair),
                    |config| lode_server::add_member(config, device, *force, *pair),
                )
            }
            Action::Replace(Replace { target, device, by, force }) => {
                let (device, by) = (&absolute(device)?, &absolute(by)?);
                target.ask(
                    |control| lode_server::replace_device(control, device, by, *force),
                    |config| lode_server::replace_member(config, device, by, *force),
                )
            }
            Action::Remove(Remove { target, device }) => {
                let device = &absolute(device)?;
                target.ask(
                    |control| lode_server::remove_device(control, device),
                    |config| lode_server::remove_member(config, device),
                )
            }
        }
    }
}

/// A daemon may have another folder.
fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))
}

fn text(view: &PairView, is_served: bool) -> String {
    let PairView { uuid, ssds, awaited_ssd_bytes, .. } = view;
    if ssds.is_empty() {
        return "The host has no cache SSD\n".to_owned();
    }
    let served = if is_served { "served now" } else { "not served now" };
    let mut text = format!("Cache {uuid}, {served}\n\n");
    let has_pairs = ssds.iter().any(|ssd| ssd.pair.is_some());
    let columns: &[&str] = if has_pairs {
        &["pair", "SSD", "state", "has everything"]
    } else {
        &["SSD", "state", "has everything"]
    };
    let mut table = table(columns, columns.len() - 1);
    for ssd in ssds {
        let number = ssd.pair.filter(|_| has_pairs).map(|number| number.to_string());
        let row = [ssd.path.display().to_string(), state(ssd.state).to_owned(), progress(ssd)];
        table.add_row(number.into_iter().chain(row));
    }
    let _ = writeln!(text, "{table}\n");
    for MemberView { path, why, .. } in ssds {
        if let Some(why) = why {
            let _ = writeln!(text, "{}: {why}", path.display());
        }
    }
    let is_out = |ssd: &MemberView| ssd.state == MemberState::OutOfSync;
    if ssds.iter().any(is_out) {
        text.push_str(
            "What is dirty is on one SSD. `lode device add` resilvers an SSD: the one that is out of sync, or another one\n",
        );
    }
    if let Some(bytes) = awaited_ssd_bytes {
        let _ = writeln!(
            text,
            "The second SSD of the pair has not come yet: `lode device add` resilvers one of at least {}, and has the configuration name it",
            show_size(*bytes)
        );
    }
    text
}

/// What is not as it should be with pairs of SSDs.
pub fn lines(pair: &PairView) -> String {
    let line = |ssd: &MemberView| {
        let path = ssd.path.display();
        let of_pair = ssd.pair.map_or("the pair".to_owned(), |number| format!("pair {number}"));
        match ssd.state {
            MemberState::Single | MemberState::InSync => None,
            MemberState::Resilvering => Some(format!(
                "SSD {path} is being resilvered (`lode device list`); what is dirty is on one SSD\n"
            )),
            MemberState::OutOfSync => {
                let why = ssd.why.as_deref().unwrap_or("see the log");
                Some(format!("SSD {path} is out of {of_pair}: {why}; what is dirty is on one SSD\n"))
            }
        }
    };
    pair.ssds.iter().filter_map(line).collect()
}

fn state(state: MemberState) -> &'static str {
    match state {
        MemberState::Single => "single",
        MemberState::InSync => "in sync",
        MemberState::Resilvering => "resilvering",
        MemberState::OutOfSync => "out of sync",
    }
}

fn progress(ssd: &MemberView) -> String {
    match (ssd.state, ssd.done_bytes, ssd.of_bytes) {
        (MemberState::Resilvering, Some(done), Some(of)) if of > 0 => {
            format!("{:.0} %, {} of {}", 100.0 * done as f64 / of as f64, show_size(done), show_size(of))
        }
        (MemberState::Resilvering, ..) => "begins".to_owned(),
        (MemberState::OutOfSync, ..) => "no".to_owned(),
        (MemberState::Single | MemberState::InSync, ..) => "yes".to_owned(),
    }
}
