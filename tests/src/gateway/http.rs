//! A plain HTTP/1.1 client: one connection per request, the whole answer or the first lines of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

/// How long a server may take for an answer or for the next line of one.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends a request to loopback; with `lines` given, stops reading after that many.
pub(crate) async fn send(
    port: u16,
    method: &str,
    path: &str,
    body: &str,
    lines: Option<usize>,
) -> Result<Answer> {
    send_to(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), method, path, body, lines).await
}

/// The same to any address.
pub(crate) async fn send_to(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
    lines: Option<usize>,
) -> Result<Answer> {
    let stream = timeout(TIMEOUT, TcpStream::connect(address)).await.context("no connection")??;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::builder()
        .method(Method::from_bytes(method.as_bytes())?)
        .uri(path)
        .header("host", address.to_string())
        .header("content-type", "application/json")
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))?;
    let response = timeout(TIMEOUT, sender.send_request(request)).await.context("no answer")??;
    let status = response.status().as_u16();
    let content_type =
        response.headers().get("content-type").map_or("none", |value| value.to_str().unwrap_or("odd"));
    let content_type = content_type.to_owned();
    let mut incoming = response.into_body();
    let mut bytes = Vec::new();
    loop {
        let seen = bytes.iter().filter(|byte| **byte == b'\n').count();
        if lines.is_some_and(|lines| seen >= lines) {
            break;
        }
        match timeout(TIMEOUT, incoming.frame()).await {
            Ok(Some(frame)) => bytes.extend_from_slice(&frame?.into_data().unwrap_or_default()),
            Ok(None) => break,
            Err(_) => {
                bytes.extend_from_slice(b"\n(nothing more came)");
                break;
            }
        }
    }
    connection.abort();
    let mut body = String::from_utf8_lossy(&bytes).into_owned();
    if let Some(lines) = lines {
        body = body.lines().take(lines).collect::<Vec<_>>().join("\n");
    }
    Ok(Answer { status, content_type, body })
}
