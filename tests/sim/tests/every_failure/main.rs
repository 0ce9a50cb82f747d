//! Every management operation with the N-th read, write or flush of each of its devices failing, and with the power failing at its N-th
//! step, for N = 1, 2, 3 and so on until the operation ends without coming so far (guarantees 2, 4, 5, 6, 7, 9 and 11 of
//! `docs/design.md`). Afterwards the host goes down, once as when the daemon is killed and once as when the power fails; the operation is
//! then tried again if it has to be, and every block is what the guest wrote.
//!
//! [`OPERATIONS`] is what is covered, beside shares that change (`changes.rs`) and volumes that are added, removed and renamed (`membership.rs`).
//! Labels of a pair and what a resilver copies and flushes are writes, reads and flushes as all others.
//!
//! A test here that takes longer than [`MOST_SECONDS`] fails.

mod trials;

use std::time::Instant;

use lode_engine::{Buf, GuestError, GuestOp, GuestRequest};
use lode_format::CacheId;
use lode_policy::{Quota, SchemeInfo};
use lode_sim::scenario::{
    BLOCK, damage, flush, machine, ordered, paired, paired_later, pattern, read, spread, write,
};
use lode_sim::{Machine, OtherPair, SimDisk, World};
use lode_store::pair::PairArray;
use lode_store::{Store, StoreErrorKind, StoreView, SyncDevice, VolumeSpec, format_read_ssd, probe_read_ssd};

use trials::Trials;

/// Most that a test may take, also on a machine that has something else to do.
const MOST_SECONDS: u64 = 300;

const BLOCKS: u64 = 40;

/// Devices of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Device {
    Ssd,
    Second,
    /// The first SSD of the second pair.
    OfOther,
    Backing,
    Redo,
}
use Device::{Backing, OfOther, Redo, Second, Ssd};

/// A host before, during and after an operation.
struct Site {
    world: World,
    /// What it is started with afterwards.
    machine: Machine,
    /// A block that is damaged and lost.
    lost: Option<u64>,
}

/// What an operator does.
struct Operation {
    name: &'static str,
    devices: &'static [Device],
    prepare: fn() -> Site,
    /// Until it is over, or nothing happens any more. Says whether it succeeded.
    run: fn(&mut Site) -> bool,
    /// What must be so afterwards, beside what the guest finds. It may have succeeded or not.
    check: fn(&mut Site, bool),
}

/// A row of [`OPERATIONS`].
const fn operation(
    name: &'static str,
    devices: &'static [Device],
    prepare: fn() -> Site,
    run: fn(&mut Site) -> bool,
    check: fn(&mut Site, bool),
) -> Operation {
    Operation { name, devices, prepare, run, check }
}

