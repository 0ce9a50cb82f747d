//! A cache SSD as start-up and formatting see it: byte by byte, in order, on the calling thread.

use lode_engine::Buf;
use lode_engine::command::{CommandKind, MediaError};
use lode_media::MediaFile;
use lode_store::Bytes;

/// A [`MediaFile`] as [`Bytes`].
pub(crate) struct DeviceBytes<'a>(pub &'a MediaFile);

impl Bytes for DeviceBytes<'_> {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let kind = CommandKind::Read { offset_bytes, buf: Buf::zeroed(buf.len()) };
        let (result, read) = self.0.run_now(kind);
        result?;
        buf.copy_from_slice(read.ok_or(MediaError::Io)?.as_slice());
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.0.run_now(CommandKind::Write { offset_bytes, buf: Buf::copy_of(bytes) }).0.map(drop)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.0.run_now(CommandKind::Flush).0.map(drop)
    }
}
