//! A change of extents step by step (guarantees 2, 4 and 5 of `docs/design.md`): the power fails after every write, and either
//! copy of a table page is lost.

use lode_engine::{Buf, GuestOp, GuestRequest};
use lode_format::PAGE_BYTES;
use lode_policy::{Quota, Tenant};
use lode_sim::scenario::{BLOCK, machine, pattern, read};
use lode_sim::{Access, DirectHost, Machine, Rng, SimDisk, World, pages_kept_twice};
use lode_store::{DirectoryOutput, Metadata, Output, SpaceDirectory, Store, StoreView, VolumeStore};

const SSD_BYTES: u64 = 5 << 20;

/// What the host has for each volume at most.
const LARGEST: Quota = Quota::new(450, 900);

/// Two volumes on an SSD of four extents.
fn host(scheme: &str, pairs: &[&str], shares: [Quota; 2], ready_places: u64) -> DirectHost {
    let machines = [0, 1].map(|number| {
        let mut machine = machine(scheme, pairs, shares[number]);
        (machine.config.largest_share, machine.ready_places) = (Some(LARGEST), ready_places);
        Machine { name: format!("vm{number}"), ssd_bytes: SSD_BYTES, ..machine }
    });
    DirectHost::new(machines.into(), 0)
}

fn submit(host: &mut DirectHost, at: usize, op: GuestOp) {
    host.serve(at, GuestRequest { token: 0, op, now_ns: 0 });
}

fn extents(host: &DirectHost) -> [u32; 2] {
    [0, 1].map(|at| host.engines[at].gauges().extents)
}

/// What a start finds of both volumes after a power cut now.
fn check_power_cut(host: &DirectHost, seed: u64) {
    check_start(host, host.ssd.after_power_cut(&mut Rng::new(seed)), seed);
}

/// What a start finds when the newer copies of superblock, directory and every table page are unreadable.
fn check_older_copies(host: &DirectHost) {
    let mut ssd = host.ssd.clone();
    assert!(destroy_newer(&mut ssd) > 6);
    check_start(host, ssd, 1);
}

fn check_start(host: &DirectHost, ssd: SimDisk, seed: u64) {
    check_blocks(host, ssd, seed, [0, 1].map(blocks_of));
}

/// What a start finds of the first blocks of both volumes.
fn check_blocks(host: &DirectHost, ssd: SimDisk, seed: u64, blocks: [u64; 2]) {
    for (at, mut world) in host.start_on(ssd, &mut Rng::new(seed)).into_iter().enumerate() {
        for block in 0..blocks[at] {
            let bytes = read(&mut world, block * BLOCK, BLOCK).unwrap();
            assert!(bytes == content(at, block), "block {block} of volume {at}");
        }
    }
}

/// Makes the newer copy of all that is kept twice unreadable. Gives how many pages there are.
fn destroy_newer(ssd: &mut SimDisk) -> usize {
    let pages = pages_kept_twice(ssd);
    pages.iter().for_each(|&[_, newer]| ssd.put(newer, &[0; PAGE_BYTES]));
    pages.len()
}

fn blocks_of(volume: usize) -> u64 {
    [180, 60][volume]
}

fn content(volume: usize, block: u64) -> Vec<u8> {
    let mut bytes = pattern(block as u8, BLOCK as usize);
    bytes[..2].copy_from_slice(&[volume as u8, (block >> 8) as u8]);
    bytes
}

/// Both volumes are dirty and flushed.
fn dirty_host() -> DirectHost {
    let mut host = host("lru", &["write_policy=wb"], [Quota::new(0, 600), Quota::new(0, 100)], u64::MAX);
    for at in 0..2 {
        // What is written first leaves first, so that most of the rest lies in extents that are given up.
        let first = if at == 0 { 300..500 } else { 300..300 };
        for block in first.chain(0..blocks_of(at)) {
            submit(&mut host, at, GuestOp::write(block * BLOCK, Buf::copy_of(&content(at, block)), false));
        }
        submit(&mut host, at, GuestOp::Flush);
    }
    assert_eq!((extents(&host), host.failed), ([3, 1], 0));
    host
}

