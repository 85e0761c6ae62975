//! Routing of requests to the parts of the server.

use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use tonic::body::Body;
use vetch_api::EtcdError;
use vetch_http2::Answer;

use super::access::add_cors;
use super::answer;
use super::connection_context::ConnectionContext;
use super::endpoint::{debug, health, metrics, peer, version};
use super::gateway;
use super::{ServerState, Serves};
use vetch_tls::PeerIdentity;

/// Calls in progress, over all connections. Each holds up to about seven kilobytes.
const CALLS_MAX: u64 = 128 << 10;
/// Calls that a connection may have when there are that many, and when there are twice as many:
/// otherwise two connections could have all of them.
const CALLS_SHARE: usize = 256;
const CALLS_SHARE_MIN: usize = 16;

/// Whether a call is refused, with `calls` in progress and `open` requests on its own connection.
pub(super) fn is_beyond_its_share(calls: u64, open: usize) -> bool {
    calls >= CALLS_MAX && open > if calls < 2 * CALLS_MAX { CALLS_SHARE } else { CALLS_SHARE_MIN }
}

/// How much is read of a request that is refused.
const REFUSED_BODY_READ_MAX: usize = 64 << 10;

/// A request on an HTTP/2 connection: gRPC by its content type, else a page of the listener.
/// `open`: the requests of this connection.
pub(super) async fn any(request: Request<Body>, context: &ConnectionContext, open: usize) -> Answer<Body> {
    let shared = &context.shared;
    let has_grpc = matches!(context.serves, Serves::GrpcAndHttp | Serves::Grpc);
    if has_grpc && is_grpc(&request) {
        if is_beyond_its_share(shared.metrics.grpc.open(), open) {
            let refusal = tonic::Status::from(EtcdError::RequestTooManyRequests);
            return Answer::Response(refusal.into_http());
        }
        return shared.metrics.grpc.observed(request, |request| shared.grpc.reply(request)).await;
    }
    if context.serves == Serves::Grpc {
        return Answer::Response(not_grpc(&request));
    }
    // Boxed, so that the far more frequent gRPC requests do not carry the room for this.
    Answer::Response(Box::pin(http(request, context)).await)
}

/// A request that is not gRPC.
pub(super) async fn http(mut request: Request<Body>, context: &ConnectionContext) -> Response<Body> {
    match context.serves {
        Serves::Metrics => {
            return common_page(&request.map(drop), &context.shared).await.unwrap_or_else(answer::not_found);
        }
        Serves::Peer => return peer::answer(&request, &context.shared),
        Serves::GrpcAndHttp | Serves::Grpc | Serves::Http => {}
    }
    rewrite_old_prefix(&mut request);
    let access = &context.shared.settings.access;
    // An attacker's host name has no certificate, so TLS needs no list of hosts.
    if !context.is_secure
        && let Some(refusal) = access.refusal(&request)
    {
        return refusal;
    }
    if let Some(refusal) = refuse_common_name(&request, &context.shared) {
        // A response that is sent before its request ends may be lost when the rest is cut off.
        let body = Limited::new(request.into_body(), REFUSED_BODY_READ_MAX).collect();
        let _ = tokio::time::timeout(context.shared.settings.timeouts.body_chunk, body).await;
        return refusal;
    }
    let origin = access.cors_headers(request.headers());
    let mut response = match request.method() {
        &Method::OPTIONS => Response::new(Body::default()),
        _ => page(request, context).await,
    };
    if let Some(origin) = origin {
        add_cors(response.headers_mut(), origin);
    }
    response
}

/// A client with a name in its certificate expects to act as that user, which the gateway does not
/// support. etcd refuses it while authentication is on, and so does this.
fn refuse_common_name<B>(request: &Request<B>, shared: &ServerState) -> Option<Response<Body>> {
    let has_name =
        request.extensions().get::<PeerIdentity>().is_some_and(|peer| !peer.common_name().is_empty());
    let is_gateway = shared.settings.gateway && request.uri().path().starts_with("/v3/");
    if !has_name || !is_gateway || !shared.settings.client_cert_auth || !shared.node.auth_enabled() {
        return None;
    }
    let text =
        "CommonName of client sending a request against gateway will be ignored and not used as expected";
    Some(answer::failure(StatusCode::BAD_REQUEST, text))
}

async fn page(request: Request<Body>, context: &ConnectionContext) -> Response<Body> {
    let shared = &context.shared;
    if let Some(redirect) = redirect_to_clean(&request, shared.settings.gateway) {
        return redirect;
    }
    if shared.settings.gateway && request.uri().path().starts_with("/v3/") {
        return gateway::answer(request, context).await;
    }
    match request.uri().path() {
        "/version" => version::answer(&request),
        "/debug/vars" => debug::vars(),
        _ => common_page(&request.map(drop), shared).await.unwrap_or_else(answer::not_found),
    }
}

/// The pages that metrics listeners have too. None of them looks at a body.
async fn common_page(request: &Request<()>, shared: &Arc<ServerState>) -> Option<Response<Body>> {
    match request.uri().path() {
        "/metrics" => Some(metrics::answer(shared).await),
        path if health::is_at(path) => Some(health::answer(request, shared).await),
        _ => None,
    }
}

fn is_grpc<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|t| t.starts_with(b"application/grpc"))
}

/// What a gRPC-only port says to anything else.
fn not_grpc<B>(request: &Request<B>) -> Response<Body> {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|t| t.to_str().ok()).unwrap_or_default();
    let text = format!("invalid gRPC request content-type {content_type:?}");
    let mut response = tonic::Status::invalid_argument(text).into_http();
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
}

/// `/v3beta/` is an old name of `/v3/`.
fn rewrite_old_prefix<B>(request: &mut Request<B>) {
    let Some(rest) = request.uri().path_and_query().and_then(|p| p.as_str().strip_prefix("/v3beta/")) else {
        return;
    };
    // A valid path stays valid with a shorter first segment.
    if let Ok(uri) = format!("/v3/{rest}").parse() {
        *request.uri_mut() = uri;
    }
}

/// Paths with empty, `.` or `..` segments are redirected to their clean form.
fn redirect_to_clean<B>(request: &Request<B>, gateway: bool) -> Option<Response<Body>> {
    let path = request.uri().path();
    let mut clean = cleaned(path);
    if gateway && clean == "/v3" {
        clean.push('/');
    }
    if clean == path || request.method() == Method::CONNECT {
        return None;
    }
    let target = match request.uri().query() {
        Some(query) => format!("{clean}?{query}"),
        None => clean,
    };
    let location = HeaderValue::from_str(&target).ok()?;
    let mut response = Response::new(Body::default());
    if request.method() == Method::GET {
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        let link = format!("<a href=\"{}\">Temporary Redirect</a>.\n\n", escaped(&target));
        response = answer::whole(StatusCode::TEMPORARY_REDIRECT, html, link);
    }
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    response.headers_mut().insert(LOCATION, location);
    Some(response)
}

fn cleaned(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            other => kept.push(other),
        }
    }
    let slash = if path.ends_with('/') && !kept.is_empty() { "/" } else { "" };
    format!("/{}{slash}", kept.join("/"))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&#34;")
        .replace('\'', "&#39;")
}

#[cfg(test)]
mod tests;
