//! Commands to a cache on several pairs, held against a single device.

use std::collections::BTreeMap;

use lode_types::{BlockSize, ByteList, Rng};

use super::*;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

fn array(pair_mib: &[u64]) -> ArrayCommands {
    let pair_bytes: Vec<u64> = pair_mib.iter().map(|mib| mib * MIB).collect();
    ArrayCommands::new(Arc::new(Stripes::new(&pair_bytes, MIB, BlockSize::KIB_4).unwrap()))
}

fn begun(array: &mut ArrayCommands, id: u64, kind: CommandKind) -> Vec<(usize, PairCommand)> {
    let mut sent = Vec::new();
    let options = PairOptions::default();
    array.begin(PairCommand { id, kind, options }, |pair, command| sent.push((pair, command)));
    sent
}

fn end(id: u64, result: Result<(), MediaError>) -> PairEnd {
    PairEnd { id, result, bufs: Bufs::new(), is_write: true }
}

fn zeroes(pages: u64) -> CommandKind {
    CommandKind::write(0, Buf::zeroed((pages * PAGE) as usize))
}

#[test]
fn with_one_pair_a_command_is_what_it_was() {
    let mut array = array(&[4]);
    for id in [0, 7] {
        let sent = begun(&mut array, id, CommandKind::Flush);
        assert!(
            matches!(&sent[..], [(0, PairCommand { id: same, kind: CommandKind::Flush, .. })] if *same == id)
        );
        assert_eq!(array.ended(end(id, Ok(()))).unwrap().id, id);
    }
    assert_eq!((array.token(0, 9), array.token_of(9)), (9, (0, 9)));
}

/// Guarantee 2: what is durable on one pair is not for that on the others.
#[test]
fn g2_a_flush_is_over_when_it_is_on_all_pairs() {
    let mut array = array(&[4, 4, 4]);
    for (failing, result) in [
        ([None; 3], Ok(())),
        ([None, Some(MediaError::Io), None], Err(MediaError::Io)),
        ([Some(MediaError::Gone), None, Some(MediaError::Io)], Err(MediaError::Gone)),
    ] {
        let sent = begun(&mut array, 5, CommandKind::Flush);
        let pairs: Vec<usize> = sent.iter().map(|(pair, _)| *pair).collect();
        assert_eq!(pairs, [0, 1, 2]);
        // A write meanwhile has an id of its own, whatever a flush is to the pairs.
        let write = begun(&mut array, 6, zeroes(1)).pop().unwrap().1;
        assert!(sent.iter().all(|(_, flush)| flush.id != write.id));
        for (pair, command) in sent.into_iter().rev() {
            let ended = array.ended(end(command.id, failing[pair].map_or(Ok(()), Err)));
            assert_eq!(ended.map(|end| (end.id, end.result)), (pair == 0).then_some((5, result)));
        }
        assert_eq!(array.ended(end(write.id, Ok(()))).unwrap().id, 6);
    }
    assert!(array.divided.is_empty() && array.parts.is_empty());
    for (pair, token) in [(0, 0), (2, 0), (1, 17)] {
        assert_eq!(array.token_of(array.token(pair, token)), (pair, token));
    }
}

/// A command of some kind to these buffers from here, and what a read is to give.
fn some_command(
    rng: &mut Rng,
    single: &mut [u8],
    (id, at): (u64, u64),
    lens: &[usize],
) -> (CommandKind, PairOptions, Option<Vec<u8>>) {
    let place = &mut single[at as usize..at as usize + lens.iter().sum::<usize>()];
    let (offset_bytes, length_bytes) = (at, place.len() as u64);
    match rng.below(4) {
        0 => {
            let checks = (0..).zip(lens).map(|(number, _)| (number, id as u32)).collect();
            let bufs = lens.iter().map(|&len| Buf::for_overwrite(len)).collect();
            let options =
                PairOptions { checks, every_copy: id.is_multiple_of(2), one_copy: id.is_multiple_of(2) };
            (CommandKind::Read { offset_bytes, bufs }, options, Some(place.to_vec()))
        }
        1 => {
            place.fill(0);
            let kind = CommandKind::WriteZeroes { offset_bytes, length_bytes, unmap: true };
            (kind, PairOptions::default(), None)
        }
        _ => {
            let first = rng.below(256) as usize;
            place.iter_mut().enumerate().for_each(|(at, byte)| *byte = (first + at / 100) as u8);
            let mut rest = &*place;
            let data: ByteList = lens
                .iter()
                .map(|&len| Buf::copy_of(rest.split_off(..len).expect("it is as long")).freeze())
                .collect();
            (CommandKind::Write { offset_bytes, data }, PairOptions::default(), None)
        }
    }
}

