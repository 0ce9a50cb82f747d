//! What is known of a stream that is recorded.

use lode_policy::{NextUses, NextUsesBuilder};

#[test]
fn every_access_knows_the_next_one_unless_a_discard_comes_before() {
    let mut builder = NextUsesBuilder::new();
    for block in [7, 8, 7, 9, 8] {
        builder.access(block).unwrap();
    }
    builder.discard(7);
    builder.discard(5);
    for block in [7, 9, 7] {
        builder.access(block).unwrap();
    }
    let future = builder.finish();
    const NEVER: u32 = NextUses::NEVER;
    let next_uses: Vec<u32> = (0..10).map(|at| future.next_use(at)).collect();
    assert_eq!(next_uses, [2, 4, NEVER, 6, NEVER, 7, NEVER, NEVER, NEVER, NEVER]);
    assert_eq!(future.accesses(), 8);
}
