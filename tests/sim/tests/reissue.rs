//! Writes that are issued again, see `docs/design.md`: which completion counts, what waits for the slower one, and crashes
//! at every step.

use lode_engine::command::{Command, CommandKind, Completion, DeviceId, MediaError};
use lode_engine::{Answer, Buf, Engine, Gauges, GuestError, GuestOp, GuestRequest, Served};
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, machine, pattern, plan, reissuing, seeds};
use lode_sim::{Crash, Faults, Machine, Plan, RunCounts, SimDisk, World, run};
use lode_store::Store;
use lode_types::Bufs;

/// The block that the tests by hand are about, and its bytes.
const B: u64 = 5;
const AT: u64 = B * BLOCK;

/// One set that is only cleaned when it is full of dirty blocks.
const FULL_OF_DIRTY: [&str; 6] = [
    "admission=sync",
    "reissue=on",
    "assoc=0",
    "dirty_thresh_pct=100",
    "max_clean_ios_set=1",
    "fallow_delay_requests=0",
];

/// How a request ended, who served it, and the bytes of a read.
type Answered = (Result<(), GuestError>, Served, Vec<u8>);

/// An engine whose commands are carried out in the order that a test wants.
struct Hand {
    engine: Engine,
    ssd: SimDisk,
    backing: SimDisk,
    /// What the engine asked for and the devices have not done, with what a flush covers.
    under_way: Vec<(Command, u64)>,
    answers: Vec<Answer>,
    token: u64,
}

fn is_on(device: DeviceId) -> impl Fn(&Command) -> bool {
    move |command| command.device == device
}

fn is_disk_write(command: &Command) -> bool {
    command.device == DeviceId::Backing
        && !matches!(command.kind, CommandKind::Read { .. } | CommandKind::Flush)
}

impl Hand {
    fn new() -> Hand {
        Hand::on(&reissuing())
    }

    fn on(machine: &Machine) -> Hand {
        let mut ssd = World::formatted_ssd(machine).unwrap();
        let attached = Store::open(&mut ssd).unwrap().attach(&mut ssd, &machine.spec()).unwrap();
        let engine = Engine::new(machine.config, &machine.settings, Some(attached));
        let backing = SimDisk::new(machine.config.volume_bytes);
        let mut hand = Hand { engine, ssd, backing, under_way: Vec::new(), answers: Vec::new(), token: 0 };
        hand.all();
        hand
    }

    fn take(&mut self) {
        while let Some(command) = self.engine.next_command() {
            let disk = if command.device == DeviceId::Ssd { &self.ssd } else { &self.backing };
            self.under_way.push((command, disk.flush_mark()));
        }
        self.answers.extend(std::iter::from_fn(|| self.engine.next_answer()));
    }

    fn submit(&mut self, op: GuestOp) -> u64 {
        self.token += 1;
        self.engine.submit(GuestRequest { token: self.token, op, now_ns: 0 });
        self.take();
        self.token
    }

    fn write(&mut self, name: u8, fua: bool) -> u64 {
        let buf = Buf::copy_of(&pattern(name, BLOCK as usize));
        self.submit(GuestOp::write(AT, buf, fua))
    }

    fn read(&mut self) -> u64 {
        self.submit(GuestOp::Read { offset_bytes: AT, length_bytes: BLOCK })
    }

    fn finish(&mut self, at: usize, result: Result<(), MediaError>) {
        let (Command { id, device, kind, .. }, mark) = self.under_way.remove(at);
        let disk = if device == DeviceId::Ssd { &mut self.ssd } else { &mut self.backing };
        let mut filled = Bufs::new();
        match kind {
            CommandKind::Read { offset_bytes, bufs } => {
                filled = bufs;
                disk.peek_into(offset_bytes, &mut filled);
            }
            CommandKind::Write { offset_bytes, data } if result.is_ok() => {
                disk.put(offset_bytes, &data.concat());
            }
            CommandKind::Write { .. } => {}
            CommandKind::Flush => disk.settle(mark),
            CommandKind::Trim { offset_bytes, length_bytes }
            | CommandKind::WriteZeroes { offset_bytes, length_bytes, .. } => {
                disk.put(offset_bytes, &vec![0; length_bytes as usize]);
            }
        }
        self.engine.complete(Completion { id, result, bufs: filled });
        self.take();
    }

