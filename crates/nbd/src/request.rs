//! Transmission requests and the rules a request must keep, which are the same for the side that checks them
//! before sending and the side that checks them on arrival.
//!
//! Must not know how requests travel or what is done with them.

use crate::error::CommandError;
use crate::proto;

/// What a request asks of an export. The end of a session is an event of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Bytes from the export to the client.
    Read,
    /// Bytes from the client to the export.
    Write,
    /// Every write answered before must become durable; offset and length are zero.
    Flush,
    /// The bytes are no longer needed.
    Trim,
    /// The bytes will be read soon. A hint: success may be answered at once.
    Cache,
    /// The bytes must read back as zeroes.
    WriteZeroes,
    /// Which of the bytes are allocated. The answer may cover less than the range.
    BlockStatus,
}

impl Command {
    /// The command with this number on the wire, if it is known. `CMD_DISC` is none of these.
    #[inline]
    pub fn from_code(code: u16) -> Option<Command> {
        Some(match code {
            proto::CMD_READ => Command::Read,
            proto::CMD_WRITE => Command::Write,
            proto::CMD_FLUSH => Command::Flush,
            proto::CMD_TRIM => Command::Trim,
            proto::CMD_CACHE => Command::Cache,
            proto::CMD_WRITE_ZEROES => Command::WriteZeroes,
            proto::CMD_BLOCK_STATUS => Command::BlockStatus,
            _ => return None,
        })
    }

    /// The number on the wire.
    pub fn code(self) -> u16 {
        match self {
            Command::Read => proto::CMD_READ,
            Command::Write => proto::CMD_WRITE,
            Command::Flush => proto::CMD_FLUSH,
            Command::Trim => proto::CMD_TRIM,
            Command::Cache => proto::CMD_CACHE,
            Command::WriteZeroes => proto::CMD_WRITE_ZEROES,
            Command::BlockStatus => proto::CMD_BLOCK_STATUS,
        }
    }

    /// Whether it changes the export's contents.
    pub fn is_write(self) -> bool {
        matches!(self, Command::Write | Command::Trim | Command::WriteZeroes)
    }

    fn is_supported(self, transmission_flags: u16) -> bool {
        let needed = match self {
            Command::Read | Command::Write | Command::BlockStatus => 0,
            Command::Flush => proto::FLAG_SEND_FLUSH,
            Command::Trim => proto::FLAG_SEND_TRIM,
            Command::Cache => proto::FLAG_SEND_CACHE,
            Command::WriteZeroes => proto::FLAG_SEND_WRITE_ZEROES,
        };
        transmission_flags & needed == needed
    }

    /// The command flags that may accompany it. FUA may accompany all: clients are known to set it anywhere.
    fn allowed_flags(self, transmission_flags: u16) -> u16 {
        let when = |offered: u16, allowed: u16| if transmission_flags & offered != 0 { allowed } else { 0 };
        let own = match self {
            Command::Read => when(proto::FLAG_SEND_DF, proto::CMD_FLAG_DF),
            Command::WriteZeroes => {
                proto::CMD_FLAG_NO_HOLE | when(proto::FLAG_SEND_FAST_ZERO, proto::CMD_FLAG_FAST_ZERO)
            }
            Command::BlockStatus => proto::CMD_FLAG_REQ_ONE,
            Command::Write | Command::Flush | Command::Trim | Command::Cache => 0,
        };
        own | when(proto::FLAG_SEND_FUA, proto::CMD_FLAG_FUA)
    }
}

/// The `CMD_FLAG_*` bits of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CommandFlags(pub u16);

impl CommandFlags {
    /// No flag.
    pub const NONE: CommandFlags = CommandFlags(0);
    /// Force unit access alone.
    pub const FUA: CommandFlags = CommandFlags(proto::CMD_FLAG_FUA);

    /// Answer only once the effect is durable.
    pub fn fua(self) -> bool {
        self.0 & proto::CMD_FLAG_FUA != 0
    }

    /// Keep the range of a zeroing allocated.
    pub fn no_hole(self) -> bool {
        self.0 & proto::CMD_FLAG_NO_HOLE != 0
    }

    /// Answer a question for the status of a range with one descriptor.
    pub fn req_one(self) -> bool {
        self.0 & proto::CMD_FLAG_REQ_ONE != 0
    }

    /// Answer a read with one content chunk.
    pub fn df(self) -> bool {
        self.0 & proto::CMD_FLAG_DF != 0
    }
}

/// One request, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's mark; comes back in the reply. A hostile client may repeat one that is in flight.
    pub cookie: u64,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes; zero only for [`Command::Flush`].
    pub length_bytes: u32,
    /// What is asked.
    pub command: Command,
    /// How it is asked.
    pub flags: CommandFlags,
}

