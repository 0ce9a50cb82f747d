//! Every management operation with the N-th read, write or flush of each of its devices failing, or, while no volume is served, the N-th of all
//! of them not being answered, and with the power failing at its N-th step, for N = 1, 2, 3 and so on until the operation ends without coming so far (guarantees 2, 4, 5, 6, 7, 9 and 11 of
//! `docs/design.md`). Afterwards the host goes down, once as when the daemon is killed and once as when the power fails; the operation is
//! then tried again if it has to be, and every block is what the guest wrote.
//!
//! The tables here are what is covered. Shares that change (`changes.rs`) and the directory's own part in volumes that are added, removed and
//! renamed (`membership.rs`) also have a power cut after every single write. Labels of a pair, what a resilver copies and flushes, and the
//! directory are writes, reads and flushes as all others.
//!
//! A test here that takes longer than [`MOST_SECONDS`] fails.

mod checks;
mod runs;
mod sharing;
mod sites;
mod trials;

use lode_engine::GuestError;
use lode_sim::scenario::{BLOCK, pattern, read};
use lode_sim::{Access, Machine, OtherPair, SimDisk, World};
use lode_store::StoreError;

use checks::*;
use runs::*;
use sites::*;
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
    /// The second SSD of the second pair.
    SecondOfOther,
    /// The one that holds the second copies of dirty blocks.
    ReadSsd,
    Backing,
    Redo,
}
use Device::{Backing, OfOther, ReadSsd, Redo, Second, SecondOfOther, Ssd};

const BOTH: &[Device] = &[Ssd, Second];
const PAIR_AND_DISK: &[Device] = &[Ssd, Second, Backing];
const OF_TWO_PAIRS: &[Device] = &[Ssd, Second, OfOther, SecondOfOther];
const OF_TWO_PAIRS_AND_DISK: &[Device] = &[Ssd, Second, OfOther, SecondOfOther, Backing];

const ACCESSES: &[Access] = &[Access::Read, Access::Write, Access::Flush];

/// A host before, during and after an operation.
struct Site {
    world: World,
    /// What it is started with afterwards.
    machine: Machine,
    /// A block that is damaged and may be lost, and others that are cached with it.
    lost: Option<u64>,
    /// The device that has something fail; none where the power does.
    failing: Option<Device>,
    /// A guest got an error, or no answer.
    guest_failed: bool,
    /// Volumes that share the cache, which is in the hands of the first one.
    others: Vec<World>,
    other_machines: Vec<Machine>,
    /// Writes to blocks that were never written before, of which every fourth had to be durable when it was answered, and was.
    fresh: u64,
}

impl Site {
    fn of(world: World, machine: Machine) -> Site {
        let (others, other_machines) = (Vec::new(), Vec::new());
        Site {
            world,
            machine,
            lost: None,
            failing: None,
            guest_failed: false,
            others,
            other_machines,
            fresh: 0,
        }
    }

    /// The volumes are served again.
    fn start(&mut self) -> Result<(), StoreError> {
        if self.others.is_empty() {
            return self.world.restart(self.machine.clone());
        }
        let machines: Vec<_> = std::iter::once(&self.machine).chain(&self.other_machines).cloned().collect();
        self.world.restart_with(&mut self.others, &machines)
    }

    /// Does something on each volume.
    fn each(&mut self, mut act: impl FnMut(&mut World)) {
        act(&mut self.world);
        self.others.iter_mut().for_each(|other| self.world.lend(other, &mut act));
    }

    fn go_down(&mut self, power_cut: bool) {
        self.each(|world| world.go_down(power_cut));
    }
}

/// What an operator does.
struct Operation {
    name: &'static str,
    devices: &'static [Device],
    /// Those of them that may fail without anybody noticing: the operation succeeds, and so does what the guest asks for meanwhile.
    spare: &'static [Device],
    /// What of theirs fails.
    failing: &'static [Access],
    /// It is done while no volume is served: that a device does not answer is tried as well, at each of its commands.
    is_offline: bool,
    prepare: fn() -> Site,
    /// Until it is over, or nothing happens any more. Says whether it succeeded.
    run: fn(&mut Site) -> bool,
    /// What must be so afterwards, beside what the guest finds. It may have succeeded or not.
    check: fn(&mut Site, bool),
}

/// A row of the tables.
const fn operation(
    name: &'static str,
    devices: &'static [Device],
    prepare: fn() -> Site,
    run: fn(&mut Site) -> bool,
    check: fn(&mut Site, bool),
) -> Operation {
    Operation { name, devices, spare: &[], failing: ACCESSES, is_offline: false, prepare, run, check }
}

