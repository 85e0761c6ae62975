//! Errors of a migration, by the reaction to them.

use vetch_node::error::NodeError;
use vetch_node::store::StoreError;

use super::revisions::EventError;
use crate::commands::Failure;

#[derive(Debug)]
pub(super) enum MigrateError {
    /// The etcd cannot be reached or does not answer: connect again, and go on.
    Disconnected(String),
    /// The copy cannot be used any more: copy again from the beginning.
    CopyAgain(String),
    /// An operator has to act.
    Fatal(String),
}

impl MigrateError {
    pub(super) fn text(&self) -> &str {
        match self {
            MigrateError::Disconnected(text) | MigrateError::CopyAgain(text) | MigrateError::Fatal(text) => {
                text
            }
        }
    }
}

impl From<tonic::Status> for MigrateError {
    fn from(status: tonic::Status) -> MigrateError {
        let text = format!("{:?}: {}", status.code(), status.message());
        match status.code() {
            tonic::Code::PermissionDenied | tonic::Code::Unimplemented => MigrateError::Fatal(text),
            // An expired token too: a new connection gets a new one.
            _ => MigrateError::Disconnected(text),
        }
    }
}

impl From<EventError> for MigrateError {
    fn from(error: EventError) -> MigrateError {
        MigrateError::CopyAgain(error.to_string())
    }
}

impl From<NodeError> for MigrateError {
    fn from(error: NodeError) -> MigrateError {
        match error {
            NodeError::Store(StoreError::Misfit(what)) => {
                MigrateError::CopyAgain(format!("what the etcd sends does not match the copy ({what})"))
            }
            error => MigrateError::Fatal(format!("the copy cannot be written: {error}")),
        }
    }
}

impl From<Failure> for MigrateError {
    fn from(failure: Failure) -> MigrateError {
        MigrateError::Disconnected(failure.text)
    }
}

impl From<std::io::Error> for MigrateError {
    fn from(error: std::io::Error) -> MigrateError {
        MigrateError::Fatal(error.to_string())
    }
}
