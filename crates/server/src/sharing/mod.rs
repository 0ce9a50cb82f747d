//! The control loop: who has which share of what a host's VMs divide. Collects what VMs could use from the shards at an
//! interval, has [`HostSizer`] divide, and sends the shards their VMs' new shares, a step each second. It must not know how a
//! division is found, or how an engine changes its share.

mod newcomers;
mod tables;
mod told;
mod view;
mod write_budgets;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lode_policy::host::{HostOptions, HostSizer, VmRule};
use lode_policy::{OfSized, Quota};
use lode_types::{BlockSize, Level};

pub(crate) use self::tables::TableMemory;
pub(crate) use self::view::{HostView, LevelSharing, VmSharing};
use self::write_budgets::WriteBudgets;
pub(crate) use self::write_budgets::first_budget;

use crate::config::{Config, HostConfig, HostMode, Size, VmConfig, listed};
use crate::events::{EventKind, Events};
use crate::guard::guarded;
use crate::host::Host;
use crate::messages::{Measured, ReadCounts, ToShard};

/// What the loop does, for people.
const WHAT: &str = "the division of the host's levels between VMs";

/// From one step of moving shares to the next.
const STEP: Duration = Duration::from_secs(1);

/// What anybody may ask of the loop; the control thread alone changes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedView(Arc<Mutex<Option<view::Snapshot>>>);

/// See the module's documentation.
pub(crate) struct Sharing {
    host: HostConfig,
    block_bytes: u64,
    /// Where space goes from one VM to another while they are served: what there is, as blocks of shares.
    room: Option<Quota>,
    sizer: HostSizer,
    tables: TableMemory,
    write_budgets: WriteBudgets,
    vms: Vec<Vm>,
    events: Events,
    next_division: Instant,
    next_step: Instant,
    view: SharedView,
    /// Shares that the configuration names anew are on their way, where demands give only advice.
    is_given: bool,
    /// A defect of the program showed: shares stay as they are.
    stopped: bool,
}

/// What another configuration makes of shares.
struct Planned {
    sizer: HostSizer,
    /// What shares find space for under its schemes.
    room: Option<Quota>,
    /// How far shares reach under its schemes.
    reaches: Vec<Quota>,
    /// It names shares that are not those of now.
    gives: bool,
}

/// One VM as the loop knows it.
struct Vm {
    name: String,
    /// By which shards know it.
    number: usize,
    started: Started,
    /// The largest share that it can be given under its scheme.
    reach: Quota,
    /// What had been read when the present interval began.
    reads: ReadCounts,
    /// What was read in the last one; none before its end.
    last_reads: Option<ReadCounts>,
}

/// A VM as the loop gets to know it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Started {
    pub number: usize,
    pub share: Quota,
    /// None: all shares that it can be given are within the one that it begins with.
    pub largest_share: Option<Quota>,
    /// It has a volume on the cache SSD.
    pub has_volume: bool,
}

impl Sharing {
    /// The VMs are served with the shares that they begin with.
    pub(crate) fn new(
        config: &Config,
        block_bytes: u64,
        started: &[Started],
        room: Option<Quota>,
        tables: TableMemory,
        events: Events,
    ) -> Sharing {
        let now = Instant::now();
        let mut sharing = Sharing {
            host: config.host.clone(),
            block_bytes,
            room,
            sizer: HostSizer::new(Quota::default(), HostOptions::default()),
            tables,
            write_budgets: WriteBudgets::default(),
            vms: config.vms.iter().zip(started).map(|(vm, started)| Vm::new(&vm.name, *started)).collect(),
            events,
            next_division: now + config.host.interval,
            next_step: now + STEP,
            view: SharedView::default(),
            is_given: false,
            stopped: false,
        };
        sharing.take_rules(config);
        let shares: Vec<Quota> = started.iter().map(|started| started.share).collect();
        sharing.sizer.put_shares(&shares);
        sharing.publish();
        sharing
    }

    /// What anybody may ask of it from now on.
    pub(crate) fn view(&self) -> SharedView {
        self.view.clone()
    }

    /// When it wants to go on.
    pub(crate) fn due(&self) -> Option<Instant> {
        let division = (self.host.mode.measures() && !self.moves_given()).then_some(self.next_division);
        let step = self.moves().then_some(self.next_step);
        division.into_iter().chain(step).chain(self.write_budgets.due()).min().filter(|_| !self.stopped)
    }

    /// Whether shares are on their way to what they are to be. Where the loop only advises, those are that are named.
    fn moves(&self) -> bool {
        (self.host.mode != HostMode::Advise || self.is_given) && self.sizer.is_moving()
    }

