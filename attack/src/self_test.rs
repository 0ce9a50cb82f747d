//! Whether the attack sees what it is for: devices that break the assumptions, and damage, have to be reported. It must not
//! know how.

use crate::host::Host;
use crate::image::Data;
use crate::operator::{End, Operator};
use crate::plan::Plan;
use crate::run::{Attack, Liars, run};
use crate::sector::SECTOR_BYTES;
use crate::world::Faults;
use lode_types::Rng;

/// Seeds in which a lie has to be noticed.
const SEEDS: u64 = 12;
/// Sectors that are damaged.
const DAMAGED: u64 = 8;

/// Runs all of it; says whether all was reported.
///
/// # Errors
/// When the machine cannot do what is needed.
pub fn all(attack: &Attack) -> Result<bool, String> {
    let mut good = true;
    let all = [
        (Liars::Ssd, "a cache SSD"),
        (Liars::Disks, "disks"),
        // Nothing but a look at disks without their SSDs can notice that.
        (Liars::RedoLogs, "redo logs of ordered write-back"),
    ];
    for (liars, what) in all {
        let found = lies_are_noticed(attack, liars)?;
        println!("{what} whose flushes do nothing: {}", found.as_deref().unwrap_or("NOT REPORTED"));
        good &= found.is_some();
    }
    for (what, damage) in
        [("damaged", Damage::Noise), ("older", Damage::Older), ("another VM's", Damage::Foreign)]
    {
        let found = damage_is_noticed(attack, damage)?;
        println!("sectors that are {what}: {}", found.as_deref().unwrap_or("NOT REPORTED"));
        good &= found.is_some();
    }
    Ok(good)
}

fn lies_are_noticed(attack: &Attack, liars: Liars) -> Result<Option<String>, String> {
    let lying = Attack {
        lode: attack.lode.clone(),
        schemes: attack.schemes.clone(),
        scheme: attack.scheme.clone(),
        keep: None,
        liars,
    };
    let (mut states, mut lies) = (0, 0);
    for seed in 1..=SEEDS {
        let plan = Plan::new(seed, &lying.schemes, lying.scheme.as_deref())?;
        let plan = if liars == Liars::RedoLogs { plan.in_order() } else { plan };
        let outcome = run(&lying, &plan, &|| true)?;
        states += outcome.states;
        lies += outcome.lies;
        if let Some(found) = outcome.found {
            let first = found.complaints.first().cloned().unwrap_or_default();
            let first: String = first.chars().take(160).collect();
            return Ok(Some(format!(
                "reported after {lies} lies and {states} crash states, with seed {seed} ({first} ...)"
            )));
        }
    }
    Ok(None)
}

#[derive(Clone, Copy)]
enum Damage {
    Noise,
    Older,
    Foreign,
}

/// Lets a VM write, stops its daemon with everything on the disk, and damages some sectors there.
fn damage_is_noticed(attack: &Attack, damage: Damage) -> Result<Option<String>, String> {
    let plan = Plan::new(1, &attack.schemes, Some("lru"))?;
    let host = Host::new(&plan, &attack.lode)?;
    let operator = Operator { host: &host, plan: &plan, schemes: &attack.schemes };
    let mut rng = Rng::new(1);
    let unexpected = |what: Vec<String>| format!("a host without damage: {}", what.join("; "));
    host.begin(host.as_it_is()?)?;
    let daemon = operator.start(true).map_err(unexpected)?;
    let older = host.world.image(plan.disk_of(0));
    let daemon =
        operator.work(daemon, &mut rng, 2000, End::Answered, &Faults::default()).map_err(unexpected)?;
    daemon.ok_or("a daemon that was not killed has gone")?.stop(true)?;
    let mut start = host.as_it_is()?;
    host.world.note_stop();
    start.models = host.world.models();
    let disk = &mut start.images[plan.disk_of(0)];
    let mut damaged = 0;
    for sector in 0..plan.vms[0].disk_bytes / SECTOR_BYTES {
        let offset = sector * SECTOR_BYTES;
        let bytes = disk.read(offset, SECTOR_BYTES);
        if damaged == DAMAGED || bytes.iter().all(|byte| *byte == 0) {
            continue;
        }
        let bytes = match damage {
            Damage::Noise => bytes.iter().map(|byte| byte ^ 0x10).collect(),
            Damage::Older => older.read(offset, SECTOR_BYTES),
            Damage::Foreign => crate::sector::contents(1, 1, sector..sector + 1),
        };
        disk.write(offset, &Data::Bytes(bytes.into()));
        damaged += 1;
    }
    let complaints = operator.check_disks(&start.images, &start.models);
    Ok(complaints.first().map(|first| format!("reported ({} complaints; {first})", complaints.len())))
}