impl Operation {
    /// It is done while no volume is served.
    const fn offline(self) -> Operation {
        Operation { is_offline: true, ..self }
    }

    /// That these fail is not noticed.
    const fn spares(self, spare: &'static [Device]) -> Operation {
        Operation { spare, ..self }
    }

    /// Nothing else of them fails.
    const fn with_reads_alone(self) -> Operation {
        Operation { failing: &[Access::Read], ..self }
    }
}

/// On a volume that is alone on its cache SSD.
const ON_ONE_SSD: &[Operation] = &[
    operation("format", &[Ssd], unused, formats, is_formatted_or_nothing).offline(),
    operation("format of a read SSD", &[Ssd], unused, formats_read_ssd, read_ssd_is_formatted_or_nothing)
        .offline(),
    operation("first start of a volume", &[Ssd], formatted, starts, serves_a_guest).offline(),
    operation("start after a kill", &[Ssd], killed, starts, nothing_more).offline(),
    operation("start after a power cut", &[Ssd], cut, starts, nothing_more).offline(),
    operation("removal offline", &[Ssd], two_volumes, removes, other_is_there_or_gone).offline(),
    operation("check and repair", &[Ssd], damaged_clean, repairs, nothing_more).offline(),
    operation("repair beside a damaged dirty block", &[Ssd], damaged_dirty, repairs, nothing_more).offline(),
    operation("repair of newer copies", &[Ssd], without_newer, repairs, has_both_copies).offline(),
    operation("repair of older copies", &[Ssd], without_older, repairs, has_both_copies).offline(),
    operation("start without newer copies", &[Ssd], without_newer, starts, nothing_more).offline(),
    operation("recovery of a redo log", &[Backing, Redo], group_in_log, starts, nothing_more).offline(),
    operation("drain", &[Ssd, Backing], dirty, drains, drained_is_on_disk),
    operation("drain in order", &[Ssd, Backing, Redo], dirty_in_order, drains, drained_is_on_disk),
    operation("migration", &[Ssd, Backing], dirty, migrates, drained_is_on_disk),
    operation("scheme switch", &[Ssd, Backing], dirty, switches, nothing_more),
    operation("scrub", &[Ssd, Backing], rotten, scrubs, nothing_more),
    operation("scrub of clean blocks", &[Ssd, Backing], rotten_clean, scrubs, nothing_more),
    operation("reads of damage", &[Ssd, Backing], rotten_clean, reads_all, nothing_more),
];

/// On a volume whose dirty blocks are on a read SSD as well.
const WITH_READ_SSD: &[Operation] = &[
    operation("drain", &[Ssd, ReadSsd, Backing], dirty_on_two, drains, drained_is_on_disk).spares(&[ReadSsd]),
    operation("migration", &[Ssd, ReadSsd, Backing], dirty_on_two, migrates, drained_is_on_disk)
        .spares(&[ReadSsd]),
    operation("scheme switch", &[Ssd, ReadSsd, Backing], dirty_on_two, switches, nothing_more)
        .spares(&[ReadSsd]),
    operation(
        "switch to a scheme with a read SSD",
        &[Ssd, ReadSsd, Backing],
        dirty_on_one,
        mirrors,
        nothing_more,
    )
    .spares(&[ReadSsd]),
    operation("scrub", &[Ssd, ReadSsd, Backing], rotten_on_one, scrubs, is_repaired_if_served_on),
    operation("reads of damage", &[Ssd, ReadSsd, Backing], rotten_mirror, reads_all, nothing_more)
        .spares(&[ReadSsd]),
];

