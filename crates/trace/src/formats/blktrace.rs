//! blktrace's binary files (`sda.blktrace.0`, one a CPU, or what `blkparse -d` joins): version 7 of the kernel's
//! `struct blk_io_trace`, in the byte order of the machine that traced.
//!
//! `u32 magic (0x65617407), u32 sequence, u64 time (ns), u64 sector, u32 bytes, u32 action, u32 pid, u32 device, u32 cpu,
//! u16 error, u16 payload length`, then the payload. The low half of the action says what happened, its high half holds
//! the categories. One action is counted by the same rule as in [`super::blkparse`]: Q (queued) when the first part of
//! the trace has any Q, else D (issued to the driver); when it has neither, whichever comes first later on. A discard
//! is a trim; a flush without bytes is a flush, with bytes it is its write; SCSI passthrough is another command. Each
//! device is a volume "major,minor". Times are the tracing machine's clock. Who asks, and whether it waits, is told as in
//! [`super::blkparse`].

use lode_types::{OriginFields, RequestOp, TraceRequest};

use super::fields::{by_process, is_waited_for, sectors};
use super::{Decoder, Format};
use crate::compact::Recorded;
use crate::error::{ErrorKind, Fault, Position, TraceError};
use crate::feed::{Feed, More, Parsed, check_request};
use crate::limits::BATCH_REQUESTS;
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "blktrace",
    about: "blktrace binary, version 7; Q events if there are any at the start, else D",
    endings: &["blktrace"],
    default_unit_bytes: None,
    units_told: true,
    recorded: |_| Recorded {
        origins: OriginFields { process: true, sync: true, critical: false },
        ..Recorded::TIMES
    },
    detect: |head| Order::of(head).is_some(),
    decoder: |head| Box::new(Blktrace { order: Order::of(head), counted: counted_action(head) }),
};

const RECORD_BYTES: usize = 48;
const ACTION_AT: usize = 28;
const PROCESS_AT: usize = 32;
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

/// What the low byte of an action means; the bit above it marks control groups.
const QUEUED: u32 = 1;
const ISSUED: u32 = 7;
const ACTION_MASK: u32 = 0xff;
/// Categories in the high half.
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const SYNC: u32 = 1 << 19;
const PASSTHROUGH: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const AHEAD: u32 = 1 << 27;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;
/// Bits of a device's minor number.
const MINOR_BITS: u32 = 20;

const NO_MAGIC: Fault = Fault::malformed("the magic number 0x65617400 + 7 of a record");
const BAD_VERSION: Fault = Fault::new(ErrorKind::Version, "version 7 of blktrace's records");
const CUT: Fault = Fault::new(ErrorKind::Truncated, "whole records up to the end");
const NO_DIRECTION: Fault = Fault::malformed("a read, write, discard or flush among the categories");

/// Byte order of the machine that traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    /// Of a trace with this first record.
    fn of(head: &[u8]) -> Option<Order> {
        let magic = *head.first_chunk()?;
        let is_magic = |number: u32| number & !0xff == MAGIC;
        if is_magic(u32::from_le_bytes(magic)) {
            Some(Order::Little)
        } else if is_magic(u32::from_be_bytes(magic)) {
            Some(Order::Big)
        } else {
            None
        }
    }

    fn u32(self, record: &[u8; RECORD_BYTES], at: usize) -> u32 {
        let bytes = [record[at], record[at + 1], record[at + 2], record[at + 3]];
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u64(self, record: &[u8; RECORD_BYTES], at: usize) -> u64 {
        let (first, second) = (self.u32(record, at), self.u32(record, at + 4));
        let (low, high) = if self == Order::Little { (first, second) } else { (second, first) };
        u64::from(high) << 32 | u64::from(low)
    }

    /// The last two bytes.
    fn payload_bytes(self, record: &[u8; RECORD_BYTES]) -> usize {
        let last = self.u32(record, RECORD_BYTES - 4);
        (if self == Order::Little { last >> 16 } else { last & 0xffff }) as usize
    }
}

struct Blktrace {
    order: Option<Order>,
    counted: Option<u32>,
}

