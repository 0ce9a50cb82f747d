//! Groups against a plain model: what they write where, in which order, and what is left when some of it fails.

use std::collections::{BTreeMap, BTreeSet};

use lode_format::{CacheId, RedoLabel, RedoTablePage, VolumeTag};
use lode_types::{Buf, Rng};

use super::*;

const CONFIG: OrderedConfig =
    OrderedConfig { group_blocks: 400, group_ticks: 2, max_lag_ticks: Some(5), last_group: 7, generation: 3 };

fn identity() -> Identity {
    Identity {
        cache: CacheId([9; 16]),
        volume: VolumeTag(5),
        layout: CONFIG.redo_layout(BlockSize::KIB_4),
        generation: CONFIG.generation,
    }
}

fn bytes(block: BlockNo) -> lode_types::Bytes {
    Buf::copy_of(&[block as u8; 4096]).freeze()
}

/// Devices that a group is written to.
#[derive(Default)]
struct Devices {
    log: BTreeMap<u64, lode_types::Bytes>,
    disk: BTreeMap<BlockNo, lode_types::Bytes>,
    /// Flushes of the log, and of the disk.
    flushes: [u32; 2],
}

fn facts(devices: &Devices) -> GroupFacts {
    let flushed = u64::from(devices.flushes[1]);
    GroupFacts {
        is_well: true,
        may_begin: true,
        disk_works: true,
        version: 3,
        durable: 3,
        mark: flushed,
        flushed,
    }
}

fn label() -> RedoLabel {
    let Identity { cache, volume, layout, .. } = identity();
    RedoLabel { cache, volume, volume_bytes: 1 << 30, layout }
}

fn state_of(devices: &Devices, copy: u8) -> Option<RedoState> {
    let label = label();
    RedoState::decode(&label, devices.log.get(&RedoLayout::state(copy))?).ok()
}

/// Takes the group to its end. Some writes fail, and are tried again at a tick. Gives the blocks to be noted as clean.
fn write_group(ordered: &mut Ordered, devices: &mut Devices, rng: &mut Rng, failing: u64) -> Vec<BlockNo> {
    let mut settled = None;
    loop {
        match ordered.next(&facts(devices)) {
            GroupNext::Wait if ordered.is_paused() => ordered.tick(),
            GroupNext::Wait => panic!("nothing is under way: {ordered:?}"),
            GroupNext::Lost => panic!("nothing is lost"),
            GroupNext::Write(numbers) => {
                for number in numbers {
                    let group = ordered.group_mut().unwrap();
                    let ok = !rng.chance(failing);
                    match group.write(&identity(), number) {
                        GroupWrite::Log(offset, bytes) if ok => drop(devices.log.insert(offset, bytes)),
                        GroupWrite::Disk(block, bytes) if ok => {
                            assert!(state_of(devices, 0).is_some_and(|state| state.blocks > 0));
                            devices.disk.insert(block, bytes);
                        }
                        _ => {}
                    }
                    group.write_ended(number, ok);
                }
            }
            GroupNext::FlushLog => {
                devices.flushes[0] += 1;
                ordered.group_mut().unwrap().log_flushed();
            }
            GroupNext::FlushDisk => {
                devices.flushes[1] += 1;
                ordered.group_mut().unwrap().await_disk(devices.flushes[1].into());
            }
            GroupNext::OnDisk => settled = Some(ordered.take_settled()),
            GroupNext::Over => {
                ordered.group_over();
                return settled.unwrap_or_default();
            }
        }
    }
}

fn capture(ordered: &mut Ordered, blocks: &[BlockNo]) {
    let group = ordered.group_mut().unwrap();
    for &block in blocks {
        group.captured(identity().volume, block, bytes(block));
        group.capture_ended(false);
    }
}