    /// Carries out all commands of this kind, also those that follow, and leaves the others.
    fn only(&mut self, kind: impl Fn(&Command) -> bool) {
        while let Some(at) = self.under_way.iter().position(|(command, _)| kind(command)) {
            self.finish(at, Ok(()));
        }
    }

    /// Carries out everything.
    fn all(&mut self) {
        const TICKS: usize = 8;
        for _ in 0..TICKS {
            self.only(|_| true);
            self.engine.tick();
            self.take();
        }
        self.only(|_| true);
    }

    fn fail_one(&mut self, kind: impl Fn(&Command) -> bool) {
        let at = self.under_way.iter().position(|(command, _)| kind(command)).expect("one of the kind");
        self.finish(at, Err(MediaError::Io));
    }

    fn count(&self, kind: impl Fn(&Command) -> bool) -> usize {
        self.under_way.iter().filter(|(command, _)| kind(command)).count()
    }

    fn answer(&mut self, token: u64) -> Option<Answered> {
        let at = self.answers.iter().position(|event| event.token == token)?;
        let event = self.answers.remove(at);
        Some((event.result, event.served, event.data.concat()))
    }

    fn is_answered(&mut self, token: u64, served: Served) {
        let (result, by, _) = self.answer(token).expect("an answer");
        assert_eq!((result, by), (Ok(()), served));
    }

    fn on_disk(&self) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK as usize];
        self.backing.peek(AT, &mut bytes);
        bytes
    }

    fn gauges(&self) -> Gauges {
        self.engine.gauges()
    }

    /// A plain write on its way to the disk, issued again because of a read.
    fn reissued() -> (Hand, u64, u64) {
        let mut hand = Hand::new();
        let write = hand.write(1, false);
        assert_eq!((hand.count(is_disk_write), hand.count(is_on(DeviceId::Ssd))), (1, 0));
        let read = hand.read();
        assert_eq!((hand.count(is_disk_write), hand.count(is_on(DeviceId::Ssd))), (1, 1), "issued again");
        (hand, write, read)
    }

    /// As [`Hand::reissued`]; the SSD has it and the guest its answer, and the disk's write is still to come.
    fn with_late_write() -> Hand {
        let (mut hand, write, read) = Hand::reissued();
        hand.only(is_on(DeviceId::Ssd));
        hand.is_answered(write, Served::Ssd);
        let (result, served, bytes) = hand.answer(read).expect("an answer");
        assert_eq!((result, served, bytes), (Ok(()), Served::Ssd, pattern(1, BLOCK as usize)));
        assert_eq!((hand.count(is_disk_write), hand.gauges().dirty_blocks), (1, 1));
        hand
    }
}

#[test]
fn the_first_completion_answers_and_the_second_is_discarded() {
    let mut hand = Hand::with_late_write();
    assert_eq!((hand.gauges().reissued_writes, hand.gauges().discarded_completions), (1, 0));
    assert!(!hand.engine.is_idle(), "the late write is under way");
    hand.only(is_disk_write);
    assert_eq!((hand.gauges().discarded_completions, hand.gauges().dirty_blocks), (1, 1), "it stays dirty");
    hand.all();
    assert!(hand.engine.is_idle() && hand.answers.is_empty());
}

#[test]
fn the_disk_may_be_first() {
    let (mut hand, write, read) = Hand::reissued();
    hand.only(is_disk_write);
    hand.is_answered(write, Served::Backing);
    assert!(hand.answer(read).is_none(), "the copy that is being made is the newest");
    hand.only(is_on(DeviceId::Ssd));
    hand.is_answered(read, Served::Ssd);
    assert_eq!((hand.gauges().discarded_completions, hand.gauges().dirty_blocks), (1, 1));
    hand.all();
    assert!(hand.engine.is_idle());
}

#[test]
fn a_write_with_fua_and_a_flush_issue_again_and_plain_writes_do_not() {
    for (fua, reissued) in [(true, 1), (false, 0)] {
        let mut hand = Hand::new();
        hand.write(1, false);
        hand.write(2, fua);
        assert_eq!(hand.gauges().reissued_writes, reissued, "fua: {fua}");
        hand.all();
        hand.read();
        hand.all();
        assert_eq!(hand.answers.last().unwrap().data.concat(), pattern(2, BLOCK as usize));
    }
    let mut hand = Hand::new();
    let write = hand.write(1, false);
    let flush = hand.submit(GuestOp::Flush);
    hand.only(is_on(DeviceId::Ssd));
    hand.is_answered(write, Served::Ssd);
    hand.is_answered(flush, Served::Dram);
    assert_eq!((hand.gauges().reissued_writes, hand.count(is_disk_write)), (1, 1));
}

