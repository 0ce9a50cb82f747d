//! What operators do, each until it is over or nothing happens any more. It must not know what fails meanwhile.

use lode_engine::{Buf, GuestOp, GuestRequest};
use lode_format::CacheId;
use lode_policy::{SchemeInfo, Settings};
use lode_sim::scenario::{BLOCK, pattern};
use lode_sim::{Machine, OtherPair, World};
use lode_store::pair::PairArray;
use lode_store::{Store, StoreError, StoreView, SyncDevice, format_read_ssd};

use super::sites::{at, name_of};
use super::{BLOCKS, Site};

pub(super) fn formats(site: &mut Site) -> bool {
    let Machine { config, extent_bytes, .. } = &site.machine;
    Store::format(&mut site.world.ssd, CacheId([7; 16]), config.block, Some(*extent_bytes)).is_ok()
}

pub(super) fn formats_pairs(site: &mut Site) -> bool {
    let Machine { config, extent_bytes, .. } = &site.machine;
    let World { ssd, pair, other_pairs, .. } = &mut site.world;
    let pair = pair.as_mut().expect("a pair");
    pair.forget();
    other_pairs.iter_mut().for_each(|other| other.pair.forget());
    let mut devices = vec![(ssd, Some(&mut pair.second))];
    devices.extend(other_pairs.iter_mut().map(|OtherPair { first, pair }| (first, Some(&mut pair.second))));
    PairArray::format(devices, CacheId([7; 16]), config.block, Some(*extent_bytes)).is_ok()
}

pub(super) fn formats_read_ssd(site: &mut Site) -> bool {
    format_read_ssd(&mut site.world.ssd, CacheId([7; 16])).is_ok()
}

pub(super) fn starts(site: &mut Site) -> bool {
    site.world.restart(site.machine.clone()).is_ok()
}

pub(super) fn removes(site: &mut Site) -> bool {
    on_cache(site, |cache| {
        let view = StoreView::read(cache)?;
        Store::remove(cache, view, "other", false).map(drop)
    })
}

pub(super) fn repairs(site: &mut Site) -> bool {
    on_cache(site, |cache| {
        let found = StoreView::read(cache)?.check_volume(cache, "vm", true, &mut |_| {})?;
        Store::open(cache)?.mend(cache, &found)
    })
}

fn on_cache(site: &mut Site, work: impl FnOnce(&mut dyn SyncDevice) -> Result<(), StoreError>) -> bool {
    site.world.open_cache().and_then(|mut cache| work(&mut *cache)).is_ok()
}

/// Lets ticks go by with all that follows from them, until something is so.
pub(super) fn wait(world: &mut World, is_over: impl Fn(&World) -> bool) -> bool {
    for _ in 0..64 {
        while world.step() {}
        if is_over(world) {
            return true;
        }
        world.tick();
    }
    false
}

pub(super) fn drains(site: &mut Site) -> bool {
    site.world.drain();
    let is_over = |world: &World| world.engine().drain_left().is_none() && world.engine().is_idle();
    wait(&mut site.world, is_over) && !site.world.engine().alarms().failed
}

/// The guest writes some blocks once more, and flushes. False: it got no answer, or an error.
fn rewrites(site: &mut Site) -> bool {
    let writes = (0..4).map(|block| {
        let buf = Buf::copy_of(&pattern(name_of(block), BLOCK as usize));
        GuestOp::write(at(block), buf, false)
    });
    let served = writes.chain([GuestOp::Flush]).all(|op| {
        let answer = site.world.serve(GuestRequest { token: 1, op, now_ns: 0 });
        answer.is_some_and(|answer| answer.result.is_ok())
    });
    site.guest_failed |= !served;
    served
}

pub(super) fn migrates(site: &mut Site) -> bool {
    site.world.set_writes_around(true);
    let done = drains(site);
    let served = rewrites(site);
    done && served && !site.world.engine().may_have_dirty()
}

pub(super) fn switches(site: &mut Site) -> bool {
    // One that keeps nothing dirty, so that all of it has to go.
    let mut settings = SchemeInfo::find("lru").expect("it is registered").settings();
    settings.set_pair("write_policy=ro").unwrap();
    switches_to(site, settings)
}

