//! Bytes on their way between sockets, caches and devices: page-aligned buffers while they are filled, shared once they
//! do not change any more.
//!
//! Moving a buffer with its command instead of lending it keeps direct I/O memory-safe: whoever holds the `Buf` owns
//! the bytes, and the kernel's copy of the pointer runs exactly as long as the command does. Shared bytes live until the
//! last of those who hold them has let go.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::pool::PageRun;

/// Alignment of every buffer, in bytes. Covers the logical block size of any device in use.
pub const PAGE_BYTES: usize = 4096;

/// Buffers to read into, one after the other.
pub type Bufs = SmallVec<[Buf; 1]>;

/// Shared bytes, one after the other.
pub type ByteList = SmallVec<[Bytes; 1]>;

/// A page-aligned buffer. Its memory is used again without being cleared: whoever makes one with
/// [`Buf::for_overwrite`] writes all of it before anybody else sees it.
pub struct Buf {
    /// None where there are no bytes.
    run: Option<PageRun>,
    len: usize,
}

impl Buf {
    /// A buffer of `len` bytes that mean nothing, to be written over as a whole.
    pub fn for_overwrite(len: usize) -> Buf {
        Buf { run: (len > 0).then(|| PageRun::new(len)), len }
    }

    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> Buf {
        let mut buf = Buf::for_overwrite(len);
        buf.as_mut_slice().fill(0);
        buf
    }

    /// A buffer that holds a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Buf {
        let mut buf = Buf::for_overwrite(bytes.len());
        buf.as_mut_slice().copy_from_slice(bytes);
        buf
    }

    /// The buffer when it is `len` bytes long, else a copy of it with zeroes up to there.
    pub fn padded(self, len: usize) -> Buf {
        if self.len == len {
            return self;
        }
        let mut longer = Buf::for_overwrite(len);
        let (bytes, rest) = longer.as_mut_slice().split_at_mut(self.len);
        bytes.copy_from_slice(self.as_slice());
        rest.fill(0);
        longer
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.run.as_ref().map_or(&[], |run| &run.as_slice()[..self.len])
    }

    /// The bytes, to write to.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let len = self.len;
        self.run.as_mut().map_or(&mut [], |run| &mut run.as_mut_slice()[..len])
    }

    /// Ends the writing: from now on the bytes are shared.
    pub fn freeze(self) -> Bytes {
        if self.is_empty() { Bytes::new() } else { Bytes::from_owner(self) }
    }
}

impl AsRef<[u8]> for Buf {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<Buf> for Bytes {
    fn from(buf: Buf) -> Bytes {
        buf.freeze()
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_never_shows_what_was_in_the_memory_before() {
        for _ in 0..10 {
            Buf::for_overwrite(8192).as_mut_slice().fill(9);
            let padded = Buf::copy_of(&[1; 512]).padded(8192);
            assert!(padded.as_slice()[..512].iter().all(|byte| *byte == 1));
            assert!(padded.as_slice()[512..].iter().all(|byte| *byte == 0));
            assert_eq!(Buf::zeroed(8192).as_slice(), [0; 8192]);
        }
        assert!(Buf::for_overwrite(0).freeze().is_empty());
    }
}
