//! What a server says about one of its exports, and how a requested name finds it.
//!
//! Knows nothing of volumes or caches: the caller describes its disks in these terms.

use crate::error::{Error, ErrorKind};
use crate::proto;

/// Unit and alignment of every request, in bytes, where the export's size is a multiple of it and the client asks for block
/// sizes; else it is one byte.
pub const MIN_BLOCK_BYTES: u32 = 512;
/// Preferred alignment unless the caller says otherwise, in bytes.
pub const DEFAULT_PREFERRED_BLOCK_BYTES: u32 = 4096;
/// Longest payload of a read or write, in bytes.
pub const MAX_PAYLOAD_BYTES: u32 = 32 << 20;
/// Largest export, in bytes: clients keep sizes in signed 64-bit numbers.
pub const MAX_EXPORT_BYTES: u64 = i64::MAX as u64;

/// One disk as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    name: String,
    description: String,
    size_bytes: u64,
    preferred_block_bytes: u32,
    read_only: bool,
}

impl ExportInfo {
    /// A writable export without description.
    ///
    /// # Errors
    /// [`ErrorKind::BadExport`] for a name beyond [`proto::MAX_STRING_BYTES`] or with a zero byte, or a size
    /// above [`MAX_EXPORT_BYTES`].
    pub fn new(name: impl Into<String>, size_bytes: u64) -> Result<ExportInfo, Error> {
        let name = name.into();
        check_string("name", &name)?;
        if size_bytes > MAX_EXPORT_BYTES {
            let context = format!("size {size_bytes} of export \"{name}\" is above {MAX_EXPORT_BYTES} bytes");
            return Err(Error::new(ErrorKind::BadExport, context));
        }
        let preferred_block_bytes = DEFAULT_PREFERRED_BLOCK_BYTES;
        Ok(ExportInfo {
            name,
            description: String::new(),
            size_bytes,
            preferred_block_bytes,
            read_only: false,
        })
    }

    /// The same export with another name.
    ///
    /// # Errors
    /// As [`ExportInfo::new`].
    pub fn renamed(&self, name: &str) -> Result<ExportInfo, Error> {
        check_string("name", name)?;
        Ok(ExportInfo { name: name.to_owned(), ..self.clone() })
    }

    /// The same export with a description for people.
    ///
    /// # Errors
    /// [`ErrorKind::BadExport`] when it is beyond [`proto::MAX_STRING_BYTES`] or has a zero byte.
    pub fn with_description(mut self, description: impl Into<String>) -> Result<ExportInfo, Error> {
        self.description = description.into();
        check_string("description", &self.description)?;
        Ok(self)
    }

    /// The same export with another preferred block size.
    ///
    /// # Errors
    /// [`ErrorKind::BadExport`] unless it is a power of two from [`MIN_BLOCK_BYTES`] to [`MAX_PAYLOAD_BYTES`].
    pub fn with_preferred_block_bytes(mut self, bytes: u32) -> Result<ExportInfo, Error> {
        if !bytes.is_power_of_two() || !(MIN_BLOCK_BYTES..=MAX_PAYLOAD_BYTES).contains(&bytes) {
            let context = format!("preferred block of {bytes} bytes is not a power of two from 512 to 32 Mi");
            return Err(Error::new(ErrorKind::BadExport, context));
        }
        self.preferred_block_bytes = bytes;
        Ok(self)
    }

    /// The same export, refusing all writing commands or not.
    pub fn with_read_only(mut self, read_only: bool) -> ExportInfo {
        self.read_only = read_only;
        self
    }

    /// Name that clients ask for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Description for people; may be empty.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Unit and alignment of every request, in bytes: [`MIN_BLOCK_BYTES`], or one where that would leave the export's end out.
    pub fn min_block_bytes(&self) -> u32 {
        if self.size_bytes.is_multiple_of(u64::from(MIN_BLOCK_BYTES)) { MIN_BLOCK_BYTES } else { 1 }
    }

    /// Alignment at which requests are cheapest, in bytes.
    pub fn preferred_block_bytes(&self) -> u32 {
        self.preferred_block_bytes
    }

    /// Whether writing commands are refused.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// The `FLAG_*` bits told to a client that did or did not negotiate structured replies.
    ///
    /// `CAN_MULTI_CONN` is a promise on behalf of the caller: a flush covers all connections to the export.
    pub fn transmission_flags(&self, structured: bool) -> u16 {
        let mut flags = proto::FLAG_HAS_FLAGS
            | proto::FLAG_SEND_FLUSH
            | proto::FLAG_SEND_FUA
            | proto::FLAG_CAN_MULTI_CONN
            | proto::FLAG_SEND_CACHE;
        flags |= if self.read_only {
            proto::FLAG_READ_ONLY
        } else {
            proto::FLAG_SEND_TRIM | proto::FLAG_SEND_WRITE_ZEROES
        };
        if structured {
            flags |= proto::FLAG_SEND_DF;
        }
        flags
    }
}

fn check_string(what: &str, text: &str) -> Result<(), Error> {
    if text.len() > proto::MAX_STRING_BYTES || text.contains('\0') {
        let context = format!(
            "{what} of {} bytes; at most {} without zero bytes are allowed",
            text.len(),
            proto::MAX_STRING_BYTES
        );
        return Err(Error::new(ErrorKind::BadExport, context));
    }
    Ok(())
}

/// The index of the export that a client means by `name`. The empty name means the only export, if there is
/// exactly one, unless an export has the empty name itself.
pub(crate) fn find(exports: &[ExportInfo], name: &[u8]) -> Option<usize> {
    let by_name = exports.iter().position(|export| export.name.as_bytes() == name);
    by_name.or_else(|| (name.is_empty() && exports.len() == 1).then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_the_protocol_cannot_carry() {
        for (name, size_bytes) in [("a", 1 << 63), ("a\0b", 512), (&*"n".repeat(4097), 512)] {
            let error = ExportInfo::new(name, size_bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadExport);
        }
        for (size_bytes, unit) in [(0, 512), (512, 512), (513, 1), (1, 1)] {
            assert_eq!(ExportInfo::new("a", size_bytes).unwrap().min_block_bytes(), unit, "{size_bytes}");
        }
        let export = ExportInfo::new("n".repeat(4096), 0).unwrap();
        assert!(export.clone().with_description("d".repeat(4097)).is_err());
        for bytes in [0, 256, 4097, 64 << 20] {
            assert!(export.clone().with_preferred_block_bytes(bytes).is_err(), "{bytes}");
        }
        assert_eq!(export.with_preferred_block_bytes(65536).unwrap().preferred_block_bytes(), 65536);
    }

    #[test]
    fn the_empty_name_means_the_only_export() {
        let one = [ExportInfo::new("vm1", 512).unwrap()];
        let two = [ExportInfo::new("vm1", 512).unwrap(), ExportInfo::new("vm2", 512).unwrap()];
        let own = [ExportInfo::new("vm1", 512).unwrap(), ExportInfo::new("", 512).unwrap()];
        assert_eq!((find(&one, b""), find(&two, b""), find(&own, b"")), (Some(0), None, Some(1)));
        assert_eq!((find(&two, b"vm2"), find(&two, b"vm"), find(&[], b"")), (Some(1), None, None));
    }
}
