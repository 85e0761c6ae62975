//! Frames: nine bytes that say what follows, how much of it, and for which stream.

/// What every client opens with.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const HEADER_LEN: usize = 9;
/// The longest payload both sides take: the smallest limit the protocol allows, and what everyone
/// uses.
pub const MAX_PAYLOAD: usize = 16 << 10;

pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

pub mod flag {
    pub const END_STREAM: u8 = 0x1;
    pub const ACK: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
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
pub struct Header {
    pub len: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl Header {
    /// None: there are fewer than nine bytes.
    #[inline]
    pub fn parse(input: &[u8]) -> Option<Header> {
        let [a, b, c, kind, flags, s0, s1, s2, s3] = *input.first_chunk::<HEADER_LEN>()?;
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]);
        Some(Header { len, kind, flags, stream })
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let [_, a, b, c] = (self.len as u32).to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s0, s1, s2, s3]
    }
}

/// The part of a DATA or HEADERS payload that is not padding: where it begins and ends. None: more
/// padding than payload.
pub fn unpadded(header: &Header, payload: &[u8]) -> Option<(usize, usize)> {
    if !header.has(flag::PADDED) {
        return Some((0, payload.len()));
    }
    let padding = usize::from(*payload.first()?);
    let end = payload.len().checked_sub(padding)?;
    (end >= 1).then_some((1, end))
}

pub fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |four| u32::from_be_bytes(*four))
}
