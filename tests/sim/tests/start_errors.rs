//! Guarantees 2 and 5 of `docs/design.md` where reads, flushes or the power fail during a start, or a flush is cut short: an
//! error is not an absence, and one whole copy is always there.

use lode_engine::{GuestError, GuestOp, GuestRequest};
use lode_format::{DeviceLayout, PAGE_BYTES};
use lode_policy::Quota;
use lode_sim::scenario::{
    BLOCK, all_schemes, flush, machine, ordered, paired, pattern, plan, read, run_each, seeds, write,
};
use lode_sim::{Access, Crash, Machine, Plan, Rng, RunCounts, SimDisk, World};
use lode_store::{Distrust, Store, StoreError, StoreView, SyncDevice, VolumeSpec};
use lode_types::MediaError;

fn run_all(crash: Crash) -> RunCounts {
    let plan_of = |machine, seed| Plan { crash, start_read_errors: 80, ..plan(vec![machine], seed) };
    let sum = run_each(all_schemes(), seeds(), plan_of);
    assert!(sum.start_read_errors > 100, "{sum:?}");
    sum
}

#[test]
fn g5_reads_fail_during_starts_after_power_cuts() {
    run_all(Crash::Power);
}

#[test]
fn g5_reads_fail_during_starts_after_kills() {
    let tally = run_all(Crash::Kill);
    assert_eq!(tally.unreadable, 0, "what a kill left is known, and an error of the moment hides nothing");
}

/// A read that fails up to three times in a row and then succeeds hides nothing: it is tried again, or the start is refused and tried again.
#[test]
fn g5_reads_of_starts_that_need_several_tries_hide_nothing() {
    let plan_of = |machine, seed| {
        let plan = plan(vec![machine], seed);
        Plan {
            crash: Crash::Power,
            start_read_errors: 100,
            start_read_tries: 3,
            starts_at_once: true,
            ..plan
        }
    };
    let sum = run_each(all_schemes(), seeds(), plan_of);
    assert!(sum.start_read_errors > 100, "{sum:?}");
    assert_eq!((sum.unreadable, sum.failed_reads), (0, 0), "{sum:?}");
}

/// The other one has everything, but perhaps for what nobody was told is written: a start is refused for that, and never takes it for absent.
#[test]
fn g5_g9_reads_of_one_ssd_of_a_pair_that_fail_in_starts_hide_nothing() {
    for tries in [0, 2] {
        let plan_of = |machine, seed| Plan {
            start_read_errors: 100,
            start_read_tries: tries,
            start_reads_beside: true,
            requests: 150,
            ..plan(vec![paired(machine)], seed)
        };
        let sum = run_each(all_schemes(), seeds().div_ceil(4), plan_of);
        assert!(sum.start_read_errors > 40, "{sum:?}");
        assert_eq!((sum.unreadable, sum.failed_reads, sum.failed_writes), (0, 0, 0), "{sum:?}");
    }
}

/// A redo log of which something cannot be read is no empty one.
#[test]
fn g5_g11_reads_of_redo_logs_that_fail_in_starts_hide_nothing() {
    let plan_of = |machine, seed| Plan {
        start_read_errors: 100,
        start_reads_beside: true,
        requests: 150,
        drains: 2,
        ..plan(vec![ordered(machine, 24, 1)], seed)
    };
    let sum = run_each(all_schemes(), seeds().div_ceil(4), plan_of);
    assert!(sum.start_read_errors > 20, "{sum:?}");
}

/// Of several writes that a start has under way at once any may have happened when it is cut short.
#[test]
fn g2_starts_are_cut_short_with_several_writes_under_way() {
    for crash in [Crash::Power, Crash::Kill] {
        let plan_of = |machine, seed| Plan {
            crash,
            failed_starts: 3,
            starts_at_once: true,
            requests: 150,
            ..plan(vec![machine], seed)
        };
        let sum = run_each(all_schemes(), seeds().div_ceil(2), plan_of);
        assert!(sum.starts_cut > 300 && sum.failed_starts > 50, "{sum:?}");
        assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0), "{sum:?}");
    }
}

