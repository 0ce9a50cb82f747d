//! `lode vm`: the VMs of a running daemon, and what of them can change while they are served.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use lode_server::KeysSet;
use serde::Deserialize;
use serde_json::{Value, json};

use super::events::event_text;
use super::vm_drain::Drain;
use super::vm_membership::{Add, Remove, Rename};
use crate::amounts::show_size;
use crate::arguments::Daemon;
use crate::error::CliError;
use crate::output::{table, write};
use crate::results::JsonArgs;
use crate::shares::{Host, Level, Sharing, percent, time};

/// Events of a VM that `lode vm show` ends with.
const SHOWN_EVENTS: usize = 10;

/// Look at the VMs of a running daemon, or change one while it is served.
#[derive(Args)]
pub struct VmCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    List(List),
    Show(Show),
    Set(Set),
    Add(Add),
    Remove(Remove),
    Rename(Rename),
    Drain(Drain),
}

/// List the VMs: their shares, what they could use, and the read hits that are expected and measured.
#[derive(Args)]
struct List {
    #[command(flatten)]
    daemon: Daemon,

    #[command(flatten)]
    json: JsonArgs,
}

/// Show all of one VM: shares, limits, write-back and its latest events.
#[derive(Args)]
#[command(after_help = "Example: lode vm show /etc/lodestore/host1.toml web")]
struct Show {
    /// The daemon's configuration file (not with --socket), and the VM.
    #[arg(value_names = ["CONFIG.toml", "VM"], required = true, num_args = 1..=2)]
    words: Vec<String>,

    /// The daemon's control socket, instead of the one that its configuration names.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    #[command(flatten)]
    json: JsonArgs,
}

/// Change keys of a VM while it is served, all of them or none.
///
/// Keys are those of the configuration: weight, dram, ssd, min.dram, min.ssd, max.dram, max.ssd, writeback, writeback.dirty,
/// writeback.dirty_max, writeback.age, writeback.idle, scrub, limits.connections, limits.connection_in_flight, limits.vm_in_flight and
/// limits.slow_request_ms, and scheme with its settings.…: the cache keeps what it holds when another scheme decides. KEY= takes the
/// key out, so that the usual value holds.
#[derive(Args)]
#[command(after_help = "Example: lode vm set /etc/lodestore/host1.toml web weight=2 min.dram=64MiB --save")]
struct Set {
    /// The daemon's configuration file (not with --socket), the VM, and the keys with their values.
    #[arg(value_names = ["CONFIG.toml", "VM", "KEY=VALUE"], required = true, num_args = 2..)]
    words: Vec<String>,

    /// The daemon's control socket, instead of the one that its configuration names.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Write the change to the configuration file, too, so that it outlasts a restart.
    #[arg(long)]
    save: bool,
}

impl VmCommand {
    pub fn run(&self) -> Result<(), CliError> {
        match &self.action {
            Action::List(list) => list.run(),
            Action::Show(show) => show.run(),
            Action::Set(set) => set.run(),
            Action::Add(add) => add.run(),
            Action::Remove(remove) => remove.run(),
            Action::Rename(rename) => rename.run(),
            Action::Drain(drain) => drain.run(),
        }
    }
}

/// What is needed of a daemon's status; `docs/control.md` describes the whole of it.
#[derive(Deserialize)]
struct Status {
    host: Host,
    vms: Vec<Vm>,
}

#[derive(Deserialize)]
struct Vm {
    name: String,
    scheme: String,
    connections: u64,
    block_bytes: u64,
    oldest_dirty_s: Option<u64>,
    sharing: Sharing,
    limits: Limits,
    writeback: Option<WriteBack>,
    gauges: Gauges,
}

#[derive(Deserialize)]
struct Limits {
    connections: u64,
    connection_in_flight_bytes: u64,
    vm_in_flight_bytes: u64,
    slow_request_ms: u64,
}

#[derive(Deserialize)]
struct WriteBack {
    dirty_limit_blocks: u64,
    dirty_max_blocks: u64,
    age_s: Option<u64>,
    idle_s: Option<u64>,
}