/// Extents go from one volume to the other and back, and the N-th read, write or flush of the SSD or of a disk fails on the way, for
/// N = 1, 2, 3 and so on. A start after that, and one after a power cut, find what both guests flushed.
#[test]
fn g2_g4_g7_shares_that_change_with_every_single_failure() {
    let mut failures = 0;
    for (access, disk) in [Access::Read, Access::Write, Access::Flush]
        .into_iter()
        .flat_map(|access| [None, Some(0), Some(1)].map(|disk| (access, disk)))
    {
        for n in 0.. {
            let mut host = dirty_host();
            failing(&mut host, disk).fail_nth = Some((access, n));
            for shares in [[180, 600], [600, 100]] {
                (0..2).for_each(|at| host.engines[at].resize(Quota::new(0, shares[at])));
                host.run(&mut |_| {});
                (0..10).for_each(|_| host.tick(&mut |_| {}));
            }
            if failing(&mut host, disk).fail_nth.take().is_some() {
                println!("{n} {access:?} of {disk:?}");
                break;
            }
            failures += 1;
            check_start(&host, host.ssd.clone(), n);
            check_power_cut(&host, n);
        }
    }
    assert!(failures > 100, "{failures}");
}

/// The SSD, or the disk of a volume.
fn failing(host: &mut DirectHost, disk: Option<usize>) -> &mut SimDisk {
    match disk {
        None => &mut host.ssd,
        Some(at) => &mut host.backing[at],
    }
}

/// Both volumes are dirty and flushed when extents go from one to the other and back. The power fails after every single
/// write to a device, and each time both guests find what they flushed. After a change either copy of directory and table
/// pages says everything.
#[test]
fn g2_g4_a_power_cut_after_every_write_of_a_change() {
    let mut host = dirty_host();
    let mut cuts = 0;
    for (shares, expected) in [([180, 600], [1, 3]), ([180, 100], [1, 1]), ([600, 100], [3, 1])] {
        let mut look = |host: &DirectHost| {
            cuts += 1;
            (0..8).for_each(|seed| check_power_cut(host, cuts * 8 + seed));
        };
        (0..2).for_each(|at| host.engines[at].resize(Quota::new(0, shares[at])));
        host.run(&mut look);
        for _ in 0..10 {
            host.tick(&mut look);
        }
        assert_eq!((extents(&host), host.failed), (expected, 0));
        let quotas = [0, 1].map(|at| host.engines[at].quota().ssd_blocks);
        assert_eq!(quotas, shares);
        check_older_copies(&host);
    }
    let moved: u64 = host.engines.iter().map(|engine| engine.gauges().moved_blocks).sum();
    println!("{cuts} power cuts, {moved} blocks moved");
    assert!(cuts > 50 && moved > 100, "{cuts} {moved}");
}

/// A volume has three extents, of which one is written when its guest begins to write; the others are initialized on the way. The power
/// fails after every single write to a device, and each time what was acknowledged with FUA is there.
#[test]
fn g2_g4_a_power_cut_after_every_write_while_extents_are_initialized() {
    const PLACES: u64 = 250;
    const SEEDS: u64 = 12;
    let mut host = host("lru", &["write_policy=wb"], [Quota::new(0, 600), Quota::new(0, 100)], 1);
    assert_eq!(host.engines[0].quota().ssd_blocks, 600);
    let (mut cuts, mut durable) = (0, 0);
    for block in 0..PLACES + 20 {
        // Some come without a flush that would cover the tables as well.
        let is_durable = block % 4 == 3;
        let write = GuestOp::write(block * BLOCK, Buf::copy_of(&content(0, block)), is_durable);
        host.engines[0].submit(GuestRequest { token: 0, op: write, now_ns: 0 });
        host.run(&mut |host| {
            // The second extent is initialized at once, because few places are free at all, and the third when so few are again.
            if block < 4 || (PLACES - 25..PLACES).contains(&block) {
                cuts += 1;
                for seed in 0..SEEDS {
                    let ssd = host.ssd.after_power_cut(&mut Rng::new(cuts * SEEDS + seed));
                    check_blocks(host, ssd, seed, [durable, 0]);
                }
            }
        });
        durable = if is_durable { block + 1 } else { durable };
    }
    assert_eq!((extents(&host), host.failed), ([3, 1], 0));
    assert!(cuts > 50, "{cuts}");
}

