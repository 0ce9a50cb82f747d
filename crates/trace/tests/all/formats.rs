//! The fields of each format, through the reader: what they mean, what is refused, and by what a format is known.

use lode_trace::{ErrorKind, ReadOptions, Reader, read_trace};
use lode_types::RequestOp::{Flush, Read, Trim, Write};
use lode_types::{Origin, OriginFields, RequestOp, TraceRequest};

use crate::samples::drain;

const MD5: &str = "00112233445566778899aabbccddeeff";

/// Bytes as a format that is named, in units of 512 bytes where these are not stated.
pub fn read_as(format: &str, bytes: &[u8]) -> Result<(Vec<TraceRequest>, Reader), ErrorKind> {
    let is_unit_free = ["lis", "u32le", "oracle-general", "oracle-general-csv"].contains(&format);
    let unit_bytes = is_unit_free.then_some(512);
    let options = ReadOptions { format: Some(format.to_owned()), unit_bytes, ..ReadOptions::default() };
    let mut reader = read_trace(std::io::Cursor::new(bytes.to_vec()), "t", &options).map_err(|e| e.kind())?;
    let (all, error) = drain(&mut reader);
    error.map_or(Ok((all, reader)), |error| Err(error.kind()))
}

/// The format that bytes are taken for, if they are.
fn known(bytes: &[u8]) -> Option<&'static str> {
    let reader = read_trace(std::io::Cursor::new(bytes.to_vec()), "t", &ReadOptions::default());
    reader.ok().map(|reader| reader.format())
}

fn plain(time_ns: u64, op: RequestOp, offset_bytes: u64, length_bytes: u32) -> TraceRequest {
    TraceRequest { time_ns, offset_bytes, length_bytes, volume: 0, op, origin: Origin::UNKNOWN }
}

/// Format, text and the only request in it, of the only volume.
#[test]
fn fields_mean_what_they_say() {
    let disksim = |op| plain(25_911_729, op, 28_601 * 512, 6144);
    let heimdall = |op| plain(9_260_651, op, 415_439_060_992, 1024);
    let spc = plain(26_214_000, Write, 303_574 * 512, 3584);
    let systor = plain(1_456_095_145_133_076_000, Read, 899_056_122_368, 131_072);
    let msr = |op| plain(12_816_638_529_551_466_300, op, 9_056_014_336, 2048);
    let fiu_origin = Origin::UNKNOWN.with_process(4253).expect("it is small");
    let fiu =
        TraceRequest { origin: fiu_origin, ..plain(89_966_527_950_584, Write, 508_516_672 * 512, 4096) };
    let object = plain(9_000_000_000, Read, 1536, 4096);
    let vscsi = |op, length_bytes| plain(5_633_898_250_000_000, op, 40_409_911 * 512, length_bytes);
    for (format, text, volume, expected) in [
        ("disksim", "25.911729\t18\t28601\t12\t1", "18", disksim(Read)),
        ("disksim", "25.911729\t18\t28601\t12\t0", "18", disksim(Write)),
        ("disksim", "25.911729\t18\t28601\t12\t8", "18", disksim(Write)),
        ("disksim", "25.911729\t18\t28601\t12\tb", "18", disksim(Read)),
        ("heimdall", "9260.65187 0 415439060992 1024 0", "0", heimdall(Read)),
        ("heimdall", "9260.65187 0 415439060992 1024 1", "0", heimdall(Write)),
        ("ssdsim", " 26214000 14\t303574 7 1 ", "14", plain(26_214_000, Read, 303_574 * 512, 3584)),
        (
            "msr-cut",
            "242904.693 0 1023476224 7680 0",
            "0",
            plain(242_904_693_000, Write, 1_023_476_224, 7680),
        ),
        ("msr", "128166385295514663,hm,0,Write,9056014336,2048,2833", "hm_0", msr(Write)),
        ("msr", "128166385295514663,hm,0,READ,9056014336,2048,2833", "hm_0", msr(Read)),
        (
            "alibaba",
            "device_id,opcode,offset,length,timestamp\n419,W,8792731648,16384,1577808144360767",
            "419",
            plain(1_577_808_144_360_767_000, Write, 8_792_731_648, 16_384),
        ),
        ("systor", "1456095145.133076000,0.000806000,R,3,899056122368,131072", "3", systor),
        (
            "systor",
            "Timestamp,Response,IOType,LUN,Offset,Size\n1456095145.133076000,,R,3,899056122368,131072",
            "3",
            systor,
        ),
        ("spc", "0,303574,3584,w,0.026214", "0", spc),
        ("spc", "0,303574,3584,W,0.026214,5,x", "0", spc),
        ("spc", "0, 303574, 3584, w, 0.0262140", "0", spc),
        (
            "tencent",
            "1538323200,12781432,8,1,11248",
            "11248",
            plain(1_538_323_200_000_000_000, Write, 12_781_432 * 512, 4096),
        ),
        ("fiu", &format!("89966527950584 4253 nfsd 508516672 8 W 6 0 {MD5}"), "6,0", fiu),
        ("fiu", &format!(" \n89966527950584 4253 a b  8 R 508516672 8 W 6 0 {MD5}"), "6,0", fiu),
        ("lis", "230027 8 0 0", "t", plain(0, Read, 230_027 * 512, 4096)),
        ("oracle-general-csv", "9,3,4096,17", "t", object),
        ("oracle-general-csv", "# time,object,size,next_access_vtime\n9,3,4096,-1", "t", object),
        ("oracle-general-csv", "time, obj_id, obj_size\n9,3,4096", "t", object),
        ("vscsi-csv", "1,5633898.25,2a,6656,40409911", "t", vscsi(Write, 6656)),
        (
            "vscsi-csv",
            "version,time (s),op (hex SCSI opcode),size (bytes),lbn\n1,5633898.25,0x28,512,40409911",
            "t",
            vscsi(Read, 512),
        ),
    ] {
        let (all, reader) = read_as(format, text.as_bytes()).expect(text);
        assert_eq!((all, reader.volumes()), (vec![expected], &[volume.to_owned()][..]), "{format}: {text}");
    }
}

