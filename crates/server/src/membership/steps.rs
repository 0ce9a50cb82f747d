//! How the control thread begins changes of what VMs there are, and takes over what came of each step.

use std::time::Instant;

use serde_json::{Value, json};

use super::add::AddVm;
use super::device::{ChangeDevice, DeviceChange};
use super::disk_check::DiskCheck;
use super::release::{ReleaseVm, ResumeVm};
use super::remove::RemoveVm;
use super::rename::RenameVm;
use super::{AddedVm, ChangeStep, Done, Failure, Work, answer, keeps, steps_between};
use crate::commands::{ControlRequest, Refusal, Session};
use crate::config::{Changes, Config, VmConfig};
use crate::control::{Control, Endpoint};
use crate::events::EventKind;
use crate::listen::Listener;
use crate::messages::ToShard;
use crate::sidecar::claims::SidecarView;

impl Control {
    /// Begins a change, or has it wait for the one under way. Gives the session back that is answered already.
    pub(crate) fn ask_change(
        &mut self,
        session: Option<Session>,
        request: ControlRequest,
    ) -> Option<Session> {
        if self.changes.current.is_some() {
            return self.changes.put_off(session, request);
        }
        if let ControlRequest::VmSet { vm, set, save } = &request {
            return reply(session, self.steer(|control| control.set_keys(vm, set, *save)));
        }
        let begun = self.steer(|control| match &request {
            ControlRequest::Reload {} => control.reload_steps(),
            ControlRequest::VmAdd { vm, save } => control.add_steps(vm, *save),
            ControlRequest::VmRemove { vm, disconnect, save } => control.remove_steps(vm, *disconnect, *save),
            ControlRequest::VmRename { vm, to } => control.rename_steps(vm, to),
            ControlRequest::VmRelease { vm, refuse_clients } => control.vm_of(vm).map(|_| {
                let step = ChangeStep::Release { vm: vm.clone(), refuse_clients: *refuse_clients };
                (vec![step], json!({ "vm": vm, "done": "released" }), None)
            }),
            ControlRequest::VmResume { vm } => control.vm_of(vm).map(|_| {
                (vec![ChangeStep::Resume { vm: vm.clone() }], json!({ "vm": vm, "done": "resumed" }), None)
            }),
            ControlRequest::DeviceRemove { path } => {
                Ok(device_steps(DeviceChange::Remove { path: path.clone() }))
            }
            ControlRequest::DeviceAdd { path, force, pair } => {
                Ok(device_steps(DeviceChange::Add { path: path.clone(), force: *force, pair: *pair }))
            }
            ControlRequest::DeviceReplace { path, by, force } => {
                let (path, by) = (path.clone(), by.clone());
                Ok(device_steps(DeviceChange::Replace { path, by, force: *force }))
            }
            _ => Err("This changes nothing".to_owned()),
        });
        match begun {
            Err(why) => {
                if session.is_none() {
                    tracing::error!("Not reloaded. {why}");
                }
                reply(session, Err(why))
            }
            Ok((steps, answer, save)) => {
                self.changes.begin(session, steps, answer);
                if let Some(change) = &mut self.changes.current {
                    change.save = save;
                }
                self.next_step();
                None
            }
        }
    }

    fn reload_steps(&self) -> Result<Begun, String> {
        let new = Config::load(&self.config.path).map_err(|error| error.to_string())?;
        let steps = steps_between(&self.config, &new);
        let mut steps = steps.map_err(|error| format!("Nothing was changed: {error}"))?;
        let removed = |step: &ChangeStep| match step {
            ChangeStep::Remove { vm, .. } => Some(vm.clone()),
            _ => None,
        };
        self.check_removals(&steps.iter().filter_map(removed).collect::<Vec<_>>())?;
        let (mut before, mut changed) = (&self.config, Vec::new());
        for step in &steps {
            match step {
                ChangeStep::Remove { vm, config, .. } => {
                    changed.push(format!("VM {vm} removed"));
                    before = config;
                }
                ChangeStep::Keys(config) => changed.extend(keys_that_change(before, config)?),
                ChangeStep::Add { vm, .. } => changed.push(format!("VM {vm} added")),
                ChangeStep::CheckDisks { .. }
                | ChangeStep::Rename { .. }
                | ChangeStep::Release { .. }
                | ChangeStep::Resume { .. }
                | ChangeStep::Device(_) => {}
            }
        }
        self.check_first_addition(&steps)?;
        let added = |step: &ChangeStep| match step {
            ChangeStep::Add { vm, .. } => Some(vm.clone()),
            _ => None,
        };
        let vms: Vec<String> = steps.iter().filter_map(added).collect();
        if !vms.is_empty() {
            steps.insert(0, ChangeStep::CheckDisks { vms, config: Box::new(new) });
        }
        Ok((steps, json!({ "changed": changed }), None))
    }

