//! Dividing two levels between the VMs of a [`Load`], and what that gives (ETICA, section 4.3: each level by its own
//! policy-optimised curve). DRAM is divided first, and then the SSD behind it. It must not know how curves are measured, nor how results are shown.

use lode_hardware::ServiceTimes;
use lode_replay::access_times;
use lode_reuse::sizing::{
    Division, Hull, Method, Objective, Solver, Split, VmDemand, WriteBuffer, divide_by,
};
use lode_reuse::{Curve, CurvePoint, ReuseError};
use lode_types::{Level, show_size};

use crate::error::PlanError;
use crate::levels::LevelBytes;
use crate::load::{Load, SsdKeeps, VmLoad};

/// What a VM may have of the levels, whatever its curve says.
#[derive(Clone, Debug, PartialEq)]
pub struct VmRule {
    /// The VM's name, with or without that of its trace; a `*` at the end stands for anything.
    pub name: String,
    /// How much it counts; 1 unless set otherwise.
    pub weight: Option<f64>,
    /// Least and most bytes of host memory.
    pub dram_bytes: (Option<u64>, Option<u64>),
    /// Least and most bytes of SSD.
    pub ssd_bytes: (Option<u64>, Option<u64>),
}

impl VmRule {
    /// Whether a VM of this name is meant.
    pub fn is_for(&self, name: &str) -> bool {
        // Of several traces, the trace's name stands before the volume's own.
        let own = name.split_once(':').map_or(name, |(_, own)| own);
        match self.name.strip_suffix('*') {
            Some(start) => name.starts_with(start) || own.starts_with(start),
            None => self.name == name || self.name == own,
        }
    }

    /// Changes what a VM asks of a level to what it may have.
    pub fn limit(&self, demand: &mut VmDemand, level: Level, block_bytes: u64) {
        let (least, most) = if level == Level::Dram { self.dram_bytes } else { self.ssd_bytes };
        demand.weight = self.weight.unwrap_or(demand.weight);
        demand.min_blocks = least.map_or(demand.min_blocks, |bytes| bytes.div_ceil(block_bytes));
        demand.max_blocks = most.map_or(demand.max_blocks, |bytes| bytes / block_bytes);
    }
}

/// How to divide.
#[derive(Clone, Debug)]
pub struct SizeOptions {
    /// What a division maximises.
    pub objective: Objective,
    /// How the best one is looked for.
    pub solver: Solver,
    /// What single VMs may have; of several rules for a VM the last one counts, setting by setting.
    pub rules: Vec<VmRule>,
    /// The device model.
    pub times: ServiceTimes,
    /// Shares are whole multiples of this many bytes. Only where the rules, or what the objective guarantees, cannot be kept
    /// that way are shares of the level in blocks: no share is above its largest size, or below what the VM is guaranteed.
    pub granule_bytes: u64,
}

/// What VMs would see on the model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Blocks read.
    pub reads: u64,
    /// Blocks written.
    pub writes: u64,
    /// Reads that host memory serves.
    pub dram_hits: u64,
    /// Reads that the SSD serves.
    pub ssd_hits: u64,
    /// Blocks written to the SSD, if every write of a VM with a share of it goes there, and every block that a read of such a VM
    /// misses, where the SSD keeps what is read.
    pub ssd_writes: u64,
    /// The same in a second, each VM's over the span of its own trace; 0 where times are not known.
    pub ssd_writes_per_s: f64,
    /// Time of all accesses together, in nanoseconds; every access to the disk counts as a random one.
    pub latency_ns: u128,
}

impl Outcome {
    /// Share of the reads that either level serves; `None` without reads.
    pub fn read_hit_ratio(&self) -> Option<f64> {
        (self.reads > 0).then(|| (self.dram_hits + self.ssd_hits) as f64 / self.reads as f64)
    }

    /// Mean time of a block access, in microseconds; `None` without accesses.
    pub fn mean_latency_us(&self) -> Option<f64> {
        let accesses = self.reads + self.writes;
        (accesses > 0).then(|| self.latency_ns as f64 / accesses as f64 / 1000.0)
    }

