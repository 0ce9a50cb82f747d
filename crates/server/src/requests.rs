//! What the control thread does with what is asked over its socket. It must not know lines or sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::{Value, json};

use crate::commands::{ControlRequest, MAX_EVENTS, PROTOCOL, Refusal, Session};
use crate::config::{Changes, Config, HostMode, VmConfig};
use crate::control::Control;
use crate::events::EventKind;
use crate::guard::guarded;
use crate::host::ANSWER_LIMIT;
use crate::memory::check_next_start;
use crate::messages::{LiveKeys, ToShard};
use crate::pair::{PairView, ServedPairs};
use crate::status::Status;

impl Control {
    /// Answers a request other than a stop. None: the session waits until what it asks for is done.
    pub(crate) fn answer(&mut self, mut session: Session, request: ControlRequest) -> Option<Session> {
        let answer = match request {
            change if change.changes() => return self.ask_change(Some(session), change),
            // The largest answer goes out as it is made.
            ControlRequest::Status {} => {
                let status = guarded(|| self.host.status().map(|status| self.with_sidecars(status)));
                match status.unwrap_or_else(|defect| Err(defect_in_answer(&defect))) {
                    Ok(status) => session.answer(&Status { change: self.changes.view(), ..status }),
                    Err(error) => session.answer(&Refusal::new(error)),
                }
                return Some(session);
            }
            other => {
                guarded(|| self.answer_now(other)).unwrap_or_else(|defect| Err(defect_in_answer(&defect)))
            }
        };
        match answer {
            Ok(answer) => session.answer(&answer),
            Err(error) => session.answer(&Refusal::new(error)),
        }
        Some(session)
    }

    fn answer_now(&mut self, request: ControlRequest) -> Result<Value, String> {
        match request {
            ControlRequest::Version {} => Ok(
                json!({ "protocol": PROTOCOL, "version": env!("CARGO_PKG_VERSION"), "name": self.host.name }),
            ),
            ControlRequest::Drain { vms, for_migration: true, cancel } => {
                self.write_around(&vms.unwrap_or_default(), cancel)
            }
            ControlRequest::Drain { vms, cancel, .. } => self.drain(vms.as_deref(), cancel),
            ControlRequest::Divide {} => {
                self.sharing.divide_now(&self.host, Instant::now()).map(|moving| json!({ "moving": moving }))
            }
            ControlRequest::DeviceList {} => Ok(json!(self.devices())),
            ControlRequest::Events { after, vm, most } => self.events_after(after, vm.as_deref(), most),
            _ => Err("This is answered elsewhere".to_owned()),
        }
    }

    /// The cache SSDs, and how they stand; none without.
    fn devices(&self) -> Option<PairView> {
        let pairs = self.host.pairs.as_ref().map(ServedPairs::view);
        pairs.or_else(|| {
            Some(PairView::single(&self.host.cache.as_ref()?.uuid, &self.config.ssd.as_ref()?.path))
        })
    }

    /// Does something that changes who is served how, unless a defect of the program ended that.
    ///
    /// # Errors
    /// Those of `work`; that it is not done any more.
    pub(crate) fn steer<T>(
        &mut self,
        work: impl FnOnce(&mut Control) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.sharing.is_stopped() {
            return Err("A defect of the program ended what changes shares, keys and VMs while they are served; restart the \
                        service, which guests with a reconnect delay outlast"
                .to_owned());
        }
        self.guard_steering(work)
    }

    /// The same, whatever was before. Should it panic, nothing is changed any more, and the VMs are served on.
    pub(crate) fn guard_steering<T>(
        &mut self,
        work: impl FnOnce(&mut Control) -> Result<T, String>,
    ) -> Result<T, String> {
        guarded(|| work(self)).unwrap_or_else(|defect| Err(self.sharing.stop(&defect)))
    }

