//! Errors that end a connection of the lean client.

use std::io;

/// The server broke HTTP/2 or gRPC, or uses a part of them that this client does not have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ProtocolError {
    #[error("the server sent a frame of {0} bytes")]
    FrameTooLong(usize),
    #[error("the server sent a frame that is too short")]
    FrameTooShort,
    #[error("the server sent a frame that is shorter than its padding")]
    BadPadding,
    #[error("the server interrupted a header block")]
    InterruptedHeaders,
    #[error("the server sent a CONTINUATION without HEADERS")]
    UnexpectedContinuation,
    #[error("the server sent a header block that cannot be decoded")]
    BadHeaders,
    #[error("the server keeps no table of headers: use --client tonic")]
    SmallHeaderTable,
    #[error("the server pushes, although the client disabled it")]
    Push,
    #[error("the server compresses, although the client did not offer it")]
    Compressed,
    #[error("the server went away")]
    GoneAway,
}

/// Why a connection was lost.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("the server closed the connection")]
    Closed,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}