    pub(crate) fn add(&mut self, other: &Outcome) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.dram_hits += other.dram_hits;
        self.ssd_hits += other.ssd_hits;
        self.ssd_writes += other.ssd_writes;
        self.ssd_writes_per_s += other.ssd_writes_per_s;
        self.latency_ns += other.latency_ns;
    }
}

/// One VM's part of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct VmPlan {
    /// Its name.
    pub name: String,
    /// Blocks beyond which it gains nothing, as far as its rules allow them, by level.
    pub demand_blocks: [u64; 2],
    /// Blocks that it gets, by level.
    pub share_blocks: [u64; 2],
    /// How its caches are cut in two, by level; with the solver that does so.
    pub splits: Option<[Split; 2]>,
    /// What it would see with them.
    pub outcome: Outcome,
}

/// How one level was divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelPlan {
    /// Blocks that there are.
    pub capacity_blocks: u64,
    /// Blocks that all VMs together could use, within their rules.
    pub demand_blocks: u64,
    /// Blocks that were given away.
    pub given_blocks: u64,
    /// How the division was found.
    pub method: Method,
}

/// A division of both levels.
#[derive(Clone, Debug, PartialEq)]
pub struct SizePlan {
    /// The levels.
    pub levels: LevelBytes,
    /// Host memory and SSD, by [`Level::index`].
    pub of_level: [LevelPlan; 2],
    /// Each VM, in order of appearance.
    pub vms: Vec<VmPlan>,
    /// All VMs together.
    pub total: Outcome,
}

/// Divides `levels` between the VMs.
///
/// # Errors
/// [`PlanError::Request`] for a rule that names no VM, where limits contradict each other or the levels, and for a
/// solver or objective that is not usable.
pub fn size(load: &Load, levels: LevelBytes, options: &SizeOptions) -> Result<SizePlan, PlanError> {
    check_rules(load, options)?;
    // A level that is not there gives no VM what the objective promises; what rules promise cannot be kept.
    let without = SizeOptions { objective: Objective::SumHitRatio, ..options.clone() };
    let divide = |what: Dividing<'_>| {
        let bytes = levels.of(what.level());
        ToDivide::new(load, what, if bytes == 0 { &without } else { options }, true).divide(bytes)
    };
    let dram = divide(Dividing::Dram)?;
    let ssd = divide(Dividing::Ssd { behind: &dram.1.sizes })?;
    Ok(plan_of(load, levels, [dram, ssd], options))
}

/// That every rule names a VM.
pub(crate) fn check_rules(load: &Load, options: &SizeOptions) -> Result<(), PlanError> {
    match options.rules.iter().find(|rule| !load.vms.iter().any(|vm| rule.is_for(&vm.facts.name))) {
        Some(rule) => Err(PlanError::Request(format!(
            "No VM of these traces is called {}; `lode trace info` lists the volumes",
            rule.name
        ))),
        None => Ok(()),
    }
}

/// The plan that two divisions make.
pub(crate) fn plan_of(
    load: &Load,
    levels: LevelBytes,
    divisions: [(LevelPlan, Division); 2],
    options: &SizeOptions,
) -> SizePlan {
    let mut total = Outcome::default();
    let mut vms = Vec::with_capacity(load.vms.len());
    for (at, vm) in load.vms.iter().enumerate() {
        let share_blocks = divisions.each_ref().map(|(_, division)| division.sizes[at]);
        let outcome = outcome_of_shares(vm, share_blocks, options);
        total.add(&outcome);
        let demand_blocks = Level::SIZED
            .map(|level| usable(&demand_of(vm, (level, share_blocks[0]), options, load.block_bytes)));
        let splits = hulls(vm, options.solver).map(|hulls| splits(&hulls, share_blocks));
        vms.push(VmPlan { name: vm.facts.name.clone(), demand_blocks, share_blocks, splits, outcome });
    }
    SizePlan { levels, of_level: divisions.map(|(plan, _)| plan), vms, total }
}

/// What one VM would see without any cache.
pub(crate) fn outcome_without_cache(vm: &VmLoad, times: &ServiceTimes) -> Outcome {
    outcome(vm, (0, 0), false, times)
}