    /// Takes over what may change while VMs are served.
    pub(crate) fn take_over(&mut self, mut new: Config) -> Result<(), String> {
        new.sort_vms(self.config.vms.iter().map(|vm| vm.name.as_str()));
        check_next_start(&self.config, &new)?;
        self.check_switches(&new)?;
        let [before, after] = self.sharing.adopt(&self.config, &new)?;
        let frames = |more: u64| u32::try_from(more).unwrap_or(u32::MAX);
        self.parts.space.with_broker(|broker| match after >= before {
            true => broker.add_frames(frames(after - before)),
            false => broker.remove_frames(frames(before - after)),
        });
        let shards = self.shards.len();
        let mut changed: Vec<Vec<(usize, LiveKeys)>> = self.shards.iter().map(|_| Vec::new()).collect();
        for (vm, (before, after)) in self.config.vms.iter().zip(&new.vms).enumerate() {
            let largest_share = self.sharing.largest_share(vm);
            let [before, after] = [before, after].map(|keys| LiveKeys::of(keys, largest_share));
            if before != after {
                let number = self.served.list[vm].number;
                changed[number % shards].push((number / shards, after));
            }
        }
        for (shard, changed) in self.shards.iter().zip(changed) {
            shard.tell(ToShard::Change(changed));
        }
        let switches =
            |(before, after): (&VmConfig, &VmConfig)| before.settings.scheme() != after.settings.scheme();
        let switched = self.config.vms.iter().zip(&new.vms).map(switches).collect::<Vec<bool>>();
        for (at, vm) in self.served.list.iter().enumerate().filter(|(at, _)| switched[*at]) {
            if let Some(share) = self.sharing.share(at) {
                let (answer, _) = std::sync::mpsc::sync_channel(1);
                let shares = |volume| ToShard::Shares { shares: vec![(volume, share)], answer };
                self.host.tell(vm.number, shares);
            }
        }
        self.config = new;
        if switched.contains(&true) {
            // Levels that VMs did not use are divided as well from now on.
            self.update_room();
        }
        Ok(())
    }

    /// Refuses other schemes for VMs that cannot take them over now.
    fn check_switches(&self, new: &Config) -> Result<(), String> {
        let vms = || self.config.vms.iter().zip(&new.vms).enumerate();
        if vms().all(|(_, (before, after))| before.settings == after.settings) {
            return Ok(());
        }
        let views = self.host.status()?.vms;
        for (at, (_, after)) in vms().filter(|(_, (before, after))| before.settings != after.settings) {
            let Some(view) = views.iter().find(|view| view.name == after.name) else { continue };
            if view.stopped || view.alarms.failed {
                return Err(format!(
                    "VM {} keeps its scheme: {}; restart the service first, which guests with a reconnect delay outlast",
                    after.name,
                    if view.stopped { "it is stopped" } else { "a device failed" },
                ));
            }
            self.sharing.check_switch(at, new, view.gauges.dirty_blocks.into())?;
        }
        Ok(())
    }

    /// Changes keys of a VM, all of them or nothing.
    pub(crate) fn set_keys(
        &mut self,
        vm: &str,
        keys: &BTreeMap<String, String>,
        save: bool,
    ) -> Result<Value, String> {
        if keys.is_empty() {
            return Err("No key is given; write KEY=VALUE, such as weight=2".to_owned());
        }
        let mut new = self.config.with_keys(vm, keys).map_err(|error| error.to_string())?;
        new.sort_vms(self.config.vms.iter().map(|vm| vm.name.as_str()));
        if self.config.host.mode == HostMode::Auto
            && let Some(key) = ["dram", "ssd"].into_iter().find(|key| keys.contains_key(*key))
        {
            return Err(format!(
                "The host decides the shares (mode = \"auto\"); set min.{key}, max.{key} or weight of VM {vm} instead"
            ));
        }
        let changes = Changes::between(&self.config, &new)
            .map_err(|fixed| format!("{} can only change with a restart", fixed.join(", ")))?;
        self.check_switches(&new)?;
        check_next_start(&self.config, &new)?;
        self.sharing.check(&self.config, &new)?;
        if save {
            self.config.save_keys(vm, keys).map_err(|error| format!("Nothing was changed. {error}"))?;
        }
        self.take_over(new)?;
        let list: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let how = if save { "saved" } else { "until a restart or reload" };
        let text = format!("set by hand, {how}: {}", list.join(" "));
        tracing::info!("VM {vm}: {text}");
        self.events.note(EventKind::Setting, Some(vm), text);
        Ok(json!({
            "vm": vm,
            "changed": changes.keys,
            "saved": save,
            "path": self.config.path,
        }))
    }