#[test]
fn a_group_is_in_the_log_before_it_is_on_the_disk() {
    let mut rng = Rng::new(1);
    for round in 0..60 {
        let mut ordered = Ordered::new(CONFIG);
        let mut devices = Devices::default();
        let blocks: BTreeSet<BlockNo> = (0..1 + rng.below(700)).map(|_| rng.below(2000)).collect();
        blocks.iter().for_each(|&block| ordered.dirtied(block));
        let blocks: Vec<BlockNo> = blocks.into_iter().collect();
        assert_eq!(ordered.cut(), blocks);
        capture(&mut ordered, &blocks);
        // Written again meanwhile.
        ordered.dirtied(blocks[0]);
        let settled = write_group(&mut ordered, &mut devices, &mut rng, round % 3 * 10);
        assert_eq!(settled, blocks);
        // Only what was written again is still to come to the disk.
        let owed: Vec<BlockNo> = blocks.iter().copied().filter(|&block| ordered.is_owed(block)).collect();
        assert_eq!(owed, blocks[..1]);
        assert_eq!(devices.flushes, [3, 1]);
        assert_eq!(devices.disk.keys().copied().collect::<Vec<_>>(), blocks);
        let label = label();
        let blocks_of_it = blocks.len() as u32;
        let full = RedoState { volume: label.volume, group: 8, blocks: blocks_of_it, generation: 3 };
        assert_eq!(state_of(&devices, 1), Some(RedoState { blocks: 0, ..full }));
        let entries = (0..RedoLayout::table_pages(full.blocks)).flat_map(|page| {
            let bytes = &devices.log[&RedoLayout::table_page(page)];
            RedoTablePage::decode(&label, &full, page, bytes).unwrap().entries
        });
        for (number, entry) in (0..).zip(entries.collect::<Vec<_>>()) {
            assert_eq!(entry.block, blocks[number as usize]);
            let bytes = &devices.log[&label.layout.block(number)];
            assert_eq!(lode_format::data_checksum(label.volume, entry.block, bytes), entry.crc);
        }
        let behind = ordered.behind();
        assert_eq!((behind.group, behind.blocks), (8, 1));
    }
}

/// An older copy that came back from the SSD would be older than the disk, and what came before a group may not come after it.
#[test]
fn a_group_waits_for_the_journal_and_for_what_the_disk_has_not_flushed() {
    let mut ordered = Ordered::new(CONFIG);
    ordered.dirtied(1);
    ordered.cut();
    capture(&mut ordered, &[1]);
    let ready = GroupFacts { version: 9, durable: 9, mark: 4, flushed: 4, ..facts(&Devices::default()) };
    let unrecorded = GroupFacts { durable: 8, ..ready };
    assert_eq!(ordered.next(&unrecorded), GroupNext::Wait);
    assert_eq!(ordered.next(&GroupFacts { flushed: 3, ..ready }), GroupNext::Wait);
    let waits = ordered.group().map(|group| (group.version_waited_for(), group.mark_waited_for()));
    assert_eq!(waits, Some((9, 4)));
    // Without a journal the host remembers first that nobody is to believe clean copies.
    assert_eq!(ordered.next(&GroupFacts { is_well: false, may_begin: false, ..unrecorded }), GroupNext::Wait);
    let rescue = GroupFacts { is_well: false, ..unrecorded };
    assert!(matches!(ordered.next(&rescue), GroupNext::Write(writes) if writes == [0, 1]));
}

#[test]
fn cuts_are_made_at_a_flush_in_time_and_without_one_later() {
    let mut ordered = Ordered::new(CONFIG);
    assert!(!ordered.is_due(true) && !ordered.is_due_at_flush(), "nothing gathered");
    ordered.dirtied(1);
    assert!(!ordered.is_due_at_flush() && ordered.is_due(true));
    (0..2).for_each(|_| ordered.tick());
    assert!(ordered.is_due_at_flush() && !ordered.is_due(false));
    ordered.tick();
    assert!(ordered.is_due(false));
    ordered.cut();
    ordered.dirtied(2);
    assert!(!ordered.is_due(true), "one group after the other");
    // Half of the room is reason enough at a flush, all of it without one.
    let mut ordered = Ordered::new(CONFIG);
    (0..200).for_each(|block| ordered.dirtied(block));
    assert!(ordered.is_due_at_flush() && !ordered.is_due(false));
    (200..400).for_each(|block| ordered.dirtied(block));
    assert!(ordered.is_due(false) && !ordered.has_room());
}