/// What one VM would see with shares of so many blocks, by level.
pub(crate) fn outcome_of_shares(vm: &VmLoad, share_blocks: [u64; 2], options: &SizeOptions) -> Outcome {
    let hits = hits_of_shares(vm, share_blocks, hulls(vm, options.solver).as_ref());
    outcome(vm, hits, share_blocks[Level::Ssd.index()] > 0, &options.times)
}

/// Reads of one VM that host memory serves, and those that the SSD serves beyond them; with `hulls`, of caches that are
/// cut in two.
pub(crate) fn hits_of_shares(vm: &VmLoad, share_blocks: [u64; 2], hulls: Option<&[Hull; 2]>) -> (u64, u64) {
    let Some(hulls) = hulls else { return vm.hits(share_blocks) };
    // The parts of the two levels' streams are chosen independently.
    let [dram, ssd] = splits(hulls, share_blocks);
    let mixed = |hits: fn((u64, u64)) -> u64| {
        dram.mix(|dram_blocks| ssd.mix(|ssd_blocks| hits(vm.hits([dram_blocks, ssd_blocks])) as f64))
    };
    (mixed(|hits| hits.0).round() as u64, mixed(|hits| hits.1).round() as u64)
}

/// What the VM's caches are cut by, by level, with the solver that cuts. Levels are cut independently, so that they are those of an
/// SSD that keeps what is written; see [`ssd_keeps`].
pub(crate) fn hulls(vm: &VmLoad, solver: Solver) -> Option<[Hull; 2]> {
    (solver == Solver::Talus).then(|| Level::SIZED.map(|level| Hull::new(vm.curve(level, 0).points())))
}

/// What the SSD of a scheme's plan is taken to keep, where the scheme's own keeps `own`.
pub(crate) fn ssd_keeps(own: SsdKeeps, solver: Solver) -> SsdKeeps {
    if solver == Solver::Talus { SsdKeeps::Written } else { own }
}

fn splits(hulls: &[Hull; 2], share_blocks: [u64; 2]) -> [Split; 2] {
    Level::SIZED.map(|level| hulls[level.index()].split(share_blocks[level.index()]))
}

/// What a VM sees with so many hits of host memory and of the SSD.
pub(crate) fn outcome(
    vm: &VmLoad,
    (dram_hits, ssd_hits): (u64, u64),
    has_ssd: bool,
    times: &ServiceTimes,
) -> Outcome {
    let (reads, writes) = (vm.profile.reads(), vm.profile.writes());
    let misses = reads.saturating_sub(dram_hits + ssd_hits);
    let write_ns = if has_ssd { times.ssd_write_ns } else { times.backing.random_write.ns };
    let ssd_writes = match (has_ssd, vm.ssd_keeps()) {
        (false, _) => 0,
        (true, SsdKeeps::Written) => writes,
        // What was read from the disk may go there once it leaves DRAM.
        (true, SsdKeeps::Accessed) => writes + misses,
    };
    let time = |count: u64, each_ns: u64| u128::from(count) * u128::from(each_ns);
    Outcome {
        reads,
        writes,
        dram_hits,
        ssd_hits,
        ssd_writes,
        ssd_writes_per_s: vm.per_s(ssd_writes),
        latency_ns: time(dram_hits, times.dram_ns)
            + time(ssd_hits, times.ssd_read_ns)
            + time(misses, times.backing.random_read.ns)
            + time(writes, write_ns),
    }
}

/// A level that is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dividing<'a> {
    /// DRAM.
    Dram,
    /// An SSD behind the VMs' shares of DRAM.
    Ssd { behind: &'a [u64] },
}

impl Dividing<'_> {
    pub(crate) fn level(self) -> Level {
        match self {
            Dividing::Dram => Level::Dram,
            Dividing::Ssd { .. } => Level::Ssd,
        }
    }
}

/// A level that is to be divided, and what each VM asks of it, which does not depend on how large it is.
pub(crate) struct ToDivide<'a> {
    load: &'a Load,
    what: Dividing<'a>,
    options: &'a SizeOptions,
    demands: Vec<VmDemand>,
    gives_all: bool,
}

