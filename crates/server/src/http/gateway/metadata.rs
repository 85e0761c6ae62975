//! Headers of a gateway request that become metadata of the gRPC request.

use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE};
use tonic::Status;

const PREFIX: &str = "grpc-metadata-";

/// Copies the credentials and what is marked as metadata. The services ignore all else.
pub(super) fn copy(from: &HeaderMap, to: &mut HeaderMap) {
    to.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    to.insert(TE, HeaderValue::from_static("trailers"));
    for (name, value) in from {
        let kept = match name.as_str().strip_prefix(PREFIX) {
            Some(rest) if !is_reserved(rest) => HeaderName::from_bytes(rest.as_bytes()).ok(),
            _ => (name == AUTHORIZATION).then_some(AUTHORIZATION),
        };
        if let Some(kept) = kept {
            to.append(kept, value.clone());
        }
    }
}

/// Names that belong to the protocol and must not be set from outside.
fn is_reserved(name: &str) -> bool {
    name.starts_with("grpc-") || matches!(name, "content-type" | "te" | "host" | "connection" | "")
}

/// The client's deadline, from `Grpc-Timeout`: digits and a unit.
pub(super) fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(value) = headers.get("grpc-timeout").filter(|v| !v.is_empty()) else { return Ok(None) };
    let text = String::from_utf8_lossy(value.as_bytes());
    match parsed(&text) {
        Some(timeout) => Ok((!timeout.is_zero()).then_some(timeout)),
        None => Err(Status::invalid_argument(format!("invalid grpc-timeout: {text}"))),
    }
}

fn parsed(text: &str) -> Option<Duration> {
    let (last, _) = text.char_indices().next_back()?;
    let (digits, unit) = text.split_at(last);
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number.checked_mul(3600)?),
        "M" => Duration::from_secs(number.checked_mul(60)?),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_digits_and_a_unit() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", HeaderValue::from_str(text).unwrap());
            timeout(&headers).map_err(|s| s.message().to_string())
        };
        assert_eq!(of("5S"), Ok(Some(Duration::from_secs(5))));
        assert_eq!(of("250m"), Ok(Some(Duration::from_millis(250))));
        assert_eq!(of("0S"), Ok(None));
        assert_eq!(of("xx"), Err("invalid grpc-timeout: xx".to_string()));
        assert_eq!(of("S"), Err("invalid grpc-timeout: S".to_string()));
        assert_eq!(timeout(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn only_metadata_and_credentials_are_carried_over() {
        let mut from = HeaderMap::new();
        for (name, value) in [
            ("authorization", "tok"),
            ("grpc-metadata-hasleader", "true"),
            ("grpc-metadata-content-type", "evil"),
            ("user-agent", "curl"),
        ] {
            from.insert(name, HeaderValue::from_static(value));
        }
        let mut to = HeaderMap::new();
        copy(&from, &mut to);
        assert_eq!(to["authorization"], "tok");
        assert_eq!(to["hasleader"], "true");
        assert_eq!(to["content-type"], "application/grpc");
        assert!(to.get("user-agent").is_none());
    }
}