#[test]
fn volumes_commands_and_times_of_several_lines() {
    let (all, reader) = read_as("vscsi-csv", b"1,5,35,0,0\n").expect("another command");
    assert_eq!((all.len(), reader.skipped().other_commands), (0, 1));
    let (_, reader) = read_as("ssdsim", b"0 0 303567 7 0\n0 14 303574 7 1\n").expect("two volumes");
    assert_eq!(reader.volumes(), ["0", "14"]);
    let hosts = b"1,hm,0,Read,0,1,1\n1,hm,01,Read,0,1,1\n1,hm,0,Read,0,1,1\n1,src1,10,Write,0,1,1\n";
    assert_eq!(read_as("msr", hosts).expect("three volumes").1.volumes(), ["hm_0", "hm_01", "src1_10"]);
    let (all, _) = read_as("lis", b"1 1 0 0\n2 1 0 0\n").expect("two requests");
    assert_eq!(all.iter().map(|request| request.time_ns).collect::<Vec<_>>(), [0, 1000]);
}

#[test]
fn a_title_tells_the_format() {
    for (text, format) in [
        ("# time,object,size,next_access_vtime\n", Some("oracle-general-csv")),
        ("time, obj_id, obj_size\n", Some("oracle-general-csv")),
        ("#time,object,size\n", Some("oracle-general-csv")),
        ("9,3,4096,17\n", None),
        ("time,op,size\n", None),
        ("1538323200,8,8,1,1\n1538323199,8,8,0,2", Some("tencent")),
        ("15383232,8,8,1,1\n", None),
        ("1538323200,8,8,1,1\n1,8,8,0,2\n", None),
        ("1538323200,8,8,2,1\n", None),
        ("time_ns,volume,op,offset_bytes,length_bytes\r\n1,a,R,0,512\r\n", Some("requests-csv")),
        ("time_ns,volume,op,offset_bytes\n", None),
        ("time_ns,volume,op,offset_bytes,length_bytes,time_ns\n", None),
        ("time_ns,volume,op,offset_bytes,length_bytes,colour\n", None),
        ("Time_ns,volume,op,offset_bytes,length_bytes\n", None),
        ("1.5 0 8 8 R\n", None),
        ("\n", None),
        ("", None),
    ] {
        assert_eq!(known(text.as_bytes()), format, "{text}");
    }
}

