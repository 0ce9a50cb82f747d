//! Pages as they are read, and written again, many at a time, the next ones while something is done with those before: what lies together is
//! short, and a device that is asked for one thing after the other is slow. It must not know what pages say.

use std::iter::Peekable;

use lode_types::MediaError;

use crate::device::{
    PagesRead, SyncDevice, Workers, at_once, pieces_of, read_each_page, uncompared, whole_pages,
};
use crate::error::StoreError;

/// Bytes that are read at once.
const BATCH_BYTES: usize = 8 << 20;
/// Bytes of a stretch at most: several make a batch, also where much lies together.
pub(crate) const MOST_BYTES: usize = 512 << 10;
const _: () = assert!(MOST_BYTES <= BATCH_BYTES);

/// Neighbouring pages: where they are, and what they are to whoever asks for them.
pub(crate) struct Stretch<T> {
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: usize,
    pub(crate) what: T,
}

/// A stretch that was read.
pub(crate) struct ReadStretch<'a, T> {
    pub(crate) what: &'a T,
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: &'a mut [u8],
    /// Offsets of those of its pages that could not be read. Their bytes are zeroes.
    pub(crate) unreadable: Vec<u64>,
    /// Offsets of those of which not every device below that keeps a copy is known to have the same.
    pub(crate) differing: Vec<u64>,
}

