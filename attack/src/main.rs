//! Attacks `lode serve` from outside: the real program on devices that log what they are told, power cuts and kills at any
//! moment, and a checker that knows the published guarantees alone. See docs/attack.md.

mod client;
mod counts;
mod fuse;
mod guest;
mod history;
mod host;
mod image;
mod medium;
mod model;
mod operator;
mod order;
mod plan;
mod report;
mod run;
mod sector;
mod self_test;
mod state;
mod tape;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::plan::{Plan, Scheme};
use crate::report::Total;
use crate::run::{Attack, Liars};

/// Variable that makes a failure of what would be skipped, as in the tests.
const NO_SKIPS_VARIABLE: &str = "LODE_NO_SKIPS";

/// Attack `lode serve` from outside.
#[derive(Parser)]
#[command(name = "lode-attack")]
struct Arguments {
    /// How long to attack, in minutes; by default until --states are there, else for one minute
    #[arg(long)]
    minutes: Option<u64>,
    /// Crash states to try at least
    #[arg(long)]
    states: Option<u64>,
    /// Stop when something was found
    #[arg(long)]
    first_only: bool,
    /// Run this seed only, once
    #[arg(long)]
    seed: Option<u64>,
    /// The first seed of many; by default one that nobody has tried
    #[arg(long)]
    first_seed: Option<u64>,
    /// Put all VMs under this scheme
    #[arg(long)]
    scheme: Option<String>,
    /// Runs at once
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Start a daemon on a crash state that was kept, and say what is wrong
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// Folder for crash states that show something wrong
    #[arg(long, value_name = "FOLDER", default_value = "attack-found")]
    keep: PathBuf,
    /// See that devices that lie about flushes, and damage, are reported; with --minutes or --states, before the attack
    #[arg(long)]
    self_test: bool,
    /// The program to attack
    #[arg(long, env = "LODE_BIN", default_value = "target/debug/lode")]
    lode: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(reason) = fuse::probe() {
        println!(
            "The attack from outside is skipped: FUSE cannot be used here ({reason}); install fuse3, and allow mounts"
        );
        let must_run = std::env::var_os(NO_SKIPS_VARIABLE).is_some_and(|value| value != "0");
        return ExitCode::from(u8::from(must_run));
    }
    host::remove_remains();
    match attack(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::from(2)
        }
    }
}

/// Whether nothing was found, or what was to be found was.
fn attack(arguments: &Arguments) -> Result<bool, String> {
    let schemes = Scheme::all(&arguments.lode)?;
    let attack = Attack {
        lode: arguments.lode.clone(),
        schemes,
        scheme: arguments.scheme.clone(),
        keep: Some(arguments.keep.clone()),
        liars: Liars::None,
    };
    if let Some(folder) = &arguments.state {
        let complaints = run::repeat(&attack, folder)?;
        complaints.iter().for_each(|what| println!("{what}"));
        println!("{} complaints", complaints.len());
        return Ok(complaints.is_empty());
    }
    if arguments.self_test {
        let sees = self_test::all(&attack)?;
        if !sees || (arguments.minutes.is_none() && arguments.states.is_none()) {
            return Ok(sees);
        }
    }
    if let Some(seed) = arguments.seed {
        let mut total = Total::default();
        let plan = Plan::new(seed, &attack.schemes, attack.scheme.as_deref())?;
        println!("{}", report::begins(&plan));
        let outcome = run::run(&attack, &plan, &|| true)?;
        total.add(&plan, &outcome);
        print!("{}{}", report::found(&plan, &outcome, attack.scheme.as_deref()), total);
        return Ok(outcome.found.is_none());
    }
    many(arguments, &attack)
}

/// Ends runs in order at the first signal, and the program at the second.
fn end_with_signals(ends: &Arc<AtomicBool>) -> Result<(), String> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, ends.clone())
            .and_then(|_| signal_hook::flag::register(signal, ends.clone()))
            .map_err(|error| format!("Cannot take signals: {error}"))?;
    }
    Ok(())
}

/// Seed after seed, some at once, until there is no time left or enough crash states were tried.
fn many(arguments: &Arguments, attack: &Attack) -> Result<bool, String> {
    let first = arguments.first_seed.unwrap_or_else(report::fresh_seed);
    let minutes = arguments.minutes.or(if arguments.states.is_none() { Some(1) } else { None });
    let deadline = minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    let enough = arguments.states.unwrap_or(u64::MAX);
    println!("Attacking {} from seed {first} on, {} runs at once", attack.lode.display(), arguments.jobs);
    let (next, tried, ends) = (AtomicU64::new(first), AtomicU64::new(0), Arc::new(AtomicBool::new(false)));
    end_with_signals(&ends)?;
    let total = Mutex::new(Total::default());
    let goes_on = || {
        let has_time = deadline.is_none_or(|deadline| Instant::now() < deadline);
        has_time && !ends.load(Ordering::Relaxed)
    };
    let work = || -> Result<(), String> {
        while goes_on() && tried.load(Ordering::Relaxed) < enough {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let plan = Plan::new(seed, &attack.schemes, attack.scheme.as_deref())?;
            let outcome = run::run(attack, &plan, &goes_on)?;
            tried.fetch_add(outcome.states, Ordering::Relaxed);
            let total = &mut *total.lock().map_err(|_| "another run panicked".to_owned())?;
            total.add(&plan, &outcome);
            println!("{}", report::line(&plan, &outcome, total));
            if outcome.found.is_some() {
                print!("{}", report::found(&plan, &outcome, attack.scheme.as_deref()));
                ends.fetch_or(arguments.first_only, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    let outcomes: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..arguments.jobs.max(1))
            .map(|_| scope.spawn(|| work().inspect_err(|_| ends.store(true, Ordering::Relaxed))))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|end| end.unwrap_or_else(|_| Err("a run panicked; its message is above".to_owned())))
            .collect()
    });
    outcomes.into_iter().collect::<Result<Vec<()>, String>>()?;
    let total = total.into_inner().map_err(|_| "a run panicked".to_owned())?;
    print!("{total}");
    Ok(total.is_clean())
}