#[derive(Deserialize)]
struct Gauges {
    dram_blocks: u64,
    ssd_blocks: u64,
    dirty_blocks: u64,
}

/// A daemon's answer, as it came and as far as it is shown.
fn status(daemon: &Daemon) -> Result<(Value, Status), CliError> {
    let answer = lode_server::status(&daemon.control()?)?;
    let not_understood = |error: serde_json::Error| {
        CliError::Failure(format!(
            "The daemon's answer is not understood: {error}; is it of another version?"
        ))
    };
    let value: Value = serde_json::from_str(&answer).map_err(not_understood)?;
    let status = Status::deserialize(&value).map_err(not_understood)?;
    Ok((value, status))
}

impl List {
    fn run(&self) -> Result<(), CliError> {
        let (value, status) = status(&self.daemon)?;
        let json = json!({ "host": value["host"], "vms": value["vms"] });
        self.json.write(&json, || status.text())
    }
}

impl Status {
    fn text(&self) -> String {
        let titles = [
            "VM",
            "scheme",
            "weight",
            "DRAM",
            "could\nuse",
            "SSD",
            "could\nuse",
            "hit %\nexpected",
            "\nmeasured",
            "dirty",
        ];
        let mut table = table(&titles, 2);
        for vm in &self.vms {
            let Sharing { weight, dram, ssd, expected_hit_ratio, measured_hit_ratio, .. } = &vm.sharing;
            table.add_row([
                vm.name.clone(),
                vm.scheme.clone(),
                weight.to_string(),
                dram.share(&self.host),
                dram.demand(&self.host),
                ssd.share(&self.host),
                ssd.demand(&self.host),
                percent(*expected_hit_ratio),
                percent(*measured_hit_ratio),
                show_size(vm.gauges.dirty_blocks * vm.block_bytes),
            ]);
        }
        let host = self.host.text().unwrap_or_else(|| "Shares are fixed (mode fixed)".to_owned());
        format!("{host}\n\n{table}\n")
    }
}

impl Show {
    fn run(&self) -> Result<(), CliError> {
        let mut words = self.words.clone();
        let daemon = Daemon::of(&mut words, self.socket.clone());
        let [name] = &words[..] else {
            return Err(CliError::Usage(
                "Give the daemon's configuration file (or --socket) and one VM".to_owned(),
            ));
        };
        let events = lode_server::events(&daemon.control()?, None, Some(name), SHOWN_EVENTS)?.events;
        let (value, status) = status(&daemon)?;
        let gone = || CliError::Failure(format!("There is no VM '{name}' any more"));
        let at = status.vms.iter().position(|vm| vm.name == *name).ok_or_else(gone)?;
        let json = json!({ "host": value["host"], "vm": value["vms"][at], "events": events });
        self.json.write(&json, || status.vms[at].text(&status.host, &events))
    }
}

