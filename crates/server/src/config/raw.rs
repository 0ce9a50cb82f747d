//! From TOML to a checked configuration.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lode_format::CacheId;
use lode_media::DriverChoice;
use lode_policy::{DEFAULT_SCHEME, Quota, RequestSource, SchemeInfo, SettingError, Settings, nearest_name};
use lode_types::{BlockSize, Level, OriginFields};
use serde::Deserialize;
use toml::{Spanned, Value};

use super::host::{RawHost, RawLevels, check_bounds, check_budget, check_size, needs, share_out};
use super::listen::{RawControl, usual_control_mode};
use super::ssd::{self, RawSsd};
use super::{
    Address, Config, Danger, Limits, Listen, Period, ShmDir, SidecarPlace, Size, VmConfig, WriteBack,
};
use super::{DEFAULT_LIMITS, DEFAULT_STATE_DIR, MAX_SHARDS, MAX_SPIN_US, MAX_VMS};

/// A VM's blocks on the SSD are compared with their checksums within this time, if nothing else is said.
const USUAL_SCRUB_S: u64 = 30 * 86_400;

/// What is wrong, and at which byte of the text.
pub(super) struct Fault {
    pub at: Option<usize>,
    pub message: String,
}

impl Fault {
    pub(super) fn at(span: Range<usize>, message: impl Into<String>) -> Fault {
        Fault { at: Some(span.start), message: message.into() }
    }

