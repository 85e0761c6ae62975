//! Requests: header blocks and bodies.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::stream::Stream;
use super::{Code, Event, Farewell, Fault, Protocol, overhead};
use crate::frame::{Header, flag};
use crate::head::{Draft, Head, Refusal};

impl<T: Default> Protocol<T> {
    /// A whole header block. Whatever it is for, it has to be decoded: later ones build on it.
    pub(super) fn take_block(&mut self, header: Header, block: &[u8]) -> Result<(), Fault> {
        let stream = header.stream;
        let ends = header.has(flag::END_STREAM);
        if stream > self.newest_stream {
            let verdict = self.decode_head(block)?;
            return self.open_stream(stream, ends, verdict);
        }
        let draft = self.decode(block)?;
        if self.streams.contains(stream) {
            return self.take_trailers(stream, ends, &draft);
        }
        if self.resets.contains(&stream) {
            return match draft.is_good_as_trailers() {
                true => Ok(()),
                false => Fault::new(Code::Protocol, "trailers that are none"),
            };
        }
        Fault::new(Code::StreamClosed, "headers for a stream that has ended")
    }

    fn decode(&mut self, block: &[u8]) -> Result<Draft, Fault> {
        let mut draft = Draft::new(self.limits.header_list);
        match self.decoder.decode(block, |field| draft.add(field)) {
            Ok(()) => Ok(draft),
            Err(_) => Fault::new(Code::Compression, "a header block that cannot be decoded"),
        }
    }

    fn decode_head(&mut self, block: &[u8]) -> Result<Result<Arc<Head>, Refusal>, Fault> {
        let before = self.decoder.changes();
        if let Some(head) = self.heads.get(block, before) {
            return Ok(Ok(head));
        }
        match self.decode(block)?.request() {
            Ok(head) => {
                let head = Arc::new(head);
                if self.decoder.changes() == before {
                    self.heads.put(block, before, &head);
                }
                Ok(Ok(head))
            }
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    fn open_stream(&mut self, id: u32, ends: bool, head: Result<Arc<Head>, Refusal>) -> Result<(), Fault> {
        self.newest_stream = id;
        if let Farewell::Said(last) = self.farewell
            && id > last
        {
            // The client will learn that it was not served, and may ask another server.
            self.remember_reset(id);
            return Ok(());
        }
        if self.streams.len() >= self.limits.streams as usize || self.refuses_streams {
            self.write_reset(id, Code::Refused);
            return Ok(());
        }
        let head = match head {
            Ok(head) => head,
            Err(Refusal::TooLarge) => {
                self.write_head(id, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, &HeaderMap::new(), true);
                self.write_reset(id, Code::NoError);
                return Ok(());
            }
            Err(_) => {
                self.write_reset(id, Code::Protocol);
                return Ok(());
            }
        };
        if ends && head.content_length.is_some_and(|length| length > 0) {
            self.write_reset(id, Code::Protocol);
            return Ok(());
        }
        // A head that is kept for later requests is no cost of this one.
        let head_bytes = if Arc::strong_count(&head) == 1 { head.size } else { 0 };
        let mut stream = Stream::new(self.limits.stream_window, head.content_length, head_bytes);
        stream.is_received = ends;
        self.streams.insert(id, stream);
        self.events.push_back(Event::Request { stream: id, head });
        if ends {
            self.events.push_back(Event::Data { stream: id, data: Bytes::new(), end: true });
        }
        Ok(())
    }

    fn take_trailers(&mut self, id: u32, ends: bool, draft: &Draft) -> Result<(), Fault> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(()) };
        if stream.is_received {
            self.break_stream(id, Code::StreamClosed);
        } else if !ends || !draft.is_good_as_trailers() || !stream.receive_end() {
            self.break_stream(id, Code::Protocol);
        } else {
            self.events.push_back(Event::Data { stream: id, data: Bytes::new(), end: true });
        }
        Ok(())
    }

    /// A part of a body. Padding counts against the windows as well, and is used up at once.
    pub(super) fn take_body(&mut self, header: &Header, data: Bytes, padding: usize) -> Result<(), Fault> {
        let (id, ends, len) = (header.stream, header.has(flag::END_STREAM), header.len);
        if id == 0 || id > self.newest_stream {
            return Fault::new(Code::Protocol, "data for a stream that was never opened");
        }
        self.windows.receive -= len as i64;
        if self.windows.receive < 0 {
            return Fault::new(Code::FlowControl, "more data than the window of the connection");
        }
        let Some(stream) = self.streams.get_mut(id) else {
            self.release_connection(len);
            if !self.resets.contains(&id) {
                self.write_reset(id, Code::StreamClosed);
            }
            return Ok(());
        };
        let problem = take_part(stream, data.len(), len, ends);
        if let Some(code) = problem {
            self.release_connection(len);
            self.break_stream(id, code);
            return Ok(());
        }
        if padding > 0 {
            self.release(id, padding);
        }
        if data.is_empty() && !ends {
            return self.overhead.spend(overhead::REQUEST);
        }
        self.events.push_back(Event::Data { stream: id, data, end: ends });
        Ok(())
    }

    /// The client broke the rules on this stream.
    pub(super) fn break_stream(&mut self, id: u32, code: Code) {
        if let Some(stream) = self.streams.remove(id) {
            if stream.begun {
                self.events.push_back(Event::Reset { stream: id, state: stream.state });
            }
            self.write_reset(id, code);
        }
    }
}

/// Counts a part of the body; what is wrong with it, if anything.
fn take_part<T: Default>(stream: &mut Stream<T>, len: usize, flow: usize, ends: bool) -> Option<Code> {
    if stream.is_received {
        return Some(Code::StreamClosed);
    }
    stream.receive_window -= flow as i64;
    if stream.receive_window < 0 {
        return Some(Code::FlowControl);
    }
    if let Some(left) = &mut stream.body_left {
        *left = match left.checked_sub(len as u64) {
            Some(left) => left,
            None => return Some(Code::Protocol),
        };
    }
    if ends && !stream.receive_end() { Some(Code::Protocol) } else { None }
}