impl Vm {
    fn text(&self, host: &Host, events: &[Value]) -> String {
        let Sharing { weight, dram, ssd, expected_hit_ratio, measured_hit_ratio, .. } = &self.sharing;
        let mut text =
            format!("{}: {}, weight {weight}, {} connected\n", self.name, self.scheme, self.connections);
        text += &host.text().map(|text| format!("{text}\n")).unwrap_or_default();
        let titles = [
            "level",
            "share",
            "holds",
            "could use",
            "would have",
            "min",
            "max",
            "up to now",
            "hit % expected",
            "measured",
        ];
        let mut levels = table(&titles, 1);
        for (name, level, held) in
            [("DRAM", dram, self.gauges.dram_blocks), ("SSD", ssd, self.gauges.ssd_blocks)]
        {
            levels.add_row(level_row(name, level, held, host));
        }
        let row = [String::new(), String::new()].into_iter().cycle().take(6);
        let all = [percent(*expected_hit_ratio), percent(*measured_hit_ratio)];
        levels.add_row(["all".to_owned(), String::new()].into_iter().chain(row).chain(all));
        text += &format!("\n{levels}\n\n");
        text += &match &self.writeback {
            None => "Written back when the scheme says so\n".to_owned(),
            Some(WriteBack { dirty_limit_blocks, dirty_max_blocks, age_s, idle_s }) => format!(
                "Written back above {} dirty (writes wait above {}), after {}, and when idle for {}\n",
                host.size(*dirty_limit_blocks),
                host.size(*dirty_max_blocks),
                age_s.map_or_else(|| "no time".to_owned(), time),
                idle_s.map_or_else(|| "ever".to_owned(), time),
            ),
        };
        let dirty = host.size(self.gauges.dirty_blocks);
        text += &match self.oldest_dirty_s {
            Some(s) => format!("Dirty: {dirty}, the oldest written or moved at most {} ago\n", time(s)),
            None => format!("Dirty: {dirty}\n"),
        };
        let Limits { connections, connection_in_flight_bytes, vm_in_flight_bytes, slow_request_ms } =
            self.limits;
        text += &format!(
            "Limits: {connections} connections, {} in flight on each, {} on all; slow from {slow_request_ms} ms\n",
            show_size(connection_in_flight_bytes),
            show_size(vm_in_flight_bytes)
        );
        if !events.is_empty() {
            text += "\n";
            text.extend(events.iter().map(|event| event_text(event) + "\n"));
        }
        text
    }
}

fn level_row(name: &str, level: &Level, held_blocks: u64, host: &Host) -> [String; 10] {
    [
        name.to_owned(),
        level.share(host),
        host.size(held_blocks),
        level.demand(host),
        host.size(level.wanted_blocks),
        host.size(level.min_blocks),
        host.size(level.max_blocks),
        host.size(level.reach_blocks),
        percent(level.expected_hit_ratio),
        percent(level.measured_hit_ratio),
    ]
}

impl Set {
    fn run(&self) -> Result<(), CliError> {
        let mut words = self.words.clone();
        let daemon = Daemon::of(&mut words, self.socket.clone());
        let [vm, pairs @ ..] = &words[..] else {
            return Err(CliError::Usage(
                "Give the daemon's configuration file (or --socket) and a VM".to_owned(),
            ));
        };
        let keys = keys(pairs)?;
        let KeysSet { changed, saved, path } =
            lode_server::set_keys(&daemon.control()?, vm, &keys, self.save)?;
        let what = match changed.is_empty() {
            true => "Nothing is different from before".to_owned(),
            false => format!("Changed: {}", changed.join(", ")),
        };
        match saved {
            true => write(&format!("{what}; written to {}\n", path.display())),
            false => write(&format!(
                "{what}; until a restart or reload (--save writes it to {})\n",
                path.display()
            )),
        }
    }
}

/// The values by their keys.
fn keys(pairs: &[String]) -> Result<BTreeMap<String, String>, CliError> {
    let mut keys = BTreeMap::new();
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(CliError::Usage(format!("'{pair}' is not KEY=VALUE; write for example weight=2")));
        };
        if keys.insert(key.trim().to_owned(), value.trim().to_owned()).is_some() {
            return Err(CliError::Usage(format!("'{}' is given twice; give it once", key.trim())));
        }
    }
    match keys.is_empty() {
        true => Err(CliError::Usage("No key is given; write KEY=VALUE, for example weight=2".to_owned())),
        false => Ok(keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_keys_with_values() {
        let read = |pairs: &[&str]| keys(&pairs.iter().map(|pair| (*pair).to_owned()).collect::<Vec<_>>());
        let found = read(&["weight=2", "writeback.age = 2min", "min.dram="]).unwrap();
        assert_eq!(found["writeback.age"], "2min");
        assert_eq!((found["weight"].as_str(), found["min.dram"].as_str()), ("2", ""));
        for wrong in [&["weight"][..], &["weight=1", "weight=2"], &[]] {
            assert!(matches!(read(wrong), Err(CliError::Usage(_))), "{wrong:?}");
        }
    }
}
