//! Small random requests.

use lode_types::{Origin, RequestOp, TraceRequest};
use proptest::prelude::*;

/// A request without a time on the VM's only volume.
pub fn request(op: RequestOp, offset_bytes: u64, length_bytes: u32) -> TraceRequest {
    TraceRequest { time_ns: 0, offset_bytes, length_bytes, volume: 0, op, origin: Origin::UNKNOWN }
}

/// Requests of so many VMs, each with the number of its VM, that begin within the first sectors.
pub fn any_requests(vms: usize, sectors: u64) -> impl Strategy<Value = Vec<(u32, TraceRequest)>> {
    let op = prop_oneof![5 => Just(RequestOp::Read), 4 => Just(RequestOp::Write), 1 => Just(RequestOp::Trim), 1 => Just(RequestOp::Flush)];
    let any = (0..vms as u32, 0..sectors, 1u32..40, op).prop_map(|(vm, sector, sectors, op)| {
        let length_bytes = if op == RequestOp::Flush { 0 } else { sectors * 512 };
        (vm, request(op, sector * 512, length_bytes))
    });
    prop::collection::vec(any, 0..300)
}
