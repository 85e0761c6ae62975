//! Unary responses as whole messages, on every path.
//!
//! tonic encodes a response when its body is polled, and its length is unknown until then: many
//! unread ones would be held without being counted. So the response of a unary call is encoded
//! where the call is served, in a task of which a connection runs few, and the connection gets a
//! message of known length.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Status};
use vetch_http2::{Answer, Charge, Holdings, Reply};

use super::status;
use crate::auth::Credentials;

/// The response of a unary call without a status in its headers, as one message.
pub(super) async fn collect(response: Response<Body>) -> Answer<Body> {
    if Status::from_header_map(response.headers()).is_some() {
        return Answer::Response(response);
    }
    // The extensions hold the charge for the response, and the permit to make it.
    let (_head, mut body) = response.into_parts();
    let mut message = Bytes::new();
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(status) => return Answer::Response(status.into_http()),
        };
        match frame.into_data() {
            Ok(data) if message.is_empty() => message = data,
            Ok(data) => message = joined(&message, &data),
            Err(other) => match other.trailers_ref().and_then(Status::from_header_map) {
                Some(status) if status.code() != Code::Ok => return Answer::Response(status.into_http()),
                _ => {}
            },
        }
    }
    if message.is_empty() {
        return Answer::Response(Status::internal("the call ended without a response").into_http());
    }
    Answer::Reply(Reply::Message(message))
}

fn joined(first: &[u8], second: &[u8]) -> Bytes {
    let mut whole = BytesMut::with_capacity(first.len() + second.len());
    whole.extend_from_slice(first);
    whole.extend_from_slice(second);
    whole.freeze()
}

/// A response with the whole message in its body, for callers within this process.
pub(super) fn response(answer: Answer<Body>) -> Response<Body> {
    let message = match answer {
        Answer::Response(response) => return response,
        Answer::Reply(Reply::Message(message)) => message,
        Answer::Reply(Reply::Long(mut message)) => message.next(usize::MAX),
        Answer::Reply(Reply::Refused(headers)) => {
            let mut response = Response::new(Body::default());
            *response.headers_mut() = headers;
            return response;
        }
    };
    let mut trailers = http::HeaderMap::new();
    // It fails only for a text that no header can hold, and there is none.
    let _ = Status::new(Code::Ok, "").add_header(&mut trailers);
    let frames = [Ok::<_, Status>(Frame::data(message)), Ok(Frame::trailers(trailers))];
    let mut response = Response::new(Body::new(StreamBody::new(futures_util::stream::iter(frames))));
    let grpc = http::HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(http::header::CONTENT_TYPE, grpc);
    response
}

/// A response that may be long, charged to its client before it is encoded; refused if too much is
/// held for all clients. `permit` is the one it was made under, if any.
pub(super) fn charged<T: prost::Message>(
    holdings: Option<&Holdings>,
    permit: Option<OwnedSemaphorePermit>,
    message: T,
) -> Result<tonic::Response<T>, Status> {
    let charge = reserve(holdings, message.encoded_len())?;
    let mut response = tonic::Response::new(message);
    response.extensions_mut().insert(Arc::new((charge, permit)));
    Ok(response)
}

/// Charges a response of about `len` bytes to its client; refused if too much is held for all
/// clients.
pub(super) fn reserve(holdings: Option<&Holdings>, len: usize) -> Result<Option<Charge>, Status> {
    let Some(mut charge) = holdings.map(Holdings::charge) else { return Ok(None) };
    // The message and its encoding, in a buffer that grows by doubling.
    charge
        .try_answer(len.saturating_mul(3))
        .map_err(|_| status::etcd(vetch_api::EtcdError::RequestTooManyRequests))?;
    Ok(Some(charge))
}

/// The account of a request's client.
pub(super) fn holdings<T>(request: &tonic::Request<T>) -> Option<Holdings> {
    request.extensions().get::<Holdings>().cloned()
}

/// Serves a call on keys that came as a request with a body. The body is read by tonic, with all of
/// its checks, and the response is encoded as the client reads it, as on the fast path.
pub(super) async fn unary<F, A>(request: Request<Body>, limit: usize, answer: A) -> Answer<Body>
where
    A: FnOnce(Credentials, Bytes) -> F + Send + 'static,
    F: Future<Output = Result<Reply, Status>> + Send + 'static,
{
    let slot = Arc::new(Mutex::new(None));
    let (answered, answer) = (Arc::clone(&slot), Mutex::new(Some(answer)));
    let handler = tower::service_fn(move |request: tonic::Request<Bytes>| {
        let (credentials, message) = Credentials::split(request);
        let (answered, answer) = (Arc::clone(&answered), answer.lock().take());
        async move {
            let answer = answer.ok_or_else(|| Status::internal("a call is answered once"))?;
            *answered.lock() = Some(answer(credentials, message).await?);
            Ok(tonic::Response::new(()))
        }
    });
    let mut grpc = tonic::server::Grpc::new(RawMessage).max_decoding_message_size(limit);
    let response = grpc.unary(handler, request).await;
    let reply = slot.lock().take();
    reply.map_or(Answer::Response(response), Answer::Reply)
}

/// The bytes of a request's message, and none for its answer.
struct RawMessage;

impl Codec for RawMessage {
    type Encode = ();
    type Decode = Bytes;
    type Encoder = RawMessage;
    type Decoder = RawMessage;

    fn encoder(&mut self) -> RawMessage {
        RawMessage
    }

    fn decoder(&mut self) -> RawMessage {
        RawMessage
    }
}

impl Encoder for RawMessage {
    type Item = ();
    type Error = Status;

    fn encode(&mut self, (): (), _: &mut EncodeBuf<'_>) -> Result<(), Status> {
        Ok(())
    }
}

impl Decoder for RawMessage {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}
