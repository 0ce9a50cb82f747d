//! Two levels that hold each block once: a read-only one, and behind it one that keeps whatever is accessed, read or written, and
//! the first does not hold.
//!
//! What both serve follows from the curves of each kind alone. A read whose block has left the first level finds it behind as
//! long as no more blocks were accessed since than both have together, which is the curve of a write-back cache of that
//! size: exact for a stream of reads. A write takes its block from the first level, so that a read after it needs the
//! second to hold it: no more than a write-back cache of the second's size alone would serve. It must not know what
//! the levels are made of.

use crate::curve::{Curve, CurvePoint};

/// A VM's curves of both kinds: of reads of a read-only cache, in which a write invalidates the block
/// ([`CurveKind::Ro`](crate::CurveKind::Ro)), and of reads of a write-back cache ([`CurveKind::Wb`](crate::CurveKind::Wb)).
#[derive(Clone, Copy, Debug)]
pub struct Behind<'a> {
    /// Of the level that is asked first.
    pub ro: &'a Curve,
    /// Of the one behind it.
    pub wb: &'a Curve,
}

impl Behind<'_> {
    /// Reads that a first level of `ro_blocks` serves, and those that one of `wb_blocks` behind it serves beyond them. More of
    /// either level never serves fewer in all.
    pub fn hits(&self, ro_blocks: u64, wb_blocks: u64) -> (u64, u64) {
        let together = ro_blocks.saturating_add(wb_blocks);
        let first = self.ro.hits_at(ro_blocks);
        let of_both = self.wb.hits_at(together);
        let at_most = self.ro.hits_at(together).saturating_add(self.wb.hits_at(wb_blocks));
        // Estimates may contradict each other.
        (first, of_both.min(at_most).saturating_sub(first))
    }

    /// What levels of every size serve behind a first one of `ro_blocks`. Its standard error is that of the write-back curve alone.
    pub fn curve(&self, ro_blocks: u64) -> Curve {
        let beyond = |curve: &Curve| -> Vec<u64> {
            let sizes = curve.points().iter().map(|point| point.size_blocks);
            sizes.filter(|&size| size > ro_blocks).map(|size| size - ro_blocks).collect()
        };
        let alone = self.wb.points().iter().map(|point| point.size_blocks);
        let mut sizes: Vec<u64> = beyond(self.wb).into_iter().chain(beyond(self.ro)).chain(alone).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut points: Vec<CurvePoint> = Vec::new();
        for size_blocks in sizes {
            let hits = self.hits(ro_blocks, size_blocks).1;
            if hits > points.last().map_or(0, |point| point.hits) {
                points.push(CurvePoint { size_blocks, hits });
            }
        }
        self.wb.beyond(ro_blocks, points)
    }
}
