//! HTTP/2 frames: nine bytes of head, then the payload (RFC 9113, section 4).

pub(super) const HEAD: usize = 9;
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest payload, unless the other side allows more.
pub(super) const MAX_PAYLOAD: usize = 16_384;
/// What a window begins with, unless told otherwise.
pub(super) const FIRST_WINDOW: i64 = 65_535;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const PRIORITY: u8 = 32;

pub(super) const SETTING_HEADER_TABLE_SIZE: u16 = 1;
pub(super) const SETTING_ENABLE_PUSH: u16 = 2;
pub(super) const SETTING_MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const SETTING_INITIAL_WINDOW_SIZE: u16 = 4;
pub(super) const SETTING_MAX_FRAME_SIZE: u16 = 5;

#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Head {
    /// None if the bytes are too few.
    pub(super) fn parse(bytes: &[u8]) -> Option<Head> {
        let head: &[u8; HEAD] = bytes.first_chunk()?;
        Some(Head {
            length: usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]),
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff,
        })
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

pub(super) fn put_head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let length = u32::try_from(length).expect("frames are small").to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

pub(super) fn put_setting(out: &mut Vec<u8>, name: u16, value: u32) {
    out.extend_from_slice(&name.to_be_bytes());
    out.extend_from_slice(&value.to_be_bytes());
}

pub(super) fn put_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    put_head(out, 4, WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// The payload without its padding and, for headers, without the priority.
pub(super) fn content(head: Head, payload: &[u8]) -> Result<&[u8], String> {
    let mut from = 0;
    let mut to = payload.len();
    if head.has(PADDED) {
        from = 1;
        let padding = *payload.first().ok_or("a padded frame without padding")?;
        to = to.saturating_sub(usize::from(padding));
    }
    if head.kind == HEADERS && head.has(PRIORITY) {
        from += 5;
    }
    payload.get(from..to).ok_or_else(|| "a frame shorter than its padding".to_owned())
}
