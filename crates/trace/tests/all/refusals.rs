//! Lines that each format refuses, through the reader.

use lode_trace::ErrorKind::{self, Malformed, NegativeTime, OutOfRange, VolumeName};

use crate::formats::read_as;

const TOLD: &str = "time_ns,volume,op,offset_bytes,length_bytes,process,sync,critical\n";

type Refused = (&'static str, &'static str, &'static [(&'static str, ErrorKind)]);

/// Formats, the lines before, and lines that are refused, with the kinds of their errors.
const REFUSED: &[Refused] = &[
    (
        "disksim",
        "",
        &[
            ("-1.5 0 8 8 1", NegativeTime),
            ("1.5 0 8 8 R", Malformed),
            ("1.5 0 8 8 -1", Malformed),
            ("1.5 0 36028797018963968 8 1", OutOfRange),
        ],
    ),
    (
        "heimdall",
        "",
        &[
            ("-0.50000 0 512 512 1", NegativeTime),
            ("18446744073709552.00000 0 512 512 1", OutOfRange),
            ("0.50000 0 512 4294967296 1", OutOfRange),
            ("0.50000 0 512 512 R", Malformed),
        ],
    ),
    (
        "ssdsim",
        "",
        &[
            ("-1 0 8 8 1", NegativeTime),
            ("18446744073709551616 0 8 8 1", OutOfRange),
            ("1 x 8 8 1", Malformed),
            ("1 0 8 8 2", Malformed),
            ("1 0 8 8", Malformed),
            ("1 0 8 8 1 1", Malformed),
            ("1 0 36028797018963968 8 1", OutOfRange),
            ("1 0 8 8388608 1", OutOfRange),
        ],
    ),
    (
        "msr-cut",
        "",
        &[
            ("-0.5 0 512 512 1", NegativeTime),
            ("18446744073710.000 0 512 512 1", OutOfRange),
            ("0.5 0 512 4294967296 1", OutOfRange),
            ("0.5 0 512 512 R", Malformed),
        ],
    ),
    (
        "msr",
        "",
        &[
            ("x", Malformed),
            ("128166385295514663", Malformed),
            ("-5,hm,0,Read,1,1,1", NegativeTime),
            ("184467440737095517,hm,0,Read,1,1,1", OutOfRange),
            ("1,hm,x,Read,1,1,1", Malformed),
            ("1,,0,Read,1,1,1", Malformed),
            ("1,hm", Malformed),
            ("1,hm,0,Erase,1,1,1", Malformed),
            ("1,hm,0,Read,18446744073709551616,1,1", Malformed),
            ("1,hm,0,Read,-1,1,1", Malformed),
            ("1,hm,0,Read,1,,1", Malformed),
            ("1,hm,0,Read,1,4294967296,1", OutOfRange),
            ("1,hm,0,Read,1,1", Malformed),
            ("1,hm,0,Read,1,1,", Malformed),
            ("1,hm,0,Read,1,1,1,1", Malformed),
        ],
    ),
    (
        "alibaba",
        "",
        &[
            ("a,R,0,512,1", Malformed),
            (",R,0,512,1", VolumeName),
            ("1,X,0,512,1", Malformed),
            ("1,R,18446744073709551616,512,1", OutOfRange),
            ("1,R,0,4294967296,1", OutOfRange),
            ("1,R,0,512,-1", NegativeTime),
            ("1,R,0,512,18446744073709552", OutOfRange),
            ("1,R,0,512", Malformed),
            ("1,R,0,512,1,1", Malformed),
        ],
    ),
    (
        "systor",
        "",
        &[
            ("-1.5,0.1,R,0,512,512", NegativeTime),
            ("1.5,x,R,0,512,512", Malformed),
            ("1.5,0.1,,0,512,512", Malformed),
            ("1.5,0.1,R,a,512,512", Malformed),
            ("1.5,0.1,R,0,18446744073709551616,512", OutOfRange),
            ("1.5,0.1,R,0,512,4294967296", OutOfRange),
            ("1.5,0.1,R,0,512", Malformed),
            ("1.5,0.1,R,0,512,512,1", Malformed),
        ],
    ),
    (
        "spc",
        "",
        &[
            ("x,8,512,r,0.5", Malformed),
            (",8,512,r,0.5", VolumeName),
            ("0,-8,512,r,0.5", Malformed),
            ("0,36028797018963968,512,r,0.5", OutOfRange),
            ("0,8,4294967296,r,0.5", OutOfRange),
            ("0,8,512,x,0.5", Malformed),
            ("0,8,512,r,-0.5", NegativeTime),
            ("0,8,512,r,", Malformed),
            ("0,8,512,r", Malformed),
        ],
    ),
    (
        "tencent",
        "",
        &[
            ("-1,8,8,0,1", NegativeTime),
            ("18446744074,8,8,0,1", OutOfRange),
            ("1,36028797018963968,8,0,1", OutOfRange),
            ("1,8,8388608,0,1", OutOfRange),
            ("1,8,8,2,1", Malformed),
            ("1,8,8,0,v1", Malformed),
            ("1,8,8,0,", VolumeName),
            ("1,8,8,0", Malformed),
            ("1,8,8,0,1,1", Malformed),
        ],
    ),
    (
        "fiu",
        "",
        &[
            ("-1 1 p 8 8 R 6 0 00112233445566778899aabbccddeeff", NegativeTime),
            ("1 p p 8 8 R 6 0 00112233445566778899aabbccddeeff", Malformed),
            ("1 268435455 p 8 8 R 6 0 00112233445566778899aabbccddeeff", OutOfRange),
            ("1 1 8 8 R 6 0 00112233445566778899aabbccddeeff", Malformed),
            ("1 1 p 8 8 D 6 0 00112233445566778899aabbccddeeff", Malformed),
            ("1 1 p 8 8 R 6 x 00112233445566778899aabbccddeeff", Malformed),
            ("1 1 p 8 8 R 6 0 0112233445566778899aabbccddeeff", Malformed),
            ("1 1 p 8 8 R 6 0 0112233445566778899aabbccddeeffx", Malformed),
            ("1 1 p 36028797018963968 8 R 6 0 00112233445566778899aabbccddeeff", OutOfRange),
            ("1 1 p 8 8388608 R 6 0 00112233445566778899aabbccddeeff", OutOfRange),
        ],
    ),
    (
        "lis",
        "",
        &[
            ("x 8 0 0", Malformed),
            ("-1 8 0 0", Malformed),
            ("36028797018963968 8 0 0", OutOfRange),
            ("8 8388608 0 0", OutOfRange),
            ("8 8 0", Malformed),
            ("8 8 0 0 0", Malformed),
        ],
    ),
    (
        "oracle-general-csv",
        "",
        &[
            ("-9,3,1,-1", NegativeTime),
            ("9.5,3,1,-1", Malformed),
            ("18446744074,3,1,-1", OutOfRange),
            ("9,x,1,-1", Malformed),
            ("9,18446744073709551615,1,-1", OutOfRange),
            ("9,3,4294967296,-1", OutOfRange),
            ("9,3", Malformed),
            ("9,3,1,x", Malformed),
            ("9,3,1,2,3", Malformed),
        ],
    ),
    (
        "vscsi-csv",
        "",
        &[
            ("2,5,28,512,1", Malformed),
            ("1,-5,28,512,1", NegativeTime),
            ("1,5s,28,512,1", Malformed),
            ("1,5,128,512,1", Malformed),
            ("1,5,2g,512,1", Malformed),
            ("1,5,28,4294967296,1", OutOfRange),
            ("1,5,28,512,36028797018963968", OutOfRange),
            ("1,5,28,512", Malformed),
            ("1,5,28,512,1,1", Malformed),
        ],
    ),
    ("iolog", "", &[("fio version 4 iolog", Malformed)]),
    (
        "iolog",
        "fio version 3 iolog\n",
        &[
            ("-1 f read 0 1", NegativeTime),
            ("f read 0 1", Malformed),
            ("18446744073709552 f read 0 1", OutOfRange),
            ("1 f wait 0 1", Malformed),
        ],
    ),
    (
        "iolog",
        "fio version 2 iolog\n",
        &[
            ("f erase 0 1", Malformed),
            ("f erase", Malformed),
            ("f", Malformed),
            ("f read 0", Malformed),
            ("f read 0 1 2", Malformed),
            ("f read 0 4294967296", OutOfRange),
            ("f wait 18446744073709551 0\nf wait 1000 0", OutOfRange),
        ],
    ),
    (
        "blkparse",
        "",
        &[
            ("8,16 3 4 -0.5 1 Q R 8 + 16 [j]", NegativeTime),
            ("8,16 3 4 0.1234567891 1 Q R 8 + 16 [j]", Malformed),
            ("8.16 3 4 0.5 1 Q R 8 + 16 [j]", Malformed),
            ("8,16 3 4 0.5 1 Query R 8 + 16 [j]", Malformed),
            ("8,16 3 4 0.5 1 Q", Malformed),
            ("8,16 3 4 0.5 1 Q X 8 + 16 [j]", Malformed),
            ("8,16 3 4 0.5 1 Q R", Malformed),
            ("8,16 3 4 0.5 1 Q R 8 16 [j]", Malformed),
            ("8,16 3 4 0.5 268435455 Q R 8 + 8 [j]", OutOfRange),
            ("8,16 3 4 0.5 1 Q R 36028797018963968 + 1 [j]", OutOfRange),
            ("8,16 3 4 0.5 1 Q R 8 + 8388608 [j]", OutOfRange),
        ],
    ),
    ("requests-csv", "", &[("1,a,R,0,512,,,", Malformed)]),
    (
        "requests-csv",
        TOLD,
        &[
            ("1,a,R,0,512", Malformed),
            ("1,a,R,0,512,,,,", Malformed),
            ("-1,a,R,0,512,,,", NegativeTime),
            ("1s,a,R,0,512,,,", Malformed),
            ("1,,R,0,512,,,", VolumeName),
            ("1,a,r,0,512,,,", Malformed),
            ("1,a,R,18446744073709551616,512,,,", OutOfRange),
            ("1,a,R,0,4294967296,,,", OutOfRange),
            ("1,a,F,0,512,,,", Malformed),
            ("1,a,R,0,512,268435455,,", Malformed),
            ("1,a,R,0,512,18446744073709551615,,", Malformed),
            ("1,a,R,0,512,-1,,", Malformed),
            ("1,a,R,0,512,,2,", Malformed),
            ("1,a,R,0,512,,,yes", Malformed),
            ("time_ns,volume,op,offset_bytes,length_bytes", Malformed),
        ],
    ),
];

#[test]
fn what_cannot_be_is_refused() {
    for (format, before, lines) in REFUSED {
        for (line, kind) in *lines {
            let found = read_as(format, format!("{before}{line}\n").as_bytes());
            assert_eq!(found.map(|(all, _)| all).err(), Some(*kind), "{format}: {line}");
        }
    }
}
