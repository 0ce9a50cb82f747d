//! A cache on several pairs of SSDs: it holds what one on a single SSD does, and either SSD of each pair may go.

use lode_format::{CacheId, DeviceLayout, PairLabel, Superblock};
use lode_sim::SimDisk;
use lode_sim::scenario::first_seeds;
use lode_store::pair::{MEMBERS, Pair, PairArray, PairDevice, probe_pair};
use lode_store::{Store, StoreError, StoreErrorKind, StoreView, SyncDevice, VolumeSpec};
use lode_types::{BlockSize, Rng};

const MIB: u64 = 1 << 20;
const PAGE: u64 = lode_format::PAGE_BYTES as u64;
const CACHE: CacheId = CacheId([7; 16]);

/// Pairs whose two SSDs are of so many MiB, with an empty cache.
fn formatted(mib: &[u64]) -> Vec<[SimDisk; MEMBERS]> {
    let mut disks: Vec<_> = mib.iter().map(|mib| [0, 1].map(|_| SimDisk::new(mib * MIB))).collect();
    PairArray::format(borrowed(&mut disks), CACHE, BlockSize::KIB_4, Some(MIB)).unwrap();
    disks
}

fn borrowed(disks: &mut [[SimDisk; MEMBERS]]) -> Vec<[&mut SimDisk; MEMBERS]> {
    disks.iter_mut().map(|pair| pair.each_mut()).collect()
}

/// The cache as a start of a host sees it that remembers the first labels of each pair.
fn opened(disks: &mut [[SimDisk; MEMBERS]]) -> Result<PairArray<&mut SimDisk>, StoreError> {
    let labels: Vec<_> =
        disks.iter_mut().map(|pair| pair.each_mut().map(|disk| probe_pair(disk).ok())).collect();
    let pairs = Pair::all_of(&labels, &vec![Some(1); disks.len()])?;
    let devices = borrowed(disks).into_iter().zip(&labels).map(|(devices, labels)| {
        let mut there = labels.iter().map(Option::is_some);
        devices.map(|device| Some(device).filter(|_| there.next() == Some(true)))
    });
    let pairs = pairs.into_iter().zip(devices).map(|(pair, devices)| PairDevice::new(pair, devices));
    let mut array = PairArray::new(pairs.collect())?;
    array.begin(&labels)?;
    Ok(array)
}

#[test]
fn g2_several_pairs_hold_what_one_device_does() {
    for seed in first_seeds(12) {
        let rng = &mut Rng::new(seed);
        let mib: Vec<u64> = (0..1 + rng.below(4)).map(|_| 3 + rng.below(5)).collect();
        let mut disks = formatted(&mib);
        let mut array = opened(&mut disks).unwrap();
        let mut model = vec![0; array.size_bytes() as usize];
        array.read(0, &mut model).unwrap();
        for _ in 0..100 {
            let at = rng.below(array.size_bytes() / PAGE) * PAGE;
            let length = (PAGE * (1 + rng.below(400))).min(array.size_bytes() / PAGE * PAGE - at);
            let here = at as usize..(at + length) as usize;
            if rng.chance(50) {
                let name = rng.below(256) as usize;
                model[here.clone()]
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, byte)| *byte = (name + i / 300) as u8);
                array.write(at, &model[here]).unwrap();
            } else {
                let mut found = vec![0; length as usize];
                let read = if rng.chance(50) { PairArray::read } else { PairArray::read_pages };
                read(&mut array, at, &mut found).unwrap();
                assert!(found == model[here], "seed {seed}, {length} bytes at {at}");
            }
        }
        // What was flushed is there after a power cut, on either SSD of each pair.
        array.flush().unwrap();
        disks.iter_mut().flatten().for_each(|disk| disk.power_cut(rng));
        for pair in &mut disks {
            let gone = rng.below(MEMBERS as u64) as usize;
            pair[gone] = SimDisk::new(pair[gone].size_bytes());
        }
        let kept = &model[DeviceLayout::HEADS_BYTES as usize..];
        let mut found = vec![0; kept.len()];
        // Of superblocks a start believes only what was written there as such.
        array_of_labels(&mut disks).read(DeviceLayout::HEADS_BYTES, &mut found).unwrap();
        assert!(found == kept, "seed {seed}");
    }
}

/// The cache without a look at its superblock, which tests write over.
fn array_of_labels(disks: &mut [[SimDisk; MEMBERS]]) -> PairArray<&mut SimDisk> {
    let superblock = Superblock {
        cache: CACHE,
        generation: 1 << 40,
        epoch: 0,
        device_bytes: 64 * MIB,
        extent_bytes: MIB,
        block: BlockSize::KIB_4,
    };
    for disk in &mut disks[0] {
        disk.put(PairLabel::DATA_START_BYTES, &superblock.encode()[..]);
    }
    opened(disks).unwrap()
}

#[test]
fn capacity_adds_up() {
    let extents = |mib: &[u64]| {
        let mut disks = formatted(mib);
        let mut array = opened(&mut disks).unwrap();
        let view = StoreView::read(&mut array).unwrap();
        assert_eq!(array.pairs().count(), mib.len());
        view.free_extents()
    };
    assert_eq!(extents(&[5]), 3);
    assert_eq!(extents(&[5, 5]), 6);
    assert_eq!(extents(&[5, 4, 9]), 3 + 2 + 7);
    // A volume may have all of it.
    let mut disks = formatted(&[5, 4, 9]);
    let mut array = opened(&mut disks).unwrap();
    let spec = VolumeSpec {
        name: "vm".to_owned(),
        backing_bytes: 64 * MIB,
        places: 12 * 240,
        spare_places: 0,
        read_only: false,
        distrusts: None,
    };
    Store::open(&mut array).unwrap().attach(&mut array, &spec).unwrap();
    let view = StoreView::read(&mut array).unwrap();
    assert_eq!((view.free_extents(), view.volumes().next().unwrap().extents), (0, 12));
}

#[test]
fn g7_a_pair_of_which_neither_ssd_is_there_is_named() {
    for number in 0..3 {
        let mut disks = formatted(&[4, 4, 4]);
        for disk in &mut disks[number] {
            *disk = SimDisk::new(disk.size_bytes());
        }
        let refused = opened(&mut disks).unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::WrongMember);
        assert!(refused.to_string().contains(&format!("pair {} of 3", number + 1)), "{refused}");
    }
}

#[test]
fn a_superblock_of_another_cache_is_refused() {
    let mut disks = formatted(&[4, 4]);
    let [one, other] = [0, 1].map(|member| SimDisk::new(disks[0][member].size_bytes()));
    let mut others = [one, other];
    PairDevice::format(others.each_mut(), CacheId([8; 16]), BlockSize::KIB_4, Some(MIB)).unwrap();
    for (disk, other) in disks[0].iter_mut().zip(&others) {
        let mut page = vec![0; 2 * PAGE as usize];
        other.peek(PairLabel::DATA_START_BYTES, &mut page);
        disk.put(PairLabel::DATA_START_BYTES, &page);
    }
    let refused = opened(&mut disks).unwrap_err();
    assert!(refused.to_string().contains("pair 1 of 2"), "{refused}");
}
