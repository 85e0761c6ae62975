//! gRPC's framing of messages: a flag byte, four bytes of length, the message.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::BodyExt;
use tonic::body::Body;
use tonic::{Code, Status};
use vetch_http2::{Answer, LongMessage, Reply};

const PREFIX: usize = 5;

pub(super) fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("requests are limited far below 4 GiB");
    let mut out = BytesMut::with_capacity(PREFIX + message.len());
    out.put_u8(0);
    out.put_u32(length);
    out.put_slice(message);
    out.freeze()
}

/// The messages of a gRPC response, one by one, and the status at its end.
pub(super) struct Messages {
    body: Body,
    /// The only message, not encoded yet.
    long: Option<Box<dyn LongMessage>>,
    pending: BytesMut,
    ready: VecDeque<Bytes>,
    /// The status of the call, once known.
    end: Option<Status>,
}

impl Messages {
    pub(super) fn from_answer(answer: Answer<Body>) -> Messages {
        let (mut ready, mut long) = (VecDeque::new(), None);
        let (headers, body) = match answer {
            Answer::Response(response) => {
                let (head, body) = response.into_parts();
                (head.headers, body)
            }
            Answer::Reply(Reply::Refused(headers)) => (headers, Body::default()),
            Answer::Reply(Reply::Message(message)) => {
                ready.push_back(message.slice(PREFIX..));
                (HeaderMap::new(), Body::default())
            }
            Answer::Reply(Reply::Long(message)) => {
                long = Some(message);
                (HeaderMap::new(), Body::default())
            }
        };
        let is_whole = long.is_some() || !ready.is_empty();
        // A call that fails at once has its status among the headers and no body.
        let end = if is_whole { Some(Status::ok("")) } else { Status::from_header_map(&headers) };
        Messages { body, long, pending: BytesMut::new(), ready, end }
    }

    /// Bytes of messages that will have to be held, as far as known.
    pub(super) fn expected(&self) -> usize {
        let ready: usize = self.ready.iter().map(Bytes::len).sum();
        ready + self.long.as_ref().map_or(0, |message| message.remaining())
    }

    /// The only message, if it is long and not encoded yet.
    pub(super) fn take_long(&mut self) -> Option<Box<dyn LongMessage>> {
        self.long.take()
    }

    /// The next message. None if the call ended well, an error if it failed.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            if let Some(message) = self.long.take() {
                return Ok(Some(encoded(message)));
            }
            if let Some(status) = &self.end {
                return if status.code() == Code::Ok { Ok(None) } else { Err(status.clone()) };
            }
            match self.body.frame().await {
                None => self.end = Some(Status::internal("the call ended without a status")),
                Some(Err(status)) => self.end = Some(status),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.split(&data),
                    Err(other) => self.finish(other.trailers_ref()),
                },
            }
        }
    }

    fn split(&mut self, data: &[u8]) {
        self.pending.extend_from_slice(data);
        while self.pending.len() >= PREFIX {
            let length = u32::from_be_bytes(self.pending[1..PREFIX].try_into().expect("four bytes")) as usize;
            if self.pending.len() < PREFIX + length {
                return;
            }
            self.pending.advance(PREFIX);
            self.ready.push_back(self.pending.split_to(length).freeze());
        }
    }

    fn finish(&mut self, trailers: Option<&HeaderMap>) {
        if let Some(status) = trailers.and_then(Status::from_header_map) {
            self.end = Some(status);
        }
    }
}

/// A long message without its prefix.
pub(super) fn encoded(mut message: Box<dyn LongMessage>) -> Bytes {
    message.next(usize::MAX).slice(PREFIX..)
}