    /// That there is room for the first VM that is added, where none is removed that would make some.
    fn check_first_addition(&self, steps: &[ChangeStep]) -> Result<(), String> {
        let [ChangeStep::Keys(_), ChangeStep::Add { vm: name, config }, ..] = steps else { return Ok(()) };
        let mut config = (**config).clone();
        config.sort_vms(self.config.vms.iter().map(|vm| vm.name.as_str()));
        let vm = config.vms.iter().find(|vm| vm.name == *name).ok_or("It is not in the configuration")?;
        let room = self.sharing.newcomer(&self.config, &config, vm);
        room.map(drop).map_err(|why| format!("Nothing was changed: {why}"))
    }

    /// That these VMs can go by themselves, before the first of them does.
    fn check_removals(&self, names: &[String]) -> Result<(), String> {
        if names.is_empty() {
            return Ok(());
        }
        let views = self.host.status()?.vms;
        let mut why = Vec::new();
        for view in views.iter().filter(|view| names.contains(&view.name)) {
            let drain = format!("lode drain {} --vm {}", self.config.path.display(), view.name);
            why.extend(keeps(&view.name, &drain, view.connections, view.gauges.dirty_blocks.into()));
        }
        if why.is_empty() { Ok(()) } else { Err(format!("Nothing was changed: {}", why.join("; "))) }
    }

    fn add_steps(&self, vm: &serde_json::Map<String, Value>, save: bool) -> Result<Begun, String> {
        if let Some((key, _)) = vm.iter().find(|(_, value)| value.is_null()) {
            return Err(format!("Key '{key}' of the VM is null; leave it out for the usual value"));
        }
        let table: toml::Table =
            toml::Table::try_from(vm).map_err(|error| format!("The VM's keys: {error}"))?;
        let name = table.get("name").and_then(toml::Value::as_str).ok_or("The VM has no `name`")?.to_owned();
        let config = self.config.with_vm(&table).map_err(|error| error.to_string())?;
        let save =
            save.then(|| Config::load(&self.config.path).and_then(|file| file.with_vm(&table))).transpose();
        let save = save.map_err(|error| format!("Nothing was changed: {error}"))?;
        let answer = answer(&name, "added", save.is_some(), &self.config);
        Ok((vec![ChangeStep::Add { vm: name, config: Box::new(config) }], answer, save.map(Box::new)))
    }

    fn remove_steps(&self, vm: &str, disconnect: bool, save: bool) -> Result<Begun, String> {
        self.vm_of(vm)?;
        if self.config.vms.len() == 1 {
            return Err("The last VM cannot be removed; stop the service instead".to_owned());
        }
        if !disconnect {
            self.check_removals(&[vm.to_owned()])?;
        }
        let config = self.config.without(vm).map_err(|error| error.to_string())?;
        let load = || {
            let file = Config::load(&self.config.path)?;
            if file.has_vm(vm) { file.without(vm) } else { Ok(file) }
        };
        let save = save.then(load).transpose().map_err(|error| format!("Nothing was changed: {error}"))?;
        // One that was never written there is gone for good as well.
        let is_in_file = || Config::load(&self.config.path).is_ok_and(|file| file.has_vm(vm));
        let answer = answer(vm, "removed", save.is_some() || !is_in_file(), &self.config);
        let step = ChangeStep::Remove { vm: vm.to_owned(), disconnect, config: Box::new(config) };
        Ok((vec![step], answer, save.map(Box::new)))
    }

