//! Volumes that divide a cache between them while both are served: hosts, what is done with them, and what must be so afterwards. The first one
//! is the one with which something is done; the guest of the other one goes on writing. It must not know what fails meanwhile.

use std::collections::BTreeSet;

use lode_engine::{Answer, Buf, GuestOp, GuestRequest, MembershipEnd};
use lode_format::VolumeTag;
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, pattern, spread};
use lode_sim::{Machine, World};
use lode_store::{MembershipChange, StoreView};
use lode_types::BlockSize;

use super::sites::{at, down, lru, name_of};
use super::{BLOCKS, Site};

/// Shares of one extent and of three, of the four that the cache has.
const SMALL: u32 = 20;
const LARGE: u32 = 140;

/// Where blocks begin that were never written before.
const FRESH: u64 = 2 << 20;
const FRESH_BLOCKS: u64 = 12;

/// What the directory knows it by once it has been renamed.
const NEW_NAME: &str = "new";

/// The cache is on one SSD, on a pair, or on two pairs.
#[derive(Clone, Copy)]
enum On {
    OneSsd,
    Pair,
    TwoPairs,
}

/// With blocks so large that few fill an extent.
fn machine(name: &str, blocks: u32, cache: On) -> Machine {
    let (other_pairs, ssd_bytes) = if matches!(cache, On::TwoPairs) { (1, 3 << 20) } else { (0, 5 << 20) };
    let mut machine = spread(lru(), other_pairs);
    machine.config.ssd_is_pair = !matches!(cache, On::OneSsd);
    (machine.config.share, machine.config.largest_share) =
        (Quota::new(0, blocks), Some(Quota::new(200, 2000)));
    Machine { ssd_bytes, name: name.to_owned(), ..machine }
}

/// Both machines, of which the first one has a share of so many blocks.
fn machines(blocks: u32, cache: On) -> [Machine; 2] {
    [("vm", blocks), ("other", SMALL + LARGE - blocks)].map(|(name, blocks)| machine(name, blocks, cache))
}

/// Both volumes, with nothing written.
fn begun([machine, other]: [Machine; 2]) -> Site {
    let world = World::new(machine.clone(), 1).unwrap();
    let mut site = down(Site::of(world, machine), false);
    site.others.push(World::beside(other.clone(), 2, 1));
    site.other_machines.push(other);
    site.start().unwrap();
    site
}

/// They are dirty, and flushed. So many other blocks are written before, so that most of the rest lies in later extents.
fn dirty(machines: [Machine; 2], fillers: u64) -> Site {
    let mut site = begun(machines);
    for filler in FRESH_BLOCKS..FRESH_BLOCKS + fillers {
        let buf = Buf::copy_of(&pattern(0, BLOCK as usize));
        let write = GuestOp::write(at_fresh(&site, filler), buf, false);
        serve(&mut site, 0, write).expect("it is served");
    }
    for volume in 0..2 {
        for block in 0..BLOCKS {
            serve(&mut site, volume, write(volume, block)).expect("it is served");
        }
        serve(&mut site, volume, GuestOp::Flush).expect("it is served");
    }
    assert!(wait(&mut site, is_at_rest));
    site
}

pub(super) fn large() -> Site {
    dirty(machines(LARGE, On::OneSsd), 60)
}

pub(super) fn large_on_pair() -> Site {
    dirty(machines(LARGE, On::Pair), 60)
}

pub(super) fn large_on_two_pairs() -> Site {
    dirty(machines(LARGE, On::TwoPairs), 60)
}

pub(super) fn small() -> Site {
    dirty(machines(SMALL, On::OneSsd), 0)
}

pub(super) fn small_on_pair() -> Site {
    dirty(machines(SMALL, On::Pair), 0)
}

pub(super) fn small_on_two_pairs() -> Site {
    dirty(machines(SMALL, On::TwoPairs), 0)
}

/// Each block is written back by itself.
fn in_small_blocks(cache: On) -> Site {
    let with_small_blocks = |mut machine: Machine| {
        machine.config.block = BlockSize::KIB_4;
        machine.config.share = Quota::new(0, 60);
        machine
    };
    dirty(machines(SMALL, cache).map(with_small_blocks), 0)
}

pub(super) fn small_blocks() -> Site {
    in_small_blocks(On::OneSsd)
}

pub(super) fn small_blocks_on_pair() -> Site {
    in_small_blocks(On::Pair)
}

pub(super) fn small_blocks_on_two_pairs() -> Site {
    in_small_blocks(On::TwoPairs)
}

/// The first volume has three extents, of which only one has tables. What both have is on their disks.
fn with_unwritten(cache: On) -> Site {
    let with_one = |machine: Machine| Machine { ready_places: 1, ..machine };
    let mut site = begun(machines(LARGE, cache).map(with_one));
    for volume in 0..2 {
        on(&mut site, volume, |world| {
            (0..BLOCKS).for_each(|block| world.backing.put(at(block), &content(volume, block)));
            world.backing.settle(world.backing.flush_mark());
        });
    }
    site
}

