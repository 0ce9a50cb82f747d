//! A small trace of each format, and ways to pack and read it.

use std::io::{Cursor, Write};

use lode_trace::{CompactWriter, OnError, ReadOptions, Reader, Skips, TraceError, read_trace};
use lode_types::{Origin, RequestOp, TraceRequest};

/// Requests that every format can hold: 512-byte units, whole microseconds, no trims.
pub fn requests(count: u64) -> Vec<TraceRequest> {
    (0..count)
        .map(|i| TraceRequest {
            time_ns: 1_000_000_000 + i * 7_000,
            offset_bytes: (i * 7919 % 1000) * 4096,
            length_bytes: 512 * (1 + i as u32 % 16),
            volume: 0,
            op: if i % 3 == 0 { RequestOp::Read } else { RequestOp::Write },
            origin: Origin::UNKNOWN,
        })
        .collect()
}

/// Name and bytes of the same trace in every format.
pub fn every_format(requests: &[TraceRequest]) -> Vec<(&'static str, Vec<u8>)> {
    let mut iolog = "fio version 3 iolog\n0 /dev/sda add\n0 /dev/sda open\n".to_owned();
    let mut old_iolog = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n".to_owned();
    let mut csv = "version,time,op,size,lbn\n".to_owned();
    let (mut msr, mut blkparse, mut vscsi) = (String::new(), String::new(), Vec::new());
    let mut clock_us = 0;
    for (i, r) in requests.iter().enumerate() {
        let (us, sector, sectors) = (r.time_ns / 1000, r.offset_bytes / 512, r.length_bytes / 512);
        let read = r.op == RequestOp::Read;
        let pick = |yes: &'static str, no: &'static str| if read { yes } else { no };
        let fio = format!("{} {} {}\n", pick("read", "write"), r.offset_bytes, r.length_bytes);
        iolog += &format!("{us} /dev/sda {fio}");
        old_iolog += &format!("/dev/sda wait {} 0\n/dev/sda {fio}", us - clock_us);
        clock_us = us;
        let type_name = pick("Read", "Write");
        msr += &format!("{},hm,0,{type_name},{},{},77\n", r.time_ns / 100, r.offset_bytes, r.length_bytes);
        csv += &format!(
            "1,{}.{:06},{},{},{sector}\n",
            us / 1_000_000,
            us % 1_000_000,
            pick("28", "2a"),
            r.length_bytes
        );
        let time = format!("{}.{:09}", r.time_ns / 1_000_000_000, r.time_ns % 1_000_000_000);
        for action in ["Q", "D", "C"] {
            blkparse += &format!(
                "  8,16   3   {i}  {time}  3645  {action}  {} {sector} + {sectors} [x]\n",
                pick("R", "WS")
            );
        }
        vscsi.extend_from_slice(&(i as u32).to_le_bytes());
        vscsi.extend_from_slice(&r.length_bytes.to_le_bytes());
        vscsi.extend_from_slice(&1u32.to_le_bytes());
        vscsi.extend_from_slice(&(if read { 0x28u16 } else { 0x2a }).to_le_bytes());
        vscsi.extend_from_slice(&0x0100u16.to_le_bytes());
        vscsi.extend_from_slice(&sector.to_le_bytes());
        vscsi.extend_from_slice(&us.to_le_bytes());
    }
    blkparse +=
        "CPU0 (8,16):\n Reads Queued:     0,        0KiB\n\nTotal (8,16):\nSkips: 0 forward (0 -   0.0%)\n";
    let mut all = vec![
        ("msr", msr.into_bytes()),
        ("vscsi", vscsi),
        ("vscsi-csv", csv.into_bytes()),
        ("blkparse", blkparse.into_bytes()),
        ("iolog", iolog.into_bytes()),
        ("iolog", old_iolog.into_bytes()),
        ("lode", lode(&["hm_0".to_owned()], requests)),
        ("srt", srt(requests)),
        ("blktrace", blktrace(requests)),
    ];
    all.extend(line_formats(requests));
    let mut told = "volume,time_ns,op,offset_bytes,length_bytes,sync\n".to_owned();
    for r in requests {
        told += &format!("hm_0,{},{},{},{},\n", r.time_ns, letter(r), r.offset_bytes, r.length_bytes);
    }
    all.push(("requests-csv", told.into_bytes()));
    all
}

/// These requests as a format of [`every_format`] tells who asked for them.
pub fn with_origins(format: &str, requests: &[TraceRequest]) -> Vec<TraceRequest> {
    let by = |process| Origin::UNKNOWN.with_process(process).expect("it is small");
    let origin = |op| match format {
        "blkparse" => by(3645).with_sync(true),
        "blktrace" => by(7).with_sync(op == RequestOp::Read),
        "fiu" => by(7),
        _ => Origin::UNKNOWN,
    };
    requests.iter().map(|&request| TraceRequest { origin: origin(request.op), ..request }).collect()
}

/// How many there are.
pub const FORMATS: usize = 18;

