//! Page-aligned byte buffers that travel with a device command and come back with its completion.
//!
//! Moving the buffer instead of lending it keeps direct I/O memory-safe: whoever holds the `Buf` owns
//! the bytes, and the kernel's copy of the pointer lives exactly as long as the command does.

use zerocopy::{FromZeros, IntoBytes};

/// Alignment and granule of every buffer, in bytes. Covers the logical block size of any device in use.
pub const PAGE_BYTES: usize = 4096;

#[derive(Clone, zerocopy::FromBytes, IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// A page-aligned buffer whose length is a whole number of sectors or pages, as the command needs.
#[derive(Clone)]
pub struct Buf {
    pages: Vec<Page>,
    len: usize,
}

impl Buf {
    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> Buf {
        let count = len.div_ceil(PAGE_BYTES);
        let mut pages = Vec::with_capacity(count);
        pages.resize_with(count, Page::new_zeroed);
        Buf { pages, len }
    }

    /// A buffer that holds a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Buf {
        let mut buf = Buf::zeroed(bytes.len());
        buf.as_mut_slice().copy_from_slice(bytes);
        buf
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
        &self.pages.as_slice().as_bytes()[..self.len]
    }

    /// The bytes, to write to.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.pages.as_mut_slice().as_mut_bytes()[..len]
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}
