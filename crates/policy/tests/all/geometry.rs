//! Which set a block belongs to, and how many blocks sets have.

use lode_policy::{Geometry, MapKind};
use proptest::prelude::*;

#[test]
fn a_gibibyte_is_512_sets_of_512() {
    let geometry = Geometry::new(512, MapKind::Modulo, 262_144);
    assert_eq!((geometry.sets(), geometry.ways(0), geometry.ways(511)), (512, 512, 512));
    assert_eq!(geometry.set_of(511), 0);
    assert_eq!(geometry.set_of(512), 1);
    assert_eq!(geometry.set_of(512 * 512), 0);
}

#[test]
fn less_than_a_set_is_one_set_of_that_many_ways() {
    for blocks in [0, 1, 300, 512, 1023] {
        let geometry = Geometry::new(512, MapKind::Jhash, blocks);
        assert_eq!((geometry.sets(), geometry.ways(0)), (1, blocks));
    }
    assert_eq!(Geometry::new(0, MapKind::Modulo, 1 << 30).sets(), 1);
}

#[test]
fn a_small_wobble_keeps_the_sets() {
    let geometry = Geometry::new(512, MapKind::Modulo, 2048);
    assert_eq!(geometry.resized(2047).sets(), 4);
    assert_eq!(geometry.resized(1536).sets(), 4);
    assert_eq!(geometry.resized(1535).sets(), 2);
    assert_eq!(geometry.resized(4095).sets(), 4);
    assert_eq!(geometry.resized(4096).sets(), 8);
    assert_eq!(geometry.resized(0).sets(), 1);
}

#[test]
fn jhash_spreads_neighbouring_clusters() {
    let geometry = Geometry::new(512, MapKind::Jhash, 512 * 1024);
    let mut counts = vec![0u32; 1024];
    for cluster in 0..64 * 1024u64 {
        counts[geometry.set_of(cluster << 9) as usize] += 1;
    }
    assert!(counts.iter().all(|&n| (24..120).contains(&n)), "{counts:?}");
}

proptest! {
    #[test]
    fn ways_add_up_to_the_share(assoc in 0u32..700, blocks in 0u32..200_000, next in 0u32..200_000) {
        let first = Geometry::new(assoc, MapKind::Modulo, blocks);
        for geometry in [first, first.resized(next)] {
            let sum: u64 = (0..geometry.sets()).map(|s| u64::from(geometry.ways(s))).sum();
            prop_assert_eq!(sum, u64::from(geometry.blocks()));
        }
    }
}
