//! The data of single options and the replies to them, for the server's side of the handshake.
//!
//! Must not know the order in which options arrive.

use crate::bytes::Fields;
use crate::export::{ExportInfo, MAX_PAYLOAD_BYTES};
use crate::proto::{self, OptionReplyHeader};

/// The data of `OPT_INFO` and `OPT_GO`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InfoRequest<'d> {
    pub(crate) name: &'d [u8],
    wants_name: bool,
    wants_description: bool,
    pub(crate) wants_block_size: bool,
}

impl<'d> InfoRequest<'d> {
    /// `None` when the fields do not fill the data exactly.
    pub(crate) fn parse(data: &'d [u8]) -> Option<InfoRequest<'d>> {
        let mut fields = Fields(data);
        let name_bytes = fields.u32()?;
        let name = fields.take(usize::try_from(name_bytes).ok()?)?;
        let mut request =
            InfoRequest { name, wants_name: false, wants_description: false, wants_block_size: false };
        for _ in 0..fields.u16()? {
            match fields.u16()? {
                proto::INFO_NAME => request.wants_name = true,
                proto::INFO_DESCRIPTION => request.wants_description = true,
                proto::INFO_BLOCK_SIZE => request.wants_block_size = true,
                // Size and block sizes are always told; what is unknown is ignored.
                _ => {}
            }
        }
        fields.0.is_empty().then_some(request)
    }
}

/// Number of the only metadata context in a session.
pub(crate) const ALLOCATION_CONTEXT: u32 = 1;

/// The data of `OPT_LIST_META_CONTEXT` and `OPT_SET_META_CONTEXT`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ContextRequest<'d> {
    pub(crate) name: &'d [u8],
    has_queries: bool,
    /// One of the queries is [`proto::BASE_ALLOCATION`], and one the whole of its namespace.
    queries_allocation: bool,
    queries_base: bool,
}

impl<'d> ContextRequest<'d> {
    /// `None` when the fields do not fill the data exactly.
    pub(crate) fn parse(data: &'d [u8]) -> Option<ContextRequest<'d>> {
        let mut fields = Fields(data);
        let text = |fields: &mut Fields<'d>| {
            let length_bytes = usize::try_from(fields.u32()?).ok()?;
            fields.take(length_bytes)
        };
        let name = text(&mut fields)?;
        let queries = fields.u32()?;
        let mut request =
            ContextRequest { name, has_queries: queries > 0, queries_allocation: false, queries_base: false };
        for _ in 0..queries {
            let query = text(&mut fields)?;
            request.queries_allocation |= query == proto::BASE_ALLOCATION.as_bytes();
            request.queries_base |= query == b"base:";
        }
        fields.0.is_empty().then_some(request)
    }

    /// Whether [`proto::BASE_ALLOCATION`] is meant: who lists may ask for all contexts, who selects has to name them.
    pub(crate) fn has_allocation(&self, selects: bool) -> bool {
        self.queries_allocation || (!selects && (self.queries_base || !self.has_queries))
    }
}

/// One reply to an option; its data is the concatenation of `parts`, which must stay below 4 GiB.
pub(crate) fn write_reply(out: &mut Vec<u8>, option: u32, kind: u32, parts: &[&[u8]]) {
    let length_bytes = parts.iter().map(|part| part.len()).sum::<usize>() as u32;
    out.extend_from_slice(&OptionReplyHeader { option, kind, length_bytes }.encode());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// The reply to `OPT_LIST`.
pub(crate) fn write_list(out: &mut Vec<u8>, exports: &[ExportInfo]) {
    for export in exports {
        let name_bytes = (export.name().len() as u32).to_be_bytes();
        let parts = [&name_bytes[..], export.name().as_bytes(), export.description().as_bytes()];
        write_reply(out, proto::OPT_LIST, proto::REP_SERVER, &parts);
    }
    write_reply(out, proto::OPT_LIST, proto::REP_ACK, &[]);
}

/// The reply to an `OPT_INFO` or `OPT_GO` that found its export.
pub(crate) fn write_info(
    out: &mut Vec<u8>,
    option: u32,
    export: &ExportInfo,
    wanted: &InfoRequest<'_>,
    structured: bool,
) {
    let mut info = |kind: u16, parts: [&[u8]; 3]| {
        let [first, second, third] = parts;
        write_reply(out, option, proto::REP_INFO, &[&kind.to_be_bytes(), first, second, third]);
    };
    let size = export.size_bytes().to_be_bytes();
    let flags = export.transmission_flags(structured).to_be_bytes();
    info(proto::INFO_EXPORT, [&size, &flags, &[]]);
    let preferred = export.preferred_block_bytes().to_be_bytes();
    let [min, max] = [export.min_block_bytes().to_be_bytes(), MAX_PAYLOAD_BYTES.to_be_bytes()];
    info(proto::INFO_BLOCK_SIZE, [&min, &preferred, &max]);
    if wanted.wants_name {
        info(proto::INFO_NAME, [export.name().as_bytes(), &[], &[]]);
    }
    if wanted.wants_description && !export.description().is_empty() {
        info(proto::INFO_DESCRIPTION, [export.description().as_bytes(), &[], &[]]);
    }
    write_reply(out, option, proto::REP_ACK, &[]);
}

/// The metadata context that there is.
pub(crate) fn write_context(out: &mut Vec<u8>, option: u32) {
    let context = ALLOCATION_CONTEXT.to_be_bytes();
    write_reply(out, option, proto::REP_META_CONTEXT, &[&context, proto::BASE_ALLOCATION.as_bytes()]);
}

/// The reply to an `OPT_EXPORT_NAME` that found its export.
pub(crate) fn write_export_name(out: &mut Vec<u8>, export: &ExportInfo, structured: bool, no_zeroes: bool) {
    out.extend_from_slice(&export.size_bytes().to_be_bytes());
    out.extend_from_slice(&export.transmission_flags(structured).to_be_bytes());
    if !no_zeroes {
        out.extend_from_slice(&[0; proto::EXPORT_NAME_ZEROES]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_requests_must_fill_their_data_exactly() {
        let good = [&[0, 0, 0, 2][..], b"vm", &[0, 4, 0, 1, 0, 2, 0, 3, 0, 99]].concat();
        let wanted =
            InfoRequest { name: b"vm", wants_name: true, wants_description: true, wants_block_size: true };
        assert_eq!(InfoRequest::parse(&good), Some(wanted));
        for cut in 0..good.len() {
            assert_eq!(InfoRequest::parse(&good[..cut]), None, "cut at {cut}");
        }
        assert_eq!(InfoRequest::parse(&[&good[..], &[0]].concat()), None);
        assert_eq!(InfoRequest::parse(&[0xff; 12]), None);
    }
}
