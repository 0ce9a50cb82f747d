//! A bounded window over a byte stream: text and binary formats parse out of it without copying.
//! It must not know formats.

use std::io::{self, Read};

/// Size of the window; a line or a block of the compact format must fit it.
const WINDOW_BYTES: usize = 256 * 1024;
const _: () =
    assert!(WINDOW_BYTES >= 2 * crate::limits::MAX_LINE_BYTES && WINDOW_BYTES >= crate::limits::HEAD_BYTES);

/// The window. Bytes are looked at with [`Input::available`] and given up with [`Input::consume`].
pub(crate) struct Input {
    reader: Box<dyn Read + Send>,
    window: Box<[u8]>,
    start: usize,
    end: usize,
    /// Stream offset of `window[start]`.
    offset: u64,
    at_end: bool,
    /// A read error that happened while looking ahead; reported when the reader gets there.
    failed: Option<io::Error>,
}

impl Input {
    pub(crate) fn new(reader: Box<dyn Read + Send>) -> Input {
        let window = vec![0; WINDOW_BYTES].into_boxed_slice();
        Input { reader, window, start: 0, end: 0, offset: 0, at_end: false, failed: None }
    }

    /// The bytes read but not consumed.
    #[inline]
    pub(crate) fn available(&self) -> &[u8] {
        &self.window[self.start..self.end]
    }

    /// Stream offset of the first available byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Gives up the first `count` available bytes.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Reads once more; false when the stream has ended. The window must not be full.
    pub(crate) fn more(&mut self) -> io::Result<bool> {
        if let Some(error) = self.failed.take() {
            self.at_end = true;
            return Err(error);
        }
        if self.at_end {
            return Ok(false);
        }
        if self.start > 0 {
            self.window.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        loop {
            match self.reader.read(&mut self.window[self.end..]) {
                Ok(0) => {
                    self.at_end = true;
                    return Ok(false);
                }
                Ok(count) => {
                    self.end += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.at_end = true;
                    return Err(error);
                }
            }
        }
    }

    /// Reads until at least `count` bytes are available; false when the stream ends before that.
    pub(crate) fn need(&mut self, count: usize) -> io::Result<bool> {
        debug_assert!(count <= WINDOW_BYTES);
        while self.end - self.start < count {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Like [`Input::need`], but keeps an error for the time when the bytes before it are consumed.
    pub(crate) fn look_ahead(&mut self, count: usize) {
        if let Err(error) = self.need(count) {
            self.at_end = false;
            self.failed = Some(error);
        }
    }
}
