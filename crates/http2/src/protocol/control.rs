//! Settings, windows, pings, resets and farewells.

use std::collections::VecDeque;

use super::stream::Stream;
use super::{
    Code, Event, FIRST_WINDOW, Farewell, Fault, LARGEST_WINDOW, Protocol, RESETS_REMEMBERED, overhead,
};
use crate::frame::{Header, MAX_PAYLOAD, flag, kind, number, setting};

/// Sent with our farewell: when it comes back, so has everything that the client sent before it
/// knew.
const FAREWELL_PING: [u8; 8] = *b"farewell";
/// Sent when a client has been silent for long.
const KEEPALIVE_PING: [u8; 8] = *b"are you?";
/// The highest stream there can be.
const LAST_STREAM: u32 = 0x7fff_ffff;
/// The longest frame that either side can ask for.
const LARGEST_FRAME: u32 = (1 << 24) - 1;

impl<T: Default> Protocol<T> {
    /// The first frame that a client gets: our limits.
    pub(super) fn introduce(&mut self) {
        let settings = [
            (setting::MAX_CONCURRENT_STREAMS, self.limits.streams),
            (setting::INITIAL_WINDOW_SIZE, self.limits.stream_window),
            (setting::MAX_HEADER_LIST_SIZE, self.limits.header_list as u32),
        ];
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        self.write(kind::SETTINGS, 0, 0, &payload);
        let more = self.windows.receive - FIRST_WINDOW;
        if more > 0 {
            self.write(kind::WINDOW_UPDATE, 0, 0, &(more as u32).to_be_bytes());
        }
    }

