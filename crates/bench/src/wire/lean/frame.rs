//! Frames as the lean client writes and reads them.

use vetch_http2::frame::{Header, flag, kind, unpadded};

use super::error::ProtocolError;

/// The flow-control window that a connection and its streams begin with.
pub(super) const INITIAL_WINDOW: i64 = 65_535;

pub(super) fn put_header(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&Header { len, kind, flags, stream }.encode());
}

pub(super) fn put_setting(out: &mut Vec<u8>, name: u16, value: u32) {
    out.extend_from_slice(&name.to_be_bytes());
    out.extend_from_slice(&value.to_be_bytes());
}

pub(super) fn put_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    put_header(out, 4, kind::WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// The payload without its padding and, for headers, without the priority.
pub(super) fn content(header: Header, payload: &[u8]) -> Result<&[u8], ProtocolError> {
    let (mut from, to) = unpadded(&header, payload).ok_or(ProtocolError::BadPadding)?;
    if header.kind == kind::HEADERS && header.has(flag::PRIORITY) {
        from += 5;
    }
    payload.get(from..to).ok_or(ProtocolError::FrameTooShort)
}
