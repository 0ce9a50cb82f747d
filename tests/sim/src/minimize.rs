//! What is left of a host that fails when everything is left out without which it fails as well, and the command that runs just that.
//! It must not know what a run does.

use std::cell::Cell;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

use crate::machine::Faults;
use crate::run::{Plan, RunCounts, repeat_part};

/// How the plans of a host are run.
pub(crate) type Run = fn(&[Plan]) -> Result<Vec<RunCounts>, String>;

/// Runs that are tried, and how long, to find less that fails.
const MOST_RUNS: u32 = 400;
const LONGEST: Duration = Duration::from_secs(30);

/// Variables of the environment that say what is left of a host, and whether nothing is to be left out.
const VOLUMES: &str = "LODE_SIM_VOLUMES";
const ROUNDS: &str = "LODE_SIM_ROUNDS";
const REQUESTS: &str = "LODE_SIM_REQUESTS";
const DEPTH: &str = "LODE_SIM_DEPTH";
const SECTORS: &str = "LODE_SIM_SECTORS";
const WITHOUT: &str = "LODE_SIM_WITHOUT";
const WHOLE: &str = "LODE_SIM_WHOLE";

/// Takes something out of a plan.
type LeaveOut = fn(&mut Plan);

/// What a host may be without, by the name that the command has for it.
const WITHOUTS: &[(&str, LeaveOut)] = &[
    ("faults", |plan| plan.faults = Faults::default()),
    ("flips", |plan| plan.flips = 0),
    ("decay", |plan| plan.decay = 0),
    ("deaths", |plan| plan.ssd_deaths = 0),
    ("rot", |plan| plan.rot = 0),
    ("member-losses", |plan| plan.member_losses = 0),
    ("member-changes", |plan| plan.member_changes = 0),
    ("ssd-losses", |plan| plan.ssd_losses = 0),
    ("failed-starts", |plan| plan.failed_starts = 0),
    ("read-errors", |plan| plan.start_read_errors = 0),
    ("start-hangs", |plan| plan.start_hangs = 0),
    ("slow-commands", |plan| plan.slow_commands = false),
    ("taking-over", |plan| plan.takes_over_in_steps = false),
    ("shared-disk", |plan| plan.shares_backing = false),
    ("drains", |plan| (plan.drains, plan.ends_drained) = (0, false)),
    ("membership", |plan| plan.membership_changes = 0),
    ("shares", |plan| (plan.share_changes, plan.membership_changes) = (0, 0)),
    ("write-arounds", |plan| plan.write_arounds = 0),
    ("switches", |plan| plan.scheme_switches = 0),
    ("hangs", |plan| plan.hangs = 0),
    ("clock-jumps", |plan| plan.clock_jumps = 0),
    ("spare-places", |plan| plan.most_spare_places = 0),
    ("step-limit", |plan| plan.most_steps = None),
    ("write-back", |plan| plan.machines.iter_mut().for_each(|machine| machine.config.write_back = None)),
    ("scrubs", |plan| plan.machines.iter_mut().for_each(|machine| machine.config.scrub_ticks = None)),
    ("restarts-otherwise", |plan| plan.machines.truncate(1)),
];

/// What is left of a host; `None`: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartOfHost {
    /// Numbers of the volumes.
    pub volumes: Option<Vec<usize>>,
    /// Runs from start to crash.
    pub rounds: Option<u32>,
    /// Most requests of a volume in a run.
    pub requests: Option<u32>,
    /// Most requests of a volume under way.
    pub depth: Option<usize>,
    /// Longest request, in sectors.
    pub sectors: Option<u64>,
    /// What happens no more.
    pub without: Vec<&'static str>,
}

impl PartOfHost {
    /// What the environment asks for.
    ///
    /// # Errors
    /// When a variable does not say what it is to say.
    pub fn from_environment() -> Result<PartOfHost, String> {
        PartOfHost::of(|variable| std::env::var(variable).ok())
    }

