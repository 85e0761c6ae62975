//! One request, one response.

use bytes::BytesMut;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use vetch_api::gateway::Route;
use vetch_http2::Charge;

use super::codec::Codec;
use super::frame::{encoded, framed};
use super::{Services, grpc_request, overloaded, refusal};
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
    let mut charge = services.holdings.charge();
    let request = translated(request, route, codec, services, &mut charge).await?;
    let mut messages = services.call(request).await;
    // Charged before a long message is made.
    charge.try_answer(in_translation(messages.expected())).map_err(overloaded)?;
    if let Some(long) = messages.take_long() {
        return services.translate(long.remaining(), move || codec.write(encoded(long))).await;
    }
    let message =
        messages.next().await?.ok_or_else(|| Status::internal("the call ended without a response"))?;
    charge.try_answer(in_translation(message.len())).map_err(overloaded)?;
    // The status comes after the message and decides whether the message is valid.
    match messages.next().await? {
        None => services.translate(message.len(), move || codec.write(message)).await,
        Some(_) => Err(Status::internal("a unary call answered twice")),
    }
}

/// The charge for a response of `len` bytes while it becomes JSON: itself, and text of about twice
/// its length.
pub(super) fn in_translation(len: usize) -> usize {
    len.saturating_mul(3)
}

/// The gRPC request for a body with a single JSON message. Its bytes are counted by `charge`.
pub(super) async fn translated(
    request: Request<Body>,
    route: &Route,
    codec: Codec,
    services: &Services,
    charge: &mut Charge,
) -> Result<Request<Body>, Status> {
    let (head, body) = request.into_parts();
    let collecting = timeout(services.timeouts.body, collected(body, services, charge));
    let json = collecting.await.map_err(|_| too_slow())??;
    let message = services.translate(json.len(), move || codec.read(&json)).await?;
    charge.set(message.len());
    let original = Request::from_parts(head, ());
    Ok(grpc_request(&original, route, Body::new(Full::new(framed(&message)))))
}

async fn collected(mut body: Body, services: &Services, charge: &mut Charge) -> Result<BytesMut, Status> {
    let limit = services.max_json_bytes;
    let mut whole = BytesMut::new();
    while let Some(frame) =
        timeout(services.timeouts.body_chunk, body.frame()).await.map_err(|_| too_slow())?
    {
        let frame = frame.map_err(|e| Status::invalid_argument(e.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > limit {
            let text = format!("request body larger than max ({limit} bytes)");
            return Err(Status::resource_exhausted(text));
        }
        whole.extend_from_slice(&data);
        charge.try_set(whole.capacity()).map_err(overloaded)?;
    }
    Ok(whole)
}

/// The body did not come in time.
fn too_slow() -> Status {
    Status::deadline_exceeded("the request body did not arrive in time")
}