#[test]
fn columns_of_requests_go_by_their_titles() {
    let request = plain(7, Write, 4096, 512);
    let title = "time_ns,volume,op,offset_bytes,length_bytes";
    let read = |text: String| read_as("requests-csv", text.as_bytes()).expect("requests");
    let (all, reader) = read(format!("{title}\n7,a,W,4096,512\n\n{title}\n"));
    assert_eq!((all, reader.recorded().origins), (vec![request], OriginFields::NONE));
    let told = |process, sync, critical| TraceRequest {
        origin: Origin::UNKNOWN.with_process(process).expect("small").with_sync(sync).with_critical(critical),
        ..request
    };
    let (all, reader) = read(
        "critical,volume,process,op,sync,time_ns,length_bytes,offset_bytes\n1,a,0,W,0,7,512,4096\n\
         0,a,4194304,W,1,7,512,4096\n,a,,W,,7,512,4096\n,a,,F,1,7,0,0\n"
            .to_owned(),
    );
    let flush = TraceRequest { origin: Origin::UNKNOWN.with_sync(true), ..plain(7, Flush, 0, 0) };
    assert_eq!(all, [told(0, false, true), told(4_194_304, true, false), request, flush]);
    assert_eq!(reader.recorded().origins, OriginFields::ALL);
}

#[test]
fn a_log_of_fio_waits_or_has_timestamps() {
    let text = "fio version 2 iolog\n/dev/a add\n/dev/b add\n/dev/b open\n/dev/b read 4096 512\n\
                /dev/b wait 1500 0\n/dev/a write 0 8192\n/dev/a wait 500 0\n/dev/a datasync 7 0\n/dev/a close\n";
    let on = |volume, request| TraceRequest { volume, ..request };
    let (all, reader) = read_as("iolog", text.as_bytes()).expect("version 2");
    let expected = [
        plain(0, Read, 4096, 512),
        on(1, plain(1_500_000, Write, 0, 8192)),
        on(1, plain(2_000_000, Flush, 0, 0)),
    ];
    assert_eq!(
        (&all[..], reader.volumes()),
        (&expected[..], &["/dev/b".to_owned(), "/dev/a".to_owned()][..])
    );
    let text = "fio version 3 iolog\n25 /tmp/f add\n158 /tmp/f open\n162 /tmp/f read 61440 4096\n\
                1686 /tmp/f sync 1040384 0\n1700 /tmp/f trim 0 65536\n93676 /tmp/f close\n";
    let (all, reader) = read_as("iolog", text.as_bytes()).expect("version 3");
    let expected = [
        plain(162_000, Read, 61_440, 4096),
        plain(1_686_000, Flush, 0, 0),
        plain(1_700_000, Trim, 0, 65_536),
    ];
    assert_eq!((&all[..], reader.volumes()), (&expected[..], &["/tmp/f".to_owned()][..]));
}

/// The start of a line of blkparse, up to the action.
const EVENT: &str = "  8,16   3        4     0.000011950  3645  ";

fn events(lines: &[&str]) -> Result<Vec<TraceRequest>, ErrorKind> {
    read_as("blkparse", lines.join("\n").as_bytes()).map(|(all, _)| all)
}

