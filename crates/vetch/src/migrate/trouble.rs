//! What can go wrong on the way, by what has to be done about it.

use vetch_node::error::NodeError;
use vetch_node::store::StoreError;

use crate::commands::Failure;

#[derive(Debug)]
pub(super) enum Trouble {
    /// The etcd cannot be reached or does not answer: connect again, and go on.
    Lost(String),
    /// What was copied is of no use any more: copy again from the beginning.
    Anew(String),
    /// A person has to do something.
    Fatal(String),
}

impl Trouble {
    pub(super) fn text(&self) -> &str {
        match self {
            Trouble::Lost(text) | Trouble::Anew(text) | Trouble::Fatal(text) => text,
        }
    }
}

impl From<tonic::Status> for Trouble {
    fn from(status: tonic::Status) -> Trouble {
        let text = format!("{:?}: {}", status.code(), status.message());
        match status.code() {
            tonic::Code::PermissionDenied | tonic::Code::Unimplemented => Trouble::Fatal(text),
            // A token that has run out as well: a new connection comes with a new one.
            _ => Trouble::Lost(text),
        }
    }
}

impl From<NodeError> for Trouble {
    fn from(error: NodeError) -> Trouble {
        match error {
            NodeError::Store(StoreError::Misfit(what)) => {
                Trouble::Anew(format!("what the etcd tells does not fit what was copied ({what})"))
            }
            error => Trouble::Fatal(format!("the copy cannot be written: {error}")),
        }
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::Lost(failure.text)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Trouble {
        Trouble::Fatal(error.to_string())
    }
}
