//! From the bytes of a connection to requests of its VM's disk, up to the limits. It must not know sockets.

use lode_engine::{ByteList, Engine};
use lode_nbd::{Command, Received, Request};
use smallvec::SmallVec;

use crate::connection::{Connection, Phase, Stall};
use crate::incoming::Incoming;
use crate::request_cost::{REQUEST_COST_BYTES, cost_bytes};
use crate::volume::Volume;

/// Reads that came in together and are not submitted yet.
type Arrived = SmallVec<[Request; Engine::PREFETCHED]>;

/// Understands what came in on the connection with this key. Stops early when a limit is reached; the
/// connection is stalled then.
pub(crate) fn take_requests(connection: &mut Connection, volume: &mut Volume, key: usize, now_ns: u64) {
    submit_write(connection, volume, key, now_ns);
    let mut arrived = SmallVec::new();
    let (mut input, mut unread) = connection.begin_parse();
    while connection.phase == Phase::Open && !unread.is_empty() {
        connection.stall = stall(connection, volume);
        if connection.stall == Some(Stall::Volume) {
            volume.stalled.push_back(key);
        }
        if connection.stall.is_some() {
            break;
        }
        match connection.transmission.advance(&input.as_slice()[unread.clone()]) {
            Ok((length, event)) => {
                unread.start += length;
                match event {
                    Some(Received::WriteData(data)) => {
                        let range = unread.start - data.len()..unread.start;
                        connection.take_data(&mut input, range);
                        submit_write(connection, volume, key, now_ns);
                    }
                    Some(event) => take_event(connection, volume, key, &event, &mut arrived, now_ns),
                    None => {}
                }
            }
            Err(error) => {
                tracing::warn!("VM {}: a connection is closed. {error}", volume.export.name());
                connection.phase = Phase::Ending;
                connection.note_end("it broke the protocol");
            }
        }
    }
    submit_arrived(volume, key, &mut arrived, now_ns);
    if connection.phase != Phase::Open {
        unread = 0..0;
    }
    connection.end_parse(input, unread);
}

/// What keeps the next request from being taken, if anything does. One that has begun is taken as a whole.
fn stall(connection: &Connection, volume: &Volume) -> Option<Stall> {
    if connection.transmission.payload_remaining_bytes() > 0 {
        return None;
    }
    let (limits, in_flight) = (&volume.limits, connection.in_flight_bytes());
    if in_flight > 0 && in_flight >= limits.connection_bytes {
        return Some(Stall::Own);
    }
    volume.is_full().then_some(Stall::Volume)
}

/// Hands over the write that came in, if all of it is there.
fn submit_write(connection: &mut Connection, volume: &mut Volume, key: usize, now_ns: u64) {
    if let Some(write) = &mut connection.incoming
        && let Some(data) = write.data()
    {
        volume.submit(key, &write.request, data, write.since_ns, now_ns);
        connection.incoming = None;
    }
}

/// Hands over the requests without bytes that came in, all at once: they wait for memory together.
fn submit_arrived(volume: &mut Volume, key: usize, arrived: &mut Arrived, now_ns: u64) {
    if arrived.len() > 1 {
        volume.prefetch(arrived);
    }
    for request in arrived.drain(..) {
        volume.submit(key, &request, ByteList::new(), now_ns, now_ns);
    }
}

fn take_event(
    connection: &mut Connection,
    volume: &mut Volume,
    key: usize,
    event: &Received<'_>,
    arrived: &mut Arrived,
    now_ns: u64,
) {
    let is_one_of_many = matches!(event, Received::Request(request) if request.command == Command::Read);
    if !is_one_of_many || arrived.len() == arrived.inline_size() {
        submit_arrived(volume, key, arrived, now_ns);
    }
    match *event {
        Received::Request(request) if request.command == Command::Cache => {
            // A hint, which the schemes have no use for.
            connection.charge(REQUEST_COST_BYTES);
            connection.reply(REQUEST_COST_BYTES, |encoder, out| encoder.success(out, request.cookie));
        }
        Received::Request(request) => {
            connection.charge(cost_bytes(&request));
            connection.requests += 1;
            volume.begin(&request);
            match is_one_of_many {
                true => arrived.push(request),
                false => volume.submit(key, &request, ByteList::new(), now_ns, now_ns),
            }
        }
        Received::WriteStart(request) => {
            connection.charge(cost_bytes(&request));
            connection.requests += 1;
            volume.begin(&request);
            connection.incoming = Some(Incoming::new(&request, volume.block(), now_ns));
        }
        Received::WriteData(_) => unreachable!("it is taken where it came in"),
        Received::Refused { cookie, refusal } => {
            connection.charge(REQUEST_COST_BYTES);
            connection.reply(REQUEST_COST_BYTES, |encoder, out| encoder.refused(out, cookie, refusal));
        }
        Received::Disconnect => {
            connection.phase = Phase::Ending;
            connection.note_end("it took its leave");
        }
    }
}