#[test]
fn letters_of_blkparse() {
    for (tail, expected) in [
        ("D   R 8 + 16 [java]", Some((Read, 4096, 8192, true))),
        ("Q   R 8 + 16 [java]", Some((Read, 4096, 8192, true))),
        ("Q  RA 8 + 16 [java]", Some((Read, 4096, 8192, false))),
        ("Q RAS 8 + 16 [java]", Some((Read, 4096, 8192, true))),
        ("Q   W 8 + 16 [kworker/u8:1 S]", Some((Write, 4096, 8192, false))),
        ("Q  WM 8 + 16 [kworker]", Some((Write, 4096, 8192, false))),
        ("Q  WS 8 + 16 [mysqld]", Some((Write, 4096, 8192, true))),
        ("Q  WF 8 + 16 [jbd2/sdb-8]", Some((Write, 4096, 8192, true))),
        ("Q WFS 8 + 16 [a b]", Some((Write, 4096, 8192, true))),
        ("Q FWM 8 + 16 [jbd2/sdb-8]", Some((Write, 4096, 8192, true))),
        ("Q FWFSM 8 + 16 [jbd2/sdb-8]", Some((Write, 4096, 8192, true))),
        ("Q   D 8 + 16 [fstrim]", Some((Trim, 4096, 8192, false))),
        ("Q  DS 8 + 16 [fstrim]", Some((Trim, 4096, 8192, true))),
        ("Q DE 8 + 16 [blkdiscard]", Some((Trim, 4096, 8192, false))),
        ("Q   F [jbd2/sdb-8]", Some((Flush, 0, 0, true))),
        ("Q FWS [jbd2/sdb-8]", Some((Flush, 0, 0, true))),
        ("Q  FN [kworker]", Some((Flush, 0, 0, true))),
        ("Q   F 0 + 0 [kworker]", Some((Flush, 0, 0, true))),
        ("Q   N [smartd]", None),
        ("D   R 36 (12 00 00 00 24 00) [smartd]", None),
        ("C   R 8 + 16 [0]", None),
        ("m   N cfq3645S dispatch", None),
        ("UT   N [java] 1", None),
    ] {
        let all = events(&[&format!("{EVENT}{tail}")]).expect(tail);
        let facts = |r: &TraceRequest| (r.op, r.offset_bytes, r.length_bytes, r.origin.sync() == Some(true));
        assert_eq!(all.first().map(facts), expected, "{tail}");
        let asks = |r: &TraceRequest| r.origin.process() == Some(3645) && r.origin.critical().is_none();
        assert!(all.iter().all(asks) && all.iter().all(|r| r.origin.sync().is_some()), "{tail}");
    }
}

#[test]
fn queued_events_of_blkparse_count_or_else_issued_ones() {
    let line = |action: &str| format!("{EVENT}{action}   R 8 + 16 [java]");
    let (q, d, c) = (line("Q"), line("D"), line("C"));
    for (lines, count) in [(vec![&d, &q, &d, &c, &q, &q], 3), (vec![&d, &c, &d], 2), (vec![&c, &c], 0)] {
        let lines: Vec<&str> = lines.into_iter().map(String::as_str).collect();
        assert_eq!(events(&lines).map(|all| all.len()), Ok(count));
    }
    // What comes after the first 64 KiB does not change it.
    let late: Vec<&str> = std::iter::repeat_n(c.as_str(), 2000).chain([d.as_str(), q.as_str()]).collect();
    assert_eq!(events(&late).map(|all| all.len()), Ok(1));
}

#[test]
fn statistics_end_a_trace_of_blkparse_and_another_may_follow() {
    let event = format!("{EVENT}Q   R 8 + 16 [java]");
    let statistics = [
        "CPU0 (8,16):",
        " Reads Queued:           0,        0KiB",
        " IO unplugs: 0",
        "",
        "Total (8,16):",
        " Read depth:  7",
        "Throughput (R/W): 0KiB/s / 0KiB/s",
        "Events (8,16): 2 entries",
        "Skips: 0",
    ];
    let all: Vec<&str> = [&event[..]].into_iter().chain(statistics).chain([&event[..]]).collect();
    assert_eq!(events(&all).map(|all| all.len()), Ok(2));
    assert_eq!(events(&[&event, statistics[6]]), Err(ErrorKind::Malformed));
    assert_eq!(events(&[&event, statistics[0], "junk"]), Err(ErrorKind::Malformed));
}

/// The first record of the published two-hour trace.
const VSCSI: [u8; 32] = [
    0xf4, 0, 0, 0x80, 0, 2, 0, 0, 1, 0, 0, 0, 0x2a, 0, 0, 1, 0x09, 0x1a, 0x8f, 2, 0, 0, 0, 0, 0x22, 0xcf,
    0x82, 0xbe, 0x1f, 5, 0, 0,
];