impl Request {
    /// The header on the wire.
    pub fn header(&self) -> proto::RequestHeader {
        proto::RequestHeader {
            flags: self.flags.0,
            command: self.command.code(),
            cookie: self.cookie,
            offset_bytes: self.offset_bytes,
            length_bytes: self.length_bytes,
        }
    }
}

/// Why a request is answered with an error without being carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// A command that is unknown or was not offered.
    UnknownCommand,
    /// A flag that is unknown, was not offered or does not belong to the command.
    UnknownFlags,
    /// A writing command to a read-only export.
    ReadOnly,
    /// A flush with an offset or a length.
    FlushWithRange,
    /// A range of no bytes.
    Empty,
    /// Offset or length is not a multiple of the minimum block.
    Unaligned,
    /// A read or write beyond the maximum payload.
    TooLong,
    /// A read beyond the maximum payload that must not be fragmented.
    TooLongUnfragmented,
    /// A range that ends beyond the export and changes nothing there.
    BeyondEnd,
    /// A write or write-zeroes that ends beyond the export.
    WriteBeyondEnd,
}

impl Refusal {
    /// The error number to answer with.
    pub fn error(self) -> CommandError {
        match self {
            Refusal::ReadOnly => CommandError::Eperm,
            Refusal::WriteBeyondEnd => CommandError::Enospc,
            Refusal::TooLongUnfragmented => CommandError::Eoverflow,
            Refusal::UnknownCommand
            | Refusal::UnknownFlags
            | Refusal::FlushWithRange
            | Refusal::Empty
            | Refusal::Unaligned
            | Refusal::TooLong
            | Refusal::BeyondEnd => CommandError::Einval,
        }
    }

    /// The reason in words, for the client's user.
    pub fn message(self) -> &'static str {
        match self {
            Refusal::UnknownCommand => "Command is unknown or was not offered; negotiate it first",
            Refusal::UnknownFlags => "Command flag is unknown or was not offered; leave it out",
            Refusal::ReadOnly => "Export is read-only; attach it read-only",
            Refusal::FlushWithRange => "Flush takes no offset and no length; send zeroes",
            Refusal::Empty => "Length is zero; ask for at least one block",
            Refusal::Unaligned => "Offset or length is not a multiple of the minimum block size; align it",
            Refusal::TooLong => "Length is above the maximum payload size; split the request",
            Refusal::TooLongUnfragmented => "Length is too large for one chunk; split the request",
            Refusal::BeyondEnd => "Range ends beyond the export; check its size",
            Refusal::WriteBeyondEnd => "Write ends beyond the export; check its size",
        }
    }
}

/// What an export takes, as negotiated.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Size in bytes.
    pub size_bytes: u64,
    /// `FLAG_*` bits.
    pub transmission_flags: u16,
    /// Unit and alignment of every request; a power of two.
    pub min_block_bytes: u32,
    /// Longest read or write.
    pub max_payload_bytes: u32,
    /// The metadata context [`proto::BASE_ALLOCATION`] was negotiated.
    pub allocation: bool,
}

impl Limits {
    /// Whether the export takes the request.
    #[inline]
    pub fn check(&self, request: &Request) -> Result<(), Refusal> {
        let command = request.command;
        if command.is_write() && self.transmission_flags & proto::FLAG_READ_ONLY != 0 {
            return Err(Refusal::ReadOnly);
        }
        let is_negotiated = command != Command::BlockStatus || self.allocation;
        if !is_negotiated || !command.is_supported(self.transmission_flags) {
            return Err(Refusal::UnknownCommand);
        }
        if request.flags.0 & !command.allowed_flags(self.transmission_flags) != 0 {
            return Err(Refusal::UnknownFlags);
        }
        if command == Command::Flush {
            let whole = request.offset_bytes == 0 && request.length_bytes == 0;
            return if whole { Ok(()) } else { Err(Refusal::FlushWithRange) };
        }
        self.check_range(request)
    }