#[test]
fn what_cannot_be_issued_again_is_left_to_the_disk() {
    // A part of a block.
    let mut hand = Hand::new();
    let buf = Buf::copy_of(&pattern(1, 512));
    hand.submit(GuestOp::write(AT, buf, false));
    hand.read();
    assert_eq!((hand.gauges().reissued_writes, hand.gauges().refused_reissues), (0, 1));
    hand.all();
    // A newer write of the block waits behind it.
    let mut hand = Hand::new();
    hand.write(1, false);
    hand.write(2, false);
    hand.read();
    assert_eq!((hand.gauges().reissued_writes, hand.gauges().refused_reissues), (0, 1));
    hand.read();
    assert_eq!(hand.gauges().refused_reissues, 1, "it is tried once");
    hand.all();
    assert_eq!(hand.on_disk(), pattern(2, BLOCK as usize));
}

#[test]
fn without_room_a_write_is_not_issued_again() {
    let mut machine = machine("request-oriented", &FULL_OF_DIRTY, Quota::new(0, 8));
    machine.config.reserve = Quota::new(0, 24);
    let mut hand = Hand::on(&machine);
    let write = |hand: &mut Hand, block: u64, fua| {
        let buf = Buf::copy_of(&pattern(block as u8, BLOCK as usize));
        hand.submit(GuestOp::write(block * BLOCK, buf, fua));
    };
    // All dirty but one, which the scheme cleans at the end of the last request.
    for block in 0..8 {
        write(&mut hand, block, true);
        hand.only(is_on(DeviceId::Ssd));
    }
    (100..104).for_each(|block| write(&mut hand, block, false));
    hand.submit(GuestOp::Flush);
    let gauges = hand.gauges();
    assert_eq!((gauges.reissued_writes, gauges.refused_reissues), (1, 3), "{gauges:?}");
    hand.all();
    assert!(hand.engine.is_idle() && hand.answers.iter().all(|event| event.result.is_ok()));
}

/// A request was let in because there were places enough for it, and for nothing else.
#[test]
fn a_reissue_leaves_places_to_the_request_that_caused_it() {
    let all_clean = ["admission=sync", "reissue=on", "assoc=0", "dirty_thresh_pct=0", "max_clean_ios_set=8"];
    let mut machine = machine("request-oriented", &all_clean, Quota::new(0, 8));
    machine.config.reserve = Quota::new(0, 4);
    let write = |hand: &mut Hand, block: u64, blocks: u64, fua| {
        let buf = Buf::copy_of(&pattern(block as u8, (blocks * BLOCK) as usize));
        hand.submit(GuestOp::write(block * BLOCK, buf, fua))
    };
    let (mut issued, mut refused) = (0, 0);
    // The SSD is slow, and each of these writes has a place.
    for writes_under_way in 0..20 {
        let mut hand = Hand::on(&machine);
        for block in 0..writes_under_way {
            write(&mut hand, block, 1, true);
        }
        write(&mut hand, 400, 1, false);
        write(&mut hand, 400, 4, true);
        hand.all();
        issued += hand.gauges().reissued_writes;
        refused += hand.gauges().refused_reissues;
        let is_good = hand.answers.iter().all(|event| event.result.is_ok());
        assert!(is_good && hand.answers.len() as u64 == writes_under_way + 2, "{writes_under_way}");
    }
    assert!(issued > 5 && refused > 0, "{issued} {refused}");
}

