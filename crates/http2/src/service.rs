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
    /// The same, too long to be encoded before the client has room for it.
    Long(Box<dyn LongMessage>),
    /// The call did not; these are all the headers there are to send.
    Refused(HeaderMap),
}

impl Reply {
    /// Bytes of the message, with the five bytes before it.
    #[expect(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub fn len(&self) -> usize {
        match self {
            Reply::Message(message) => message.len(),
            Reply::Long(message) => message.remaining(),
            Reply::Refused(_) => 0,
        }
    }
}

/// A message with the five bytes before it, which is encoded piece by piece.
pub trait LongMessage: std::fmt::Debug + Send {
    /// Bytes that are still to come, which is more than none at first.
    fn remaining(&self) -> usize;

    /// Bytes of memory that it takes now, beside what it shares with others.
    fn held(&self) -> usize;

    /// The next bytes: `max` of them, or all that remain. `max` is not 0.
    fn next(&mut self, max: usize) -> Bytes;
}

/// The answer to any request.
pub enum Answer<B> {
    /// To a unary gRPC call: counted, and encoded as its client reads, like every other.
    Reply(Reply),
    Response(Response<B>),
}

/// What a call costs before its client reads anything of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Little: the answer is short, or a stream that is made as it is read.
    Light,
    /// The same, and it takes a place in a queue that all clients share, as calls that are polled
    /// with the connection do: see [`Service::share`].
    Queued,
    /// It computes, or its answer may be long. A connection runs few of them at a time, and none
    /// while much is held for it.
    Heavy,
}

/// How a unary call is answered.
pub enum Call {
    Now(Reply),
    /// Polled with the connection: what it does between two waits is short. It is begun when the
    /// connection has fewer under way than its share.
    Here(Boxed<Reply>),
    /// A task of its own: it may compute for long.
    Apart(Boxed<Reply>),
    /// Not as a whole message after all: by [`Service::call`]. Gives the message back.
    AsRequest(Bytes, Weight),
}

/// Serves the calls of a connection.
pub trait Service: Send + Sync + 'static {
    /// What is known of a unary call from its headers. Clients repeat their headers, so it is found
    /// out once for a connection and kept as long as it is open.
    type Plan: Send + Sync + 'static;
    /// Held by a call from its headers on until its message is whole: what is begun has to be
    /// bounded, too.
    type Place: Send + 'static;
    type Body: http_body::Body<Data = Bytes, Error: std::fmt::Display> + Send + Unpin + 'static;

    /// How to serve requests with this head as whole messages. None: by [`Service::call`].
    ///
    /// A function of the head alone. Whatever may change while the connection is open (time,
    /// leadership, users, members) is looked up for each call, in [`Service::unary`]: the answer is
    /// kept, and so is None.
    fn plan(&self, head: &Head) -> Option<Self::Plan>;

    /// Lets such a call begin, or refuses it. `open`: the requests of this connection that have not
    /// ended, with this one.
    fn admit(&self, plan: &Arc<Self::Plan>, open: usize) -> Result<Self::Place, Reply>;

    /// How many calls of one connection may be in the queue that all clients share: further ones
    /// wait until some have ended. The fuller the queue, the fewer, so that the clients who ask for
    /// little are not the ones who are refused. Asked at most once a turn.
    fn share(&self) -> usize;

    /// The longest message of such a call. A longer one, and anything that is not exactly one
    /// uncompressed message, is handed to [`Service::call`].
    fn longest_message(&self) -> usize;

    /// Answers a unary call. The message comes without its prefix.
    fn unary(&self, plan: &Arc<Self::Plan>, place: Self::Place, message: Bytes) -> Call;

    /// What a request with this head costs that is answered by [`Service::call`]. Its message is
    /// not known yet, so what may be long is heavy.
    fn weight(&self, head: &Head) -> Weight;

    /// Answers any request, in a task of its own. The body of a response is polled with the
    /// connection. `open` is as in [`Service::admit`].
    fn call(&self, request: Request<Incoming>, open: usize) -> Boxed<Answer<Self::Body>>;
}