/// On a volume that is alone on a pair of SSDs.
const ON_A_PAIR: &[Operation] = &[
    operation("format", BOTH, unused_pair, formats_pairs, pairs_are_formatted_or_nothing).offline(),
    operation("start", BOTH, killed_pair, starts, nothing_more).offline(),
    operation("drain", &[Ssd, Second, Backing], dirty_pair, drains, drained_is_on_disk).spares(BOTH),
    operation("migration", &[Ssd, Second, Backing], dirty_pair, migrates, drained_is_on_disk).spares(BOTH),
    operation("scheme switch", &[Ssd, Second, Backing], dirty_pair, switches, nothing_more).spares(BOTH),
    operation("scrub", &[Ssd, Second, Backing], rotten_on_first, scrubs, is_healed).spares(&[Ssd]),
    operation("reads of damage", &[Ssd, Second, Backing], rotten_on_first, reads_all, is_healed)
        .spares(&[Ssd]),
    operation("scrub of clean blocks", &[Ssd, Second, Backing], rotten_clean_on_pair, scrubs, nothing_more)
        .spares(BOTH),
    operation("reads past an error", &[Second, Backing], unreadable_on_first, reads_all, nothing_more),
    operation("scrub past an error", &[Second, Backing], unreadable_on_first, scrubs, nothing_more),
    operation("removal offline", BOTH, two_volumes_on_pair, removes, other_is_there_or_gone).offline(),
    operation("check and repair", BOTH, damaged_on_first, repairs, is_healed).offline(),
    operation("repair of newer copies", BOTH, without_newer_on_first, repairs, nothing_more).offline(),
    operation("start without newer copies", BOTH, without_newer_on_first, starts, nothing_more).offline(),
    // The second one is all that is left of them.
    operation("repair of all copies", &[Ssd], without_any_on_first, repairs, has_both_copies).offline(),
    operation("repair of all copies that fails to read", BOTH, without_any_on_first, repairs, nothing_more)
        .with_reads_alone(),
    operation("start without any copies", &[Ssd], without_any_on_first, starts, nothing_more).offline(),
    operation(
        "start without any copies that fails to read",
        BOTH,
        without_any_on_first,
        starts,
        nothing_more,
    )
    .with_reads_alone(),
    operation("SSD taken out", BOTH, dirty_pair, takes_out, nothing_more).spares(&[Second]),
    operation("SSD replaced", BOTH, dirty_pair, replaces, nobody_notices_the_second),
    operation("first SSD replaced", BOTH, dirty_pair, replaces_first, nobody_notices_the_first),
    operation("second SSD comes", BOTH, dirty_before_second, second_comes, nobody_notices_the_second),
    operation("SSD taken out offline", BOTH, killed_pair, takes_out_offline, nothing_more).offline(),
    operation("SSD replaced offline", BOTH, killed_pair, replaces_offline, is_resilvered).offline(),
    operation("SSD resilvered after a start", BOTH, one_is_new, starts_and_resilvers, nothing_more),
];

/// On a volume that is spread over two pairs of SSDs.
const ON_TWO_PAIRS: &[Operation] = &[
    operation("format", OF_TWO_PAIRS, unused_pairs, formats_pairs, pairs_are_formatted_or_nothing).offline(),
    operation("start", OF_TWO_PAIRS, killed_pairs, starts, nothing_more).offline(),
    operation("drain", OF_TWO_PAIRS_AND_DISK, dirty_pairs, drains, drained_is_on_disk).spares(OF_TWO_PAIRS),
    operation("migration", OF_TWO_PAIRS_AND_DISK, dirty_pairs, migrates, drained_is_on_disk)
        .spares(OF_TWO_PAIRS),
    operation("scheme switch", OF_TWO_PAIRS_AND_DISK, dirty_pairs, switches, nothing_more)
        .spares(OF_TWO_PAIRS),
    operation("scrub", OF_TWO_PAIRS_AND_DISK, rotten_on_other, scrubs, is_healed)
        .spares(&[Ssd, Second, OfOther]),
    operation("SSD of the second pair replaced", OF_TWO_PAIRS, dirty_pairs, replaces_in_other, nothing_more)
        .spares(BOTH),
];

/// On a volume that shares its SSD with another one, with which it divides it while both are served.
const SHARING_AN_SSD: &[Operation] = &[
    operation("shares change", &[Ssd, Backing], sharing::large, sharing::shrinks, nothing_more),
    operation("share grows", &[Ssd, Backing], sharing::small, sharing::grows, nothing_more),
    operation("extents initialized", &[Ssd], sharing::unwritten, sharing::initializes, nothing_more),
    operation("volume renamed", &[Ssd], sharing::small, sharing::renames, sharing::has_either_name),
    operation(
        "drain and removal",
        &[Ssd, Backing],
        sharing::small_blocks,
        sharing::removes,
        sharing::is_gone,
    ),
    operation("volume comes", &[Ssd, Backing], sharing::left, sharing::comes, nothing_more),
];

/// The same on a pair of SSDs.
const SHARING_A_PAIR: &[Operation] = &[
    operation("shares change", PAIR_AND_DISK, sharing::large_on_pair, sharing::shrinks, nothing_more)
        .spares(BOTH),
    operation("share grows", PAIR_AND_DISK, sharing::small_on_pair, sharing::grows, nothing_more)
        .spares(BOTH),
    operation("extents initialized", BOTH, sharing::unwritten_on_pair, sharing::initializes, nothing_more)
        .spares(BOTH),
    operation("volume renamed", BOTH, sharing::small_on_pair, sharing::renames, sharing::has_either_name)
        .spares(BOTH),
    operation(
        "drain and removal",
        PAIR_AND_DISK,
        sharing::small_blocks_on_pair,
        sharing::removes,
        sharing::is_gone,
    )
    .spares(BOTH),
    operation("volume comes", PAIR_AND_DISK, sharing::left_on_pair, sharing::comes, nothing_more)
        .spares(BOTH),
];

