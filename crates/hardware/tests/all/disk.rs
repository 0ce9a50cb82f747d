//! What a disk takes, by where its head is.

use lode_hardware::{BackingTimes, Command, Disk};

const RAID5: BackingTimes = BackingTimes {
    random_read: Command { ns: 8_000_000, work_ns: 8_000_000 },
    random_write: Command { ns: 16_000_000, work_ns: 32_000_000 },
    sequential_read: Command { ns: 100_000, work_ns: 200_000 },
    sequential_write: Command { ns: 110_000, work_ns: 300_000 },
    arm: None,
};

#[test]
fn only_the_next_address_is_sequential() {
    let times = BackingTimes::default();
    let mut disk = Disk::default();
    let (random, sequential) = (times.random_read.ns, times.sequential_read.ns);
    for (address, expected) in [
        (0, random),
        (1, sequential),
        (1, random),
        (2, sequential),
        (4, random),
        (3, random),
        (4, sequential),
    ] {
        assert_eq!(disk.read_ns(address, &times), expected, "{address}");
    }
    assert_eq!(disk.work_ns(), 4 * random + 3 * sequential);
}

#[test]
fn reads_and_writes_share_the_head() {
    let mut disk = Disk::default();
    assert_eq!(disk.read_ns(7, &RAID5), RAID5.random_read.ns);
    assert_eq!(disk.write_ns(8, &RAID5), RAID5.sequential_write.ns);
    assert_eq!(disk.write_ns(20, &RAID5), 2 * RAID5.random_read.ns);
    assert_eq!(disk.read_ns(21, &RAID5), RAID5.sequential_read.ns);
    assert_eq!(disk.work_ns(), 8_000_000 + 300_000 + 32_000_000 + 200_000);
}

#[test]
fn nothing_follows_the_last_address() {
    let times = BackingTimes::default();
    let mut disk = Disk::default();
    assert_eq!(disk.read_ns(u64::MAX, &times), times.random_read.ns);
    assert_eq!(disk.read_ns(0, &times), times.random_read.ns);
}