    /// Whether named shares are on their way, for which advice has to wait.
    fn moves_given(&self) -> bool {
        self.is_given && self.sizer.is_moving()
    }

    /// Does what is due.
    pub(crate) fn advance(&mut self, host: &Host, now: Instant) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        // What was asked of a shard that is busy is asked again.
        if let Err(error) = self.guard(|sharing| sharing.go_on(host, now)) {
            tracing::warn!("Not done for now: {WHAT}. {error}");
        }
    }

    /// Ends the interval, and takes the first step. Says whether others have to follow.
    ///
    /// # Errors
    /// Why that is not done.
    pub(crate) fn divide_now(&mut self, host: &Host, now: Instant) -> Result<bool, String> {
        if !self.host.mode.measures() {
            return Err(format!(
                "Nothing is divided in mode \"{}\"; write mode = \"auto\" or \"advise\" under [host], and restart the service: \
                 schemes begin to measure when they are made",
                self.host.mode.name()
            ));
        }
        if self.stopped {
            return Err(format!(
                "A defect of the program ended {WHAT}; restart the service, which guests with a reconnect delay outlast"
            ));
        }
        (self.next_division, self.next_step) = (now, now);
        self.guard(|sharing| sharing.go_on(host, now))?;
        Ok(self.moves())
    }

    /// Does something that a defect of the program may end, and then the loop with it.
    fn guard(&mut self, work: impl FnOnce(&mut Sharing) -> Result<(), String>) -> Result<(), String> {
        let done = guarded(|| work(self));
        match done {
            Ok(done) => {
                self.publish();
                done
            }
            Err(defect) => Err(self.stop(&defect)),
        }
    }

    /// A defect of the program showed: shares stay as they are, and so do keys and VMs. Returns what to say of it.
    pub(crate) fn stop(&mut self, defect: &str) -> String {
        self.stopped = true;
        let text = format!(
            "a defect of the program ended {WHAT} and other changes; VMs are served on as they are: {defect}"
        );
        tracing::error!("{text}. Report what the log says above, and restart the service when it suits");
        self.events.note(EventKind::Failure, None, text.clone());
        self.view.mark_stopped();
        text
    }

    /// The next change finds no tables of its VMs, as only a defect can bring about.
    #[cfg(test)]
    pub(crate) fn bring_about_a_defect(&mut self) {
        self.vms.iter().for_each(|_| self.tables.leave(0, 0));
    }

    /// Whether nothing is changed any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    fn go_on(&mut self, host: &Host, now: Instant) -> Result<(), String> {
        self.is_given &= self.sizer.is_moving();
        if self.host.mode.measures() && now >= self.next_division && !self.is_given {
            // A shard that is busy is asked again soon.
            self.next_division = now + STEP;
            self.divide(host)?;
            self.next_division = now + self.host.interval;
        }
        if self.moves() && now >= self.next_step {
            self.next_step = now + STEP;
            self.step(host)?;
        }
        self.divide_writes(host, now)
    }

    /// Ends an interval.
    fn divide(&mut self, host: &Host) -> Result<(), String> {
        let mut measured = host.ask_volumes(|_, answer| ToShard::Measure(answer))?;
        let mut demands = Vec::with_capacity(self.vms.len());
        for vm in &mut self.vms {
            let Measured { demand, reads } = measured.remove(&vm.number).unwrap_or_default();
            vm.last_reads = Some(reads.since(vm.reads));
            vm.reads = reads;
            demands.push(demand);
        }
        let divisions = self.sizer.divide(demands);
        self.tell_interval(&divisions);
        Ok(())
    }

    /// Moves shares on: first what is given up, then what is free by then.
    fn step(&mut self, host: &Host) -> Result<(), String> {
        let most_blocks = (self.host.rate_bytes / self.block_bytes).clamp(1, u32::MAX.into()) as u32;
        let smaller = self.sizer.shrink(most_blocks);
        let held = self.send(host, &smaller)?;
        let mut denied = Vec::new();
        let larger = self.sizer.grow(&held, |vm, share| {
            let may_have = self.tables.take(vm, share);
            if !may_have {
                denied.push((vm, share));
            }
            may_have
        });
        if !larger.is_empty() {
            self.send(host, &larger)?;
        }
        for (vm, share) in denied {
            if self.tables.tell(vm) {
                let text = self.no_memory(vm, share);
                tracing::warn!("{text}");
                self.events.note(EventKind::Share, Some(&self.vms[vm].name), text);
            }
        }
        Ok(())
    }

    /// Sends shares to the shards; returns what every VM holds then.
    fn send(&self, host: &Host, shares: &[(usize, Quota)]) -> Result<Vec<Quota>, String> {
        self.tell_step(shares);
        let shards = host.shards.len();
        let mut held = host.ask_volumes(|shard, answer| {
            let numbered = shares.iter().map(|&(vm, share)| (&self.vms[vm], share));
            let of_shard = numbered.filter(|(vm, _)| vm.number % shards == shard);
            let of_shard = of_shard.map(|(vm, share)| {
                (vm.number / shards, share.with(Level::ReadSsd, vm.reach.read_ssd_blocks))
            });
            ToShard::Shares { shares: of_shard.collect(), answer }
        })?;
        Ok(self.vms.iter().map(|vm| held.remove(&vm.number).unwrap_or_default()).collect())
    }

    /// That another configuration can be taken over while VMs are served.
    ///
    /// # Errors
    /// Why not, with the arithmetic.
    pub(crate) fn check(&self, old: &Config, new: &Config) -> Result<(), String> {
        self.plan(old, new).map(drop)
    }

    /// Shares as another configuration has them.
    fn plan(&self, old: &Config, new: &Config) -> Result<Planned, String> {
        let mut reaches: Vec<Quota> = self.vms.iter().map(|vm| vm.reach).collect();
        for ((reach, vm), (before, after)) in
            reaches.iter_mut().zip(&self.vms).zip(old.vms.iter().zip(&new.vms))
        {
            if before.settings.scheme() != after.settings.scheme() {
                *reach = vm.reach_under(after, new, self.block_bytes)?;
            }
        }
        let room = self.room_under(new, &reaches);
        self.check_room(old, new, room)?;
        let mut sizer = self.sizer.clone();
        sizer.set_capacity(self.capacity(new, &reaches, room));
        let gives = self.give(&mut sizer, &reaches, old, new)?;
        Ok(Planned { sizer, room, reaches, gives })
    }

    /// That a VM can go on with the settings that another configuration has for its scheme, with so many dirty blocks.
    ///
    /// # Errors
    /// When there is no memory for it, with the arithmetic.
    pub(crate) fn check_switch(&self, at: usize, new: &Config, dirty_blocks: u64) -> Result<(), String> {
        let vm = &new.vms[at];
        let reach = self.vms[at].reach_under(vm, new, self.block_bytes)?;
        let frames = self.frames_with(new, |other| if other == at { Some(reach) } else { None }).frames;
        let beside_bytes = frames.saturating_sub(self.frames(new, None)) * self.block_bytes;
        let missing = self.tables.missing_for_switch(at, &vm.settings, reach, dirty_blocks, beside_bytes);
        if missing == 0 {
            return Ok(());
        }
        let [limit, taken, missing] = [self.tables.limit_bytes(), self.tables.bytes(), missing].map(Size);
        Err(format!(
            "VM {} cannot switch to scheme {} while it is served: of {limit} of memory for tables {taken} are taken, and for \
             the time of the switch, with {dirty_blocks} dirty blocks, {missing} is missing; `lode drain` first, or write it to \
             the configuration file and restart the service",
            vm.name,
            vm.settings.scheme()
        ))
    }

    /// Takes over another configuration that was checked. Returns the frames that the host had, and that it has then.
    pub(crate) fn adopt(&mut self, old: &Config, new: &Config) -> Result<[u64; 2], String> {
        // A host of another size counts from the next start.
        let before = self.frames(new, None);
        let Planned { mut sizer, room, reaches, gives } = self.plan(old, new)?;
        for (at, (before, after)) in old.vms.iter().zip(&new.vms).enumerate() {
            if before.settings.scheme() != after.settings.scheme() && !after.settings.measures_demand() {
                sizer.forget_demand(at);
            }
        }
        (self.sizer, self.room) = (sizer, room);
        self.is_given = new.host.mode == HostMode::Advise && (gives || self.is_given);
        for (at, reach) in reaches.into_iter().enumerate() {
            self.vms[at].reach = reach;
            self.tables.set_scheme(at, &new.vms[at].settings, reach);
        }
        let after = self.frames(new, None);
        self.tables.change_beside(before * self.block_bytes, after * self.block_bytes);
        if self.host.interval != new.host.interval {
            self.next_division = Instant::now() + new.host.interval;
        }
        self.host = new.host.clone();
        self.take_rules(new);
        if self.host.mode.measures() && !self.is_given {
            // What a VM is guaranteed from now on is not for the end of the interval.
            for division in self.sizer.divide_again() {
                self.tell(&division);
            }
        }
        self.publish();
        Ok([before, after])
    }

    /// Gives VMs the shares that are named anew: what becomes smaller first, whose space others may take. Says whether there are
    /// any.
    fn give(
        &self,
        sizer: &mut HostSizer,
        reaches: &[Quota],
        old: &Config,
        new: &Config,
    ) -> Result<bool, String> {
        if new.host.mode == HostMode::Auto {
            return Ok(false);
        }
        let mut changed: Vec<(usize, Quota, Quota)> = Vec::new();
        for (at, (before, after)) in old.vms.iter().zip(&new.vms).enumerate() {
            // Shares without a name follow from weights when the service starts.
            let named = |level: Level| new.host.mode == HostMode::Fixed || after.bounds.is_named(level);
            let [before, after] = [before, after].map(|vm| share(vm, self.block_bytes));
            // Of a level that its scheme does not use it has nothing.
            let uses = |level: &Level| new.vms[at].scheme().levels.contains(level);
            let after = before.map(|level, blocks| match named(level) || !uses(&level) {
                true => after.of(level),
                false => blocks,
            });
            if before != after {
                changed.push((at, before, after));
            }
        }
        let gives = !changed.is_empty();
        if new.host.mode == HostMode::Advise && (gives || old.host.mode == HostMode::Auto) {
            // What was to be by demand is not to be any more.
            sizer.hold();
        }
        for (at, before, after) in &changed {
            let smaller = before.map(|level, blocks| blocks.min(after.of(level)));
            sizer.set_target(*at, smaller).map_err(|level| self.no_room(sizer, new, *at, level))?;
        }
        for (at, _, after) in changed {
            let vm = &self.vms[at];
            for level in Level::SIZED {
                if after.of(level) > reaches[at].of(level) {
                    return Err(self.beyond_reach(vm, level, after.of(level), reaches[at].of(level)));
                }
            }
            if self.tables.missing_bytes(at, after) > 0 {
                return Err(self.no_memory(at, after));
            }
            sizer.set_target(at, after).map_err(|level| self.no_room(sizer, new, at, level))?;
        }
        Ok(gives)
    }

    fn beyond_reach(&self, vm: &Vm, level: Level, blocks: u32, reach_blocks: u32) -> String {
        let [wanted, reach] = [blocks, reach_blocks].map(|blocks| self.size(blocks));
        let (name, key) = (&vm.name, level.name());
        // One without a volume on the SSD has no room for a share there.
        let max = if level == Level::Dram || reach_blocks > 0 {
            format!(" A `max` of {key} in the configuration lets it grow up to that without a restart.")
        } else {
            String::new()
        };
        format!(
            "VM {name} cannot have {wanted} of {key}: it was started with room for {reach}. Write the share to the configuration \
             file, and restart the service, which guests with a reconnect delay outlast.{max}"
        )
    }

    fn no_memory(&self, at: usize, share: Quota) -> String {
        let [limit, taken, missing] =
            [self.tables.limit_bytes(), self.tables.bytes(), self.tables.missing_bytes(at, share)].map(Size);
        format!(
            "VM {} cannot have {} of DRAM and {} of the SSD: the host has {limit} of memory for tables beside DRAM levels, and the \
             largest shares that VMs have had since the start took {taken} of it, so that {missing} is missing. A restart gives \
             back what is not used any more; `lode serve --check` says what each VM takes",
            self.vms[at].name,
            self.size(share.dram_blocks),
            self.size(share.ssd_blocks),
        )
    }

    fn no_room(&self, sizer: &HostSizer, new: &Config, at: usize, level: Level) -> String {
        let others: Vec<(&str, u64)> = self
            .vms
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .map(|(other, vm)| {
                (vm.name.as_str(), u64::from(self.sizer.view(other, level).target) * self.block_bytes)
            })
            .collect();
        let sum: u64 = others.iter().map(|(_, bytes)| bytes).sum();
        let all = u64::from(sizer.capacity().of(level)) * self.block_bytes;
        let vm = &new.vms[at];
        format!(
            "VM {} cannot have {} of {}: the host has {}, and other VMs have {} of it ({}), which leaves {}",
            vm.name,
            Size(vm.share_bytes(level)),
            level.name(),
            Size(all),
            Size(sum),
            listed(others),
            Size(all.saturating_sub(sum)),
        )
    }

    fn size(&self, blocks: u32) -> Size {
        Size(u64::from(blocks) * self.block_bytes)
    }

    /// What VMs divide, of what there is room for.
    fn capacity(&self, config: &Config, reaches: &[Quota], room: Option<Quota>) -> Quota {
        let capacity = capacity(config, self.block_bytes, reaches);
        let room = room.unwrap_or(capacity);
        capacity.map(|level, blocks| match Level::SIZED.contains(&level) {
            true => blocks.min(room.of(level)),
            false => blocks,
        })
    }

    /// What VMs may have, and how the host divides.
    fn take_rules(&mut self, config: &Config) {
        let reaches: Vec<Quota> = self.vms.iter().map(|vm| vm.reach).collect();
        self.sizer.set_capacity(self.capacity(config, &reaches, self.room));
        let block = BlockSize::new(self.block_bytes).expect("volumes have blocks of this size");
        self.sizer.set_options(config.host.options(block));
        let rules =
            config.vms.iter().zip(&self.vms).map(|(vm, known)| rule(vm, known, config, self.block_bytes));
        self.sizer.set_vms(rules.collect());
        self.write_budgets.change(config);
    }
}