/// All operations on a volume that is alone on its cache.
const OPERATIONS: &[Operation] = &[
    operation("format", &[Ssd], unused, formats, is_formatted_or_nothing),
    operation("format of a pair", &[Ssd, Second], unused_pair, formats_pairs, pairs_are_formatted_or_nothing),
    operation(
        "format of two pairs",
        &[Ssd, OfOther],
        unused_pairs,
        formats_pairs,
        pairs_are_formatted_or_nothing,
    ),
    operation("format of a read SSD", &[Ssd], unused, formats_read_ssd, read_ssd_is_formatted_or_nothing),
    operation("first start of a volume", &[Ssd], formatted, starts, serves_a_guest),
    operation("start after a kill", &[Ssd], killed, starts, nothing_more),
    operation("start after a power cut", &[Ssd], cut, starts, nothing_more),
    operation("start of a pair", &[Ssd, Second], killed_pair, starts, nothing_more),
    operation("start of two pairs", &[Ssd, OfOther], killed_pairs, starts, nothing_more),
    operation("removal offline", &[Ssd], two_volumes, removes, other_is_there_or_gone),
    operation("check and repair", &[Ssd], damaged_clean, repairs, nothing_more),
    operation("recovery of a redo log", &[Backing, Redo], group_in_log, starts, nothing_more),
    operation("drain", &[Ssd, Backing], dirty, drains, drained_is_on_disk),
    operation("drain in order", &[Ssd, Backing, Redo], dirty_in_order, drains, drained_is_on_disk),
    operation("migration", &[Ssd, Backing], dirty, migrates, drained_is_on_disk),
    operation("scheme switch", &[Ssd, Backing], dirty, switches, nothing_more),
    operation("scrub", &[Ssd, Backing], rotten, scrubs, nothing_more),
    operation("SSD taken out", &[Ssd, Second], dirty_pair, takes_out, nothing_more),
    operation("SSD replaced", &[Ssd, Second], dirty_pair, replaces, nothing_more),
    operation("first SSD replaced", &[Ssd, Second], dirty_pair, replaces_first, nothing_more),
    operation("second SSD comes", &[Ssd, Second], dirty_before_second, second_comes, nothing_more),
    operation("SSD of the second pair replaced", &[OfOther], dirty_pairs, replaces_in_other, nothing_more),
    operation("SSD taken out offline", &[Ssd, Second], killed_pair, takes_out_offline, nothing_more),
    operation("SSD replaced offline", &[Ssd, Second], killed_pair, replaces_offline, is_resilvered),
    operation("SSD resilvered after a start", &[Ssd, Second], one_is_new, starts_and_resilvers, nothing_more),
];

fn lru() -> Machine {
    machine("lru", &["write_policy=wb"], Quota::new(0, 60))
}

fn on_a_pair() -> Machine {
    paired(lru())
}

/// On two pairs, on both of which the volume has an extent.
fn paired_twice() -> Machine {
    spread(lru(), 1)
}

/// Where a block is on the disk: none beside another, so that no two are one command.
fn at(block: u64) -> u64 {
    2 * block * BLOCK
}

fn name_of(block: u64) -> u8 {
    block as u8 + 1
}

fn write_all(world: &mut World) {
    for block in 0..BLOCKS {
        write(world, at(block), BLOCK, name_of(block)).unwrap();
    }
    flush(world).unwrap();
    world.settle();
}

fn site(machine: Machine) -> Site {
    let mut world = World::new(machine.clone(), 1).unwrap();
    write_all(&mut world);
    Site { world, machine, lost: None }
}

fn down(mut site: Site, power_cut: bool) -> Site {
    site.world.go_down(power_cut);
    site
}

fn unused() -> Site {
    let (mut world, machine) = (World::down(lru(), 1), lru());
    world.ssd = SimDisk::new(machine.ssd_bytes);
    world.ssd.put(0, &[0xa5; 64 << 10]);
    world.ssd.settle(world.ssd.flush_mark());
    Site { world, machine, lost: None }
}

fn unused_pair() -> Site {
    replaced(site(on_a_pair()))
}

fn unused_pairs() -> Site {
    replaced(site(paired_twice()))
}

/// There are other devices in the places of all members.
fn replaced(site: Site) -> Site {
    let mut site = down(site, true);
    let World { ssd, pair, other_pairs, .. } = &mut site.world;
    for member in 0..2 {
        pair.as_mut().expect("a pair").replace(ssd, member);
        other_pairs.iter_mut().for_each(|OtherPair { first, pair }| pair.replace(first, member));
    }
    site
}

fn formatted() -> Site {
    let mut site = unused();
    assert!(formats(&mut site));
    site
}

fn killed() -> Site {
    let mut site = site(lru());
    // The records of these are in memory alone.
    for block in 0..4 {
        write(&mut site.world, at(block), BLOCK, name_of(block)).unwrap();
    }
    down(site, false)
}

fn cut() -> Site {
    down(site(lru()), true)
}

fn killed_pair() -> Site {
    down(site(on_a_pair()), false)
}