/// Extents are to be initialized, and the turn does not come for long: who needs a place waits, and nothing fails.
#[test]
fn writes_wait_for_places_however_long_these_take() {
    const BLOCKS: u64 = 400;
    let mut host = host("lru", &["write_policy=wb"], [Quota::new(0, 600), Quota::new(0, 100)], 1);
    host.holds_turns = true;
    for block in 0..BLOCKS {
        submit(&mut host, 0, GuestOp::write(block * BLOCK, Buf::copy_of(&content(0, block)), false));
    }
    (0..60).for_each(|_| host.tick(&mut |_| {}));
    let written = host.engines[0].gauges().dirty_blocks;
    assert!((200..250).contains(&written) && host.failed == 0, "{written}, {} failed", host.failed);
    host.holds_turns = false;
    submit(&mut host, 0, GuestOp::Flush);
    assert_eq!((host.engines[0].gauges().dirty_blocks, host.failed), (BLOCKS as u32, 0));
    check_blocks(&host, host.ssd.after_power_cut(&mut Rng::new(1)), 1, [BLOCKS, 0]);
}

/// Half of the reserve, more places than are initialized, is left to guests by copies from DRAM: those that can be initialized count, so
/// that neither the copies wait nor the guests for whose frames these are.
#[test]
fn copies_take_places_although_the_reserve_is_larger_than_what_is_initialized() {
    const BLOCKS: u64 = 150;
    let mut machine = machine("ucache-like", &["worth_hits=0"], Quota::new(40, 200));
    machine.config.reserve = Quota::new(24, 2200);
    machine.ready_places = 1;
    let mut host = DirectHost::new(vec![Machine { ssd_bytes: 12 << 20, ..machine }], 0);
    for block in (0..BLOCKS).chain(0..BLOCKS).chain(0..BLOCKS) {
        submit(&mut host, 0, GuestOp::Read { offset_bytes: block * BLOCK, length_bytes: BLOCK });
    }
    let gauges = host.engines[0].gauges();
    assert_eq!((gauges.extents, host.failed), (10, 0));
    assert!(gauges.ssd_blocks > 80 && host.engines[0].is_idle(), "{gauges:?}");
}

/// Frames go from one volume to the other as they are given back, and memory with them.
#[test]
fn g3_memory_follows_the_share_of_dram() {
    let mut host = host("etica", &["mode=npe"], [Quota::new(400, 40), Quota::new(20, 40)], u64::MAX);
    let fill = |host: &mut DirectHost, at| {
        for block in (0..400).chain(0..400) {
            submit(host, at, GuestOp::Read { offset_bytes: block * BLOCK, length_bytes: BLOCK });
        }
        let gauges = host.engines[at].gauges();
        (gauges.frames, gauges.dram_blocks, gauges.memory_bytes)
    };
    let (large, small) = (fill(&mut host, 0), fill(&mut host, 1));
    assert_eq!((large.0, large.1, small.0, small.1), (424, 400, 44, 20));
    // The host has no frames beside these: first one wants more, and gets it when the other gives it back.
    host.engines[1].resize(Quota::new(400, 40));
    host.run(&mut |_| {});
    assert_eq!((host.engines[1].gauges().frames_waited_for, fill(&mut host, 1).1), (380, 20));
    host.engines[0].resize(Quota::new(20, 40));
    host.run(&mut |_| {});
    let (before, after) = (host.engines[0].gauges(), fill(&mut host, 1));
    assert_eq!((before.frames, before.dram_blocks, after.0, after.1, host.failed), (44, 20, 424, 400, 0));
    let (was, is) = (large.2, before.memory_bytes);
    println!("{was} bytes before, {is} after; the other had {} and has {}", small.2, after.2);
    assert!(is < was / 4 && after.2 > small.2 * 4, "{was} {is} {} {}", small.2, after.2);
}

/// A volume's store and the directory, whose device carries out everything at once.
struct Bare {
    ssd: SimDisk,
    store: VolumeStore,
    directory: SpaceDirectory,
}

impl Bare {
    fn new(ssd_bytes: u64, extent_bytes: u64, blocks: u32) -> Bare {
        let volume = machine("lru", &["write_policy=wb"], Quota::new(0, blocks));
        let mut volume = Machine { ssd_bytes, extent_bytes, ..volume };
        volume.config.volume_bytes = ssd_bytes;
        let mut ssd = World::formatted_ssd(&volume).unwrap();
        let mut store = Store::open(&mut ssd).unwrap();
        let attached = store.attach(&mut ssd, &volume.spec()).unwrap();
        Bare { ssd, store: attached.into_ordered_store().0, directory: store.into_directory() }
    }