impl<'a> ToDivide<'a> {
    /// `gives_all`: what hits leave of the level is there anyway, and `auto` may have it.
    pub(crate) fn new(
        load: &'a Load,
        what: Dividing<'a>,
        options: &'a SizeOptions,
        gives_all: bool,
    ) -> ToDivide<'a> {
        let demand = |(at, vm): (usize, &VmLoad)| {
            let dram_blocks = match what {
                Dividing::Dram => 0,
                Dividing::Ssd { behind } => behind.get(at).copied().unwrap_or(0),
            };
            demand_of(vm, (what.level(), dram_blocks), options, load.block_bytes)
        };
        let demands = load.vms.iter().enumerate().map(demand).collect();
        let gives_all = gives_all && load.ssd_keeps() == SsdKeeps::Accessed;
        ToDivide { load, what, options, demands, gives_all }
    }

    /// A division of so many bytes.
    pub(crate) fn divide(&self, bytes: u64) -> Result<(LevelPlan, Division), PlanError> {
        self.try_to_divide(bytes).map_err(|error| in_words(error, self.load, self.what.level()))
    }

    /// The same, with an error that can be told from others: some look for sizes at which a division is possible.
    pub(crate) fn try_to_divide(&self, bytes: u64) -> Result<(LevelPlan, Division), ReuseError> {
        let ToDivide { load, what, options, ref demands, gives_all } = *self;
        let capacity_blocks = bytes / load.block_bytes;
        let granule = granule_blocks(load.block_bytes, options);
        let demand_blocks = demands.iter().map(usable).sum();
        let division = divide_demands(demands, capacity_blocks, granule, options)?;
        let mut rest = Rest::of(division.sizes, demands, capacity_blocks, granule);
        match what {
            Dividing::Ssd { .. } => rest.give_for_writes(load),
            Dividing::Dram if gives_all => rest.give_before_ssd(load),
            Dividing::Dram => {}
        }
        if gives_all {
            rest.give_for_all(load, what.level());
        }
        let division = Division { sizes: rest.sizes, ..division };
        let given_blocks = division.sizes.iter().sum();
        let plan = LevelPlan { capacity_blocks, demand_blocks, given_blocks, method: division.method };
        Ok((plan, division))
    }
}

/// Divides so many blocks of one SSD level, that there is alone, by the VMs' curves of it.
pub(crate) fn divide_one_level(
    load: &Load,
    capacity_blocks: u64,
    options: &SizeOptions,
) -> Result<Vec<u64>, ReuseError> {
    let granule = granule_blocks(load.block_bytes, options);
    let demand = |vm: &VmLoad| demand_by(vm.one_level_curve(), vm, Level::Ssd, options, load.block_bytes);
    let demands: Vec<VmDemand> = load.vms.iter().map(demand).collect();
    let division = divide_demands(&demands, capacity_blocks, granule, options)?;
    let mut rest = Rest::of(division.sizes, &demands, capacity_blocks, granule);
    rest.give_for_writes(load);
    Ok(rest.sizes)
}

/// Divides in granules where that can be, else in blocks.
fn divide_demands(
    demands: &[VmDemand],
    capacity_blocks: u64,
    granule: u64,
    options: &SizeOptions,
) -> Result<Division, ReuseError> {
    let objective = options.objective;
    let coarse: Vec<VmDemand> = demands.iter().map(|demand| in_granules(demand, granule)).collect();
    let coarse_objective = match objective {
        Objective::PpcLiteral { min_blocks } => {
            Objective::PpcLiteral { min_blocks: min_blocks.div_ceil(granule) }
        }
        other => other,
    };
    match divide_by(options.solver, &coarse, capacity_blocks / granule, coarse_objective) {
        Ok(division) => Ok(in_blocks(division, demands, granule, objective)),
        // What VMs are guaranteed and limited to, or the level, leaves no space for whole granules.
        Err(ReuseError::GuaranteesDoNotFit { .. } | ReuseError::InvalidDemand { .. }) => {
            divide_by(options.solver, demands, capacity_blocks, objective)
        }
        Err(error) => Err(error),
    }
}