/// A write with FUA is durable before the journal says so. Whatever read of the next start fails, its bytes or an error
/// come back, in that run and in later ones.
#[test]
fn g5_a_read_error_during_a_start_never_brings_older_bytes_back() {
    let mut outcomes = [0, 0, 0];
    for kept_records in [0, 1024] {
        let lru = machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60));
        let machine = Machine { kept_records, ..lru };
        for failing_read in 0..MOST_READS {
            let mut world = World::new(machine.clone(), 1).unwrap();
            write(&mut world, 5 * BLOCK, BLOCK, 1).unwrap();
            flush(&mut world).unwrap();
            world.settle();
            write_durably(&mut world, 2);
            world.go_down(true);
            world.ssd.fail_read_after = Some(failing_read);
            let started = world.restart(machine.clone());
            world.ssd.end_read_errors();
            outcomes[0] += u32::from(started.is_err());
            for _later_life in 0..2 {
                if world.engine().alarms().unreadable_at_start > 0 {
                    outcomes[1] += 1;
                }
                world.go_down(true);
                world.restart(machine.clone()).unwrap();
                match read(&mut world, 5 * BLOCK, BLOCK) {
                    Ok(bytes) => {
                        assert!(bytes == pattern(2, BLOCK as usize), "read {failing_read}: older bytes")
                    }
                    Err(error) => assert_eq!(error, GuestError::Io),
                }
                flush(&mut world).unwrap();
            }
            outcomes[2] += 1;
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes[1] > 0, "some starts count what they could not read: {outcomes:?}");
}

/// A read that fails once and then not again hides nothing that was flushed, for ever: a newer copy that could not be looked at
/// might be torn.
#[test]
fn g2_a_read_that_fails_once_during_a_start_costs_nothing() {
    const BLOCKS: u64 = 20;
    let machine = machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60));
    let names = [1, 2].map(|name| pattern(name, (BLOCKS * BLOCK) as usize));
    let mut found = [0, 0];
    for (seed, failing_read) in (0..24).flat_map(|seed| (0..MOST_READS).map(move |read| (seed, read))) {
        let mut world = World::new(machine.clone(), seed).unwrap();
        write(&mut world, 5 * BLOCK, BLOCKS * BLOCK, 1).unwrap();
        flush(&mut world).unwrap();
        world.settle();
        write(&mut world, 5 * BLOCK, BLOCKS * BLOCK, 2).unwrap();
        world.submit(GuestRequest { token: 77, op: GuestOp::Flush, now_ns: 0 });
        (0..seed % 12).for_each(|_| _ = world.step());
        world.go_down(true);
        world.ssd.fail_nth = Some((Access::Read, failing_read));
        let _ = world.restart(machine.clone());
        world.ssd.fail_nth = None;
        world.go_down(true);
        world.restart(machine.clone()).unwrap();
        for block in 0..BLOCKS {
            let bytes = read(&mut world, (5 + block) * BLOCK, BLOCK);
            let bytes = bytes.unwrap_or_else(|error| panic!("{seed}, {failing_read}, {block}: {error:?}"));
            let at = (block * BLOCK) as usize..((block + 1) * BLOCK) as usize;
            let which = names.iter().position(|name| bytes[..] == name[at.clone()]);
            found[which.unwrap_or_else(|| panic!("{seed}, {failing_read}, {block}: other bytes"))] += 1;
        }
    }
    assert!(found.iter().all(|&blocks| blocks > 1000), "some writes arrive and some do not: {found:?}");
}

const MOST_READS: u64 = 90;

fn write_durably(world: &mut World, name: u8) {
    let buf = lode_engine::Buf::copy_of(&pattern(name, BLOCK as usize));
    let op = GuestOp::write(5 * BLOCK, buf, true);
    let event = world.serve(GuestRequest { token: 7, op, now_ns: 0 }).unwrap();
    event.result.unwrap();
}

