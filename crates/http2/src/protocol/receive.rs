//! Frames as they come.

use bytes::{Buf, Bytes, BytesMut};

use super::{Code, Fault, Protocol, overhead};
use crate::frame::{HEADER_LEN, Header, MAX_PAYLOAD, PREFACE, flag, kind, number, unpadded};

/// A header block of which more frames have to come.
#[derive(Debug)]
pub(super) struct Opening {
    header: Header,
    block: Vec<u8>,
    frames: usize,
}

impl Opening {
    /// Bytes held for it.
    pub(super) fn len(&self) -> usize {
        self.block.capacity()
    }
}

/// Frames that one header block may come in. What is allowed fits into a handful.
const MOST_FRAMES: usize = 64;

impl<T: Default> Protocol<T> {
    /// Takes all whole frames of `input` and leaves the rest.
    pub fn receive(&mut self, input: &mut BytesMut) -> Result<(), Fault> {
        if !self.take_preface(input)? {
            return Ok(());
        }
        while let Some(header) = Header::parse(input) {
            if header.len > MAX_PAYLOAD {
                return Fault::new(Code::FrameSize, "a frame is longer than was agreed on");
            }
            let len = HEADER_LEN + header.len;
            if input.len() < len {
                break;
            }
            self.check_order(&header)?;
            if header.kind == kind::DATA {
                // Shared with the handler instead of copied.
                let mut frame = input.split_to(len).freeze();
                frame.advance(HEADER_LEN);
                self.take_data(&header, frame)?;
            } else {
                self.take_frame(header, &input[HEADER_LEN..len])?;
                input.advance(len);
            }
        }
        Ok(())
    }

    fn take_preface(&mut self, input: &mut BytesMut) -> Result<bool, Fault> {
        if self.preface_left > 0 {
            let seen = PREFACE.len() - self.preface_left;
            let len = self.preface_left.min(input.len());
            if input[..len] != PREFACE[seen..seen + len] {
                return Fault::new(Code::Protocol, "no HTTP/2");
            }
            input.advance(len);
            self.preface_left -= len;
        }
        Ok(self.preface_left == 0)
    }

    /// Settings come first, and nothing comes between the parts of a header block.
    fn check_order(&mut self, header: &Header) -> Result<(), Fault> {
        if let Some(opening) = &self.opening {
            if header.kind != kind::CONTINUATION || header.stream != opening.header.stream {
                return Fault::new(Code::Protocol, "a header block was interrupted");
            }
        } else if header.kind == kind::CONTINUATION {
            return Fault::new(Code::Protocol, "a continuation of nothing");
        }
        if !self.has_settings {
            if header.kind != kind::SETTINGS || header.has(flag::ACK) {
                return Fault::new(Code::Protocol, "settings have to come first");
            }
            self.has_settings = true;
        }
        Ok(())
    }

    fn take_frame(&mut self, header: Header, payload: &[u8]) -> Result<(), Fault> {
        match header.kind {
            kind::HEADERS => self.take_headers(header, payload),
            kind::CONTINUATION => self.take_continuation(header, payload),
            kind::PRIORITY => {
                self.overhead.spend(overhead::SMALL)?;
                take_priority(header, payload)
            }
            kind::RST_STREAM => self.take_reset(header, payload),
            kind::SETTINGS => self.take_settings(header, payload),
            kind::PUSH_PROMISE => Fault::new(Code::Protocol, "clients do not push"),
            kind::PING => self.take_ping(header, payload),
            kind::GOAWAY => self.take_farewell(header),
            kind::WINDOW_UPDATE => self.take_window(header, payload),
            // What we do not know is passed over.
            _ => self.overhead.spend(overhead::SMALL),
        }
    }

    fn take_data(&mut self, header: &Header, payload: Bytes) -> Result<(), Fault> {
        let Some((begin, end)) = unpadded(header, &payload) else {
            return Fault::new(Code::Protocol, "more padding than frame");
        };
        let padding = payload.len() - (end - begin);
        self.take_body(header, payload.slice(begin..end), padding)
    }

    fn take_headers(&mut self, header: Header, payload: &[u8]) -> Result<(), Fault> {
        if header.stream.is_multiple_of(2) {
            return Fault::new(Code::Protocol, "not a stream of a client");
        }
        let Some((mut begin, end)) = unpadded(&header, payload) else {
            return Fault::new(Code::Protocol, "more padding than frame");
        };
        if header.has(flag::PRIORITY) {
            let Some(priority) = payload[begin..end].first_chunk::<5>() else {
                return Fault::new(Code::FrameSize, "too short for a priority");
            };
            check_dependency(header.stream, priority)?;
            begin += priority.len();
        }
        let block = &payload[begin..end];
        if header.has(flag::END_HEADERS) {
            return self.take_block(header, block);
        }
        self.opening = Some(Opening { header, block: block.to_vec(), frames: 1 });
        Ok(())
    }

    fn take_continuation(&mut self, header: Header, payload: &[u8]) -> Result<(), Fault> {
        let limit = 2 * self.limits.header_list;
        let Some(opening) = &mut self.opening else {
            return Fault::new(Code::Protocol, "a continuation of nothing");
        };
        opening.frames += 1;
        opening.block.extend_from_slice(payload);
        if opening.frames > MOST_FRAMES || opening.block.len() > limit {
            return Fault::new(Code::EnhanceYourCalm, "a header block without end");
        }
        if header.has(flag::END_HEADERS)
            && let Some(opening) = self.opening.take()
        {
            return self.take_block(opening.header, &opening.block);
        }
        Ok(())
    }
}

/// Priorities are deprecated (RFC 9113); they only have to be well-formed.
fn take_priority(header: Header, payload: &[u8]) -> Result<(), Fault> {
    if header.stream == 0 {
        return Fault::new(Code::Protocol, "a priority of no stream");
    }
    match payload.first_chunk::<5>() {
        Some(priority) if payload.len() == priority.len() => check_dependency(header.stream, priority),
        _ => Fault::new(Code::FrameSize, "not the size of a priority"),
    }
}

fn check_dependency(stream: u32, priority: &[u8; 5]) -> Result<(), Fault> {
    if number(priority) & 0x7fff_ffff == stream {
        return Fault::new(Code::Protocol, "a stream that depends on itself");
    }
    Ok(())
}