    fn rename_steps(&self, from: &str, to: &str) -> Result<Begun, String> {
        self.vm_of(from)?;
        if from == to {
            return Err(format!("VM {from} has that name already"));
        }
        if self.changes.half_renamed {
            return Err(
                "A VM got another name before, but not everywhere; restart the service first".to_owned()
            );
        }
        let config = self.config.renamed(from, to).map_err(|error| error.to_string())?;
        // The file has to say so as well before the SSD does.
        let unchanged = |error| format!("Nothing was changed: {error}");
        let file = Config::load(&self.config.path).map_err(unchanged)?;
        let is_in_file = file.has_vm(from);
        if is_in_file {
            file.renamed(from, to).map_err(unchanged)?;
        } else if file.has_vm(to) {
            return Err(format!(
                "Nothing was changed: {} has a VM '{to}', which is not served; reload first, or take another name",
                file.path.display()
            ));
        }
        let answer = answer(to, "renamed", is_in_file, &self.config);
        let step = ChangeStep::Rename { from: from.to_owned(), to: to.to_owned(), config: Box::new(config) };
        Ok((vec![step], answer, None))
    }

    /// Begins the next step, or ends the change when there is none.
    fn next_step(&mut self) {
        loop {
            let Some(change) = &mut self.changes.current else { return };
            let Some(step) = change.steps.front().cloned() else { return self.end_change(Ok(())) };
            match self.steer(|control| control.begin_step(step)) {
                Ok(true) => return,
                Ok(false) => self.step_done(),
                Err(why) => return self.end_change(Err(Failure::Unchanged(why))),
            }
        }
    }

    /// Carries a step out, or has a thread do so: then true.
    fn begin_step(&mut self, step: ChangeStep) -> Result<bool, String> {
        let work = match step {
            ChangeStep::CheckDisks { vms, config } => Work::CheckDisks(DiskCheck {
                vms,
                config,
                served: self.config.vms.iter().map(|vm| vm.backing.clone()).collect(),
            }),
            ChangeStep::Keys(config) => {
                self.take_over(*config)?;
                return Ok(false);
            }
            ChangeStep::Remove { vm, disconnect, .. } => self.remove_vm(&vm, disconnect)?,
            ChangeStep::Add { vm, config } => self.add_vm(&vm, *config)?,
            ChangeStep::Rename { from, to, .. } => self.rename_vm(&from, &to)?,
            ChangeStep::Release { vm, refuse_clients } => {
                let number = self.served.list[self.vm_of(&vm)?].number;
                Work::Release(ReleaseVm { vm, number, refuse_clients })
            }
            ChangeStep::Resume { vm } => {
                let number = self.served.list[self.vm_of(&vm)?].number;
                Work::Resume(ResumeVm { vm, number })
            }
            ChangeStep::Device(change) => {
                Work::Device(Box::new(ChangeDevice { change, config: self.config.clone() }))
            }
        };
        self.changes.run(&self.parts, work)?;
        Ok(true)
    }

    fn step_done(&mut self) {
        if let Some(change) = &mut self.changes.current
            && let Some(step) = change.steps.pop_front()
        {
            change.done.push(match step {
                // It changes nothing.
                ChangeStep::CheckDisks { .. } => return,
                ChangeStep::Remove { vm, .. } => format!("VM {vm} was removed"),
                ChangeStep::Keys(_) => "settings were applied".to_owned(),
                ChangeStep::Add { vm, .. } => format!("VM {vm} was added"),
                ChangeStep::Rename { from, to, .. } => format!("VM {from} was renamed to {to}"),
                ChangeStep::Release { vm, .. } => format!("VM {vm} was released"),
                ChangeStep::Resume { vm } => format!("VM {vm} was resumed"),
                ChangeStep::Device(_) => "an SSD of the pair was changed".to_owned(),
            });
        }
    }

