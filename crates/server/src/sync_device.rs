//! A cache SSD as start-up and formatting see it: byte by byte, in order, on the calling thread.

use lode_engine::Buf;
use lode_engine::command::{CommandKind, MediaError};
use lode_media::MediaFile;
use lode_store::SyncDevice;

/// A [`MediaFile`] as [`SyncDevice`].
pub(crate) struct FileDevice<'a>(pub &'a MediaFile);

impl SyncDevice for FileDevice<'_> {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        buf.copy_from_slice(self.0.read_now(offset_bytes, buf.len())?.as_slice());
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.0.run_now(&mut CommandKind::write(offset_bytes, Buf::copy_of(bytes))).map(drop)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.0.run_now(&mut CommandKind::Flush).map(drop)
    }
}