/// What a start wrote before one of its flushes failed can be read by the next one, and no later flush covers it. The next
/// start must not rely on it when it writes over other copies: a power cut would take both.
#[test]
fn g2_a_flush_that_failed_during_a_start_is_not_believed_by_the_next() {
    let lru = machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60));
    let mut outcomes = [0, 0];
    for kept_records in [0, 1024] {
        let machine = Machine { kept_records, ..lru.clone() };
        for (first, second) in
            (0..MOST_WRITES).flat_map(|first| (0..MOST_WRITES).map(move |second| (first, second)))
        {
            let mut world = World::new(machine.clone(), first * MOST_WRITES + second).unwrap();
            write_durably(&mut world, 1);
            write(&mut world, 9 * BLOCK, BLOCK, 1).unwrap();
            write_durably(&mut world, 2);
            world.go_down(false);
            for (failing, then_power) in [(first, false), (second, true)] {
                world.ssd.fail_after = Some(failing);
                outcomes[usize::from(then_power)] += u32::from(world.restart(machine.clone()).is_err());
                world.ssd.fail_after = None;
                world.go_down(then_power);
            }
            world.restart(machine.clone()).unwrap_or_else(|error| panic!("{first}, {second}: {error}"));
            assert!(
                read(&mut world, 5 * BLOCK, BLOCK).unwrap() == pattern(2, BLOCK as usize),
                "{first}, {second}"
            );
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes.iter().all(|&failed| failed > 50), "starts fail, of both kinds: {outcomes:?}");
}

/// As above for the place tables, whose copies a start leaves alone where they are settled, so that a checkpoint is the first
/// to write over one.
#[test]
fn g2_a_flush_that_failed_during_a_start_is_not_believed_by_the_next_checkpoint() {
    let machine = machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60));
    // The first checkpoint of a run comes between.
    let (first_life, tries) = (20, 12);
    for (failing, at) in (0..MOST_WRITES).flat_map(|failing| (0..10 * tries).map(move |at| (failing, at))) {
        let (run, seed) = (first_life + at / tries, failing * 1000 + at);
        let mut world = World::new(machine.clone(), seed).unwrap();
        write(&mut world, 100 * BLOCK, 40 * BLOCK, 1).unwrap();
        flush(&mut world).unwrap();
        world.settle();
        world.go_down(false);
        world.ssd.fail_after = Some(failing);
        let _ = world.restart(machine.clone());
        world.ssd.fail_after = None;
        world.go_down(false);
        world.restart(machine.clone()).unwrap();
        for _ in 0..run {
            write(&mut world, 5 * BLOCK, 16 * BLOCK, 2).unwrap();
            flush(&mut world).unwrap();
        }
        world.go_down(true);
        world.restart(machine.clone()).unwrap_or_else(|error| panic!("{failing}, {run}: {error}"));
        for (block, name, blocks) in [(100, 1, 40), (5, 2, 16)].into_iter() {
            let found = read(&mut world, block * BLOCK, blocks * BLOCK).unwrap();
            assert!(found == pattern(name, (blocks * BLOCK) as usize), "{failing}, {run}: block {block}");
        }
    }
}

/// What a start does with the SSD.
fn attach(
    ssd: &mut dyn SyncDevice,
    machine: &Machine,
    distrusts: Option<Distrust>,
) -> Result<(), StoreError> {
    let spec = VolumeSpec { distrusts, ..machine.spec() };
    Store::open(&mut *ssd).and_then(|mut store| store.attach(ssd, &spec)).map(drop)
}

/// A run wrote a page of the tables, and the flush that should have covered it failed. The next start must not write over the other copy
/// before it has written that one again: where the power fails then, both may be torn.
#[test]
fn g2_tables_of_a_run_whose_flush_failed_are_not_believed_by_the_next_start() {
    let machine = machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60));
    let attach = |ssd: &mut SimDisk| attach(ssd, &machine, None);
    let mut failed = [0, 0];
    // A checkpoint of the run comes between.
    for failing in 16..40 {
        let mut world = World::new(machine.clone(), failing).unwrap();
        write(&mut world, 100 * BLOCK, 40 * BLOCK, 1).unwrap();
        flush(&mut world).unwrap();
        world.settle();
        world.go_down(false);
        world.restart(machine.clone()).unwrap();
        world.ssd.fail_nth = Some((Access::Flush, failing));
        let mut writes =
            (0..60).map(|_| write(&mut world, 5 * BLOCK, 16 * BLOCK, 2).is_ok() && flush(&mut world).is_ok());
        failed[0] += u32::from(writes.any(|is_durable| !is_durable));
        world.go_down(false);
        world.ssd.fail_nth = None;
        // Beside the tables a start writes the heads of the cache, and the blocks of the last commit.
        for (second, seed) in (0..MOST_WRITES).flat_map(|second| (0..40).map(move |seed| (second, seed))) {
            let mut ssd = world.ssd.clone();
            ssd.fail_after = Some(second);
            failed[1] += u32::from(attach(&mut ssd).is_err());
            ssd.fail_after = None;
            ssd.power_cut(&mut Rng::new(seed));
            attach(&mut ssd).unwrap_or_else(|error| panic!("{failing} and {second}, seed {seed}: {error}"));
        }
    }
    assert!(failed[0] == 24 && failed[1] > 1000, "{failed:?}");
}

