//! Frames: nine bytes that say what follows, how much of it, and for which stream.

/// What every client opens with.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const HEADER_LEN: usize = 9;
/// The longest payload both sides take: the smallest limit the protocol allows, and what everyone
/// uses.
pub(crate) const MAX_PAYLOAD: usize = 16 << 10;

pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

pub(crate) mod flag {
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

pub(crate) mod setting {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
    pub(crate) const ENABLE_PUSH: u16 = 2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 5;
    pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// Why a stream or a connection ends; the numbers of RFC 9113, section 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    NoError = 0,
    Protocol = 1,
    Internal = 2,
    FlowControl = 3,
    StreamClosed = 5,
    FrameSize = 6,
    Refused = 7,
    Compression = 9,
    EnhanceYourCalm = 11,
}

/// The first nine bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Header {
    /// None: there are fewer than nine bytes.
    #[inline]
    pub(crate) fn parse(input: &[u8]) -> Option<Header> {
        let [a, b, c, kind, flags, s0, s1, s2, s3] = *input.first_chunk::<HEADER_LEN>()?;
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]);
        Some(Header { len, kind, flags, stream })
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let [_, a, b, c] = (self.len as u32).to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s0, s1, s2, s3]
    }
}

/// The part of a DATA or HEADERS payload that is not padding: where it begins and ends. None: more
/// padding than payload.
pub(crate) fn unpadded(header: &Header, payload: &[u8]) -> Option<(usize, usize)> {
    if !header.has(flag::PADDED) {
        return Some((0, payload.len()));
    }
    let padding = usize::from(*payload.first()?);
    let end = payload.len().checked_sub(padding)?;
    (end >= 1).then_some((1, end))
}

pub(crate) fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |four| u32::from_be_bytes(*four))
}