pub(super) fn unwritten() -> Site {
    with_unwritten(On::OneSsd)
}

pub(super) fn unwritten_on_pair() -> Site {
    with_unwritten(On::Pair)
}

pub(super) fn unwritten_on_two_pairs() -> Site {
    with_unwritten(On::TwoPairs)
}

/// The first volume was taken off the cache.
fn after_removal(cache: On) -> Site {
    let mut site = in_small_blocks(cache);
    assert!(removes(&mut site));
    site
}

pub(super) fn left() -> Site {
    after_removal(On::OneSsd)
}

pub(super) fn left_on_pair() -> Site {
    after_removal(On::Pair)
}

pub(super) fn left_on_two_pairs() -> Site {
    after_removal(On::TwoPairs)
}

/// What is in a block of a volume.
fn content(volume: usize, block: u64) -> Vec<u8> {
    pattern(name_of(block) + 100 * volume as u8, BLOCK as usize)
}

fn write(volume: usize, block: u64) -> GuestOp {
    GuestOp::write(at(block), Buf::copy_of(&content(volume, block)), false)
}

fn on<T>(site: &mut Site, volume: usize, act: impl FnOnce(&mut World) -> T) -> T {
    match volume.checked_sub(1) {
        None => act(&mut site.world),
        Some(other) => site.world.lend(&mut site.others[other], act),
    }
}

/// All that can happen without time going by.
fn run(site: &mut Site) {
    let mut moves = true;
    while std::mem::take(&mut moves) {
        site.each(|world| {
            while world.step() {
                moves = true;
            }
        });
    }
}

/// Lets ticks go by with all that follows from them, until something is so.
fn wait(site: &mut Site, mut is_over: impl FnMut(&mut Site) -> bool) -> bool {
    for _ in 0..64 {
        run(site);
        if is_over(site) {
            return true;
        }
        site.each(World::tick);
    }
    false
}

fn is_at_rest(site: &mut Site) -> bool {
    let mut are_at_rest = true;
    site.each(|world| are_at_rest &= world.engine().is_idle() && world.engine().is_saved());
    are_at_rest
}

/// Has a request of a volume's guest answered. `None`: with an error, or not at all.
fn serve(site: &mut Site, volume: usize, op: GuestOp) -> Option<Answer> {
    on(site, volume, |world| world.submit(GuestRequest { token: 1, op, now_ns: 0 }));
    let mut answer = None;
    wait(site, |site| {
        answer = on(site, volume, World::take_events).pop();
        answer.is_some()
    });
    answer.filter(|answer| answer.result.is_ok())
}

/// The guest of the other volume writes some blocks once more, and flushes.
fn other_goes_on(site: &mut Site) {
    let writes = (0..2).map(|block| write(1, block));
    let served = writes.chain([GuestOp::Flush]).all(|op| serve(site, 1, op).is_some());
    site.guest_failed |= !served;
}

/// Blocks of the first volume that were never written are, until one is not served.
fn writes_fresh(site: &mut Site) {
    for number in 0..FRESH_BLOCKS {
        let write = write_fresh(site, number);
        if serve(site, 0, write).is_none() {
            site.guest_failed = true;
            return;
        }
        site.fresh += 1;
    }
}

fn write_fresh(site: &Site, number: u64) -> GuestOp {
    let buf = Buf::copy_of(&pattern(name_of(number), BLOCK as usize));
    GuestOp::write(at_fresh(site, number), buf, number % 4 == 3)
}

fn at_fresh(site: &Site, number: u64) -> u64 {
    FRESH + number * site.machine.config.block.bytes()
}

fn divides(site: &mut Site, blocks: u32) -> bool {
    let shares = [blocks, SMALL + LARGE - blocks].map(|blocks| Quota::new(0, blocks));
    for (volume, share) in shares.into_iter().enumerate() {
        on(site, volume, |world| world.resize(share));
    }
    other_goes_on(site);
    let have =
        |site: &mut Site| [0, 1].map(|volume| on(site, volume, |world| world.engine().gauges().extents));
    let wanted = if blocks == SMALL { [1, 3] } else { [3, 1] };
    wait(site, |site| have(site) == wanted && is_at_rest(site))
}

/// Blocks lie in extents that go to the other volume.
pub(super) fn shrinks(site: &mut Site) -> bool {
    let is_done = divides(site, SMALL);
    assert!(!is_done || site.world.engine().gauges().moved_blocks > 5, "nothing had to move");
    is_done
}

pub(super) fn grows(site: &mut Site) -> bool {
    let is_done = divides(site, LARGE);
    writes_fresh(site);
    is_done && wait(site, is_at_rest)
}