    fn remove_vm(&mut self, vm: &str, disconnect: bool) -> Result<Work, String> {
        let served = &self.served.list[self.vm_of(vm)?];
        let state = crate::identity::StateFile::of(&self.config);
        let config = self.config.vms.iter().find(|config| config.name == vm);
        Ok(Work::Remove(Box::new(RemoveVm {
            vm: vm.to_owned(),
            config: config.cloned().ok_or("it is in no configuration")?,
            number: served.number,
            tag: served.tag,
            disconnect,
            state,
        })))
    }

    fn add_vm(&mut self, name: &str, mut config: Config) -> Result<Work, String> {
        config.sort_vms(self.config.vms.iter().map(|vm| vm.name.as_str()));
        let vm = config.vms.iter().find(|vm| vm.name == name).ok_or("It is not in the configuration")?;
        let (share, reach, more_frames) = self.sharing.newcomer(&self.config, &config, vm)?;
        self.listen_for(vm)?;
        Ok(Work::Add(Box::new(AddVm {
            vm: name.to_owned(),
            number: self.served.free_number(),
            share,
            reach,
            more_frames,
            config,
        })))
    }

    /// Opens the sockets that a VM brings, on which nobody finds it before it is served.
    fn listen_for(&mut self, vm: &VmConfig) -> Result<(), String> {
        for listen in &vm.listen {
            let is_open = |endpoint: &Endpoint| *endpoint.listener.address() == listen.address;
            if !self.endpoints.iter().any(is_open) {
                let opened = Listener::open(listen);
                let listener = match opened {
                    Ok(listener) => listener,
                    Err(error) => {
                        self.close_unused();
                        return Err(error.to_string());
                    }
                };
                self.endpoints.push(Endpoint { listener, vms: Vec::new(), exports: Vec::new() });
            }
        }
        Ok(())
    }

    /// Closes the sockets on which there is no VM. Handshakes under way know sockets and exports by their places.
    fn close_unused(&mut self) {
        self.handshakes.clear();
        self.endpoints.retain(|endpoint| !endpoint.vms.is_empty());
    }

    fn rename_vm(&mut self, from: &str, to: &str) -> Result<Work, String> {
        let served = &self.served.list[self.vm_of(from)?];
        let export = served.export.renamed(to).map_err(|error| error.to_string())?;
        Ok(Work::Rename(Box::new(RenameVm {
            from: from.to_owned(),
            to: to.to_owned(),
            number: served.number,
            tag: served.tag,
            export,
            is_in_file: Config::load(&self.config.path).map_err(|error| error.to_string())?.has_vm(from),
            config: self.config.clone(),
        })))
    }

    /// Takes over what came of a step, and begins the next.
    pub(crate) fn advance_change(&mut self) {
        let Some(end) = self.changes.next_end() else { return };
        let done = match end {
            Err(failure) => {
                self.close_unused();
                return self.end_change(Err(failure));
            }
            Ok(done) => done,
        };
        // It has happened, whatever becomes of who keeps the books.
        let noted = self.guard_steering(|control| {
            match done {
                Done::DisksChecked => {}
                Done::Removed { vm, has_left, warning } => control.vm_removed(&vm, has_left, warning),
                Done::Added(added) => control.vm_added(*added),
                Done::Renamed { from, to, warning } => control.vm_renamed(&from, &to, warning),
                Done::Released { vm, sidecar } => control.vm_released(&vm, sidecar),
                Done::Resumed { vm } => {
                    tracing::info!("VM {vm} was resumed");
                    control.events.note(EventKind::Setting, Some(&vm), "it was resumed");
                }
                Done::Device { view, config } => {
                    control.config = config.map_or_else(|| control.config.clone(), |config| *config);
                    if let Some(change) = &mut control.changes.current {
                        change.answer = json!(view);
                    }
                }
            }
            Ok(())
        });
        if let Err(defect) = noted {
            return self.end_change(Err(Failure::Partly(defect)));
        }
        self.step_done();
        self.next_step();
    }