    fn events_after(
        &self,
        after: Option<u64>,
        vm: Option<&str>,
        most: Option<usize>,
    ) -> Result<Value, String> {
        // Of one that is gone, or had another name, there may be some.
        if let Some(vm) = vm.filter(|vm| !self.events.has_any_of(vm)) {
            self.vm_of(vm)?;
        }
        let most = most.unwrap_or(MAX_EVENTS).min(MAX_EVENTS);
        let (last, events) = match after {
            Some(after) => self.events.after(after, vm, most),
            None => self.events.latest(vm, most),
        };
        Ok(json!({ "events": events, "last": last, "began_ms": self.events.began_ms() }))
    }

    /// The place of a VM in the configuration.
    pub(crate) fn vm_of(&self, name: &str) -> Result<usize, String> {
        let names = || self.config.vms.iter().map(|vm| vm.name.as_str());
        names().position(|known| known == name).ok_or_else(|| {
            let meant = lode_policy::nearest_name(name, names());
            let meant = meant.map(|name| format!(" (did you mean '{name}'?)")).unwrap_or_default();
            format!("There is no VM '{name}' here{meant}; `lode vm list` lists those that there are")
        })
    }

    /// A status with what is beside the VMs' disks, and what is known to be dangerous.
    fn with_sidecars(&self, mut status: Status) -> Status {
        for vm in &mut status.vms {
            let at = self.config.vms.iter().position(|one| one.name == vm.name);
            vm.sidecar = at.and_then(|at| self.parts.claims.view(self.served.list[at].number));
        }
        status.danger_zone = self.config.dangers();
        status
    }

    /// Begins to drain these VMs for good: their writes go around the SSD.
    fn write_around(&self, names: &[String], cancel: bool) -> Result<Value, String> {
        if names.is_empty() || cancel {
            return Err(
                "Name the VMs that are to be opened elsewhere; `vm-resume` ends that for one".to_owned()
            );
        }
        let wanted = names.iter().map(|name| self.vm_of(name)).collect::<Result<BTreeSet<_>, _>>()?;
        let mut left = 0;
        for at in wanted {
            let (answer, answered) = std::sync::mpsc::sync_channel(1);
            self.host.tell(self.served.list[at].number, |volume| ToShard::WriteAround { volume, answer });
            let answered = answered.recv_timeout(ANSWER_LIMIT);
            left += answered.map_err(|_| "Its shard does not answer; see the log".to_owned())??;
        }
        Ok(json!({ "draining_blocks": left }))
    }

    /// Begins or cancels the drain of these VMs, or of all where there is no list of them.
    fn drain(&self, names: Option<&[String]>, cancel: bool) -> Result<Value, String> {
        let wanted: BTreeSet<usize> = match names {
            None => (0..self.served.list.len()).collect(),
            // A program whose choice came out empty does not mean all.
            Some([]) => return Err("`vms` names no VM; leave it out to drain all".to_owned()),
            Some(names) => names.iter().map(|name| self.vm_of(name)).collect::<Result<_, _>>()?,
        };
        let shards = self.shards.len();
        let numbers: Vec<usize> = wanted.into_iter().map(|vm| self.served.list[vm].number).collect();
        let volumes_of = |shard| numbers.iter().filter(move |vm| *vm % shards == shard).map(|vm| vm / shards);
        let drain = |shard, answer| ToShard::Drain { volumes: volumes_of(shard).collect(), cancel, answer };
        let left = self.host.ask(drain)?;
        Ok(json!({ "draining_blocks": left.iter().sum::<u64>() }))
    }
}

/// What to answer when a question brought a defect of the program to light, which the log has as well.
fn defect_in_answer(defect: &str) -> String {
    let text = format!("A defect of the program kept this from being answered: {defect}");
    tracing::error!("{text}. VMs are served on; report what the log says above");
    text
}
