//! File commands by ordinary system calls on the calling thread: what the thread pool runs, and what the
//! control thread uses for a read or two. It must not know about queues.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

use lode_types::{Buf, CommandKind};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fdatasync, seek};
use rustix::io::{Errno, preadv, pwritev, retry_on_intr};

use crate::file::RealFile;
use crate::ioctl;
use crate::op::{FileExtent, MAX_VECTORS};

/// Zeroes are written in pieces of this size where neither file system nor device has a shortcut.
const ZERO_PIECE_BYTES: u64 = 1 << 20;

/// Carries out a command whose range and alignment were checked. Short transfers are continued.
pub(crate) fn carry_out(file: &RealFile, kind: &mut CommandKind) -> Result<usize, Errno> {
    match kind {
        CommandKind::Read { offset_bytes, bufs } => {
            let mut into: Vec<_> = bufs.iter_mut().map(|buf| IoSliceMut::new(buf.as_mut_slice())).collect();
            read_full(file, *offset_bytes, &mut into)
        }
        CommandKind::Write { offset_bytes, data } => write_full(
            file,
            *offset_bytes,
            &mut data.iter().map(|bytes| IoSlice::new(bytes)).collect::<Vec<_>>(),
        ),
        CommandKind::Flush => retry_on_intr(|| fdatasync(&file.fd)).map(|()| 0),
        CommandKind::Trim { offset_bytes, length_bytes } => {
            trim(file, *offset_bytes, *length_bytes).map(|()| 0)
        }
        CommandKind::WriteZeroes { offset_bytes, length_bytes, unmap } => {
            write_zeroes(file, *offset_bytes, *length_bytes, *unmap).map(|()| 0)
        }
    }
}

fn read_full(file: &RealFile, offset_bytes: u64, mut into: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    let mut moved = 0;
    while !into.is_empty() {
        let some = into.len().min(MAX_VECTORS);
        match retry_on_intr(|| preadv(&file.fd, &mut into[..some], offset_bytes + moved as u64))? {
            // The file has been cut short since it was opened: the bytes are lost.
            0 => return Err(Errno::IO),
            count => {
                moved += count;
                IoSliceMut::advance_slices(&mut into, count);
            }
        }
    }
    Ok(moved)
}

fn write_full(file: &RealFile, offset_bytes: u64, mut from: &mut [IoSlice<'_>]) -> Result<usize, Errno> {
    let mut moved = 0;
    while !from.is_empty() {
        let some = from.len().min(MAX_VECTORS);
        match retry_on_intr(|| pwritev(&file.fd, &from[..some], offset_bytes + moved as u64))? {
            0 => return Err(Errno::IO),
            count => {
                moved += count;
                IoSlice::advance_slices(&mut from, count);
            }
        }
    }
    Ok(moved)
}

/// Most extents that one look at a file finds; the rest is for the next one.
const MOST_EXTENTS: usize = 128;

/// Which of these bytes are allocated, from the first on, as far as so many extents tell.
pub(crate) fn map(file: &RealFile, bytes: &Range<u64>) -> Result<Vec<FileExtent>, Errno> {
    let mut extents = Vec::new();
    let mut at = bytes.start;
    while at < bytes.end && extents.len() < MOST_EXTENTS {
        let data = match seek(&file.fd, SeekFrom::Data(at)) {
            // Nothing but a hole up to the file's end.
            Err(Errno::NXIO) => bytes.end,
            Err(errno) if is_unsupported(errno) => at,
            outcome => outcome?.min(bytes.end),
        };
        if data > at {
            extents.push(FileExtent { length_bytes: data - at, is_hole: true });
            at = data;
            continue;
        }
        let hole = match seek(&file.fd, SeekFrom::Hole(at)) {
            Err(errno) if is_unsupported(errno) || errno == Errno::NXIO => bytes.end,
            // A hole where data was just found has come about meanwhile.
            outcome => outcome?.max(at + u64::from(file.logical_block_bytes)).min(bytes.end),
        };
        extents.push(FileExtent { length_bytes: hole - at, is_hole: false });
        at = hole;
    }
    Ok(extents)
}

/// Whether an error means "cannot do it this way" rather than "it went wrong".
fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY | Errno::INVAL)
}

fn trim(file: &RealFile, offset_bytes: u64, length_bytes: u64) -> Result<(), Errno> {
    // Only whole blocks: a device may refuse, and a file system would write, the parts at the ends.
    let block = u64::from(file.logical_block_bytes);
    let start = offset_bytes.next_multiple_of(block);
    let end = (offset_bytes + length_bytes) / block * block;
    if start >= end {
        return Ok(());
    }
    let outcome = retry_on_intr(|| {
        if file.is_block_device {
            ioctl::discard(&file.fd, start, end - start)
        } else {
            fallocate(&file.fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, end - start)
        }
    });
    match outcome {
        Err(errno) if is_unsupported(errno) => Ok(()),
        outcome => outcome,
    }
}

fn write_zeroes(file: &RealFile, offset_bytes: u64, length_bytes: u64, unmap: bool) -> Result<(), Errno> {
    if unmap {
        // On a block device too, where the kernel does it only if the device then reads zeroes.
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| fallocate(&file.fd, how, offset_bytes, length_bytes)) {
            Err(errno) if is_unsupported(errno) => {}
            outcome => return outcome,
        }
    }
    let outcome = retry_on_intr(|| {
        if file.is_block_device {
            ioctl::zero_out(&file.fd, offset_bytes, length_bytes)
        } else {
            let how = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
            fallocate(&file.fd, how, offset_bytes, length_bytes)
        }
    });
    match outcome {
        Err(errno) if is_unsupported(errno) => write_zero_pieces(file, offset_bytes, length_bytes),
        outcome => outcome,
    }
}

fn write_zero_pieces(file: &RealFile, offset_bytes: u64, length_bytes: u64) -> Result<(), Errno> {
    let zeroes = Buf::zeroed(length_bytes.min(ZERO_PIECE_BYTES) as usize);
    let mut written = 0;
    while written < length_bytes {
        let piece = (length_bytes - written).min(ZERO_PIECE_BYTES) as usize;
        let from = &mut [IoSlice::new(&zeroes.as_slice()[..piece])];
        written += write_full(file, offset_bytes + written, from)? as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{MediaFile, OpenOptions};

    #[test]
    fn zero_pieces_cover_exactly_the_range() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zeroes");
        std::fs::write(&path, vec![7u8; 3 << 20]).unwrap();
        let file = MediaFile::open(&path, &OpenOptions::default()).unwrap();
        let real = file.real();
        let (start, length) = (512, (2 << 20) + 4096);
        write_zero_pieces(real, start, length).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let zero = |at: usize| (start..start + length).contains(&(at as u64));
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == if zero(at) { 0 } else { 7 }));
    }
}