/// A start that drops clean blocks comes to nothing, after a run that wrote nothing. What it wrote can be read, and the next start must not
/// take that for durable because nobody has written since: where the power fails while that writes the other copies, both may be torn.
#[test]
fn g2_what_a_start_wrote_that_came_to_nothing_is_written_again() {
    let machine = machine("lru", &["write_policy=wb"], Quota::new(0, 60));
    let attach = |ssd: &mut SimDisk, distrusts| attach(ssd, &machine, distrusts);
    let clean = |ssd: &mut SimDisk| {
        StoreView::read(ssd).and_then(|view| view.count_blocks(ssd, &machine.name)).unwrap().clean
    };
    let mut world = World::new(machine.clone(), 1).unwrap();
    write(&mut world, 100 * BLOCK, 40 * BLOCK, 1).unwrap();
    flush(&mut world).unwrap();
    world.drain();
    world.settle();
    world.go_down(true);
    attach(&mut world.ssd, None).unwrap();
    assert_eq!(clean(&mut world.ssd), 40);
    let mut failed = [0, 0];
    for (first, second) in
        (0..MOST_WRITES).flat_map(|first| (0..MOST_WRITES).map(move |second| (first, second)))
    {
        for seed in 0..20 {
            let mut ssd = world.ssd.clone();
            for (number, failing) in [first, second].into_iter().enumerate() {
                ssd.fail_after = Some(failing);
                failed[number] += u32::from(attach(&mut ssd, Some(Distrust::Clean)).is_err());
                ssd.fail_after = None;
            }
            ssd.power_cut(&mut Rng::new(seed));
            attach(&mut ssd, Some(Distrust::Clean))
                .unwrap_or_else(|error| panic!("{first} and {second} writes, seed {seed}: {error}"));
            assert_eq!(clean(&mut ssd), 0, "{first} and {second} writes, seed {seed}");
        }
    }
    assert!(failed.iter().all(|&failed| failed > 1000), "{failed:?}");
}

/// One SSD of a pair, the other one of which is not in sync.
struct OneOfPair<'a>(Counting<'a>);

impl SyncDevice for OneOfPair<'_> {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn has_copies(&self) -> bool {
        true
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.0.read(offset_bytes, buf)
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.0.write(offset_bytes, bytes)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.0.flush()
    }
}

/// What the other one has of the tables is nowhere read.
#[test]
fn g9_all_tables_are_written_again_where_one_ssd_is_in_sync() {
    let mut machine = machine("lru", &["write_policy=wb"], Quota::new(0, 1_000));
    (machine.ssd_bytes, machine.config.volume_bytes) = (64 << 20, 64 << 20);
    let mut world = World::new(machine.clone(), 1).unwrap();
    write(&mut world, 0, 40 * BLOCK, 1).unwrap();
    flush(&mut world).unwrap();
    world.settle();
    world.go_down(false);
    let tables = StoreView::read(&mut world.ssd).unwrap();
    let extent = tables.superblock().layout().unwrap().extent;
    let extents: u32 = tables.volumes().map(|volume| volume.extents).sum();
    let table_bytes = u64::from(extents) * u64::from(extent.table_pages) * 2 * PAGE_BYTES as u64;
    // After the first of them starts of one SSD write no tables.
    let alone = [0, 1].map(|_| {
        let mut device = Counting(&mut world.ssd, 0);
        attach(&mut device, &machine, None).unwrap();
        device.1
    });
    for start in 0..2 {
        let mut device = OneOfPair(Counting(&mut world.ssd, 0));
        attach(&mut device, &machine, None).unwrap();
        let more_bytes = device.0.1 - alone[1];
        assert!(more_bytes >= table_bytes, "start {start}: {more_bytes} bytes more, {table_bytes} of tables");
    }
}