/// The formats of one line a request, without a header that they need.
fn line_formats(requests: &[TraceRequest]) -> Vec<(&'static str, Vec<u8>)> {
    type Line = fn(&TraceRequest) -> String;
    let formats: [(&'static str, Line); 8] = [
        ("spc", |r| {
            format!(
                "0,{},{},{},{}\n",
                r.offset_bytes / 512,
                r.length_bytes,
                letter(r),
                decimal(r.time_ns, 9, 6)
            )
        }),
        ("fiu", |r| {
            let (sector, sectors) = (r.offset_bytes / 512, r.length_bytes / 512);
            let md5 = "0123456789abcdef0123456789abcdef";
            format!("{} 7 a process {sector} {sectors} {} 6 0 {md5}\n", r.time_ns, letter(r))
        }),
        ("disksim", |r| {
            let (sector, sectors) = (r.offset_bytes / 512, r.length_bytes / 512);
            format!("{}\t0\t{sector}\t{sectors}\t{}\n", decimal(r.time_ns, 6, 6), flag(r))
        }),
        ("ssdsim", |r| {
            format!("{} 0 {} {} {}\n", r.time_ns, r.offset_bytes / 512, r.length_bytes / 512, flag(r))
        }),
        ("msr-cut", |r| {
            format!("{} 0 {} {} {}\n", decimal(r.time_ns, 6, 3), r.offset_bytes, r.length_bytes, flag(r))
        }),
        ("heimdall", |r| {
            let op = 1 - flag(r);
            format!("{} 0 {} {} {op}\n", decimal(r.time_ns, 3, 5), r.offset_bytes, r.length_bytes)
        }),
        ("systor", |r| {
            let time = decimal(r.time_ns, 9, 9);
            format!("{time},0.001,{},0,{},{}\n", letter(r), r.offset_bytes, r.length_bytes)
        }),
        ("alibaba", |r| {
            format!("0,{},{},{},{}\n", letter(r), r.offset_bytes, r.length_bytes, r.time_ns / 1000)
        }),
    ];
    formats
        .into_iter()
        .map(|(name, line)| (name, requests.iter().map(line).collect::<String>().into_bytes()))
        .collect()
}

fn letter(request: &TraceRequest) -> char {
    if request.op == RequestOp::Read { 'R' } else { 'W' }
}

fn flag(request: &TraceRequest) -> u32 {
    u32::from(request.op == RequestOp::Read)
}

/// Nanoseconds in a unit of 10^`power` of them, with some of its decimals.
fn decimal(ns: u64, power: u32, decimals: u32) -> String {
    let part = ns % 10_u64.pow(power);
    let fraction = part * 10_u64.pow(decimals) / 10_u64.pow(power);
    format!("{}.{fraction:0width$}", ns / 10_u64.pow(power), width = decimals as usize)
}

fn srt(requests: &[TraceRequest]) -> Vec<u8> {
    let mut bytes = b"$$TR_IOREC-1.3 (sample)\0\ndisks = { 0 -> { sectorsize  = 256, } }\n\x0c".to_vec();
    for r in requests {
        let (us, sector) = ((r.time_ns / 1000) as u32, (r.offset_bytes / 256) as u32);
        let words = [
            56,
            1,
            us / 1_000_000,
            us % 1_000_000,
            5,
            900,
            r.length_bytes,
            sector,
            7,
            4,
            0,
            2 | flag(r),
            0,
            1,
        ];
        bytes.extend(words.into_iter().flat_map(u32::to_be_bytes));
    }
    bytes
}

/// Each request queued, issued and completed.
fn blktrace(requests: &[TraceRequest]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for r in requests {
        let direction = if r.op == RequestOp::Read { 1 << 16 } else { 1 << 17 };
        for (action, payload) in [(1 | 1 << 20, &b""[..]), (7 | 1 << 22, b"odd"), (8 | 1 << 23, b"")] {
            bytes.extend([0x6561_7407u32, 0].into_iter().flat_map(u32::to_le_bytes));
            bytes.extend([r.time_ns, r.offset_bytes / 512].into_iter().flat_map(u64::to_le_bytes));
            let last = (payload.len() as u32) << 16;
            let rest = [r.length_bytes, action | direction, 7, 8 << 20 | 16, 0, last];
            bytes.extend(rest.into_iter().flat_map(u32::to_le_bytes));
            bytes.extend_from_slice(payload);
        }
    }
    bytes
}

/// The compact format's bytes.
pub fn lode(volumes: &[String], requests: &[TraceRequest]) -> Vec<u8> {
    let mut writer = CompactWriter::new(Vec::new(), "sample").expect("memory");
    writer.write(volumes, requests).expect("good requests");
    writer.finish().expect("memory")
}

/// Ways to compress.
#[derive(Clone, Copy, Debug)]
pub enum Pack {
    Plain,
    Gzip,
    Xz,
    Zstd,
}

impl Pack {
    pub const ALL: [Pack; 4] = [Pack::Plain, Pack::Gzip, Pack::Xz, Pack::Zstd];

    pub fn pack(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Pack::Plain => bytes.to_vec(),
            Pack::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory")
            }
            Pack::Xz => {
                let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
                encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory")
            }
            Pack::Zstd => zstd::encode_all(bytes, 1).expect("memory"),
        }
    }
}

pub fn options(on_error: OnError) -> ReadOptions {
    ReadOptions { on_error, ..ReadOptions::default() }
}

pub fn open(bytes: Vec<u8>, name: &str, on_error: OnError) -> Result<Reader, TraceError> {
    read_trace(Cursor::new(bytes), name, &options(on_error))
}

/// Bad records of every kind.
pub fn fault_count(skips: &Skips) -> u64 {
    skips.faults.iter().map(|fault| fault.count).sum()
}

/// Every request, and the error that ended the reading.
pub fn drain(reader: &mut Reader) -> (Vec<TraceRequest>, Option<TraceError>) {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        match reader.next_batch(&mut batch) {
            Ok(0) => return (all, None),
            Ok(_) => all.extend_from_slice(&batch),
            Err(error) => return (all, Some(error)),
        }
    }
}