fn killed_pairs() -> Site {
    down(site(paired_twice()), false)
}

/// A new device is a member, and has nothing.
fn one_is_new() -> Site {
    let mut site = killed_pair();
    assert!(replaces_offline(&mut site));
    site
}

fn other_spec() -> VolumeSpec {
    VolumeSpec {
        name: "other".to_owned(),
        backing_bytes: 1 << 20,
        places: 10,
        spare_places: 0,
        ready_places: u64::MAX,
        read_only: false,
        distrusts: None,
    }
}

fn two_volumes() -> Site {
    let mut large = lru();
    large.ssd_bytes = 4 << 20;
    let mut site = down(site(large), true);
    let mut store = Store::open(&mut site.world.ssd).unwrap();
    store.attach(&mut site.world.ssd, &other_spec()).unwrap();
    SyncDevice::flush(&mut site.world.ssd).unwrap();
    site
}

fn dirty() -> Site {
    site(lru())
}

fn dirty_in_order() -> Site {
    site(ordered(lru(), 24, 1))
}

fn dirty_pair() -> Site {
    site(on_a_pair())
}

fn dirty_before_second() -> Site {
    site(paired_later(lru()))
}

fn dirty_pairs() -> Site {
    site(paired_twice())
}

fn damaged_clean() -> Site {
    let mut site = site(lru());
    assert!(drains(&mut site));
    assert_eq!(damage(&mut site.world, name_of(7)), 1);
    down(site, true)
}

/// The log holds a group of which the disk has nothing for sure.
fn group_in_log() -> Site {
    const MOST_STEPS: usize = 10_000;
    let mut site = dirty_in_order();
    for block in 0..BLOCKS {
        write(&mut site.world, at(block), BLOCK, name_of(block)).unwrap();
    }
    site.world.drain();
    let has_group = |world: &World| {
        let log = lode_store::read_redo_log(&mut world.redo.clone());
        log.is_ok_and(|log| log.is_some_and(|log| !log.entries.is_empty()))
    };
    for _ in 0..MOST_STEPS {
        if has_group(&site.world) {
            return down(site, false);
        }
        site.world.step();
    }
    panic!("no group comes to the log")
}

fn rotten() -> Site {
    let mut machine = lru();
    machine.config.scrub_ticks = Some(1);
    let mut site = site(machine);
    assert_eq!(damage(&mut site.world, name_of(7)), 1);
    site.lost = Some(7);
    site
}

fn formats(site: &mut Site) -> bool {
    let Machine { config, extent_bytes, .. } = &site.machine;
    Store::format(&mut site.world.ssd, CacheId([7; 16]), config.block, Some(*extent_bytes)).is_ok()
}

fn formats_pairs(site: &mut Site) -> bool {
    let Machine { config, extent_bytes, .. } = &site.machine;
    let World { ssd, pair, other_pairs, .. } = &mut site.world;
    let pair = pair.as_mut().expect("a pair");
    pair.forget();
    other_pairs.iter_mut().for_each(|other| other.pair.forget());
    let mut devices = vec![(ssd, Some(&mut pair.second))];
    devices.extend(other_pairs.iter_mut().map(|OtherPair { first, pair }| (first, Some(&mut pair.second))));
    PairArray::format(devices, CacheId([7; 16]), config.block, Some(*extent_bytes)).is_ok()
}

fn formats_read_ssd(site: &mut Site) -> bool {
    format_read_ssd(&mut site.world.ssd, CacheId([7; 16])).is_ok()
}

fn starts(site: &mut Site) -> bool {
    site.world.restart(site.machine.clone()).is_ok()
}

fn removes(site: &mut Site) -> bool {
    let ssd = &mut site.world.ssd;
    StoreView::read(ssd).and_then(|view| Store::remove(ssd, view, "other", false)).is_ok()
}