#[test]
fn records_of_vscsi() {
    let with = |at: usize, byte| {
        let mut record = VSCSI;
        record[at] = byte;
        record
    };
    let request = plain(5_633_898_368_802_000, Write, 42_932_745 * 512, 512);
    assert_eq!(read_as("vscsi", &VSCSI).expect("a record").0, [request]);
    for (opcode, op) in [(8, Read), (0xa8, Read), (0x88, Read), (10, Write), (0xaa, Write), (0x8a, Write)] {
        assert_eq!(read_as("vscsi", &with(12, opcode)).expect("a record").0[0].op, op);
    }
    for opcode in [0x00, 0x12, 0x25, 0x35, 0x42, 0x91] {
        let (all, reader) = read_as("vscsi", &with(12, opcode)).expect("another command");
        assert_eq!((all.len(), reader.skipped().other_commands), (0, 1));
    }
    for (at, byte, kind) in [
        (15, 2, ErrorKind::Malformed),
        (5, 0, ErrorKind::ZeroLength),
        (23, 0x80, ErrorKind::OutOfRange),
        (31, 0x80, ErrorKind::OutOfRange),
    ] {
        assert_eq!(read_as("vscsi", &with(at, byte)).map(|(all, _)| all), Err(kind));
    }
    assert_eq!(known(&VSCSI), Some("vscsi"));
    for foreign in [&with(15, 2)[..], &VSCSI[..31], &with(12, 0)] {
        assert_eq!(known(foreign), None);
    }
}

#[test]
fn records_of_libcachesim() {
    let record = |time: u32, object: u64, size: u32, next: i64| {
        [&time.to_le_bytes()[..], &object.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()].concat()
    };
    let (all, _) = read_as("oracle-general", &record(7, 42_932_745, 512, -1)).expect("an object");
    assert_eq!(all, [plain(7_000_000_000, Read, 42_932_745 * 512, 512)]);
    let far = read_as("oracle-general", &record(7, 1 << 55, 512, -1));
    assert_eq!(far.map(|(all, _)| all), Err(ErrorKind::OutOfRange));
    // A later next access in every record tells the format.
    let good: Vec<_> =
        (0..8).map(|i| record(i, 5, 4096, if i < 7 { i64::from(i) + 1 } else { -1 })).collect();
    assert_eq!(known(&good.concat()), Some("oracle-general"));
    assert_eq!(known(&good[..7].concat()), None);
    for bad in [(7, 0, -1), (6, 1, 7), (7, 1, 1 << 32), (5, 1, -1), (7, 1, -2)] {
        let last = record(bad.0, 5, bad.1, bad.2);
        assert_eq!(known(&[&good[..7].concat()[..], &last].concat()), None, "{bad:?}");
    }
    // Block numbers one after the other, four bytes each.
    assert_eq!(known(&(0u32..600).flat_map(u32::to_le_bytes).collect::<Vec<_>>()), None);
}

#[test]
fn records_of_srt() {
    const WORDS: [u32; 14] =
        [56, 262_145, 7, 22_479, 76, 10_038, 4096, 1040, 0x0800_0107, 4, 1, 27, 458_752, 1];
    let trace = |header: &str, at: usize, word: u32| {
        let mut words = WORDS;
        words[at] = word;
        let start = format!("$$TR_IOREC-1.3 (sample)\0\n{header}\x0c");
        read_as("srt", &[start.as_bytes(), &words.map(u32::to_be_bytes).concat()].concat())
    };
    let sectors = "sectorsize  = 256,\n";
    let (all, reader) = trace(sectors, 1, 262_145).expect("a record");
    assert_eq!(
        (&all[..], reader.volumes()),
        (&[plain(7_022_479_000, Read, 266_240, 4096)][..], &["1".to_owned()][..])
    );
    assert_eq!(trace(sectors, 11, 0x0108_820a).expect("a record").0[0].op, Write);
    assert_eq!(trace(sectors, 0, 52).map(|(all, _)| all), Err(ErrorKind::Malformed));
    assert_eq!(trace(sectors, 3, 1_000_000).map(|(all, _)| all), Err(ErrorKind::Malformed));
    let twice = trace("sectorsize = 512, x, sectorsize=512", 1, 0).expect("a record").0;
    assert_eq!(twice[0].offset_bytes, 1040 * 512);
    for header in
        ["sectorsize = 512, x, sectorsize=256", "sectorsize = 300", "sectorsize = 0", "sectorsize 256", ""]
    {
        assert_eq!(trace(header, 1, 0).map(|(all, _)| all), Err(ErrorKind::Malformed), "{header}");
    }
}