    /// What these variables ask for.
    ///
    /// # Errors
    /// When one does not say what it is to say.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<PartOfHost, String> {
        let number = |name: &str| -> Result<Option<u64>, String> {
            let wrong = |_| format!("{name} is to be a number");
            variable(name).map(|text| text.parse().map_err(wrong)).transpose()
        };
        let list =
            |name: &str| variable(name).map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>());
        let volume =
            |text: String| text.parse().map_err(|_| format!("{VOLUMES} is to be numbers with commas"));
        let volumes = list(VOLUMES).map(|all| all.into_iter().map(volume).collect()).transpose()?;
        let known = |text: String| {
            let found = WITHOUTS.iter().find(|(name, _)| *name == text);
            let names = || WITHOUTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            found.map(|(name, _)| *name).ok_or_else(|| format!("{WITHOUT} knows no {text}, but {}", names()))
        };
        let without = list(WITHOUT).unwrap_or_default().into_iter().map(known).collect::<Result<_, _>>()?;
        Ok(PartOfHost {
            volumes,
            rounds: number(ROUNDS)?.map(|rounds| rounds as u32),
            requests: number(REQUESTS)?.map(|requests| requests as u32),
            depth: number(DEPTH)?.map(|depth| depth as usize),
            sectors: number(SECTORS)?,
            without,
        })
    }

    /// The variables that ask for it, as a shell takes them; each ends with a space.
    pub fn to_environment(&self) -> String {
        let mut text = String::new();
        let mut set = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = write!(text, "{name}={value} ");
            }
        };
        let numbers = |all: &Vec<usize>| all.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        set(VOLUMES, self.volumes.as_ref().map(numbers));
        set(ROUNDS, self.rounds.map(|rounds| rounds.to_string()));
        set(REQUESTS, self.requests.map(|requests| requests.to_string()));
        set(DEPTH, self.depth.map(|depth| depth.to_string()));
        set(SECTORS, self.sectors.map(|sectors| sectors.to_string()));
        set(WITHOUT, (!self.without.is_empty()).then(|| self.without.join(",")));
        text
    }

    /// The plans of what is left.
    ///
    /// # Panics
    /// When a volume is named that there is not.
    pub fn of_host(&self, host: &[Plan]) -> Vec<Plan> {
        let all: Vec<usize> = (0..host.len()).collect();
        let volumes = self.volumes.as_ref().unwrap_or(&all);
        let mut plans: Vec<Plan> = volumes.iter().map(|&volume| host[volume].clone()).collect();
        for plan in &mut plans {
            plan.rounds = self.rounds.unwrap_or(plan.rounds);
            plan.requests = plan.requests.min(self.requests.unwrap_or(u32::MAX));
            plan.depth = plan.depth.min(self.depth.unwrap_or(usize::MAX));
            plan.longest_sectors = plan.longest_sectors.min(self.sectors.unwrap_or(u64::MAX));
            for (name, leave_out) in WITHOUTS {
                if self.without.contains(name) {
                    leave_out(plan);
                }
            }
        }
        plans
    }

    /// Less of it, each in one way, what leaves out most first.
    fn smaller(&self, host: &[Plan]) -> Vec<PartOfHost> {
        let now = self.of_host(host);
        let all: Vec<usize> = self.volumes.clone().unwrap_or_else(|| (0..host.len()).collect());
        let mut parts = Vec::new();
        for &gone in all.iter().filter(|_| all.len() > 1) {
            let volumes = Some(all.iter().copied().filter(|&volume| volume != gone).collect());
            parts.push(PartOfHost { volumes, ..self.clone() });
        }
        let halves = |now: u64| {
            [now / 8, now / 2, now.saturating_sub(1)].into_iter().filter(move |&less| less > 0 && less < now)
        };
        let most = |of: fn(&Plan) -> u64| now.iter().map(of).max().unwrap_or(0);
        for less in halves(most(|plan| plan.rounds.into())) {
            parts.push(PartOfHost { rounds: Some(less as u32), ..self.clone() });
        }
        for less in halves(most(|plan| plan.requests.into())) {
            parts.push(PartOfHost { requests: Some(less as u32), ..self.clone() });
        }
        for (name, leave_out) in WITHOUTS {
            let changes = |plan: &Plan| {
                let mut without = plan.clone();
                leave_out(&mut without);
                format!("{without:?}") != format!("{plan:?}")
            };
            if now.iter().any(changes) {
                let without = self.without.iter().copied().chain([*name]).collect();
                parts.push(PartOfHost { without, ..self.clone() });
            }
        }
        for less in halves(most(|plan| plan.depth as u64)) {
            parts.push(PartOfHost { depth: Some(less as usize), ..self.clone() });
        }
        for less in halves(most(|plan| plan.longest_sectors)) {
            parts.push(PartOfHost { sectors: Some(less), ..self.clone() });
        }
        parts
    }
}

/// Less of a host that fails, which fails as well, and what is said then.
pub(crate) fn minimize(host: &[Plan], said: String, run: Run) -> (PartOfHost, String) {
    let (began, mut runs) = (Instant::now(), 0);
    let (mut part, mut said) = (PartOfHost::default(), said);
    loop {
        let next = part.smaller(host).into_iter().find_map(|smaller| {
            runs += 1;
            if runs > MOST_RUNS || began.elapsed() > LONGEST {
                return None;
            }
            let error = run_caught(&smaller.of_host(host), run).err()?;
            Some((smaller, error))
        });
        match next {
            Some(smaller) => (part, said) = smaller,
            None => return (part, said),
        }
    }
}

/// Runs a host, or what the environment asks for of it. One that fails is minimized, unless the environment says that it is to be run
/// as it is.
///
/// # Errors
/// What a guest saw that it must not see, and the command that shows it again.
pub(crate) fn run_host(host: &[Plan], run: Run) -> Result<Vec<RunCounts>, String> {
    let asked = PartOfHost::from_environment()?;
    if asked != PartOfHost::default() || std::env::var_os(WHOLE).is_some() {
        return run(&asked.of_host(host));
    }
    let error = match run_caught(host, run) {
        Ok(counts) => return Ok(counts),
        Err(error) => error,
    };
    let seed = host.first().map_or(0, |plan| plan.seed);
    let (part, smaller) = minimize(host, error.clone(), run);
    let without_command = |text: &str| text.split("; repeat with").next().unwrap_or_default().to_owned();
    Err(format!(
        "{}; {}, which says: {}; the whole host: LODE_SIM_SEED={seed} LODE_SIM_WHOLE=1",
        without_command(&error),
        repeat_part(seed, &part),
        without_command(&smaller)
    ))
}

thread_local! {
    /// A panic of this thread is caught and said elsewhere.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs a host, in which a panic is a failure as any other.
fn run_caught(plans: &[Plan], run: Run) -> Result<Vec<RunCounts>, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_CAUGHT.get() {
                before(info);
            }
        }));
    });
    IS_CAUGHT.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(|| run(plans)));
    IS_CAUGHT.set(false);
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}