impl Decoder for Blktrace {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        while out.len() < BATCH_REQUESTS {
            if !feed.need(RECORD_BYTES)? {
                return feed.end_of_records(CUT);
            }
            let Some(record) = feed.input.available().first_chunk::<RECORD_BYTES>().copied() else {
                return feed.end_of_records(CUT);
            };
            let here = Position::at_byte(feed.input.offset());
            let Some(order) = self.order else { return Err(feed.fatal(NO_MAGIC, here)) };
            match order.u32(&record, 0) {
                magic if magic == MAGIC | VERSION => {}
                magic if magic & !0xff == MAGIC && here.byte == 0 => {
                    return Err(feed.fatal(BAD_VERSION, here));
                }
                _ => {
                    feed.fault(NO_MAGIC, here)?;
                    to_next_record(feed, order)?;
                    continue;
                }
            }
            let whole = RECORD_BYTES + order.payload_bytes(&record);
            if !feed.need(whole)? {
                return feed.end_of_records(CUT);
            }
            feed.input.consume(whole);
            match self.parse(&record, order, &mut feed.volumes) {
                Ok(Parsed::Request(request)) => out.push(request),
                Ok(Parsed::Nothing) => {}
                Ok(Parsed::OtherCommand) => feed.skips.other_commands += 1,
                Err(fault) => feed.fault(fault, here)?,
            }
        }
        Ok(More::Yes)
    }
}

/// Passes over at least a byte, up to the next magic number or the end of the input.
fn to_next_record(feed: &mut Feed, order: Order) -> Result<(), TraceError> {
    let magic = MAGIC | VERSION;
    let magic = if order == Order::Little { magic.to_le_bytes() } else { magic.to_be_bytes() };
    feed.input.consume(1);
    loop {
        let window = feed.input.available();
        if let Some(at) = memchr::memmem::find(window, &magic) {
            feed.input.consume(at);
            return Ok(());
        }
        let passed = window.len().saturating_sub(magic.len() - 1);
        feed.input.consume(passed);
        if !feed.more()? {
            let rest = feed.input.available().len();
            feed.input.consume(rest);
            return Ok(());
        }
    }
}

/// Which action counts in a trace that starts with `head`.
fn counted_action(head: &[u8]) -> Option<u32> {
    let order = Order::of(head)?;
    let (mut rest, mut issued) = (head, None);
    while let Some(record) = rest.first_chunk::<RECORD_BYTES>()
        && order.u32(record, 0) == MAGIC | VERSION
    {
        match action_of(order.u32(record, ACTION_AT)) {
            Some(QUEUED) => return Some(QUEUED),
            Some(action) => issued = Some(action),
            None => {}
        }
        rest = rest.get(RECORD_BYTES + order.payload_bytes(record)..).unwrap_or_default();
    }
    issued
}

/// Queued or issued, if it is one of them.
fn action_of(action: u32) -> Option<u32> {
    let event = action & ACTION_MASK;
    (action & NOTIFY == 0 && matches!(event, QUEUED | ISSUED)).then_some(event)
}

impl Blktrace {
    fn parse(
        &mut self,
        record: &[u8; RECORD_BYTES],
        order: Order,
        volumes: &mut VolumeTable,
    ) -> Result<Parsed, Fault> {
        let categories = order.u32(record, ACTION_AT);
        let Some(action) = action_of(categories) else { return Ok(Parsed::Nothing) };
        if action != *self.counted.get_or_insert(action) {
            return Ok(Parsed::Nothing);
        }
        if categories & PASSTHROUGH != 0 {
            return Ok(Parsed::OtherCommand);
        }
        let (time_ns, bytes) = (order.u64(record, 8), order.u32(record, 24));
        let volume = volumes.lookup(&order.u32(record, 36).to_be_bytes(), device_name)?;
        let op = match categories {
            _ if categories & FLUSH != 0 && bytes == 0 => RequestOp::Flush,
            _ if categories & DISCARD != 0 => RequestOp::Trim,
            _ if categories & WRITE != 0 => RequestOp::Write,
            _ if categories & READ != 0 => RequestOp::Read,
            _ => return Err(NO_DIRECTION),
        };
        let has = |category: u32| categories & category != 0;
        let origin = by_process(u64::from(order.u32(record, PROCESS_AT)))?.with_sync(is_waited_for(
            op,
            has(SYNC),
            has(FLUSH | FUA),
            has(AHEAD),
        ));
        let offset_bytes = match op {
            RequestOp::Flush => 0,
            _ => sectors(order.u64(record, 16), 0)?.0,
        };
        let request = TraceRequest { time_ns, offset_bytes, length_bytes: bytes, volume, op, origin };
        check_request(&request)?;
        Ok(Parsed::Request(request))
    }
}

fn device_name(key: &[u8]) -> Vec<u8> {
    let device = key.iter().fold(0, |device: u32, &byte| device << 8 | u32::from(byte));
    format!("{},{}", device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1)).into_bytes()
}