    /// Blocks newer than the backing disk that a start would find.
    fn dirty_after_restart(&mut self) -> u64 {
        let view = StoreView::read(&mut self.ssd).unwrap();
        view.count_blocks(&mut self.ssd, "vm").unwrap().dirty
    }

    fn put(&mut self, block: u64) -> u64 {
        let (places, bytes) = (self.store.places_mut(), pattern(block as u8, BLOCK as usize));
        let place = places.take();
        let crc = places.checksum(block, &bytes);
        places.put(place, block, crc, true, false, None);
        let at = self.store.offset(place);
        self.ssd.put(at, &bytes);
        at
    }

    /// Makes everything durable.
    fn commit(&mut self) {
        self.store.want_commit();
        self.run(|_, _| {});
    }

    /// Until the store wants nothing more. Each write or flush is told of before it is carried out.
    fn run(&mut self, mut told: impl FnMut(&mut Bare, Metadata)) {
        loop {
            self.store.commit(0, 0);
            let Some(output) = self.store.next_output() else { return };
            let (Output::Write { what, .. } | Output::Flush { what }) = output;
            told(self, what);
            match output {
                Output::Write { offset_bytes, buf, .. } => self.ssd.put(offset_bytes, buf.as_slice()),
                Output::Flush { .. } => self.ssd.settle(self.ssd.flush_mark()),
            }
            self.store.done(what);
        }
    }

    /// Has its turn, and ends it as soon as the directory says so, with nothing written since.
    fn change(&mut self, told: impl FnMut(&mut Bare, Metadata)) {
        self.run(|_, _| {});
        self.store.begin_change();
        self.run(told);
        self.end_change();
    }

    fn end_change(&mut self) {
        self.directory.begin(&self.store.next_change().expect("the tables say everything"));
        while let Some(output) = self.directory.next_output() {
            match output {
                DirectoryOutput::Write { offset_bytes, buf } => self.ssd.put(offset_bytes, buf.as_slice()),
                DirectoryOutput::Flush => self.ssd.settle(self.ssd.flush_mark()),
            }
            self.directory.done();
        }
        self.store.changed();
    }
}

/// What comes behind the last commit of a ring is in the tables before it is durable. Once it is, damage must not make it look as if
/// it never had been, although no page of a later ring speaks of it.
#[test]
fn g5_what_came_during_a_change_is_missed_after_the_next_one() {
    let mut bare = Bare::new(SSD_BYTES, 1 << 20, 600);
    bare.put(1);
    bare.commit();
    bare.store.circulate(2, 0);
    assert!(bare.store.give_up_empty());
    let mut late = None;
    bare.change(|bare, what| {
        if what == Metadata::JournalFlush && late.is_none() {
            late = Some(bare.put(2));
        }
    });
    let late = late.expect("there was a last commit");
    bare.commit();
    assert_eq!((bare.store.extents(), bare.directory.free_extents()), (2, 2));
    bare.store.circulate(1, 0);
    assert!(bare.store.give_up_empty());
    bare.change(|_, _| {});
    assert_eq!((bare.store.extents(), bare.directory.free_extents()), (1, 3));
    assert_eq!(bare.dirty_after_restart(), 2);
    bare.ssd.flip_bit(late, 3);
    assert_eq!(bare.dirty_after_restart(), 2, "it is damaged, and not absent");
}