/// What hits leave of a level, to be given in whole granules.
struct Rest<'a> {
    demands: &'a [VmDemand],
    granule: u64,
    sizes: Vec<u64>,
    left: u64,
}

impl<'a> Rest<'a> {
    fn of(sizes: Vec<u64>, demands: &'a [VmDemand], capacity_blocks: u64, granule: u64) -> Rest<'a> {
        let left = capacity_blocks.saturating_sub(sizes.iter().sum());
        Rest { demands, granule, sizes, left }
    }

    /// Gives each VM as much as it has to have so many blocks in all, as its rules allow; whoever they are worth most for comes first.
    fn give(&mut self, load: &Load, wanted: impl Fn(&VmLoad) -> u64, worth: impl Fn(&VmLoad, u64) -> f64) {
        let worth: Vec<f64> =
            load.vms.iter().zip(&self.sizes).map(|(vm, &blocks)| worth(vm, blocks)).collect();
        let mut order: Vec<usize> = (0..worth.len()).collect();
        order.sort_by(|&a, &b| worth[b].total_cmp(&worth[a]));
        for vm in order {
            let whole = wanted(&load.vms[vm]).div_ceil(self.granule).saturating_mul(self.granule);
            let more = whole.min(self.demands[vm].max_blocks).saturating_sub(self.sizes[vm]);
            let more = more.min(self.left) / self.granule * self.granule;
            self.sizes[vm] += more;
            self.left -= more;
        }
    }

    /// To the VMs that write, as far as all that they write: what fits there is not turned away, nor written back for space. Whoever
    /// writes most for each block comes first.
    fn give_for_writes(&mut self, load: &Load) {
        let written = |vm: &VmLoad| vm.profile.written_blocks().min(vm.profile.writes());
        let per_block =
            |vm: &VmLoad, _| vm.profile.writes() as f64 / vm.profile.written_blocks().max(1) as f64;
        self.give(load, written, per_block);
    }

    /// Of DRAM, to the VMs that could use more blocks of both levels together: what their DRAM holds, the SSD behind it need not.
    /// Whoever misses most for each such block comes first.
    fn give_before_ssd(&mut self, load: &Load) {
        let needed = |vm: &VmLoad| vm.one_level_curve().blocks_needed();
        let misses_per_block = |vm: &VmLoad, blocks: u64| {
            let all = vm.one_level_curve().hits_at(u64::MAX);
            let more = needed(vm).saturating_sub(blocks).max(1);
            all.saturating_sub(vm.hits([blocks, 0]).0) as f64 / more as f64
        };
        self.give(load, needed, misses_per_block);
    }

    /// As far as all that is accessed, of DRAM all that is read: what is not LRU has a use for more than its curves say, until all of it fits. Whoever accesses
    /// most for each block comes first.
    fn give_for_all(&mut self, load: &Load, level: Level) {
        let accessed = |vm: &VmLoad| match level {
            Level::Dram => (vm.profile.reads(), vm.profile.read_blocks().min(vm.profile.reads())),
            _ => (vm.profile.reads() + vm.profile.writes(), vm.accessed_blocks()),
        };
        let per_block = |vm: &VmLoad, _| {
            let (accesses, blocks) = accessed(vm);
            accesses as f64 / blocks.max(1) as f64
        };
        self.give(load, |vm| accessed(vm).1, per_block);
    }
}

/// The demand in granules: of each size the hits that whole granules have, and limits that whole granules keep.
fn in_granules(demand: &VmDemand, granule: u64) -> VmDemand {
    let mut curve: Vec<CurvePoint> = Vec::with_capacity(demand.curve.len());
    for point in &demand.curve {
        let point = CurvePoint { size_blocks: point.size_blocks.div_ceil(granule), hits: point.hits };
        match curve.last_mut() {
            Some(last) if last.size_blocks == point.size_blocks => *last = point,
            _ => curve.push(point),
        }
    }
    let in_granules = |buffer: WriteBuffer| WriteBuffer { blocks: buffer.blocks.div_ceil(granule), ..buffer };
    VmDemand {
        curve,
        accesses: demand.accesses,
        demand_blocks: demand.demand_blocks.div_ceil(granule),
        weight: demand.weight,
        min_blocks: demand.min_blocks.div_ceil(granule),
        max_blocks: demand.max_blocks / granule,
        write_buffer: demand.write_buffer.map(in_granules),
    }
}

/// A division of granules as one of blocks.
fn in_blocks(division: Division, demands: &[VmDemand], granule: u64, objective: Objective) -> Division {
    let sizes: Vec<u64> = division.sizes.iter().map(|granules| granules.saturating_mul(granule)).collect();
    // Of caches that are cut in two, it is the same whatever sizes are counted in.
    let value =
        if division.method == Method::Talus { division.value } else { objective.value(demands, &sizes) };
    Division { sizes, value, ..division }
}

/// Why a level cannot be divided as asked, for whoever asked.
pub(crate) fn in_words(error: ReuseError, load: &Load, level: Level) -> PlanError {
    let name = level.name();
    PlanError::Request(match error {
        ReuseError::GuaranteesDoNotFit { needed_blocks, capacity_blocks } => {
            let needed = u64::try_from(needed_blocks).unwrap_or(u64::MAX).saturating_mul(load.block_bytes);
            format!(
                "VMs are guaranteed {} of {name}, and there are {}; give more, or lower what they are guaranteed",
                show_size(needed),
                show_size(capacity_blocks.saturating_mul(load.block_bytes))
            )
        }
        ReuseError::InvalidDemand { vm, reason } => {
            let vm = load.vms.get(vm).map_or("a VM", |vm| &vm.facts.name);
            format!("{vm}, {name}: {reason}; correct its rules")
        }
        ReuseError::TooLargeForExact { .. } | ReuseError::InvalidObjective { .. } => error.to_string(),
        other => return other.into(),
    })
}

/// Blocks beyond which a VM gains nothing, as far as it may have them.
pub(crate) fn usable(demand: &VmDemand) -> u64 {
    demand.demand_blocks.min(demand.max_blocks)
}

/// Blocks that every share is a multiple of.
pub(crate) fn granule_blocks(block_bytes: u64, options: &SizeOptions) -> u64 {
    (options.granule_bytes / block_bytes).max(1)
}

/// What a VM asks of a level, of an SSD behind so many blocks of DRAM, within its rules.
pub(crate) fn demand_of(
    vm: &VmLoad,
    (level, dram_blocks): (Level, u64),
    options: &SizeOptions,
    block_bytes: u64,
) -> VmDemand {
    demand_by(&vm.curve(level, dram_blocks), vm, level, options, block_bytes)
}

/// The same by another curve than that of the level beside another one.
fn demand_by(curve: &Curve, vm: &VmLoad, level: Level, options: &SizeOptions, block_bytes: u64) -> VmDemand {
    let mut demand = VmDemand::new(curve);
    let rules = options.rules.iter().filter(|rule| rule.is_for(&vm.facts.name));
    rules.for_each(|rule| rule.limit(&mut demand, level, block_bytes));
    let granule = granule_blocks(block_bytes, options);
    demand.write_buffer = write_buffer(vm, level, granule, options).filter(|_| granule <= demand.max_blocks);
    if let Some(buffer) = demand.write_buffer {
        demand.demand_blocks = demand.demand_blocks.max(buffer.blocks);
    }
    demand
}

/// How much a VM counts.
pub(crate) fn weight_of(vm: &VmLoad, options: &SizeOptions) -> f64 {
    let rules = options.rules.iter().filter(|rule| rule.is_for(&vm.facts.name));
    rules.filter_map(|rule| rule.weight).next_back().unwrap_or(1.0)
}

/// What the smallest share of the SSD saves a VM that writes, where latency counts: its writes do not wait for the disk.
fn write_buffer(vm: &VmLoad, level: Level, granule: u64, options: &SizeOptions) -> Option<WriteBuffer> {
    let counts = level == Level::Ssd && matches!(options.objective, Objective::Latency { .. });
    let (writes, accesses) = (vm.profile.writes(), vm.profile.reads() + vm.profile.writes());
    access_times(&options.times).write_buffer(granule, if counts { writes } else { 0 }, accesses)
}