    /// The configuration that holds when the step under way is done, in the order of the VMs.
    fn config_after(&self) -> Config {
        let step = self.changes.current.as_ref().and_then(|change| change.steps.front());
        let config = match step {
            Some(
                ChangeStep::Remove { config, .. }
                | ChangeStep::Add { config, .. }
                | ChangeStep::Rename { config, .. },
            ) => config,
            Some(ChangeStep::Keys(config)) => config,
            Some(
                ChangeStep::CheckDisks { .. }
                | ChangeStep::Release { .. }
                | ChangeStep::Resume { .. }
                | ChangeStep::Device(_),
            )
            | None => &self.config,
        };
        config.sorted_as(&self.config)
    }

    fn vm_removed(&mut self, vm: &str, has_left: bool, warning: Option<String>) {
        let Some(at) = self.config.vms.iter().position(|one| one.name == vm) else { return };
        let config = self.config_after();
        let served = self.served.list.remove(at);
        self.served.spent.extend((!has_left).then_some(served.number));
        for endpoint in &mut self.endpoints {
            if let Some(at) = endpoint.vms.iter().position(|&number| number == served.number) {
                endpoint.vms.remove(at);
                endpoint.exports.remove(at);
            }
        }
        self.close_unused();
        let less_frames = self.sharing.leave(at, &self.config, &config);
        self.parts.space.with_broker(|broker| broker.remove_frames(less_frames));
        self.config = config;
        self.update_room();
        tracing::info!("VM {vm} is served no more");
        self.events.note(EventKind::Setting, Some(vm), "it is served no more");
        self.warn(vm, warning);
    }

    /// Tells of what did not go as it should, also whoever asked.
    fn warn(&mut self, vm: &str, warning: Option<String>) {
        let Some(warning) = warning else { return };
        tracing::warn!("VM {vm}: {warning}");
        self.events.note(EventKind::Failure, Some(vm), warning.clone());
        if let Some(change) = &mut self.changes.current {
            change.answer["warning"] = warning.into();
        }
    }

    fn vm_added(&mut self, added: AddedVm) {
        let AddedVm { vm: served, started, engine, more_frames } = added;
        let config = self.config_after();
        let Some(vm) = config.vms.last().cloned() else { return };
        self.handshakes.clear();
        for endpoint in &mut self.endpoints {
            if vm.listen.iter().any(|listen| listen.address == *endpoint.listener.address()) {
                endpoint.vms.push(served.number);
                endpoint.exports.push(served.export.clone());
                tracing::info!("Serving {} on {}", vm.name, endpoint.listener.address());
            }
        }
        let number = served.number;
        self.served.list.push(served);
        let share = self.sharing.join(&config, started, engine, more_frames);
        self.config = config;
        self.update_room();
        // Frames and extents that were not free come as others give them up.
        let (answer, _) = std::sync::mpsc::sync_channel(1);
        self.host.tell(number, |volume| ToShard::Shares { shares: vec![(volume, share)], answer });
        self.events.note(EventKind::Setting, Some(&vm.name), "it is served from now on");
    }

    fn vm_released(&mut self, vm: &str, sidecar: Option<SidecarView>) {
        let generation = sidecar.as_ref().map(|sidecar| sidecar.generation);
        let text = match generation {
            Some(generation) => format!("its disk may be opened elsewhere (generation {generation})"),
            None => "its disk may be opened elsewhere".to_owned(),
        };
        tracing::info!("VM {vm}: {text}");
        self.events.note(EventKind::Setting, Some(vm), text);
        if let Some(change) = &mut self.changes.current {
            change.answer["generation"] = json!(generation);
            change.answer["sidecar"] = json!(sidecar.map(|sidecar| sidecar.path));
        }
    }