#[test]
fn one_device_may_fail() {
    // The SSD: the disk still has it.
    let (mut hand, write, read) = Hand::reissued();
    hand.fail_one(is_on(DeviceId::Ssd));
    assert!(hand.answer(write).is_none());
    hand.only(is_disk_write);
    hand.is_answered(write, Served::Backing);
    hand.all();
    hand.is_answered(read, Served::Backing);
    assert_eq!((hand.gauges().dirty_blocks, hand.gauges().ssd_blocks), (0, 0));
    // The disk: the SSD still has it.
    let (mut hand, write, _) = Hand::reissued();
    hand.fail_one(is_disk_write);
    assert!(hand.answer(write).is_none());
    hand.only(is_on(DeviceId::Ssd));
    hand.is_answered(write, Served::Ssd);
    assert_eq!(hand.gauges().dirty_blocks, 1);
    hand.engine.drain();
    hand.take();
    hand.all();
    assert_eq!(hand.on_disk(), pattern(1, BLOCK as usize));
    // The disk, after the guest was answered.
    let mut hand = Hand::with_late_write();
    hand.fail_one(is_disk_write);
    hand.engine.drain();
    hand.take();
    hand.all();
    assert_eq!((hand.on_disk(), hand.gauges().dirty_blocks), (pattern(1, BLOCK as usize), 0));
}

#[test]
fn both_devices_may_fail() {
    for ssd_first in [true, false] {
        let (mut hand, write, read) = Hand::reissued();
        if ssd_first {
            hand.fail_one(is_on(DeviceId::Ssd));
            hand.fail_one(is_disk_write);
        } else {
            hand.fail_one(is_disk_write);
            hand.fail_one(is_on(DeviceId::Ssd));
        }
        assert_eq!(hand.answer(write).expect("an answer").0, Err(GuestError::Io));
        hand.all();
        assert_eq!(hand.answer(read).expect("an answer").0, Ok(()));
        assert_eq!((hand.gauges().dirty_blocks, hand.engine.is_idle()), (0, true));
    }
}

/// Whatever concerns the disk waits for the late write, so that this one never undoes a newer one.
#[test]
fn g1_a_late_write_never_lands_on_something_newer() {
    type Newer = fn(&mut Hand) -> Vec<u8>;
    let newer: [(&str, Newer); 4] = [
        ("a destage of the same bytes", |hand| {
            hand.engine.drain();
            pattern(1, BLOCK as usize)
        }),
        ("a destage of newer bytes", |hand| {
            let write = hand.write(2, true);
            hand.only(is_on(DeviceId::Ssd));
            hand.is_answered(write, Served::Ssd);
            hand.engine.drain();
            pattern(2, BLOCK as usize)
        }),
        ("zeroes", |hand| {
            let op = GuestOp::WriteZeroes { offset_bytes: AT, length_bytes: BLOCK, fua: false, unmap: true };
            hand.submit(op);
            vec![0; BLOCK as usize]
        }),
        ("a trim", |hand| {
            hand.submit(GuestOp::Trim { offset_bytes: AT, length_bytes: BLOCK });
            vec![0; BLOCK as usize]
        }),
    ];
    for (name, newer) in newer {
        let mut hand = Hand::with_late_write();
        let want = newer(&mut hand);
        hand.take();
        for _ in 0..4 {
            hand.only(is_on(DeviceId::Ssd));
            hand.only(|command| is_on(DeviceId::Backing)(command) && !is_disk_write(command));
            hand.engine.tick();
            hand.take();
        }
        assert_eq!(hand.count(is_disk_write), 1, "{name}: only the late one");
        hand.only(is_disk_write);
        hand.all();
        assert_eq!(hand.on_disk(), want, "{name}");
        assert!(hand.engine.is_idle(), "{name}");
    }
}

/// A late write keeps nobody from reading and writing the block.
#[test]
fn the_ssd_goes_on_serving_meanwhile() {
    let mut hand = Hand::with_late_write();
    for name in 2..6 {
        // The scheme lets plain writes of a dirty block in as well.
        let write = hand.write(name, name.is_multiple_of(2));
        let read = hand.read();
        hand.only(is_on(DeviceId::Ssd));
        hand.is_answered(write, Served::Ssd);
        assert_eq!(hand.answer(read).expect("an answer").2, pattern(name, BLOCK as usize));
    }
    assert_eq!(hand.count(is_disk_write), 1);
    hand.all();
}