fn repairs(site: &mut Site) -> bool {
    let ssd = &mut site.world.ssd;
    let found = StoreView::read(ssd).and_then(|view| view.check_volume(ssd, "vm", true, &mut |_| {}));
    found.and_then(|found| Store::open(ssd)?.mend(ssd, &found)).is_ok()
}

/// Lets ticks go by with all that follows from them, until something is so.
fn wait(world: &mut World, is_over: impl Fn(&World) -> bool) -> bool {
    for _ in 0..64 {
        while world.step() {}
        if is_over(world) {
            return true;
        }
        world.tick();
    }
    false
}

fn drains(site: &mut Site) -> bool {
    site.world.drain();
    let is_over = |world: &World| world.engine().drain_left().is_none() && world.engine().is_idle();
    wait(&mut site.world, is_over) && !site.world.engine().alarms().failed
}

/// The guest writes some blocks once more, and flushes. False: it got no answer, or an error.
fn rewrites(world: &mut World) -> bool {
    let writes = (0..4).map(|block| {
        let buf = Buf::copy_of(&pattern(name_of(block), BLOCK as usize));
        GuestOp::write(at(block), buf, false)
    });
    writes.chain([GuestOp::Flush]).all(|op| {
        let answer = world.serve(GuestRequest { token: 1, op, now_ns: 0 });
        answer.is_some_and(|answer| answer.result.is_ok())
    })
}

fn migrates(site: &mut Site) -> bool {
    site.world.set_writes_around(true);
    let done = drains(site);
    let served = rewrites(&mut site.world);
    done && served && !site.world.engine().may_have_dirty()
}

fn switches(site: &mut Site) -> bool {
    // One that keeps nothing dirty, so that all of it has to go.
    let mut settings = SchemeInfo::find("lru").expect("it is registered").settings();
    settings.set_pair("write_policy=ro").unwrap();
    let begun = site.world.switch_scheme(&settings);
    site.machine.settings = settings;
    let rewritten = rewrites(&mut site.world);
    wait(&mut site.world, |world| world.engine().is_idle() && world.engine().is_saved()) && begun && rewritten
}

fn scrubs(site: &mut Site) -> bool {
    for _ in 0..3 {
        site.world.tick();
        while site.world.step() {}
    }
    site.world.engine().gauges().scrub_passes > 0
}

fn takes_out(site: &mut Site) -> bool {
    site.world.take_member_out(1);
    let rewritten = rewrites(&mut site.world);
    site.world.settle();
    rewritten && site.world.engine().is_saved()
}

fn replaces(site: &mut Site) -> bool {
    replaces_member(site, 1)
}

fn replaces_first(site: &mut Site) -> bool {
    replaces_member(site, 0)
}

fn replaces_member(site: &mut Site, member: usize) -> bool {
    site.world.take_member_out(member);
    site.world.settle();
    second_comes(site)
}

fn second_comes(site: &mut Site) -> bool {
    site.world.replace_member();
    rewrites(&mut site.world);
    wait(&mut site.world, has_resilvered)
}

fn replaces_in_other(site: &mut Site) -> bool {
    site.world.take_member_out_of(1, 1);
    site.world.settle();
    site.world.replace_member_of(1);
    rewrites(&mut site.world);
    wait(&mut site.world, |world| world.other_pairs[0].pair.resilvered() > 0)
}

fn has_resilvered(world: &World) -> bool {
    world.pair.as_ref().is_some_and(|pair| pair.resilvered() > 0)
}

fn takes_out_offline(site: &mut Site) -> bool {
    site.world.pair.as_mut().expect("a pair").take_out(&mut site.world.ssd, 1).is_ok()
}

fn replaces_offline(site: &mut Site) -> bool {
    takes_out_offline(site)
        && site.world.pair.as_mut().expect("a pair").put_in(&mut site.world.ssd, 1).is_ok()
}

