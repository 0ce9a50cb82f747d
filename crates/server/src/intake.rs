//! From the bytes of a connection to requests of its VM's disk, up to the limits. It must not know sockets.

use lode_nbd::{Command, Received};

use crate::config::Limits;
use crate::connection::{Connection, Phase, Stall};
use crate::volume::{Incoming, PIECE_COST_BYTES, Volume, cost_bytes};

/// Understands what came in on the connection with this key. Stops early when a limit is reached; the
/// connection is stalled then.
pub(crate) fn take_requests(
    connection: &mut Connection,
    volume: &mut Volume,
    key: usize,
    limits: &Limits,
    now_ns: u64,
) {
    let (input, mut unread) = connection.begin_parse();
    while connection.phase == Phase::Open && !unread.is_empty() {
        connection.stall = stall(connection, volume, limits);
        if connection.stall == Some(Stall::Volume) {
            volume.stalled.push_back(key);
        }
        if connection.stall.is_some() {
            break;
        }
        match connection.transmission.advance(&input[unread.clone()]) {
            Ok((length, event)) => {
                unread.start += length;
                if let Some(event) = event {
                    take_event(connection, volume, key, event, now_ns);
                }
            }
            Err(error) => {
                tracing::warn!("VM {}: a connection is closed. {error}", volume.export.name());
                connection.phase = Phase::Ending;
            }
        }
    }
    if connection.phase != Phase::Open {
        unread = 0..0;
    }
    connection.end_parse(input, unread);
}

/// What keeps the next bytes from being taken, if anything does. Between the pieces of a write only the
/// VM's limit counts: the write itself is already among what its connection has in flight.
fn stall(connection: &Connection, volume: &Volume, limits: &Limits) -> Option<Stall> {
    let between_requests = connection.transmission.payload_remaining_bytes() == 0;
    let between_pieces = connection.incoming.as_ref().is_some_and(Incoming::is_between_pieces);
    let in_flight = connection.in_flight_bytes();
    if between_requests && in_flight > 0 && in_flight >= limits.connection_bytes {
        return Some(Stall::Own);
    }
    let working = volume.working_bytes();
    let full = working > 0 && working >= limits.vm_bytes;
    ((between_requests || between_pieces) && full).then_some(Stall::Volume)
}

fn take_event(
    connection: &mut Connection,
    volume: &mut Volume,
    key: usize,
    event: Received<'_>,
    now_ns: u64,
) {
    match event {
        Received::Request(request) if request.command == Command::Cache => {
            // A hint, which the schemes have no use for.
            connection.charge(PIECE_COST_BYTES);
            connection.reply(PIECE_COST_BYTES, |encoder, out| encoder.success(out, request.cookie));
        }
        Received::Request(request) => {
            connection.charge(cost_bytes(&request));
            connection.requests += 1;
            volume.submit(key, &request, now_ns);
        }
        Received::WriteStart(request) => {
            connection.charge(cost_bytes(&request));
            connection.requests += 1;
            connection.incoming = Some(volume.begin_write(key, &request, now_ns));
        }
        Received::WriteData(bytes) => {
            if let Some(mut write) = connection.incoming.take()
                && !volume.write_bytes(&mut write, bytes, now_ns)
            {
                connection.incoming = Some(write);
            }
        }
        Received::Refused { cookie, refusal } => {
            connection.charge(PIECE_COST_BYTES);
            connection.reply(PIECE_COST_BYTES, |encoder, out| encoder.refused(out, cookie, refusal));
        }
        Received::Disconnect => connection.phase = Phase::Ending,
    }
}