/// Simulated time until reads are answered that come right after a plain write of their block, each of another block:
/// mean, and how many blocks of data the SSD was given.
fn reads_after_writes(reissue: &str) -> (u64, u64) {
    const READS: u64 = 400;
    let pairs = ["admission=sync", reissue];
    let mut world = World::new(machine("request-oriented", &pairs, Quota::new(0, 60)), 1).unwrap();
    let (mut token, mut waited_ns) = (0, 0);
    let mut next = |world: &mut World, op| {
        token += 1;
        world.submit(GuestRequest { token, op, now_ns: world.now_ns() });
        token
    };
    for at in 0..READS {
        let offset_bytes = at * 7 % 500 * BLOCK;
        let buf = Buf::copy_of(&pattern(at as u8, BLOCK as usize));
        next(&mut world, GuestOp::write(offset_bytes, buf, false));
        let read = next(&mut world, GuestOp::Read { offset_bytes, length_bytes: BLOCK });
        let begin_ns = world.now_ns();
        while !world.take_events().iter().any(|event| event.token == read) {
            assert!(world.step_or_tick(), "the read is answered");
        }
        waited_ns += world.now_ns() - begin_ns;
        world.settle();
        world.take_events();
    }
    (waited_ns / READS, world.engine().counters().ssd_writes.total())
}

/// The point of it all. The numbers are in `docs/schemes/request-oriented.md`.
#[test]
fn who_waits_for_a_write_waits_for_the_faster_device() {
    let (plain_ns, plain_blocks) = reads_after_writes("reissue=off");
    let (reissued_ns, reissued_blocks) = reads_after_writes("reissue=on");
    println!(
        "mean wait {plain_ns} ns and {plain_blocks} blocks without, {reissued_ns} ns and {reissued_blocks} with"
    );
    assert!(reissued_ns * 5 < plain_ns, "{reissued_ns} ns against {plain_ns} ns");
    assert_eq!((plain_blocks, reissued_blocks), (0, 400));
}

/// A volume so small that nearly all requests meet, and now and then hardly more places than it has blocks cached.
fn crowded(is_tight: bool) -> Machine {
    let mut machine = reissuing();
    machine.config.volume_bytes = 16 * BLOCK;
    if is_tight {
        machine.config.share = Quota::new(0, 10);
        machine.config.reserve = Quota::new(0, 4);
    }
    machine
}

fn crowded_plan(seed: u64) -> Plan {
    Plan { longest_sectors: 16, depth: 8, ..plan(vec![crowded(seed.is_multiple_of(3))], seed) }
}

fn sum(plans: impl Iterator<Item = Plan>) -> RunCounts {
    let mut sum = RunCounts::default();
    for plan in plans {
        sum += run(&plan).unwrap_or_else(|error| panic!("{:?}: {error}", plan.most_steps));
    }
    println!("{sum:?}");
    sum
}

/// The host dies after the first completion, the second, and so on: what was acknowledged is there, whichever of the
/// two writes of a block the devices had.
#[test]
fn g2_a_crash_at_every_step_of_a_reissue() {
    for crash in [Crash::Power, Crash::Kill] {
        let steps = (1..40).flat_map(|steps| (0..seeds().div_ceil(3)).map(move |seed| (steps, seed)));
        let tally = sum(steps.map(|(steps, seed)| Plan {
            crash,
            most_steps: Some(steps),
            ..crowded_plan(seed * 1001 + steps)
        }));
        assert!(tally.reissued > 250 && tally.discarded > 100, "{tally:?}");
    }
}

/// Write-backs race with late writes, and the backing disk alone has what guests may read.
#[test]
fn g2_drains_among_late_writes() {
    let plans = (0..seeds() * 2).map(|seed| Plan { drains: 10, ends_drained: true, ..crowded_plan(seed) });
    let tally = sum(plans);
    assert!(tally.reissued > 200 && tally.discarded > 200 && tally.drained > 20, "{tally:?}");
}

/// Either of the two writes may fail, and what reads return must still be right.
#[test]
fn g7_reissues_that_fail() {
    let faults = [
        Faults { ssd_write_errors: 30, ..Faults::default() },
        Faults { backing_write_errors: 30, ..Faults::default() },
        Faults { ssd_write_errors: 20, backing_write_errors: 20, ..Faults::default() },
        Faults { ssd_metadata_errors: 5, ..Faults::default() },
        Faults { ssd_flush_errors: 5, ..Faults::default() },
    ];
    let cases = faults.into_iter().flat_map(|faults| (0..seeds()).map(move |seed| (faults, seed)));
    let tally = sum(cases.map(|(faults, seed)| Plan { faults, drains: 5, ..crowded_plan(seed) }));
    assert!(tally.reissued > 500 && tally.failed_writes > 100, "{tally:?}");
}