    #[inline]
    fn check_range(&self, request: &Request) -> Result<(), Refusal> {
        let length_bytes = u64::from(request.length_bytes);
        if length_bytes == 0 {
            return Err(Refusal::Empty);
        }
        if (request.offset_bytes | length_bytes) & (u64::from(self.min_block_bytes) - 1) != 0 {
            return Err(Refusal::Unaligned);
        }
        let has_payload = matches!(request.command, Command::Read | Command::Write);
        if has_payload && request.length_bytes > self.max_payload_bytes {
            return Err(if request.flags.df() { Refusal::TooLongUnfragmented } else { Refusal::TooLong });
        }
        let within = request.offset_bytes.checked_add(length_bytes).is_some_and(|end| end <= self.size_bytes);
        if within {
            return Ok(());
        }
        match request.command {
            Command::Write | Command::WriteZeroes => Err(Refusal::WriteBeyondEnd),
            Command::Read | Command::Flush | Command::Trim | Command::Cache | Command::BlockStatus => {
                Err(Refusal::BeyondEnd)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::ExportInfo;

    fn limits(read_only: bool, structured: bool) -> Limits {
        let export = ExportInfo::new("e", 1 << 30).unwrap().with_read_only(read_only);
        Limits {
            size_bytes: export.size_bytes(),
            transmission_flags: export.transmission_flags(structured),
            min_block_bytes: 512,
            max_payload_bytes: 32 << 20,
            allocation: structured,
        }
    }

    fn check(command: Command, offset_bytes: u64, length_bytes: u32, flags: u16) -> Result<(), Refusal> {
        let request = Request { cookie: 0, offset_bytes, length_bytes, command, flags: CommandFlags(flags) };
        limits(false, true).check(&request)
    }

    #[test]
    fn codes_go_there_and_back() {
        for code in 0..=u16::MAX {
            if let Some(command) = Command::from_code(code) {
                assert_eq!(command.code(), code);
            } else {
                assert!(code == proto::CMD_DISC || code > proto::CMD_BLOCK_STATUS, "{code}");
            }
        }
    }

    #[test]
    fn ranges_are_checked_to_the_byte() {
        let end = 1u64 << 30;
        assert_eq!(check(Command::Read, end - 512, 512, 0), Ok(()));
        assert_eq!(check(Command::Read, end, 512, 0), Err(Refusal::BeyondEnd));
        assert_eq!(check(Command::Trim, end - 512, 1024, 0), Err(Refusal::BeyondEnd));
        assert_eq!(check(Command::Write, end - 512, 1024, 0), Err(Refusal::WriteBeyondEnd));
        assert_eq!(check(Command::WriteZeroes, u64::MAX - 511, 1024, 0), Err(Refusal::WriteBeyondEnd));
        assert_eq!(check(Command::Read, u64::MAX - 511, 512, 0), Err(Refusal::BeyondEnd));
        assert_eq!(check(Command::Read, 0, 0, 0), Err(Refusal::Empty));
        assert_eq!(check(Command::Write, 1, 512, 0), Err(Refusal::Unaligned));
        assert_eq!(check(Command::Write, 0, 513, 0), Err(Refusal::Unaligned));
        assert_eq!(check(Command::Read, 0, 32 << 20, 0), Ok(()));
        assert_eq!(check(Command::Read, 0, (32 << 20) + 512, 0), Err(Refusal::TooLong));
        assert_eq!(check(Command::Trim, 0, 1 << 30, 0), Ok(()));
        assert_eq!(check(Command::Flush, 0, 0, 0), Ok(()));
        assert_eq!(check(Command::Flush, 512, 0, 0), Err(Refusal::FlushWithRange));
    }

    #[test]
    fn a_long_read_that_must_not_be_fragmented_overflows() {
        let refusal = check(Command::Read, 0, (32 << 20) + 512, proto::CMD_FLAG_DF).unwrap_err();
        assert_eq!(refusal.error(), CommandError::Eoverflow);
    }

    #[test]
    fn flags_belong_to_their_commands() {
        let all = [
            Command::Read,
            Command::Write,
            Command::Trim,
            Command::Cache,
            Command::WriteZeroes,
            Command::BlockStatus,
        ];
        for command in all {
            for bit in 0..16 {
                let allowed = match bit {
                    0 => true,
                    1 => command == Command::WriteZeroes,
                    2 => command == Command::Read,
                    3 => command == Command::BlockStatus,
                    _ => false,
                };
                let expected = if allowed { Ok(()) } else { Err(Refusal::UnknownFlags) };
                assert_eq!(check(command, 0, 512, 1 << bit), expected, "{command:?} bit {bit}");
            }
        }
        let df = Request {
            cookie: 0,
            offset_bytes: 0,
            length_bytes: 512,
            command: Command::Read,
            flags: CommandFlags(proto::CMD_FLAG_DF),
        };
        assert_eq!(limits(false, false).check(&df), Err(Refusal::UnknownFlags));
    }

    #[test]
    fn a_read_only_export_refuses_exactly_the_writing_commands() {
        for code in [0, 1, 3, 4, 5, 6, 7] {
            let command = Command::from_code(code).unwrap();
            let length_bytes = if command == Command::Flush { 0 } else { 512 };
            let request =
                Request { cookie: 0, offset_bytes: 0, length_bytes, command, flags: CommandFlags::NONE };
            let expected = if command.is_write() { Err(Refusal::ReadOnly) } else { Ok(()) };
            assert_eq!(limits(true, true).check(&request), expected, "{command:?}");
        }
    }
}