    fn vm_renamed(&mut self, from: &str, to: &str, warning: Option<String>) {
        let Some(at) = self.config.vms.iter().position(|one| one.name == from) else { return };
        let step = self.changes.current.as_ref().and_then(|change| change.steps.front());
        let Some(ChangeStep::Rename { config, .. }) = step else { return };
        let mut config = (**config).clone();
        let names = self.config.vms.iter().map(|vm| vm.name.as_str());
        config.sort_vms(names.map(|name| if name == from { to } else { name }));
        let served = &mut self.served.list[at];
        if let Ok(export) = served.export.renamed(to) {
            served.export = export;
        }
        let (number, export) = (served.number, served.export.clone());
        self.handshakes.clear();
        for endpoint in &mut self.endpoints {
            if let Some(at) = endpoint.vms.iter().position(|&one| one == number) {
                endpoint.exports[at] = export.clone();
            }
        }
        self.sharing.rename(at, to);
        self.config = config;
        tracing::info!("VM {from} is {to} from now on");
        self.events.note(EventKind::Setting, Some(to), format!("it is {to} from now on, and was {from}"));
        self.changes.half_renamed |= warning.is_some();
        self.warn(to, warning);
    }

    /// What shares find space for has changed with the VMs.
    pub(crate) fn update_room(&mut self) {
        let tags = self.served.tags();
        let places = self.parts.space.with_broker(|broker| {
            broker.directory().map_or(0, |directory| directory.places_in(directory.extents_for(&tags)))
        });
        self.sharing.set_room(&self.config, places, self.parts.extent_places.into());
    }

    fn end_change(&mut self, outcome: Result<(), Failure>) {
        let Some(mut change) = self.changes.current.take() else { return };
        let saved = match (&outcome, change.save.take()) {
            (Ok(()), Some(config)) => config.write().map_err(|error| error.to_string()),
            _ => Ok(()),
        };
        if let Err(why) = saved {
            change.answer["saved"] = false.into();
            change.answer["warning"] = why.into();
        }
        let outcome = outcome.map_err(|failure| match (failure, change.done.is_empty()) {
            (Failure::Unchanged(why), true) => format!("Nothing was changed: {why}"),
            (Failure::Partly(why), true) => format!("Done in part: {why}"),
            (Failure::Unchanged(why) | Failure::Partly(why), false) => {
                format!("Only so much was done: {}. Then: {why}", change.done.join(", "))
            }
        });
        match &outcome {
            Ok(()) if change.answer.get("changed").is_some() => self.tell_reload(&change.answer["changed"]),
            Ok(()) => {}
            Err(why) => tracing::warn!("{why}"),
        }
        let answered = reply(change.session.take(), outcome.map(|()| change.answer));
        if let Some(mut session) = answered {
            let now = Instant::now();
            session.begin_again(now);
            let _ = session.send(now);
            self.sessions.push(session);
        }
        while self.changes.current.is_none()
            && let Some((session, request)) = self.changes.waiting.pop_front()
        {
            if let Some(mut session) = self.ask_change(session, request) {
                let now = Instant::now();
                session.begin_again(now);
                let _ = session.send(now);
                self.sessions.push(session);
            }
        }
    }

    fn tell_reload(&self, changed: &Value) {
        let keys: Vec<&str> = changed.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if keys.is_empty() {
            return tracing::info!("Reloaded; changed: nothing");
        }
        let keys = keys.join(", ");
        tracing::info!("Reloaded; changed: {keys}");
        self.events.note(
            EventKind::Setting,
            None,
            format!("the configuration was read again; changed: {keys}"),
        );
    }
}

fn keys_that_change(before: &Config, after: &Config) -> Result<Vec<String>, String> {
    let changes = Changes::between(before, after).map_err(|fixed| {
        format!(
            "Nothing was changed: {} can only change with a restart. Undo that in {}, or restart the service, \
             which guests with a reconnect delay outlast",
            fixed.join(", "),
            after.path.display()
        )
    })?;
    Ok(changes.keys)
}

/// Steps, the answer at their end, and what is to be written to the configuration file then.
type Begun = (Vec<ChangeStep>, Value, Option<Box<Config>>);

fn device_steps(change: DeviceChange) -> Begun {
    (vec![ChangeStep::Device(change)], Value::Null, None)
}

/// Answers a session, if there is one.
fn reply(session: Option<Session>, answer: Result<Value, String>) -> Option<Session> {
    let mut session = session?;
    match answer {
        Ok(answer) => session.answer(&answer),
        Err(error) => session.answer(&Refusal::new(error)),
    }
    Some(session)
}