/// Another scheme keeps all that is dirty, and has it copied to the read SSD.
pub(super) fn mirrors(site: &mut Site) -> bool {
    switches_to(site, SchemeInfo::find("tica-ef").expect("it is registered").settings())
}

fn switches_to(site: &mut Site, settings: Settings) -> bool {
    let begun = site.world.switch_scheme(&settings);
    site.machine.settings = settings;
    let rewritten = rewrites(site);
    wait(&mut site.world, |world| world.engine().is_idle() && world.engine().is_saved()) && begun && rewritten
}

/// One pass from its beginning to its end, whatever was under way.
pub(super) fn scrubs(site: &mut Site) -> bool {
    let passes = |world: &World| world.engine().gauges().scrub_passes;
    let last = passes(&site.world) + 2;
    wait(&mut site.world, |world| passes(world) >= last) && comes_to_rest(site)
}

/// The guest reads everything, and is told so where that cannot be.
pub(super) fn reads_all(site: &mut Site) -> bool {
    for block in 0..BLOCKS {
        match read_if_answered(&mut site.world, block) {
            Some(bytes) => assert!(bytes == pattern(name_of(block), BLOCK as usize), "block {block}"),
            None => site.guest_failed = true,
        }
    }
    comes_to_rest(site) && !site.guest_failed
}

/// What was repaired by way of the backing disk is there, and everything is durable.
fn comes_to_rest(site: &mut Site) -> bool {
    let is_at_rest = |world: &World| {
        let (engine, gauges) = (world.engine(), world.engine().gauges());
        // What is lost waits for ever.
        engine.is_idle() && engine.is_saved() && gauges.write_backs_waiting <= gauges.lost_blocks
    };
    wait(&mut site.world, is_at_rest) && !site.world.engine().alarms().failed
}

fn read_if_answered(world: &mut World, block: u64) -> Option<Vec<u8>> {
    let op = GuestOp::Read { offset_bytes: at(block), length_bytes: BLOCK };
    let answer = world.serve(GuestRequest { token: 1, op, now_ns: 0 })?;
    answer.result.is_ok().then(|| answer.data.concat())
}

pub(super) fn takes_out(site: &mut Site) -> bool {
    site.world.take_member_out(1);
    let rewritten = rewrites(site);
    site.world.settle();
    rewritten && site.world.engine().is_saved()
}

pub(super) fn replaces(site: &mut Site) -> bool {
    replaces_member(site, 1)
}

pub(super) fn replaces_first(site: &mut Site) -> bool {
    replaces_member(site, 0)
}

pub(super) fn replaces_member(site: &mut Site, member: usize) -> bool {
    site.world.take_member_out(member);
    site.world.settle();
    second_comes(site)
}

pub(super) fn second_comes(site: &mut Site) -> bool {
    site.world.replace_member();
    rewrites(site);
    wait(&mut site.world, has_resilvered)
}

pub(super) fn replaces_in_other(site: &mut Site) -> bool {
    site.world.take_member_out_of(1, 1);
    site.world.settle();
    site.world.replace_member_of(1);
    rewrites(site);
    wait(&mut site.world, |world| world.other_pairs[0].pair.resilvered() > 0)
}

pub(super) fn has_resilvered(world: &World) -> bool {
    world.pair.as_ref().is_some_and(|pair| pair.resilvered() > 0)
}

pub(super) fn takes_out_offline(site: &mut Site) -> bool {
    site.world.pair.as_mut().expect("a pair").take_out(&mut site.world.ssd, 1).is_ok()
}

pub(super) fn replaces_offline(site: &mut Site) -> bool {
    takes_out_offline(site)
        && site.world.pair.as_mut().expect("a pair").put_in(&mut site.world.ssd, 1).is_ok()
}

pub(super) fn starts_and_resilvers(site: &mut Site) -> bool {
    if !starts(site) {
        return false;
    }
    rewrites(site);
    wait(&mut site.world, has_resilvered)
}

/// A start resilvers the one that was put in.
pub(super) fn is_resilvered(site: &mut Site, done: bool) {
    if done {
        assert!(starts_and_resilvers(site), "the new SSD does not come to have everything");
        site.world.go_down(true);
    }
}
