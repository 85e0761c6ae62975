//! Streamed responses.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body::{Body as HttpBody, Frame};
use http_body_util::StreamBody;
use tonic::Status;
use tonic::body::Body;
use vetch_api::gateway::Route;
use vetch_api::json;
use vetch_http2::Charge;

use super::codec::Codec;
use super::frame::{Messages, framed};
use super::unary::{GRPC_CONTENT_TYPE, in_translation, translated};
use super::{Services, grpc_request, overloaded, refusal};
use crate::http::answer;

/// One request, many responses.
pub(super) async fn answer_one(
    request: Request<Body>,
    route: &Route,
    codec: Codec,
    services: &Services,
) -> Response<Body> {
    let mut charge = services.holdings.charge();
    match translated(request, route, codec, services, &mut charge).await {
        Ok(request) => lines(services.call(request).await, codec, services).await,
        Err(status) => refusal::whole(&status),
    }
}

/// Many requests, many responses.
pub(super) async fn answer_many(
    request: Request<Body>,
    route: &Route,
    codec: Codec,
    services: &Services,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let original = Request::from_parts(head, ());
    let limit = services.max_json_bytes;
    let (pending, charge) = (json::Stream::default(), services.holdings.charge());
    let requests = Requests { body: Some(body), pending, codec, limit, charge };
    let request = grpc_request(&original, route, Body::new(requests));
    lines(services.call(request).await, codec, services).await
}

/// Waits for the first message, because it decides the status line; the rest follows as it comes.
async fn lines(mut messages: Messages, codec: Codec, services: &Services) -> Response<Body> {
    let first = match next_line(&mut messages, codec, services).await {
        Ok(Some(line)) => line,
        Ok(None) => return Response::new(Body::new(StreamBody::new(stream::empty::<Lines>()))),
        Err(status) => return refusal::whole_stream(&status),
    };
    let state = (messages, services.clone());
    let rest = stream::unfold(Some(state), move |state| async move {
        let (mut messages, services) = state?;
        match next_line(&mut messages, codec, &services).await {
            Ok(Some(line)) => Some((frame(line), Some((messages, services)))),
            Ok(None) => None,
            Err(status) => Some((frame(refusal::line(&status).into()), None)),
        }
    });
    let first = stream::once(std::future::ready(frame(first)));
    let mut response = Response::new(Body::new(StreamBody::new(futures_util::StreamExt::chain(first, rest))));
    response.headers_mut().insert(CONTENT_TYPE, answer::JSON);
    response.headers_mut().insert(GRPC_CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

type Lines = Result<Frame<Bytes>, Status>;

fn frame(line: Bytes) -> Lines {
    Ok(Frame::data(line))
}

async fn next_line(
    messages: &mut Messages,
    codec: Codec,
    services: &Services,
) -> Result<Option<Bytes>, Status> {
    let Some(message) = messages.next().await? else { return Ok(None) };
    let mut charge = services.holdings.charge();
    charge.try_answer(in_translation(message.len())).map_err(overloaded)?;
    let line = services.translate(message.len(), move || codec.write_line(message)).await?;
    Ok(Some(line.into()))
}

/// JSON values arriving in a body, as a body of gRPC messages. It ends where the JSON ends or is
/// malformed; a client that disconnects before that cancels the call.
struct Requests {
    body: Option<Body>,
    pending: json::Stream,
    codec: Codec,
    limit: usize,
    /// Of what is pending.
    charge: Charge,
}

impl HttpBody for Requests {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            let codec = self.codec;
            match codec.take(&mut self.pending) {
                Ok(Some(message)) => return Poll::Ready(Some(Ok(Frame::data(framed(&message))))),
                Ok(None) if self.pending.len() <= self.limit => {}
                Ok(None) | Err(_) => self.body = None,
            }
            // The buffer grows by doubling.
            let held = if self.body.is_some() { 2 * self.pending.len() } else { 0 };
            if let Err(refused) = self.charge.try_set(held) {
                self.body = None;
                return Poll::Ready(Some(Err(overloaded(refused))));
            }
            let Some(body) = &mut self.body else {
                self.pending = json::Stream::default();
                return Poll::Ready(None);
            };
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.pending.push(&data);
                    }
                }
                None => self.body = None,
                Some(Err(_)) => {
                    self.body = None;
                    return Poll::Ready(Some(Err(Status::aborted("the client has disconnected"))));
                }
            }
        }
    }
}
