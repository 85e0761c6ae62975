//! One request, one answer.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use tonic::Status;
use tonic::body::Body;
use vetch_api::gateway::Route;

use super::codec::Codec;
use super::frame::{Messages, framed};
use super::{Services, grpc_request, refusal};
use crate::http::answer;

pub(super) const GRPC_CONTENT_TYPE: HeaderName = HeaderName::from_static("grpc-metadata-content-type");

pub(super) async fn answer(
    request: Request<Body>,
    route: &Route,
    codec: Codec,
    services: &Services,
) -> Response<Body> {
    match call(request, route, codec, services).await {
        Ok(body) => {
            let mut response = answer::whole(StatusCode::OK, answer::JSON, body);
            let grpc = HeaderValue::from_static("application/grpc");
            response.headers_mut().insert(GRPC_CONTENT_TYPE, grpc);
            response
        }
        Err(status) => refusal::whole(&status),
    }
}

async fn call(
    request: Request<Body>,
    route: &Route,
    codec: Codec,
    services: &Services,
) -> Result<Vec<u8>, Status> {
    let request = translated(request, route, codec, services.max_json_bytes).await?;
    let mut messages = Messages::of(services.call(request).await);
    let message =
        messages.next().await?.ok_or_else(|| Status::internal("the call ended without an answer"))?;
    // The status comes after the message, and only it says whether the message is valid.
    match messages.next().await? {
        None => codec.write(message),
        Some(_) => Err(Status::internal("a unary call answered twice")),
    }
}

/// The gRPC request for a body with a single JSON message.
pub(super) async fn translated(
    request: Request<Body>,
    route: &Route,
    codec: Codec,
    limit: usize,
) -> Result<Request<Body>, Status> {
    let (head, body) = request.into_parts();
    let json = collected(body, limit).await?;
    let message = codec.read(&json)?;
    let original = Request::from_parts(head, ());
    Ok(grpc_request(&original, route, Body::new(Full::new(framed(&message)))))
}

async fn collected(body: Body, limit: usize) -> Result<Bytes, Status> {
    match Limited::new(body, limit).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(e) if e.is::<LengthLimitError>() => {
            Err(Status::resource_exhausted(format!("request body larger than max ({limit} bytes)")))
        }
        Err(e) => Err(Status::invalid_argument(e.to_string())),
    }
}