fn share(vm: &VmConfig, block_bytes: u64) -> Quota {
    Quota::new(blocks(vm.dram_bytes, block_bytes), blocks(vm.ssd_bytes, block_bytes))
}

fn blocks(bytes: u64, block_bytes: u64) -> u32 {
    u32::try_from(bytes / block_bytes).unwrap_or(u32::MAX)
}

/// What VMs divide. Where a level has no size, what their shares add up to; where nothing divides it, what they could have
/// together as they are served.
fn capacity(config: &Config, block_bytes: u64, reaches: &[Quota]) -> Quota {
    Level::SIZED.into_iter().fold(Quota::default(), |capacity, level| {
        let reach = || reaches.iter().map(|reach| u64::from(reach.of(level)) * block_bytes).sum();
        let bytes = match config.host.bytes.get(level) {
            Some(&bytes) => bytes,
            None if config.host.mode.measures() => config.level_bytes(level),
            None => reach(),
        };
        capacity.with(level, blocks(bytes, block_bytes))
    })
}

fn rule(vm: &VmConfig, known: &Vm, config: &Config, block_bytes: u64) -> VmRule {
    let scheme = vm.scheme();
    let mut rule = VmRule {
        name: vm.name.clone(),
        weight: vm.bounds.weight,
        least: Quota::default(),
        most: Quota::default(),
        reach: known.reach,
        named: OfSized::default(),
    };
    for level in Level::SIZED.into_iter().filter(|level| scheme.levels.contains(level)) {
        let least = blocks(vm.bounds.least_bytes(level), block_bytes).max(scheme.least_blocks(level));
        rule.least = rule.least.with(level, least);
        rule.most = rule.most.with(level, blocks(vm.bounds.most_bytes(level, &config.host), block_bytes));
        let share = || blocks(vm.share_bytes(level), block_bytes);
        let named = vm.bounds.is_named(level).then(share);
        rule.named.of_mut(level).into_iter().for_each(|of_level| *of_level = named);
    }
    rule
}