/// The same on two pairs.
const SHARING_TWO_PAIRS: &[Operation] = &[
    operation(
        "shares change",
        OF_TWO_PAIRS_AND_DISK,
        sharing::large_on_two_pairs,
        sharing::shrinks,
        nothing_more,
    )
    .spares(OF_TWO_PAIRS),
    operation(
        "share grows",
        OF_TWO_PAIRS_AND_DISK,
        sharing::small_on_two_pairs,
        sharing::grows,
        nothing_more,
    )
    .spares(OF_TWO_PAIRS),
    operation(
        "extents initialized",
        OF_TWO_PAIRS,
        sharing::unwritten_on_two_pairs,
        sharing::initializes,
        nothing_more,
    )
    .spares(OF_TWO_PAIRS),
    operation(
        "volume renamed",
        OF_TWO_PAIRS,
        sharing::small_on_two_pairs,
        sharing::renames,
        sharing::has_either_name,
    )
    .spares(OF_TWO_PAIRS),
    operation(
        "drain and removal",
        OF_TWO_PAIRS_AND_DISK,
        sharing::small_blocks_on_two_pairs,
        sharing::removes,
        sharing::is_gone,
    )
    .spares(OF_TWO_PAIRS),
    operation(
        "volume comes",
        OF_TWO_PAIRS_AND_DISK,
        sharing::left_on_two_pairs,
        sharing::comes,
        nothing_more,
    )
    .spares(OF_TWO_PAIRS),
];

fn disk(world: &mut World, device: Device) -> &mut SimDisk {
    match device {
        Ssd => &mut world.ssd,
        OfOther => &mut world.other_pairs[0].first,
        SecondOfOther => &mut world.other_pairs[0].pair.second,
        Second => &mut world.pair.as_mut().expect("a pair").second,
        ReadSsd => &mut world.read_ssd,
        Backing => &mut world.backing,
        Redo => &mut world.redo,
    }
}

/// Nothing more fails on any device.
fn end_failures(world: &mut World) {
    let World { ssd, pair, other_pairs, read_ssd, backing, redo, .. } = world;
    let others = other_pairs.iter_mut().flat_map(|OtherPair { first, pair }| [first, &mut pair.second]);
    let second = pair.as_mut().map(|pair| &mut pair.second);
    for disk in [ssd, read_ssd, backing, redo].into_iter().chain(second).chain(others) {
        (disk.fail_nth, disk.fail_after) = (None, None);
        disk.end_read_errors();
    }
}

/// The guest finds every block, in this run and in the next one.
fn check_guest(site: &mut Site, what: &str) {
    let block_bytes = site.machine.config.block.bytes();
    let lost = site.lost.map(|block| at(block) / block_bytes);
    for life in 0..2 {
        site.start().unwrap_or_else(|error| panic!("{what}, start {life}: {error}"));
        for block in 0..BLOCKS {
            let found = read(&mut site.world, at(block), BLOCK);
            let is_lost = lost == Some(at(block) / block_bytes);
            let expected = pattern(name_of(block), BLOCK as usize);
            assert!(
                found == Ok(expected) || (is_lost && found == Err(GuestError::Io)),
                "{what}, start {life}: block {block}"
            );
        }
        sharing::check_more(site, &format!("{what}, start {life}"));
        site.each(World::settle);
        site.go_down(true);
    }
}

#[test]
fn g2_g7_every_operation_on_one_ssd_with_every_single_failure() {
    Trials::of_all(ON_ONE_SSD, 2000);
}

#[test]
fn g2_g7_g9_every_operation_with_a_read_ssd_with_every_single_failure() {
    Trials::of_all(WITH_READ_SSD, 1000);
}

#[test]
fn g2_g7_g9_every_operation_on_a_pair_with_every_single_failure() {
    Trials::of_all(ON_A_PAIR, 2000);
}

#[test]
fn g2_g7_g9_every_operation_on_two_pairs_with_every_single_failure() {
    Trials::of_all(ON_TWO_PAIRS, 500);
}

#[test]
fn g2_g4_g7_every_operation_beside_others_with_every_single_failure() {
    Trials::of_all(SHARING_AN_SSD, 500);
}

#[test]
fn g2_g4_g7_g9_every_operation_beside_others_on_a_pair_with_every_single_failure() {
    Trials::of_all(SHARING_A_PAIR, 500);
}

#[test]
fn g2_g4_g7_g9_every_operation_beside_others_on_two_pairs_with_every_single_failure() {
    Trials::of_all(SHARING_TWO_PAIRS, 500);
}
