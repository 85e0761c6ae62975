//! What answers requests.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};

use crate::head::Head;
use crate::incoming::Incoming;

/// A future that can be polled anywhere.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The answer to a unary gRPC call.
#[derive(Debug)]
pub enum Reply {
    /// One message, with the five bytes before it. The call went well.
    Message(Bytes),
    /// The call did not; these are all the headers there are to send.
    Refused(HeaderMap),
}

/// How a unary call is answered.
pub enum Call {
    Now(Reply),
    /// Polled with the connection: what it does between two waits is short.
    Here(Boxed<Reply>),
    /// A task of its own: it may compute for long.
    Apart(Boxed<Reply>),
}

/// Answers what is asked on a connection.
pub trait Service: Send + Sync + 'static {
    /// What is known of a unary call from its headers. Clients repeat their headers, so it is found out once.
    type Plan: Send + Sync + 'static;
    /// Held by a call from its headers on until its message is whole: what is begun has to be bounded, too.
    type Place: Send + 'static;
    type Body: http_body::Body<Data = Bytes, Error: std::fmt::Display> + Send + Unpin + 'static;

    /// How to serve requests with this head as whole messages. None: by [`Service::call`].
    fn plan(&self, head: &Head) -> Option<Self::Plan>;

    /// Lets such a call begin, or refuses it.
    fn admit(&self, plan: &Arc<Self::Plan>) -> Result<Self::Place, Reply>;

    /// The longest message of such a call. A longer one, and anything that is not exactly one uncompressed message,
    /// is handed to [`Service::call`].
    fn longest_message(&self) -> usize;

    /// Answers a unary call. The message comes without its prefix.
    fn unary(&self, plan: &Arc<Self::Plan>, place: Self::Place, message: Bytes) -> Call;

    /// Answers any request, in a task of its own. The body of the answer is polled with the connection.
    fn call(&self, request: Request<Incoming>) -> Boxed<Response<Self::Body>>;
}