#[test]
fn the_disk_is_behind_by_the_first_write_that_it_lacks() {
    let mut ordered = Ordered::new(CONFIG);
    let lag = |ordered: &Ordered| (ordered.behind().ticks, ordered.behind().blocks);
    (0..9).for_each(|_| ordered.tick());
    assert_eq!(lag(&ordered), (0, 0));
    ordered.dirtied(1);
    (0..3).for_each(|_| ordered.tick());
    ordered.cut();
    ordered.dirtied(2);
    (0..2).for_each(|_| ordered.tick());
    assert_eq!(lag(&ordered), (5, 2));
    assert!(ordered.is_too_far_behind());
    capture(&mut ordered, &[1]);
    write_group(&mut ordered, &mut Devices::default(), &mut Rng::new(1), 0);
    assert_eq!(lag(&ordered), (2, 1));
    assert!(!ordered.is_too_far_behind());
}

#[test]
fn a_block_that_is_lost_undoes_the_cut() {
    let mut ordered = Ordered::new(CONFIG);
    (0..4).for_each(|block| ordered.dirtied(block));
    ordered.drain();
    ordered.cut();
    ordered.dirtied(9);
    capture(&mut ordered, &[0, 1, 2]);
    ordered.group_mut().unwrap().capture_ended(true);
    assert_eq!(ordered.next(&facts(&Devices::default())), GroupNext::Lost);
    ordered.undo_cut();
    assert_eq!((ordered.behind().blocks, ordered.drain_left()), (5, None));
    assert_eq!(ordered.cut(), [0, 1, 2, 3, 9]);
}

#[test]
fn a_drain_is_over_when_what_was_written_before_it_is_clean() {
    let mut ordered = Ordered::new(CONFIG);
    ordered.drain();
    assert_eq!(ordered.drain_left(), None);
    (0..3).for_each(|block| ordered.dirtied(block));
    ordered.cut();
    ordered.dirtied(7);
    ordered.drain();
    assert_eq!(ordered.drain_left(), Some(4));
    capture(&mut ordered, &[0, 1, 2]);
    let settled = write_group(&mut ordered, &mut Devices::default(), &mut Rng::new(1), 0);
    settled.iter().for_each(|_| ordered.settled());
    assert!(ordered.is_due(false), "the drain waits for another one");
    ordered.cut();
    ordered.dirtied(8);
    capture(&mut ordered, &[7]);
    let settled = write_group(&mut ordered, &mut Devices::default(), &mut Rng::new(1), 0);
    assert_eq!((settled.as_slice(), ordered.drain_left()), (&[7][..], Some(1)));
    ordered.settled();
    assert_eq!(ordered.drain_left(), None);
    assert!(!ordered.has_everything());
}

/// On a disk that takes longer for a group than there is between two cuts, a guest that flushes has its cuts at FLUSHes all the same.
#[test]
fn after_a_slow_group_a_flush_has_its_time() {
    let mut ordered = Ordered::new(CONFIG);
    ordered.dirtied(1);
    (0..=CONFIG.group_ticks).for_each(|_| ordered.tick());
    assert!(ordered.is_due(false));
    ordered.cut();
    ordered.dirtied(2);
    (0..20).for_each(|_| ordered.tick());
    capture(&mut ordered, &[1]);
    write_group(&mut ordered, &mut Devices::default(), &mut Rng::new(1), 0);
    ordered.settled();
    assert!(!ordered.is_busy() && !ordered.is_due(false) && ordered.is_due_at_flush());
    (0..=CONFIG.group_ticks).for_each(|_| ordered.tick());
    assert!(ordered.is_due(false), "nobody flushes");
}
