//! Failure: how a call ends that did not succeed.

use std::fmt;

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The gRPC status code; none if the server never gave one.
    pub(crate) code: Option<u32>,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn transport(text: impl Into<String>) -> Failure {
        Failure { code: None, text: text.into() }
    }

    /// The connection is to blame, so asking again at once is of no use.
    pub(crate) fn is_transport(&self) -> bool {
        matches!(self.code, None | Some(14))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "status {code}: {}", self.text),
            None => write!(f, "transport: {}", self.text),
        }
    }
}
