//! The charge for HTTP/1 responses until their clients have read them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use vetch_http2::{Charge, Holdings};

/// A body whose parts are charged to its client: those that exist already, and those that wait to
/// be written.
pub(super) struct ChargedBody {
    body: Body,
    holdings: Holdings,
    /// The rest of a body that exists as a whole.
    rest: Charge,
}

impl ChargedBody {
    pub(super) fn new(body: Body, holdings: &Holdings) -> ChargedBody {
        let mut rest = holdings.charge();
        // A body of known length exists as a whole.
        rest.set(body.size_hint().exact().map_or(0, |len| usize::try_from(len).unwrap_or(usize::MAX)));
        ChargedBody { body, holdings: holdings.clone(), rest }
    }
}

impl HttpBody for ChargedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let data = match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(data))) => data,
            Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => return Poll::Ready(None),
        };
        let left = self.rest.len().saturating_sub(data.len());
        self.rest.set(left);
        Poll::Ready(Some(Ok(Frame::data(charged(data, self.holdings.charge())))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The same bytes, counted by `charge` for as long as they are referenced.
pub(super) fn charged(data: Bytes, mut charge: Charge) -> Bytes {
    charge.set(data.len());
    Bytes::from_owner(Part { data, _charge: charge })
}

struct Part {
    data: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}