fn starts_and_resilvers(site: &mut Site) -> bool {
    if !starts(site) {
        return false;
    }
    rewrites(&mut site.world);
    wait(&mut site.world, has_resilvered)
}

/// A start resilvers the one that was put in.
fn is_resilvered(site: &mut Site, done: bool) {
    if done {
        assert!(starts_and_resilvers(site), "the new SSD does not come to have everything");
        site.world.go_down(true);
    }
}

fn nothing_more(_: &mut Site, _: bool) {}

fn is_formatted_or_nothing(site: &mut Site, done: bool) {
    match StoreView::read(&mut site.world.ssd) {
        Ok(view) => assert_eq!(view.volumes().count(), 0, "an empty cache"),
        Err(error) => {
            assert!(!done, "{error}");
            assert!(formats(site), "it is formatted once more");
        }
    }
    begin_guest(site);
}

fn pairs_are_formatted_or_nothing(site: &mut Site, done: bool) {
    if let Err(error) = site.world.restart(site.machine.clone()) {
        assert!(!done && error.kind() == StoreErrorKind::WrongMember, "{error}");
        assert!(formats_pairs(site), "they are formatted once more");
    }
    site.world.go_down(true);
    begin_guest(site);
}

fn read_ssd_is_formatted_or_nothing(site: &mut Site, done: bool) {
    let probed = probe_read_ssd(&mut site.world.ssd);
    assert!(probed.is_ok() || !done, "{probed:?}");
    assert!(formats(site));
    begin_guest(site);
}

/// What was empty serves a guest from now on.
fn begin_guest(site: &mut Site) {
    site.world.restart(site.machine.clone()).unwrap();
    write_all(&mut site.world);
    site.world.go_down(true);
}

fn serves_a_guest(site: &mut Site, _: bool) {
    begin_guest(site);
}

fn other_is_there_or_gone(site: &mut Site, done: bool) {
    let view = StoreView::read(&mut site.world.ssd).unwrap();
    let is_there = view.volumes().any(|volume| volume.name == "other");
    assert!(!(is_there && done), "it was removed");
}

fn drained_is_on_disk(site: &mut Site, done: bool) {
    for block in (0..BLOCKS).filter(|_| done) {
        let mut bytes = vec![0; BLOCK as usize];
        site.world.backing.peek(at(block), &mut bytes);
        assert!(bytes == pattern(name_of(block), BLOCK as usize), "block {block} of the drained disk");
    }
}

fn disk(world: &mut World, device: Device) -> &mut SimDisk {
    match device {
        Ssd => &mut world.ssd,
        OfOther => &mut world.other_pairs[0].first,
        Second => &mut world.pair.as_mut().expect("a pair").second,
        Backing => &mut world.backing,
        Redo => &mut world.redo,
    }
}

/// The guest finds every block, in this run and in the next one.
fn check_guest(site: &mut Site, what: &str) {
    for life in 0..2 {
        let started = site.world.restart(site.machine.clone());
        started.unwrap_or_else(|error| panic!("{what}, start {life}: {error}"));
        for block in 0..BLOCKS {
            let found = read(&mut site.world, at(block), BLOCK);
            let is_lost = site.lost == Some(block);
            let expected = pattern(name_of(block), BLOCK as usize);
            assert!(
                found == Ok(expected) || (is_lost && found == Err(GuestError::Io)),
                "{what}, start {life}: block {block}"
            );
        }
        site.world.settle();
        site.world.go_down(true);
    }
}

#[test]
fn g2_g7_every_operation_with_every_single_failure() {
    let mut trials = Trials { began: Instant::now(), runs: 0 };
    for operation in OPERATIONS {
        trials.operation(operation);
    }
    println!(
        "{} operations, {} runs, {:.0} s",
        OPERATIONS.len(),
        trials.runs,
        trials.began.elapsed().as_secs_f64()
    );
    assert!(trials.runs > 2000, "{}", trials.runs);
}
