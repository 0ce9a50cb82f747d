//! What a device holds: pages that images share until one of them changes its own, so that a thousand crash states of a
//! device take little more memory than one. It must not know who writes, or what is durable.

use std::sync::Arc;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

const PAGE: usize = PAGE_BYTES as usize;

/// The bytes of a write.
#[derive(Clone, Debug)]
pub enum Data {
    /// These.
    Bytes(Arc<[u8]>),
    /// So many zeroes: what a hole is, too.
    Zeroes(u64),
}

impl Data {
    /// How many bytes they are.
    pub fn length_bytes(&self) -> u64 {
        match self {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Zeroes(length) => *length,
        }
    }

    /// The first so many.
    pub fn first(&self, length: u64) -> Vec<u8> {
        match self {
            Data::Bytes(bytes) => bytes[..length as usize].to_vec(),
            Data::Zeroes(_) => vec![0; length as usize],
        }
    }

    /// Those from `start`, `length` many.
    pub fn part(&self, start: u64, length: u64) -> &[u8] {
        const ZEROES: [u8; PAGE] = [0; PAGE];
        match self {
            Data::Bytes(bytes) => &bytes[start as usize..(start + length) as usize],
            Data::Zeroes(_) => &ZEROES[..length as usize],
        }
    }
}

/// The bytes of a device. A page that is not there is a hole, and zeroes.
#[derive(Clone, Debug)]
pub struct Image {
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
}

impl Image {
    /// Zeroes; `bytes` is a multiple of [`PAGE_BYTES`].
    pub fn new(bytes: u64) -> Image {
        assert!(bytes.is_multiple_of(PAGE_BYTES), "devices have whole pages");
        Image { pages: vec![None; (bytes / PAGE_BYTES) as usize] }
    }

    /// The size.
    pub fn size_bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE_BYTES
    }

    /// The bytes from `offset` on, as far as there are.
    pub fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        let end = (offset + length).min(self.size_bytes());
        let mut bytes = Vec::with_capacity(end.saturating_sub(offset) as usize);
        for (page, start, stop) in pieces(offset, end) {
            match &self.pages[page] {
                Some(there) => bytes.extend_from_slice(&there[start..stop]),
                None => bytes.resize(bytes.len() + (stop - start), 0),
            }
        }
        bytes
    }

    /// Writes within the device; what is beyond its end is left out.
    pub fn write(&mut self, offset: u64, data: &Data) {
        let end = (offset + data.length_bytes()).min(self.size_bytes());
        let mut done = 0;
        for (page, start, stop) in pieces(offset, end) {
            let length = (stop - start) as u64;
            let is_hole = matches!(data, Data::Zeroes(_)) && length == PAGE_BYTES;
            let there = &mut self.pages[page];
            if is_hole {
                *there = None;
            } else {
                let there = there.get_or_insert_with(|| Arc::new([0; PAGE]));
                Arc::make_mut(there)[start..stop].copy_from_slice(data.part(done, length));
            }
            done += length;
        }
    }

    /// Takes over a file's bytes from the beginning on. Where these are zeroes there are holes.
    pub fn write_pages(&mut self, bytes: &[u8]) {
        for (page, bytes) in (0..).zip(bytes.chunks(PAGE)) {
            if bytes.iter().any(|byte| *byte != 0) {
                self.write(page * PAGE_BYTES, &Data::Bytes(bytes.into()));
            }
        }
    }

    /// The first byte from `offset` on that is allocated (`SEEK_DATA`).
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        self.next(offset, true)
    }

    /// The first byte from `offset` on that is not (`SEEK_HOLE`); the end is one.
    pub fn next_hole(&self, offset: u64) -> Option<u64> {
        let size = self.size_bytes();
        (offset < size).then(|| self.next(offset, false).unwrap_or(size))
    }

    fn next(&self, offset: u64, allocated: bool) -> Option<u64> {
        let first = (offset / PAGE_BYTES) as usize;
        let found = self.pages.iter().skip(first).position(|page| page.is_some() == allocated)?;
        Some(((first + found) as u64 * PAGE_BYTES).max(offset))
    }

    /// The numbers of the pages that are allocated.
    pub fn allocated_pages(&self) -> impl Iterator<Item = u64> {
        (0..).zip(&self.pages).filter_map(|(number, page)| page.is_some().then_some(number))
    }
}

/// The parts of pages that make up `[offset, end)`: page, first byte in it, first byte after.
fn pieces(offset: u64, end: u64) -> impl Iterator<Item = (usize, usize, usize)> {
    let pages = if end > offset { offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES) } else { 0..0 };
    pages.map(move |page| {
        let first = page * PAGE_BYTES;
        let start = offset.max(first) - first;
        let stop = end.min(first + PAGE_BYTES) - first;
        (page as usize, start as usize, stop as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_its_bytes_and_copies_are_their_own() {
        let mut image = Image::new(4 * PAGE_BYTES);
        image.write(4000, &Data::Bytes(vec![7; 200].into()));
        let before = image.clone();
        image.write(4090, &Data::Zeroes(2 * PAGE_BYTES));
        assert_eq!(before.read(3999, 203), [vec![0], vec![7; 200], vec![0; 2]].concat());
        assert_eq!(image.read(3999, 203), [vec![0], vec![7; 90], vec![0; 112]].concat());
        assert_eq!(image.read(16380, 100), [0; 4], "reads end with the device");
        image.write(16380, &Data::Bytes(vec![1; 100].into()));
        assert_eq!(image.read(16380, 4), [1; 4]);
    }

    #[test]
    fn whole_pages_of_zeroes_are_holes() {
        let mut image = Image::new(4 * PAGE_BYTES);
        assert_eq!((image.next_data(0), image.next_hole(5)), (None, Some(5)));
        image.write(PAGE_BYTES, &Data::Bytes(vec![0; PAGE].into()));
        assert_eq!(
            (image.next_data(5), image.next_hole(PAGE_BYTES + 1)),
            (Some(PAGE_BYTES), Some(2 * PAGE_BYTES))
        );
        image.write(PAGE_BYTES, &Data::Zeroes(PAGE_BYTES));
        assert_eq!((image.next_data(0), image.next_hole(4 * PAGE_BYTES)), (None, None));
        assert_eq!(image.allocated_pages().count(), 0);
    }
}
