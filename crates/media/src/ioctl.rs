//! The two block-device requests that no safe wrapper offers.

use rustix::fd::AsFd;
use rustix::io::Result;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `BLKDISCARD` of `linux/fs.h`.
const BLKDISCARD: Opcode = opcode::none(0x12, 119);
/// `BLKZEROOUT` of `linux/fs.h`.
const BLKZEROOUT: Opcode = opcode::none(0x12, 127);

/// Tells the device that a range is no longer needed.
pub(crate) fn discard(device: impl AsFd, offset_bytes: u64, length_bytes: u64) -> Result<()> {
    // SAFETY: BLKDISCARD reads a pair of 64-bit integers, first byte and length, from its argument, keeps
    // no pointer to it, and writes to no memory of this process.
    unsafe { ioctl(device, Setter::<BLKDISCARD, [u64; 2]>::new([offset_bytes, length_bytes])) }
}

/// Makes a range read back as zeroes; the kernel writes zeroes itself where the device cannot.
pub(crate) fn zero_out(device: impl AsFd, offset_bytes: u64, length_bytes: u64) -> Result<()> {
    // SAFETY: BLKZEROOUT takes its argument as BLKDISCARD does.
    unsafe { ioctl(device, Setter::<BLKZEROOUT, [u64; 2]>::new([offset_bytes, length_bytes])) }
}