    pub(super) fn take_settings(&mut self, header: Header, payload: &[u8]) -> Result<(), Fault> {
        if header.stream != 0 {
            return Fault::new(Code::Protocol, "settings of a stream");
        }
        let is_answer = header.has(flag::ACK);
        if !payload.len().is_multiple_of(6) || (is_answer && !payload.is_empty()) {
            return Fault::new(Code::FrameSize, "not the size of settings");
        }
        if is_answer {
            return Ok(());
        }
        self.overhead.spend(overhead::SETTINGS)?;
        let before = self.windows.first_send;
        for entry in payload.chunks_exact(6) {
            self.take_setting(u16::from_be_bytes([entry[0], entry[1]]), number(&entry[2..]))?;
        }
        // Once for all entries of the frame, however many name the initial window.
        if self.windows.first_send > before {
            self.open_windows()?;
        }
        self.write(kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(())
    }

    fn take_setting(&mut self, name: u16, value: u32) -> Result<(), Fault> {
        match name {
            setting::HEADER_TABLE_SIZE => self.encoder.set_table_size(value as usize),
            setting::ENABLE_PUSH if value > 1 => return Fault::new(Code::Protocol, "push is on or off"),
            setting::MAX_FRAME_SIZE if !(MAX_PAYLOAD as u32..=LARGEST_FRAME).contains(&value) => {
                return Fault::new(Code::Protocol, "frames cannot be limited to that");
            }
            setting::INITIAL_WINDOW_SIZE if i64::from(value) > LARGEST_WINDOW => {
                return Fault::new(Code::FlowControl, "a window too large");
            }
            setting::INITIAL_WINDOW_SIZE => self.windows.first_send = i64::from(value),
            _ => {}
        }
        Ok(())
    }

    /// The initial window has grown, and with it the window of every open stream: finds those that
    /// can send now. This looks at all streams, so it costs the client as much.
    fn open_windows(&mut self) -> Result<(), Fault> {
        let units = self.streams.len() / overhead::STREAMS_PER_UNIT;
        self.overhead.spend(u32::try_from(units).unwrap_or(u32::MAX))?;
        let mut opened = Vec::new();
        for (id, stream) in self.streams.iter() {
            let window = self.windows.first_send + stream.send_credit;
            if window > LARGEST_WINDOW {
                return Fault::new(Code::FlowControl, "a window too large");
            }
            if window > 0 && (stream.unsent() > 0 || stream.wants_room) {
                opened.push(id);
            }
        }
        // The oldest first, whatever order the table has them in.
        opened.sort_unstable();
        for id in opened {
            if let Some(stream) = self.streams.get_mut(id) {
                open_window(id, stream, &mut self.waiting.ready, &mut self.waiting.resumed);
            }
        }
        Ok(())
    }

    pub(super) fn take_window(&mut self, header: Header, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 4 {
            return Fault::new(Code::FrameSize, "not the size of a window");
        }
        let (id, more) = (header.stream, i64::from(number(payload) & 0x7fff_ffff));
        if id > self.newest_stream {
            return Fault::new(Code::Protocol, "a window of a stream that was never opened");
        }
        if more == 0 {
            return Fault::new(Code::Protocol, "a window that does not grow");
        }
        if id == 0 {
            self.windows.send += more;
            if self.windows.send > LARGEST_WINDOW {
                return Fault::new(Code::FlowControl, "a window too large");
            }
            return Ok(());
        }
        let Some(stream) = self.streams.get_mut(id) else { return Ok(()) };
        stream.send_credit += more;
        let window = self.windows.first_send + stream.send_credit;
        if window > LARGEST_WINDOW {
            self.break_stream(id, Code::FlowControl);
        } else if window > 0 {
            open_window(id, stream, &mut self.waiting.ready, &mut self.waiting.resumed);
        }
        Ok(())
    }

    pub(super) fn take_ping(&mut self, header: Header, payload: &[u8]) -> Result<(), Fault> {
        if header.stream != 0 {
            return Fault::new(Code::Protocol, "a ping of a stream");
        }
        if payload.len() != 8 {
            return Fault::new(Code::FrameSize, "not the size of a ping");
        }
        if !header.has(flag::ACK) {
            self.overhead.spend(overhead::SMALL)?;
            self.write(kind::PING, flag::ACK, 0, payload);
        } else if payload == FAREWELL_PING && self.farewell == Farewell::Announced {
            self.farewell = Farewell::Said(self.newest_stream);
            self.write_farewell(self.newest_stream, Code::NoError, "");
        }
        Ok(())
    }

    pub(super) fn take_reset(&mut self, header: Header, payload: &[u8]) -> Result<(), Fault> {
        let id = header.stream;
        if id == 0 || id > self.newest_stream {
            return Fault::new(Code::Protocol, "a reset of a stream that was never opened");
        }
        if payload.len() != 4 {
            return Fault::new(Code::FrameSize, "not the size of a reset");
        }
        match self.streams.remove(id) {
            Some(stream) if stream.begun => {
                self.events.push_back(Event::Reset { stream: id, state: stream.state });
                Ok(())
            }
            // Nothing was done for the request, so it is only the frames that cost something.
            Some(_) => self.overhead.spend(overhead::REQUEST),
            None => {
                // It knows as well now: what it might send after this is a mistake.
                self.resets.retain(|reset| *reset != id);
                Ok(())
            }
        }
    }

    pub(super) fn take_farewell(&mut self, header: Header) -> Result<(), Fault> {
        if header.stream != 0 {
            return Fault::new(Code::Protocol, "a farewell of a stream");
        }
        self.client_left = true;
        Ok(())
    }

    /// Gives `len` bytes of a stream's data back to its window. A WINDOW_UPDATE follows when there
    /// is enough to be worth a frame.
    pub fn release(&mut self, id: u32, len: usize) {
        self.release_connection(len);
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.unreleased += len as u32;
        if !stream.is_received && stream.unreleased >= self.limits.stream_window / 2 {
            let more = std::mem::take(&mut stream.unreleased);
            stream.receive_window += i64::from(more);
            self.write(kind::WINDOW_UPDATE, 0, id, &more.to_be_bytes());
        }
    }

    /// The same for data of a stream that has ended meanwhile.
    pub fn release_connection(&mut self, len: usize) {
        self.windows.unreleased += len as u32;
        if self.windows.unreleased >= self.limits.connection_window / 2 {
            let more = std::mem::take(&mut self.windows.unreleased);
            self.windows.receive += i64::from(more);
            self.write(kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        }
    }

    /// Says that we are leaving. Requests that are on their way are served all the same.
    pub fn announce_farewell(&mut self) {
        if self.farewell == Farewell::None {
            self.farewell = Farewell::Announced;
            self.write_farewell(LAST_STREAM, Code::NoError, "");
            self.write(kind::PING, 0, 0, &FAREWELL_PING);
        }
    }

    /// Tells the client why the connection ends here.
    pub fn fail(&mut self, fault: Fault) {
        self.write_farewell(self.newest_stream, fault.code, fault.reason);
    }

    /// Sends a PING, to find out whether the client is still there.
    pub fn ping(&mut self) {
        self.write(kind::PING, 0, 0, &KEEPALIVE_PING);
    }

    fn write_farewell(&mut self, last: u32, code: Code, reason: &str) {
        let mut payload = last.to_be_bytes().to_vec();
        payload.extend((code as u32).to_be_bytes());
        payload.extend(reason.as_bytes());
        self.write(kind::GOAWAY, 0, 0, &payload);
    }

    pub(super) fn write_reset(&mut self, id: u32, code: Code) {
        self.remember_reset(id);
        self.write(kind::RST_STREAM, 0, id, &(code as u32).to_be_bytes());
    }

    /// What the client sends for that stream before it knows is passed over.
    pub(super) fn remember_reset(&mut self, id: u32) {
        if self.resets.len() >= RESETS_REMEMBERED {
            self.resets.pop_front();
        }
        self.resets.push_back(id);
    }
}

/// The window of a stream is open: it may send what waits, and its body may go on.
fn open_window<T>(id: u32, stream: &mut Stream<T>, ready: &mut VecDeque<u32>, resumed: &mut Vec<u32>) {
    if stream.unsent() > 0 && !stream.is_ready {
        stream.is_ready = true;
        ready.push_back(id);
    }
    if std::mem::take(&mut stream.wants_room) {
        resumed.push(id);
    }
}