    fn of_text(error: toml::de::Error) -> Fault {
        Fault { at: error.span().map(|span| span.start), message: plain_words(error.message()) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    name: Spanned<String>,
    state_dir: Option<Spanned<PathBuf>>,
    shm_dir: Option<Spanned<PathBuf>>,
    control: Option<Spanned<RawControl>>,
    shards: Option<Spanned<u32>>,
    #[serde(default)]
    io: RawIo,
    spin_us: Option<Spanned<u32>>,
    ssd: Option<Spanned<RawSsd>>,
    read_ssd: Option<Spanned<RawSsd>>,
    #[serde(default)]
    host: RawHost,
    #[serde(default)]
    vm: Vec<Spanned<RawVm>>,
    #[serde(default)]
    limits: RawLimits,
    metrics: Option<RawMetrics>,
    #[serde(default)]
    danger_zone: RawDanger,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawIo {
    #[default]
    Auto,
    Uring,
    Threads,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[vm]] for each VM")]
struct RawVm {
    name: Spanned<String>,
    backing: RawBacking,
    #[serde(default)]
    dram: Option<Spanned<Size>>,
    #[serde(default)]
    ssd: Option<Spanned<Size>>,
    #[serde(default)]
    read_ssd: Option<Spanned<Size>>,
    weight: Option<Spanned<f64>>,
    #[serde(default)]
    min: RawLevels,
    #[serde(default)]
    max: RawLevels,
    scheme: Option<Spanned<String>>,
    #[serde(default)]
    settings: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    writeback: WriteBack,
    #[serde(default = "usual_scrub")]
    scrub: Period,
    #[serde(default)]
    limits: RawLimits,
    listen: Vec<Spanned<Listen>>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    danger_zone: RawVmDanger,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table { path = \"/dev/vg0/vm1\" }")]
struct RawBacking {
    path: PathBuf,
    sidecar: Option<Spanned<PathBuf>>,
    redo: Option<Spanned<PathBuf>>,
    delay: Option<RawDelay>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawDelay {
    Hdd,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table { connections = 16 }")]
struct RawLimits {
    connections: Option<Spanned<u32>>,
    connection_in_flight: Option<Size>,
    vm_in_flight: Option<Size>,
    slow_request_ms: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table { listen = \"127.0.0.1:9464\" }")]
struct RawMetrics {
    listen: Spanned<Listen>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [danger_zone]")]
struct RawDanger {
    #[serde(default)]
    allow_remote_tcp: bool,
    #[serde(default)]
    single_copy_dirty: bool,
    #[serde(default)]
    lost_caches: Vec<Spanned<String>>,
}

/// What is dangerous for one VM.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table { acknowledge_before_durable = true }")]
struct RawVmDanger {
    #[serde(default)]
    acknowledge_before_durable: bool,
}

impl RawDanger {
    fn check(self) -> Result<Danger, Fault> {
        let RawDanger { allow_remote_tcp, single_copy_dirty, lost_caches } = self;
        let parse = |text: Spanned<String>| {
            let wrong = "Key 'lost_caches' takes identities of caches, as the refusal of a start names them";
            text.get_ref().parse::<CacheId>().map_err(|_| Fault::at(text.span(), wrong))
        };
        let lost_caches = lost_caches.into_iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Danger { allow_remote_tcp, single_copy_dirty, lost_caches })
    }
}

/// Checks everything that can be checked without opening anything.
pub(super) fn parse(text: &str, path: &Path) -> Result<Config, Fault> {
    let raw: RawConfig = toml::from_str(text).map_err(Fault::of_text)?;
    let document = toml::from_str(text).map_err(Fault::of_text)?;
    check_name("name", &raw.name)?;
    let state_dir = check_path("state_dir", raw.state_dir)?.unwrap_or_else(|| DEFAULT_STATE_DIR.into());
    let name = raw.name.into_inner();
    let (control, control_mode, control_group) = check_control(raw.control)?;
    let control = control.unwrap_or_else(|| state_dir.join(format!("{name}.sock")));
    if raw.vm.is_empty() {
        return Err(Fault { at: None, message: "No VM is configured; add a [[vm]] section".to_owned() });
    }
    if raw.vm.len() > MAX_VMS {
        return Err(Fault { at: None, message: format!("More than {MAX_VMS} VMs are configured") });
    }
    let danger = raw.danger_zone.check()?;
    let remote_tcp = danger.allow_remote_tcp;
    let names_shares = |vm: &Spanned<RawVm>| vm.get_ref().dram.is_some() || vm.get_ref().ssd.is_some();
    let host = raw.host.check(raw.vm.iter().all(names_shares), raw.ssd.is_some())?;
    let limits = check_limits(raw.limits, DEFAULT_LIMITS)?;
    let of_host = OfHost {
        ssd: raw.ssd.is_some(),
        read_ssd: raw.read_ssd.is_some(),
        measures: host.mode.measures(),
        remote_tcp,
        limits,
    };
    let (mut vms, sockets) = check_vms(raw.vm, &of_host)?;
    share_out(&host, &mut vms)?;
    check_budget(&host, &vms)?;
    let metrics = raw.metrics.map(|metrics| metrics.listen);
    if let Some(listen) = &metrics {
        check_reach(listen, remote_tcp)?;
        if sockets.contains_key(&listen.get_ref().address) {
            let message =
                "Key 'listen' of [metrics] is where guests connect; give metrics a socket of their own";
            return Err(Fault::at(listen.span(), message));
        }
    }
    check_read_ssd(raw.read_ssd.as_ref(), &vms)?;
    Ok(Config {
        shards: check_shards(raw.shards)?,
        spin_limit: check_spin(raw.spin_us)?,
        ssd: raw.ssd.map(ssd::check).transpose()?,
        read_ssd: raw.read_ssd.map(|ssd| ssd::check_no_pair(ssd).and_then(ssd::check)).transpose()?,
        limits,
        host,
        danger,
        metrics: metrics.map(Spanned::into_inner),
        io: match raw.io {
            RawIo::Auto => DriverChoice::Auto,
            RawIo::Uring => DriverChoice::Uring,
            RawIo::Threads => DriverChoice::Threads,
        },
        shm_dir: check_shm_dir(raw.shm_dir)?,
        name,
        state_dir,
        control,
        control_mode,
        control_group,
        vms,
        path: path.to_owned(),
        text: text.to_owned(),
        document,
    })
}

fn usual_scrub() -> Period {
    Period(Some(Duration::from_secs(USUAL_SCRUB_S)))
}

/// Refuses a read SSD of which nobody has anything.
fn check_read_ssd(read_ssd: Option<&Spanned<RawSsd>>, vms: &[VmConfig]) -> Result<(), Fault> {
    match read_ssd {
        Some(read_ssd) if vms.iter().all(|vm| vm.read_ssd_bytes == 0) => {
            let message = "No VM has a share of the read SSD; give one a scheme that uses it and a `read_ssd` size, or remove \
                           this section";
            Err(Fault::at(read_ssd.span(), message))
        }
        _ => Ok(()),
    }
}

/// The VMs, and the sockets that they listen on.
fn check_vms(
    raw: Vec<Spanned<RawVm>>,
    of_host: &OfHost,
) -> Result<(Vec<VmConfig>, HashMap<Address, Listen>), Fault> {
    let (mut names, mut sockets, mut vms) = (HashSet::new(), HashMap::new(), Vec::new());
    let mut sidecars = HashSet::new();
    for vm in raw {
        let (span, vm) = (vm.span(), vm.into_inner());
        if !names.insert(vm.name.get_ref().clone()) {
            return Err(Fault::at(vm.name.span(), format!("Two VMs are named '{}'", vm.name.get_ref())));
        }
        check_sockets(&mut sockets, &vm.listen)?;
        if let Some(path) = &vm.backing.sidecar
            && path.get_ref().as_os_str() != NOWHERE
            && !sidecars.insert(path.get_ref().clone())
        {
            let message = "Key 'sidecar' names a file that another VM has; give each disk its own";
            return Err(Fault::at(path.span(), message));
        }
        vms.push(check_vm(vm, span, of_host)?);
    }
    Ok((vms, sockets))
}

/// In place of a path: there is to be none. Of a sidecar, or of the folder of record buffers.
pub const NOWHERE: &str = "none";

fn check_sidecar(path: Option<Spanned<PathBuf>>) -> Result<SidecarPlace, Fault> {
    if path.as_ref().is_some_and(|path| path.get_ref().as_os_str() == NOWHERE) {
        return Ok(SidecarPlace::Nowhere);
    }
    Ok(check_path("sidecar", path)?.map_or(SidecarPlace::Usual, SidecarPlace::At))
}

fn check_shm_dir(path: Option<Spanned<PathBuf>>) -> Result<ShmDir, Fault> {
    if path.as_ref().is_some_and(|path| path.get_ref().as_os_str() == NOWHERE) {
        return Ok(ShmDir::Off);
    }
    Ok(check_path("shm_dir", path)?.map_or(ShmDir::Usual, ShmDir::At))
}

/// Names become file names and NBD export names.
fn check_name(key: &str, name: &Spanned<String>) -> Result<(), Fault> {
    const MAX_NAME_BYTES: usize = 64;
    let text = name.get_ref();
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if plain && !text.is_empty() && !text.starts_with('.') && text.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    let message = format!(
        "Key '{key}' cannot be '{text}': use 1 to {MAX_NAME_BYTES} letters, digits, '-', '_' and '.', not \
         starting with '.'"
    );
    Err(Fault::at(name.span(), message))
}

/// Other programs must find the file too, and a service starts in any folder.
fn check_path(key: &str, path: Option<Spanned<PathBuf>>) -> Result<Option<PathBuf>, Fault> {
    match path {
        Some(path) if !path.get_ref().is_absolute() => {
            let text = path.get_ref().display();
            let message =
                format!("Key '{key}' cannot be '{text}': write an absolute path, starting with '/'");
            Err(Fault::at(path.span(), message))
        }
        path => Ok(path.map(Spanned::into_inner)),
    }
}

/// What a reader of configurations says of a key that it does not know, misses, or cannot take, in words that lead on.
fn plain_words(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let (key, known) = (quoted.next().unwrap_or(rest), quoted.collect::<Vec<_>>());
        return match nearest_name(key, known.iter().copied()) {
            Some(name) => format!("Key '{key}' is unknown; did you mean '{name}'?"),
            None => format!("Key '{key}' is unknown; write one of {}", known.join(", ")),
        };
    }
    if message.starts_with("missing field ") {
        return format!("Key '{}' is missing; add it", quoted.next().unwrap_or_default());
    }
    if message.starts_with("invalid value: integer ") && message.ends_with("expected u32") {
        return format!("{} is not a number from 0 to {}", quoted.next().unwrap_or_default(), u32::MAX);
    }
    message.to_owned()
}

/// Path, permission bits and group of the control socket.
fn check_control(
    control: Option<Spanned<RawControl>>,
) -> Result<(Option<PathBuf>, u32, Option<String>), Fault> {
    let Some(control) = control else { return Ok((None, usual_control_mode(false), None)) };
    let span = control.span();
    let RawControl { path, mode, group } = control.into_inner();
    if let Some(path) = path.as_ref().filter(|path| !path.is_absolute()) {
        let message = format!(
            "Key 'control' cannot be '{}': write an absolute path, starting with '/'",
            path.display()
        );
        return Err(Fault::at(span, message));
    }
    Ok((path, mode.unwrap_or(usual_control_mode(group.is_some())), group))
}

fn check_shards(shards: Option<Spanned<u32>>) -> Result<usize, Fault> {
    match shards {
        None => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            Ok(cores.min(MAX_SHARDS as usize))
        }
        Some(number) if (1..=MAX_SHARDS).contains(number.get_ref()) => Ok(number.into_inner() as usize),
        Some(number) => Err(Fault::at(number.span(), format!("Key 'shards' takes 1 to {MAX_SHARDS}"))),
    }
}

fn check_spin(spin_us: Option<Spanned<u32>>) -> Result<Duration, Fault> {
    match spin_us {
        None => Ok(lode_media::SPIN_LIMIT),
        Some(us) if *us.get_ref() <= MAX_SPIN_US => Ok(Duration::from_micros(us.into_inner().into())),
        Some(us) => Err(Fault::at(us.span(), format!("Key 'spin_us' takes 0 to {MAX_SPIN_US} microseconds"))),
    }
}

/// Limits, with those of `usual` where nothing is said.
fn check_limits(raw: RawLimits, usual: Limits) -> Result<Limits, Fault> {
    let connections = match raw.connections {
        Some(number) if *number.get_ref() == 0 => {
            return Err(Fault::at(number.span(), "Key 'connections' must be at least 1"));
        }
        number => number.map_or(usual.connections, Spanned::into_inner),
    };
    Ok(Limits {
        connections,
        connection_bytes: raw.connection_in_flight.map_or(usual.connection_bytes, |size| size.0),
        vm_bytes: raw.vm_in_flight.map_or(usual.vm_bytes, |size| size.0),
        slow_request_ms: raw.slow_request_ms.unwrap_or(usual.slow_request_ms),
    })
}

/// What concerns a VM of what is not its own.
#[derive(Clone, Copy)]
struct OfHost {
    /// There is a cache SSD, and a read SSD.
    ssd: bool,
    read_ssd: bool,
    /// Schemes measure what their VMs could use, and shares without a name are the host's to give.
    measures: bool,
    remote_tcp: bool,
    limits: Limits,
}

/// A VM's share of each level as it is named, indexed by [`Level::index`].
fn check_shares(
    vm: &mut RawVm,
    span: &Range<usize>,
    scheme: &SchemeInfo,
    has: &OfHost,
) -> Result<[Option<u64>; Level::COUNT], Fault> {
    let mut shares_bytes = [None; Level::COUNT];
    let sizes = [
        (Level::Dram, "dram", vm.dram.take(), None),
        (Level::Ssd, "ssd", vm.ssd.take(), (!has.ssd).then_some("cache SSD")),
        (Level::ReadSsd, "read_ssd", vm.read_ssd.take(), (!has.read_ssd).then_some("read SSD")),
    ];
    for (level, key, size, missing) in sizes {
        let at = size.as_ref().map_or(span.clone(), Spanned::span);
        let check = |blocks| scheme.check_levels(Quota::default().with(level, blocks));
        let named = check_level(key, size, check)?;
        let bytes = named.unwrap_or(0);
        if let Some(device) = missing.filter(|_| bytes > 0) {
            let message =
                format!("This VM has a share of the {device}, but there is no [{key}] section; add it");
            return Err(Fault::at(at, message));
        }
        let is_given_later = has.measures && named.is_none() && Level::SIZED.contains(&level);
        if bytes == 0 && scheme.least_blocks(level) > 0 && !is_given_later {
            return Err(Fault::at(at, needs(scheme, level, key, "this VM")));
        }
        shares_bytes[level.index()] = named;
    }
    Ok(shares_bytes)
}

fn check_vm(mut vm: RawVm, span: Range<usize>, of_host: &OfHost) -> Result<VmConfig, Fault> {
    check_name("name", &vm.name)?;
    let scheme = find_scheme(vm.scheme.take())?;
    let [dram, ssd, read_ssd] = check_shares(&mut vm, &span, scheme, of_host)?;
    let bounds = check_bounds(vm.weight, vm.min, vm.max, [dram, ssd], &span)?;
    if vm.listen.is_empty() {
        return Err(Fault::at(span, "Key 'listen' is empty; give at least one address"));
    }
    vm.listen.iter().try_for_each(|listen| check_reach(listen, of_host.remote_tcp))?;
    if matches!(vm.writeback, WriteBack::Ordered(_)) {
        // All that is dirty is there, and it may become nothing where shares follow demand.
        let least_bytes = if of_host.measures { bounds.least_bytes(Level::Ssd) } else { ssd.unwrap_or(0) };
        if least_bytes == 0 {
            let key = if of_host.measures { "min.ssd" } else { "ssd" };
            let message = format!(
                "Key 'writeback' is \"ordered\", which needs a share of the cache SSD; give this VM '{key}'"
            );
            return Err(Fault::at(span, message));
        }
    }
    Ok(VmConfig {
        settings: check_settings(scheme, &vm.settings, of_host.measures)?,
        limits: check_limits(vm.limits, of_host.limits)?,
        bounds,
        name: vm.name.into_inner(),
        backing: vm.backing.path,
        sidecar: check_sidecar(vm.backing.sidecar)?,
        redo: check_path("redo", vm.backing.redo)?,
        acknowledges_early: vm.danger_zone.acknowledge_before_durable,
        backing_like_hdd: matches!(vm.backing.delay, Some(RawDelay::Hdd)),
        dram_bytes: dram.unwrap_or(0),
        ssd_bytes: ssd.unwrap_or(0),
        read_ssd_bytes: read_ssd.unwrap_or(0),
        write_back: vm.writeback,
        scrub: vm.scrub,
        listen: vm.listen.into_iter().map(Spanned::into_inner).collect(),
        read_only: vm.read_only,
    })
}

/// Only this host's processes may reach a socket, unless it is said otherwise.
fn check_reach(listen: &Spanned<Listen>, remote_tcp: bool) -> Result<(), Fault> {
    match listen.get_ref().address {
        Address::Tcp(to) if !to.ip().is_loopback() && !remote_tcp => {
            let message = format!(
                "Key 'listen' has {to}, which other hosts can reach, and nothing here is encrypted or \
                 authenticated; use 127.0.0.1, or allow it with danger_zone.allow_remote_tcp = true"
            );
            Err(Fault::at(listen.span(), message))
        }
        _ => Ok(()),
    }
}

/// VMs that share a socket must say the same of it.
fn check_sockets(known: &mut HashMap<Address, Listen>, entries: &[Spanned<Listen>]) -> Result<(), Fault> {
    for entry in entries {
        let listen = entry.get_ref();
        let first = known.entry(listen.address.clone()).or_insert_with(|| listen.clone());
        if first != listen {
            let message = format!(
                "Key 'listen' has {} with another 'mode' or 'group' than before; a socket that VMs share has one",
                listen.address
            );
            return Err(Fault::at(entry.span(), message));
        }
    }
    Ok(())
}

/// Whole blocks of any size, and a level that the scheme uses; `check` takes blocks of the largest size.
fn check_level(
    key: &str,
    size: Option<Spanned<Size>>,
    check: impl FnOnce(u32) -> Result<(), SettingError>,
) -> Result<Option<u64>, Fault> {
    let span = size.as_ref().map_or(0..0, Spanned::span);
    let Some(bytes) = check_size(key, size)? else { return Ok(None) };
    // Bounded, so that the number of blocks fits.
    check((bytes / BlockSize::MAX_BYTES) as u32)
        .map_err(|error| Fault::at(span, format!("Key '{key}': {error}")))?;
    Ok(Some(bytes))
}

fn find_scheme(name: Option<Spanned<String>>) -> Result<&'static SchemeInfo, Fault> {
    let (name, at) = match &name {
        Some(name) => (name.get_ref().as_str(), Some(name.span().start)),
        None => (DEFAULT_SCHEME, None),
    };
    let live = SchemeInfo::find(name).and_then(|info| info.check_without_future().map(|()| info));
    live.map_err(|error| Fault { at, message: error.to_string() })
}

/// What guests tell of who asks: with FUA, that they wait until it is durable.
const TOLD_LIVE: OriginFields = OriginFields { sync: true, ..OriginFields::NONE };

/// Defaults that are not the schemes' own.
fn defaults_of_host(measures: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    // Where nothing divides the host, a VM that reads nothing twice would give up its whole share with sizing, and never get
    // it back.
    let sizing = ("sizing", if measures { "on" } else { "off" });
    // The distances of all blocks take several times as much memory as all else that is known of the cached ones.
    [sizing, ("distances", "sampled")].into_iter()
}

fn check_settings(
    scheme: &SchemeInfo,
    values: &BTreeMap<String, Spanned<Value>>,
    measures: bool,
) -> Result<Settings, Fault> {
    let mut settings = scheme.settings();
    for (key, value) in defaults_of_host(measures) {
        if scheme.setting_infos().any(|info| info.key == key) {
            settings.set(key, value).map_err(|error| Fault { at: None, message: error.to_string() })?;
        }
    }
    for (key, value) in values {
        let text = match value.get_ref() {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Boolean(true) => "on".to_owned(),
            Value::Boolean(false) => "off".to_owned(),
            _ => {
                let message = format!("Setting '{key}' must be a string, a number, true or false");
                return Err(Fault::at(value.span(), message));
            }
        };
        settings.set(key, &text).map_err(|error| Fault::at(value.span(), error.to_string()))?;
    }
    match scheme.check_origins(&settings, TOLD_LIVE, RequestSource::Guest) {
        Ok(()) => Ok(settings),
        Err(error) => {
            let asks = if let SettingError::Origins { key, .. } = &error { values.get(*key) } else { None };
            Err(Fault { at: asks.map(|value| value.span().start), message: error.to_string() })
        }
    }
}
