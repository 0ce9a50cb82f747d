//! What a guest's request asks of the engine. It must not know who asks.

use lode_engine::GuestOp;
use lode_nbd::{Command, Request};
use lode_types::{ByteList, planted};

/// What the engine is asked for, and with `fua` to be durable when it is answered.
pub(super) fn op_of(request: &Request, fua: bool, data: ByteList) -> GuestOp {
    let (offset_bytes, length_bytes) = (request.offset_bytes, u64::from(request.length_bytes));
    match request.command {
        Command::Cache | Command::BlockStatus => unreachable!("the engine is not asked for it"),
        Command::Read => GuestOp::Read { offset_bytes, length_bytes },
        Command::Write => GuestOp::Write { offset_bytes, data, fua },
        Command::Flush => GuestOp::Flush,
        Command::Trim => GuestOp::Trim { offset_bytes, length_bytes },
        Command::WriteZeroes => {
            let unmap = !request.flags.no_hole();
            let fua = fua && !planted("fua-of-zeroes-dropped");
            GuestOp::WriteZeroes { offset_bytes, length_bytes, fua, unmap }
        }
    }
}

#[cfg(test)]
mod tests {
    use lode_nbd::CommandFlags;
    use lode_nbd::proto::{CMD_FLAG_FUA, CMD_FLAG_NO_HOLE};

    use super::*;

    /// Guarantee 2: whoever asks for durability gets it.
    #[test]
    fn g2_fua_comes_to_the_engine_with_every_write() {
        for (command, fua, no_hole) in [
            (Command::Write, false, false),
            (Command::Write, true, false),
            (Command::WriteZeroes, true, false),
            (Command::WriteZeroes, true, true),
            (Command::WriteZeroes, false, true),
        ] {
            let bits = if fua { CMD_FLAG_FUA } else { 0 } | if no_hole { CMD_FLAG_NO_HOLE } else { 0 };
            let flags = CommandFlags(bits);
            let request = Request { cookie: 1, offset_bytes: 0, length_bytes: 4096, command, flags };
            match op_of(&request, flags.fua(), ByteList::new()) {
                GuestOp::Write { fua: asked, .. } => assert_eq!(asked, fua),
                GuestOp::WriteZeroes { fua: asked, unmap, .. } => {
                    assert_eq!((asked, unmap), (fua, !no_hole));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