/// Counts what is written.
struct Counting<'a>(&'a mut SimDisk, u64);

impl SyncDevice for Counting<'_> {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.0.read(offset_bytes, buf)
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.1 += bytes.len() as u64;
        self.0.write(offset_bytes, bytes)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.0.flush()
    }
}

#[test]
fn a_start_after_a_kill_writes_those_table_pages_again_that_the_last_run_wrote() {
    const VOLUME_BYTES: u64 = 64 << 20;
    let mut machine = machine("lru", &["write_policy=wb"], Quota::new(0, 10_000));
    (machine.ssd_bytes, machine.config.volume_bytes) = (64 << 20, VOLUME_BYTES);
    let start = |ssd: &mut SimDisk| {
        let mut device = Counting(ssd, 0);
        let mut store = Store::open(&mut device).unwrap();
        store.attach(&mut device, &machine.spec()).unwrap();
        device.1
    };
    let mut world = World::new(machine.clone(), 1).unwrap();
    world.go_down(false);
    let without = start(&mut world.ssd);
    world.restart(machine.clone()).unwrap();
    for block in 0..400 {
        write(&mut world, block * BLOCK, BLOCK, block as u8).unwrap();
        flush(&mut world).unwrap();
    }
    world.go_down(false);
    let (with, after) = (start(&mut world.ssd), start(&mut world.ssd));
    println!("{without} bytes, {with} after a run that wrote, {after} after that");
    assert!(with > without && after == without, "{without} {with} {after}");
    // Superblocks, directories and labels of the run, and no tables.
    assert!(without < 2 * DeviceLayout::HEADS_BYTES, "{without}");
}

/// What a checkpoint wrote and flushed is only written where it no longer says everything: both copies, each by itself. Where a kill finds
/// the next checkpoint on its way, what that wrote is written once more.
#[test]
fn a_start_after_a_kill_does_not_write_those_table_pages_again_that_a_checkpoint_flushed() {
    const BLOCKS: u64 = 8000;
    let mut machine = machine("lru", &["write_policy=wb"], Quota::new(0, BLOCKS as u32));
    (machine.ssd_bytes, machine.config.volume_bytes) = (64 << 20, 64 << 20);
    let mut world = World::new(machine.clone(), 1).unwrap();
    let mut least = u64::MAX;
    let mut table_bytes = 0;
    for number in 1..=5 * BLOCKS {
        write(&mut world, number % BLOCKS * BLOCK, BLOCK, number as u8).unwrap();
        if number % 32 == 0 {
            flush(&mut world).unwrap();
        }
        // Over more than the time from one checkpoint to the next one.
        if number > 4 * BLOCKS && number % 400 == 0 {
            let mut ssd = world.ssd.clone();
            let mut device = Counting(&mut ssd, 0);
            let mut store = Store::open(&mut device).unwrap();
            store.attach(&mut device, &machine.spec()).unwrap();
            least = least.min(device.1);
            let layout = store.superblock().layout().unwrap().extent;
            let extents = store.view().places_of(&machine.name) / u64::from(layout.places);
            table_bytes = extents * u64::from(layout.table_pages) * 8192;
        }
    }
    println!("{least} bytes at least, {table_bytes} of tables");
    let beside = 2 * DeviceLayout::HEADS_BYTES;
    assert!(least > table_bytes / 2 && least < table_bytes * 3 / 2 + beside, "{least} {table_bytes}");
}

/// Writes and flushes of a start, and some more.
const MOST_WRITES: u64 = 20;

/// Blocks that are written, flushed, and said by the tables to be so, and those of them that are written once more.
const BLOCKS: u64 = 250;
const REWRITTEN: u64 = 24;

fn large() -> Machine {
    machine("lru", &["write_policy=wb"], Quota::new(0, 300))
}