/// Random commands over extents' borders, of which each pair carries out its own when it comes to it.
#[test]
fn pairs_together_hold_what_a_single_device_does() {
    let (mut divided, mut reads) = (0, 0);
    for seed in 0..20 {
        let rng = &mut Rng::new(seed);
        let mib: Vec<u64> = (0..1 + rng.below(4)).map(|_| 2 + rng.below(4)).collect();
        let mut array = array(&mib);
        let mut pairs: Vec<Vec<u8>> = mib.iter().map(|mib| vec![0; (mib * MIB) as usize]).collect();
        let mut single = vec![0; array.stripes().size_bytes() as usize];
        for _ in 0..20 {
            // All at once under way, none of which meets another one, and then they end in any order.
            let (mut under_way, mut asked) = (Vec::new(), BTreeMap::new());
            let (mut at, mut id) = (rng.below(200) * PAGE, 0);
            loop {
                let lens: Vec<usize> =
                    (0..1 + rng.below(5)).map(|_| ((1 + rng.below(15)) * PAGE) as usize).collect();
                let length = lens.iter().sum::<usize>() as u64;
                if at + length > single.len() as u64 {
                    break;
                }
                let lens = cut(&array, at, &lens);
                let (kind, options, expected) = some_command(rng, &mut single, (id, at), &lens);
                expected.into_iter().for_each(|expected| _ = asked.insert(id, (expected, lens.len())));
                let before = under_way.len();
                array.begin(PairCommand { id, kind, options }, |pair, command| {
                    under_way.push((pair, command))
                });
                divided += usize::from(under_way.len() > before + 1);
                (at, id) = (at + length + rng.below(100) * PAGE, id + 1);
            }
            let (mut checked, mut over) = (BTreeMap::<u64, usize>::new(), 0);
            while !under_way.is_empty() {
                let (pair, command) = under_way.swap_remove(rng.below(under_way.len() as u64) as usize);
                let (part, is_write) = (command.id, !matches!(command.kind, CommandKind::Read { .. }));
                let (bufs, checks) = carry_out(&mut pairs[pair], command);
                checks.iter().for_each(|&(_, id)| *checked.entry(id.into()).or_default() += 1);
                let Some(end) = array.ended(PairEnd { id: part, result: Ok(()), bufs, is_write }) else {
                    continue;
                };
                over += 1;
                assert_eq!((end.result, end.is_write), (Ok(()), is_write));
                let Some((expected, checks)) = asked.remove(&end.id) else { continue };
                reads += 1;
                let found: Vec<u8> = end.bufs.iter().flat_map(|buf| buf.as_slice().to_vec()).collect();
                assert!(found == expected, "seed {seed}, read {}", end.id);
                assert_eq!(checked[&end.id], checks);
            }
            assert_eq!((over, asked.len()), (id, 0));
        }
    }
    assert!(divided > 500 && reads > 2000, "{divided} {reads}");
}

/// These lengths from here, cut where an extent ends: no buffer is on two.
fn cut(array: &ArrayCommands, mut at: u64, lens: &[usize]) -> Vec<usize> {
    let mut cut = Vec::new();
    for &len in lens {
        let parts = array.stripes().parts(at..at + len as u64);
        cut.extend(parts.iter().map(|part| part.length_bytes as usize));
        at += len as u64;
    }
    cut
}

/// Does on a pair what a command asks for.
fn carry_out(pair: &mut [u8], command: PairCommand) -> (Bufs, Vec<(u64, u32)>) {
    let (offset_bytes, length) = command.kind.range();
    let place = &mut pair[offset_bytes as usize..(offset_bytes + length) as usize];
    match command.kind {
        CommandKind::Read { mut bufs, .. } => {
            let (mut at, checks) = (0, command.options.checks.to_vec());
            assert_eq!(bufs.len(), checks.len());
            for buf in &mut bufs {
                let len = buf.len();
                buf.as_mut_slice().copy_from_slice(&place[at..at + len]);
                at += len;
            }
            // Blocks are numbered in the order of their buffers, and the parts keep that.
            assert!(checks.windows(2).all(|two| two[1].0 == two[0].0 + 1));
            let is_even = checks[0].1 % 2 == 0;
            assert_eq!((command.options.every_copy, command.options.one_copy), (is_even, is_even));
            (bufs, checks)
        }
        CommandKind::Write { data, .. } => {
            place.copy_from_slice(&data.concat());
            (Bufs::new(), Vec::new())
        }
        CommandKind::WriteZeroes { unmap, .. } => {
            assert!(unmap);
            place.fill(0);
            (Bufs::new(), Vec::new())
        }
        other => panic!("{other:?} was not asked for"),
    }
}