impl Vm {
    fn new(name: &str, started: Started) -> Vm {
        Vm {
            name: name.to_owned(),
            number: started.number,
            started,
            reach: started.largest_share.unwrap_or(started.share),
            reads: ReadCounts::default(),
            last_reads: None,
        }
    }

    /// The largest share that it can be given under the scheme of another configuration: no less than before of what both use.
    ///
    /// # Errors
    /// When that needs a volume on the SSD and there is none.
    fn reach_under(&self, vm: &VmConfig, new: &Config, block_bytes: u64) -> Result<Quota, String> {
        let levels = vm.scheme().levels;
        if !self.started.has_volume && vm.ssd_bytes > 0 {
            return Err(format!(
                "VM {} has no volume on the cache SSD, which scheme {} needs; write the scheme to the configuration file, and \
                 restart the service, which guests with a reconnect delay outlast",
                self.name,
                vm.settings.scheme()
            ));
        }
        let most = match self.started.largest_share {
            None => self.started.share,
            Some(_) => Level::SIZED.into_iter().fold(self.started.share, |most, level| match level {
                Level::Ssd if !self.started.has_volume => most.with(level, 0),
                _ => most
                    .with(level, blocks(new.reach_bytes(vm, level), block_bytes).max(self.reach.of(level))),
            }),
        };
        Ok(most.map(|level, blocks| if levels.contains(&level) { blocks } else { 0 }))
    }
}

impl SharedView {
    fn put(&self, snapshot: view::Snapshot) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
    }

    /// Nothing else of it may be read any more.
    fn mark_stopped(&self) {
        if let Some(snapshot) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            snapshot.mark_stopped();
        }
    }

    fn get(&self) -> Option<view::Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