/// A host whose first blocks have a second version, which is not flushed.
fn rewritten(seed: u64) -> World {
    let mut world = World::new(large(), seed).unwrap();
    (0..BLOCKS).for_each(|block| write(&mut world, block * BLOCK, BLOCK, 1).unwrap());
    flush(&mut world).unwrap();
    world.settle();
    (0..REWRITTEN).for_each(|block| write(&mut world, block * BLOCK, BLOCK, 2).unwrap());
    world
}

/// The process is killed, the power fails after so many commands of the next start, and the one after that ends well.
fn kill_and_cut_the_next_start(world: &mut World, commands: u64) {
    world.go_down(false);
    world.ssd.fail_after = Some(commands);
    let _ = world.restart(large());
    world.ssd.fail_after = None;
    world.go_down(true);
    world.restart(large()).unwrap();
}

/// The power fails while a start takes over what a kill left. A table page that gives an older, flushed copy of a block up
/// must not be durable before the page that has the newer one, which only memory knew.
#[test]
fn g2_a_power_cut_during_a_start_after_a_kill_leaves_one_copy_or_the_other() {
    for (commands, seed) in
        (REWRITTEN..REWRITTEN + 30).flat_map(|commands| (0..6).map(move |seed| (commands, seed)))
    {
        let mut world = rewritten(seed);
        kill_and_cut_the_next_start(&mut world, commands);
        for block in 0..BLOCKS {
            let found = read(&mut world, block * BLOCK, BLOCK).unwrap();
            let is_version = |name| found == pattern(name, BLOCK as usize);
            assert!(
                is_version(1) || (block < REWRITTEN && is_version(2)),
                "{commands}, {seed}: block {block}"
            );
        }
    }
}

/// As above where the newer copies were flushed, too, and trimmed since, of which only memory and a page of the journal that no flush
/// covers know. What the cut start wrote may free the newer copy and not the older one, which must not come back.
#[test]
fn g2_a_power_cut_during_a_start_brings_no_copy_back_that_was_superseded() {
    let mut found_as = [0, 0];
    for (commands, seed) in (0..30).flat_map(|commands| (0..40).map(move |seed| (commands, seed))) {
        let mut world = rewritten(seed);
        flush(&mut world).unwrap();
        let op = GuestOp::Trim { offset_bytes: 0, length_bytes: REWRITTEN * BLOCK };
        world.submit(GuestRequest { token: 9, op, now_ns: 0 });
        // The backing disk durably has the zeroes, and the journal's page is written.
        (0..2).for_each(|_| assert!(world.step()));
        kill_and_cut_the_next_start(&mut world, commands);
        for block in 0..REWRITTEN {
            let found = read(&mut world, block * BLOCK, BLOCK).unwrap();
            let is_zero = found.iter().all(|&byte| byte == 0);
            assert!(is_zero || found == pattern(2, BLOCK as usize), "{commands}, {seed}: block {block}");
            found_as[usize::from(is_zero)] += 1;
        }
    }
    assert!(found_as.iter().all(|&blocks| blocks > 100), "trims arrive and do not: {found_as:?}");
}

/// Without memory for records a page of the journal is written before a write is acknowledged, and the flush comes later. A
/// power cut during that flush finds one side of the page whole.
#[test]
fn g2_a_journal_page_that_no_flush_covers_keeps_its_durable_side() {
    let lru = machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60));
    let machine = Machine { kept_records: 0, ..lru };
    for seed in 0..400 {
        let mut world = World::new(machine.clone(), seed).unwrap();
        write_durably(&mut world, 1);
        write(&mut world, 9 * BLOCK, BLOCK, 1).unwrap();
        let flush = GuestRequest { token: 8, op: GuestOp::Flush, now_ns: world.now_ns() };
        world.submit(flush);
        (0..seed % 4).for_each(|_| {
            world.step();
        });
        world.go_down(true);
        world.restart(machine.clone()).unwrap_or_else(|error| panic!("{seed}: {error}"));
        assert!(read(&mut world, 5 * BLOCK, BLOCK).unwrap() == pattern(1, BLOCK as usize), "{seed}");
    }
}
