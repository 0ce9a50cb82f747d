//! Arrays of disks, and levels beside them.

use lode_hardware::{Raid, ServiceTimes};
use lode_types::Level;

#[test]
fn arrays_have_the_disks_that_they_need() {
    let sizes = |raid: Raid| (0..8).filter_map(|disks| raid.data_disks(disks).ok()).collect::<Vec<_>>();
    assert_eq!(sizes(Raid::None), [1]);
    assert_eq!(sizes(Raid::Raid5), [2, 3, 4, 5, 6]);
    assert_eq!(sizes(Raid::Raid6), [2, 3, 4, 5]);
    assert_eq!(sizes(Raid::Raid10), [2, 3]);
    assert!(Raid::Raid5.data_disks(1000).is_ok() && Raid::Raid5.data_disks(1001).is_err());
}

/// A stripe written by hand: which disks are read and which are written for one block of data.
#[test]
fn penalties_are_those_of_a_stripe_written_by_hand() {
    for (raid, read_first, written) in [
        (Raid::None, vec![], vec!["data"]),
        (Raid::Raid10, vec![], vec!["data", "mirror"]),
        (Raid::Raid5, vec!["data", "parity"], vec!["data", "parity"]),
        (Raid::Raid6, vec!["data", "p", "q"], vec!["data", "p", "q"]),
    ] {
        let accesses = read_first.len() + written.len();
        assert_eq!(raid.small_write_accesses() as usize, accesses, "{raid:?}");
        assert_eq!(raid.write_passes() as usize, 1 + usize::from(!read_first.is_empty()), "{raid:?}");
        assert_eq!(raid.write_disks() as usize, written.len(), "{raid:?}");
    }
}

#[test]
fn levels_are_faster_than_disks() {
    let times = ServiceTimes::default();
    let reads = Level::ALL.map(|level| times.level_read_ns(level));
    let writes = Level::ALL.map(|level| times.level_write_ns(level));
    assert_eq!(reads, [2_000, 120_000, 120_000]);
    assert_eq!(writes, [2_000, 60_000, 60_000]);
    assert!(reads[1] < times.backing.random_read.ns);
    assert!(times.backing.sequential_read.ns < times.backing.random_read.ns);
}
