//! Which requests any server of a cluster answers, and which only the writer can.

use bytes::{Buf, Bytes};
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use vetch_api::pb;

/// Bytes of a message before it: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// A larger range request is left to the writer to refuse.
const LONGEST: usize = 4 << 20;

pub(super) enum Sorted {
    Here(Request<Body>),
    Writer(Request<Body>),
    Bad(Status),
}

pub(super) async fn sort(request: Request<Body>) -> Sorted {
    match request.uri().path() {
        "/etcdserverpb.KV/Range" => sort_range(request).await,
        path if is_for_anybody(path) => Sorted::Here(request),
        _ => Sorted::Writer(request),
    }
}

/// Watches, and what is asked about this very server.
fn is_for_anybody(path: &str) -> bool {
    match path.strip_prefix('/').and_then(|path| path.split_once('/')) {
        Some(("etcdserverpb.Watch" | "grpc.health.v1.Health", _)) => true,
        Some(("etcdserverpb.Maintenance", method)) => !matches!(method, "Alarm" | "Downgrade"),
        Some(("etcdserverpb.Cluster", method)) => method == "MemberList",
        _ => false,
    }
}

/// A serializable range is answered by whoever is asked, whatever became of the others.
async fn sort_range(request: Request<Body>) -> Sorted {
    let (head, body) = request.into_parts();
    let bytes = match Limited::new(body, LONGEST).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => return Sorted::Bad(Status::invalid_argument(error.to_string())),
    };
    let is_serializable = is_serializable(bytes.clone());
    let request = Request::from_parts(head, Body::new(Full::new(bytes)));
    if is_serializable { Sorted::Here(request) } else { Sorted::Writer(request) }
}

fn is_serializable(mut bytes: Bytes) -> bool {
    if bytes.len() < PREFIX || bytes[0] != 0 {
        return false;
    }
    bytes.advance(PREFIX);
    pb::RangeRequest::decode(bytes).is_ok_and(|range| range.serializable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(serializable: bool) -> Bytes {
        let message = pb::RangeRequest { key: b"k".to_vec().into(), serializable, ..Default::default() };
        let encoded = message.encode_to_vec();
        let length = u32::try_from(encoded.len()).unwrap().to_be_bytes();
        [&[0][..], &length, &encoded].concat().into()
    }

    #[test]
    fn only_a_serializable_range_stays_here() {
        assert!(is_serializable(framed(true)));
        assert!(!is_serializable(framed(false)));
        assert!(!is_serializable(Bytes::from_static(b"\x01\0\0\0\0")), "compressed");
        assert!(!is_serializable(Bytes::new()));
    }

    #[test]
    fn what_changes_something_is_the_writers() {
        for path in
            ["/etcdserverpb.KV/Put", "/etcdserverpb.Lease/LeaseKeepAlive", "/etcdserverpb.Auth/UserAdd"]
        {
            assert!(!is_for_anybody(path), "{path}");
        }
        for path in ["/etcdserverpb.Watch/Watch", "/etcdserverpb.Maintenance/Status"] {
            assert!(is_for_anybody(path), "{path}");
        }
    }
}
