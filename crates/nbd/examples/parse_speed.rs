//! How long the server takes to parse a request and to write the header of its reply.
//!
//! Run with `cargo run --release --example parse_speed -p lode-nbd`.

use std::hint::black_box;
use std::time::Instant;

use lode_nbd::proto::{self, RequestHeader};
use lode_nbd::{ExportInfo, Negotiated, Received, ReplyEncoder, Transmission};

const REQUESTS: u64 = 2048;
const ROUNDS: u64 = 2000;

/// A stream of 4 KiB requests, with payload for writes.
fn stream(command: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for cookie in 0..REQUESTS {
        let header =
            RequestHeader { flags: 0, command, cookie, offset_bytes: cookie * 4096, length_bytes: 4096 };
        bytes.extend_from_slice(&header.encode());
        if command == proto::CMD_WRITE {
            bytes.resize(bytes.len() + 4096, 0x5a);
        }
    }
    bytes
}

/// Nanoseconds a request when `stream` arrives in slices of `slice_bytes` and each request's reply header is
/// written, if there is an encoder.
fn measure(stream: &[u8], slice_bytes: usize, encoder: Option<ReplyEncoder>) -> Result<f64, lode_nbd::Error> {
    let export = ExportInfo::new("vm", 1 << 40)?;
    let mut transmission = Transmission::new(&export, &Negotiated::default());
    let mut out = Vec::with_capacity(64 << 10);
    let mut parsed = 0;
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for mut piece in stream.chunks(slice_bytes) {
            out.clear();
            loop {
                let (used, event) = transmission.advance(piece)?;
                piece = &piece[used..];
                match black_box(event) {
                    Some(Received::Request(request)) => {
                        parsed += 1;
                        if let Some(encoder) = encoder {
                            encoder.read_data(
                                &mut out,
                                request.cookie,
                                request.offset_bytes,
                                request.length_bytes,
                            );
                        }
                    }
                    Some(Received::WriteStart(request)) => {
                        parsed += 1;
                        if let Some(encoder) = encoder {
                            encoder.success(&mut out, request.cookie);
                        }
                    }
                    Some(_) => {}
                    None => break,
                }
            }
            black_box(&out);
        }
    }
    assert_eq!(parsed, REQUESTS * ROUNDS);
    Ok(start.elapsed().as_nanos() as f64 / parsed as f64)
}

fn main() -> Result<(), lode_nbd::Error> {
    let reads = stream(proto::CMD_READ);
    let writes = stream(proto::CMD_WRITE);
    let [simple, structured] = [false, true].map(|structured| Some(ReplyEncoder::new(structured)));
    let cases = [
        ("read, 16 KiB slices, parsed only", &reads, 16 << 10, None),
        ("read, 16 KiB slices, simple reply", &reads, 16 << 10, simple),
        ("read, 16 KiB slices, structured reply", &reads, 16 << 10, structured),
        ("read, one header a slice, parsed only", &reads, RequestHeader::BYTES, None),
        ("read, 20-byte slices, parsed only", &reads, 20, None),
        ("write 4 KiB, 64 KiB slices, parsed only", &writes, 64 << 10, None),
    ];
    for (name, stream, slice_bytes, encoder) in cases {
        println!("{name:<42} {:6.1} ns/request", measure(stream, slice_bytes, encoder)?);
    }
    Ok(())
}