/// The guest writes for the first time, and at once more than there are tables for.
pub(super) fn initializes(site: &mut Site) -> bool {
    let before = site.world.extent_changes();
    // Most of what there is at first, so that the rest has to wait for places whose tables are new.
    let most = 52 * site.machine.config.block.bytes();
    let most = GuestOp::write(at_fresh(site, FRESH_BLOCKS), Buf::copy_of(&pattern(0, most as usize)), false);
    let fresh: Vec<GuestOp> = (0..FRESH_BLOCKS).map(|number| write_fresh(site, number)).collect();
    for (token, op) in (0..).zip(fresh.into_iter().chain([most])) {
        site.world.submit(GuestRequest { token, op, now_ns: 0 });
    }
    let mut served = BTreeSet::new();
    wait(site, |site| {
        let answers = site.world.take_events().into_iter().filter(|answer| answer.result.is_ok());
        served.extend(answers.map(|answer| answer.token));
        served.len() as u64 > FRESH_BLOCKS
    });
    site.fresh = (0..FRESH_BLOCKS).take_while(|number| served.contains(number)).count() as u64;
    site.guest_failed |= served.len() as u64 <= FRESH_BLOCKS;
    other_goes_on(site);
    wait(site, is_at_rest) && site.world.extent_changes() > before
}

/// Says how it ended well.
fn changes_membership(site: &mut Site, change: MembershipChange) -> Option<VolumeTag> {
    if !site.world.change_membership(change) {
        return None;
    }
    other_goes_on(site);
    let mut ended = None;
    wait(site, |site| {
        ended = site.world.membership_ended();
        ended.is_some()
    });
    if let Some(MembershipEnd::Done(tag)) = ended { Some(tag) } else { None }
}

pub(super) fn renames(site: &mut Site) -> bool {
    let tag = site.world.tag().expect("it is served");
    let is_done = changes_membership(site, MembershipChange::Rename(tag, NEW_NAME.to_owned())).is_some();
    // It goes on under whatever name.
    writes_fresh(site);
    is_done && wait(site, is_at_rest)
}

/// One of the names is there, and with it what the volume has.
pub(super) fn has_either_name(site: &mut Site, is_done: bool) {
    let view = StoreView::read(&mut *site.world.open_cache().unwrap()).unwrap();
    let has = |name: &str| view.volumes().any(|volume| volume.name == name);
    assert!(has(NEW_NAME) != has("vm") && (has(NEW_NAME) || !is_done));
    if has(NEW_NAME) {
        site.machine.name = NEW_NAME.to_owned();
    }
}

/// As an operator does, who first has everything written back, and leaves it where that fails.
pub(super) fn removes(site: &mut Site) -> bool {
    site.world.drain();
    other_goes_on(site);
    let is_drained = wait(site, |site| {
        let engine = site.world.engine();
        engine.drain_left().is_none() && engine.is_idle() && engine.is_saved()
    });
    let engine = site.world.engine();
    if !is_drained || engine.alarms().failed || engine.gauges().dirty_blocks > 0 {
        return false;
    }
    let tag = site.world.leave_cache().expect("it is served");
    changes_membership(site, MembershipChange::Remove(tag)).is_some() && wait(site, is_at_rest)
}

pub(super) fn is_gone(site: &mut Site, is_done: bool) {
    let view = StoreView::read(&mut *site.world.open_cache().unwrap()).unwrap();
    assert!(!is_done || view.volumes().all(|volume| volume.name != "vm"));
}

pub(super) fn comes(site: &mut Site) -> bool {
    let create = MembershipChange::Create {
        name: "vm".to_owned(),
        backing_bytes: site.machine.config.volume_bytes,
        extents: 1,
        ready_extents: 1,
    };
    let Some(tag) = changes_membership(site, create) else { return false };
    let machine = site.machine.clone();
    site.world.join_cache(machine, tag);
    writes_fresh(site);
    wait(site, is_at_rest)
}

/// The guests of other volumes find every block, and that of the first one those that it wrote for the first time.
pub(super) fn check_more(site: &mut Site, what: &str) {
    for block in 0..BLOCKS * site.others.len() as u64 {
        let found = read(site, 1, at(block));
        assert!(found == content(1, block), "{what}: block {block} of the other volume");
    }
    for number in (0..site.fresh).filter(|number| number % 4 == 3) {
        let at = at_fresh(site, number);
        let found = read(site, 0, at);
        assert!(found == pattern(name_of(number), BLOCK as usize), "{what}: fresh block {number}");
    }
}

fn read(site: &mut Site, volume: usize, offset_bytes: u64) -> Vec<u8> {
    let read = GuestOp::Read { offset_bytes, length_bytes: BLOCK };
    serve(site, volume, read).expect("a read after a start").data.concat()
}
