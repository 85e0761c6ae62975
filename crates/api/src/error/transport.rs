//! Differences in names and texts between tonic and grpc-go.

use tonic::{Code, Status};

/// The name of a code as grpc-go spells it: in metrics labels and in texts.
pub const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// If `code` and `text` are tonic's refusal of a request longer than the limit, etcd's text of the
/// same refusal.
///
/// tonic refuses such a request before any handler runs, so the layer around the services has to
/// replace the text.
pub fn received_too_large(code: Code, text: &str) -> Option<Status> {
    if code != Code::OutOfRange {
        return None;
    }
    let numbers = text.strip_prefix("Error, decoded message length too large: found ")?;
    let (found, limit) = numbers.strip_suffix(" bytes")?.split_once(" bytes, the limit is: ")?;
    let (found, limit): (u64, u64) = (found.parse().ok()?, limit.parse().ok()?);
    Some(Status::resource_exhausted(format!("grpc: received message larger than max ({found} vs. {limit})")))
}
