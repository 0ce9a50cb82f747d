//! A small trace of each format, and ways to pack and read it.

use std::io::{Cursor, Write};

use lode_trace::{CompactWriter, OnError, ReadOptions, Reader, TraceError, read_trace};
use lode_types::{Op, TraceRequest};

/// Requests that every format can hold: 512-byte units, whole microseconds, no trims.
pub fn requests(count: u64) -> Vec<TraceRequest> {
    (0..count)
        .map(|i| TraceRequest {
            time_ns: 1_000_000_000 + i * 7_000,
            offset_bytes: (i * 7919 % 1000) * 4096,
            length_bytes: 512 * (1 + i as u32 % 16),
            volume: 0,
            op: if i % 3 == 0 { Op::Read } else { Op::Write },
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
        let read = r.op == Op::Read;
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
    vec![
        ("msr", msr.into_bytes()),
        ("vscsi", vscsi),
        ("vscsi-csv", csv.into_bytes()),
        ("blkparse", blkparse.into_bytes()),
        ("iolog", iolog.into_bytes()),
        ("iolog", old_iolog.into_bytes()),
        ("lode", lode(&["hm_0".to_owned()], requests)),
    ]
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
    ReadOptions { format: None, on_error }
}

pub fn open(bytes: Vec<u8>, name: &str, on_error: OnError) -> Result<Reader, TraceError> {
    read_trace(Cursor::new(bytes), name, &options(on_error))
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