/// Reads stretches and hands them on in their order, some at a time, reading on while `take` has those before.
///
/// # Errors
/// Those of the device and of `take`; nothing more is read then.
pub(crate) fn read_ahead<T>(
    device: &mut dyn SyncDevice,
    stretches: impl Iterator<Item = Stretch<T>>,
    mut take: impl FnMut(Vec<ReadStretch<'_, T>>, &dyn Workers) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut stretches = stretches.peekable();
    // At first none was read before, and at last none is left to be read.
    let (mut read, mut ahead) = (Batch::default(), Batch::default());
    loop {
        let is_last = !ahead.fill(&mut stretches);
        let mut taken = Ok(());
        let mut take_all = |workers: &dyn Workers| taken = take(read.stretches().collect(), workers);
        let result = device.read_pages_beside(&mut ahead.places(), &mut take_all);
        taken?;
        ahead.read_again(device, result)?;
        if is_last {
            return Ok(());
        }
        std::mem::swap(&mut read, &mut ahead);
    }
}

/// Reads stretches and writes their pages to where they were read, as `change` leaves them and as far as they are whole: what could not be
/// read may be readable another time. The next ones are read while those before are written.
///
/// # Errors
/// Those of the device; nothing more is written then.
pub(crate) fn rewrite<T>(
    device: &mut dyn SyncDevice,
    stretches: impl Iterator<Item = Stretch<T>>,
    mut change: impl FnMut(&mut ReadStretch<'_, T>),
) -> Result<(), StoreError> {
    let mut stretches = stretches.peekable();
    let (mut changed, mut ahead) = (Batch::default(), Batch::default());
    loop {
        let is_last = !ahead.fill(&mut stretches);
        let (read, written) = device.read_pages_beside_writes(&mut ahead.places(), &changed.whole_pages());
        at_once("write", written)?;
        ahead.read_again(device, read)?;
        if is_last {
            return Ok(());
        }
        ahead.stretches().for_each(|mut read| change(&mut read));
        std::mem::swap(&mut changed, &mut ahead);
    }
}

/// Stretches that are read at once, one behind the other in memory.
struct Batch<T> {
    stretches: Vec<Stretch<T>>,
    bytes: Vec<u8>,
    /// Offsets of pages that cannot be read, and of those of which copies are not known to be the same.
    unreadable: Vec<u64>,
    differing: Vec<u64>,
}

impl<T> Default for Batch<T> {
    fn default() -> Batch<T> {
        Batch { stretches: Vec::new(), bytes: Vec::new(), unreadable: Vec::new(), differing: Vec::new() }
    }
}

impl<T> Batch<T> {
    /// The next stretches, as many as are read at once. False: there are none.
    fn fill(&mut self, stretches: &mut Peekable<impl Iterator<Item = Stretch<T>>>) -> bool {
        self.stretches.clear();
        self.unreadable.clear();
        self.differing.clear();
        let mut batch_bytes = 0;
        while let Some(next) = stretches.next_if(|next| batch_bytes + next.bytes <= BATCH_BYTES) {
            batch_bytes += next.bytes;
            self.stretches.push(next);
        }
        self.bytes.resize(batch_bytes, 0);
        !self.stretches.is_empty()
    }

    /// Takes what came of a read of all of them; where it has failed, reads them one by one.
    fn read_again(&mut self, device: &mut dyn SyncDevice, result: PagesRead) -> Result<(), StoreError> {
        if !matches!(result, Err((_, MediaError::Io))) {
            self.differing = at_once("read", result)?;
            return Ok(());
        }
        let (mut unreadable, mut places) = (Vec::new(), self.places());
        for (offset_bytes, bytes) in &mut places {
            unreadable.extend(read_each_page(device, *offset_bytes, bytes)?);
        }
        let differing = uncompared(device, &places);
        (self.unreadable, self.differing) = (unreadable, differing);
        Ok(())
    }

    fn stretches(&mut self) -> impl Iterator<Item = ReadStretch<'_, T>> {
        let Batch { stretches, bytes, unreadable, differing } = self;
        let bytes = pieces_of(bytes, stretches.iter().map(|stretch| stretch.bytes));
        stretches.iter().zip(bytes).map(move |(&Stretch { offset_bytes, ref what, .. }, bytes)| {
            let inside = offset_bytes..offset_bytes + bytes.len() as u64;
            let [unreadable, differing] = [&*unreadable, &*differing]
                .map(|pages| pages.iter().copied().filter(|at| inside.contains(at)).collect());
            ReadStretch { what, offset_bytes, bytes, unreadable, differing }
        })
    }

    /// Where they are, and where they are to go.
    fn places(&mut self) -> Vec<(u64, &mut [u8])> {
        self.stretches().map(|ReadStretch { offset_bytes, bytes, .. }| (offset_bytes, bytes)).collect()
    }

    /// Those of their pages that are whole, and where they belong.
    fn whole_pages(&mut self) -> Vec<(u64, &[u8])> {
        let mut whole = Vec::new();
        for ReadStretch { offset_bytes, bytes, .. } in self.stretches() {
            whole.extend(whole_pages(bytes).into_iter().map(|(at, pages)| (offset_bytes + at, pages)));
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use lode_format::{CacheId, DeviceLayout, PAGE_BYTES, TablePage, VolumeTag};
    use lode_types::BlockSize;

    use super::*;
    use crate::table_runs::TableRun;

    /// Pages of which some cannot be read, as long as they are not written.
    struct Pages {
        bytes: Vec<u8>,
        unreadable: Vec<u64>,
    }

    impl SyncDevice for Pages {
        fn size_bytes(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
            let range = offset_bytes..offset_bytes + buf.len() as u64;
            if self.unreadable.iter().any(|at| range.contains(at)) {
                return Err(MediaError::Io);
            }
            buf.copy_from_slice(&self.bytes[range.start as usize..range.end as usize]);
            Ok(())
        }

        fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
            self.bytes[offset_bytes as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn flush(&mut self) -> Result<(), MediaError> {
            Ok(())
        }
    }

    /// It may be readable another time, as on a device that was away for a moment.
    #[test]
    fn g5_what_could_not_be_read_is_not_written_over() {
        let layout = DeviceLayout::new(64 << 20, 1 << 20, BlockSize::KIB_4).unwrap();
        let at = |page, copy| (layout.extent_start(3) + layout.extent.table_page(page, copy)) as usize;
        let table = |sequence| {
            let volume = VolumeTag(1);
            let table = TablePage { volume, extent: 3, page: 0, sequence, stamp: 0, entries: Vec::new() };
            table.encode(CacheId([1; 16]))
        };
        let (before, after) = (table(1), table(2));
        let mut device = Pages { bytes: before.repeat(16 << 10), unreadable: vec![] };
        device.unreadable = [at(0, 1), at(1, 0)].map(|at| at as u64).to_vec();
        let stretches = TableRun::of(0, 0..layout.extent.table_pages).map(|run| run.stretch(&layout, &[3]));
        rewrite(&mut device, stretches, |read| {
            assert_eq!(read.unreadable, [at(0, 1), at(1, 0)].map(|at| at as u64));
            // One that is known again is written, of whichever copy.
            read.bytes[2 * PAGE_BYTES..][..PAGE_BYTES].copy_from_slice(&after[..]);
        })
        .unwrap();
        for offset in (0..device.bytes.len()).step_by(PAGE_BYTES) {
            let expected = if offset == at(1, 0) { &after } else { &before };
            assert!(device.bytes[offset..][..PAGE_BYTES] == expected[..], "page at {offset}");
        }
    }
}