/// All of the SSD was another volume's, or the same one's in an earlier life: of what its tables and its journal say there nothing counts
/// while an extent is unwritten, nor when it has been initialized.
#[test]
fn g4_what_is_in_an_unwritten_extent_counts_for_nothing() {
    let mut bare = Bare::new(SSD_BYTES, 1 << 20, 900);
    let all = bare.store.places().free();
    (0..u64::from(all)).for_each(|block| _ = bare.put(block));
    bare.commit();
    assert_eq!(bare.dirty_after_restart(), u64::from(all));
    let view = StoreView::read(&mut bare.ssd).unwrap();
    let mut spec = machine("lru", &["write_policy=wb"], Quota::new(0, 900)).spec();
    (spec.backing_bytes, spec.ready_places) = (SSD_BYTES, 1);
    Store::remove(&mut bare.ssd, view, "vm", true).unwrap();
    let mut store = Store::open(&mut bare.ssd).unwrap();
    let attached = store.attach(&mut bare.ssd, &spec).unwrap();
    assert_eq!((attached.recovered_blocks(), bare.dirty_after_restart()), ((0, 0), 0));
    (bare.store, bare.directory) = (attached.into_ordered_store().0, store.into_directory());
    assert!(bare.store.places().free() < 250 && bare.directory.free_extents() == 0);
    assert_eq!((bare.store.extents(), bare.store.usable_places()), (4, all));
    let (mut written, mut initialized) = (0, 0);
    while written < all {
        assert!(bare.store.places().free() > 0, "{written} of {all} are written");
        bare.put(written.into());
        written += 1;
        bare.store.initialize();
        if bare.store.is_changing() {
            // Nothing is written there before the directory says so, and nobody waits for it.
            bare.commit();
            assert_eq!(bare.dirty_after_restart(), u64::from(written));
            bare.change(|_, _| {});
            initialized += 1;
            assert_eq!(bare.dirty_after_restart(), u64::from(written));
        }
    }
    bare.commit();
    assert_eq!((bare.dirty_after_restart(), initialized), (u64::from(all), 2));
}

/// Extents that come lie before those that the volume has; one goes, so that another ring begins, and comes again.
#[test]
fn g2_extents_come_and_go_in_any_order() {
    let mut bare = Bare::new(SSD_BYTES, 1 << 20, 200);
    let mut spec = machine("lru", &["write_policy=wb"], Quota::new(0, 200)).spec();
    (spec.name, spec.backing_bytes, spec.places) = ("other".to_owned(), SSD_BYTES, 450);
    let mut store = Store::open(&mut bare.ssd).unwrap();
    store.attach(&mut bare.ssd, &spec).unwrap();
    let view = StoreView::read(&mut bare.ssd).unwrap();
    Store::remove(&mut bare.ssd, view, "vm", true).unwrap();
    let mut store = Store::open(&mut bare.ssd).unwrap();
    let attached = store.attach(&mut bare.ssd, &spec).unwrap();
    (bare.store, bare.directory) = (attached.into_ordered_store().0, store.into_directory());
    let count = |bare: &mut Bare| {
        let view = StoreView::read(&mut bare.ssd).unwrap();
        view.count_blocks(&mut bare.ssd, "other").unwrap().dirty
    };
    let gain = |bare: &mut Bare, extents| {
        let lent = bare.directory.lend(bare.store.tag(), extents);
        bare.store.gain(lent.clone());
        bare.change(|_, _| {});
        bare.store.initialize();
        bare.change(|_, _| {});
        lent
    };
    (0..300).for_each(|block| _ = bare.put(block));
    assert_eq!((gain(&mut bare, 2), bare.store.extents()), (vec![0, 3], 4));
    bare.store.circulate(3, 0);
    assert!(bare.store.give_up_empty());
    bare.change(|_, _| {});
    (300..500).for_each(|block| _ = bare.put(block));
    assert_eq!((gain(&mut bare, 1), bare.store.usable_places()), (vec![3], 4 * 244));
    // Around the ring, several times.
    for block in 500..900 {
        bare.put(block);
        bare.commit();
        assert_eq!(count(&mut bare), block + 1);
    }
}

/// A checkpoint is under way when a change begins, and does not come to its end. What it left undone is in both copies of
/// the tables all the same.
#[test]
fn g5_a_change_cuts_a_checkpoint_short() {
    const BLOCKS: u64 = 15_000;
    let mut bare = Bare::new(100 << 20, 16 << 20, 17_000);
    assert_eq!(bare.store.extents(), 5);
    bare.store.circulate(4, 0);
    assert!(bare.store.give_up_empty());
    (0..BLOCKS).for_each(|block| _ = bare.put(block));
    let (mut pages, mut ends_at) = (0, None);
    bare.run(|bare, what| {
        pages += u32::from(what == Metadata::TablePage);
        if what == Metadata::TablePage && ends_at.is_none() {
            bare.store.begin_change();
            ends_at = Some(0);
        }
        if what == Metadata::ShareFlush && ends_at == Some(0) {
            ends_at = Some(pages);
        }
    });
    bare.end_change();
    println!("{pages} pages written, {ends_at:?} of them before the first flush");
    assert_eq!((bare.store.extents(), bare.dirty_after_restart()), (4, BLOCKS));
    destroy_newer(&mut bare.ssd);
    assert_eq!(bare.dirty_after_restart(), BLOCKS);
}
