//! How requests reach a server and answers come back: one interface, two clients.
//!
//! A [`Wire`] belongs to one thread. Its owner begins calls under tags of its own choice and then
//! waits; what happened meanwhile lies in the [`Inbox`], with the time at which it was read from
//! the network. Nothing is counted here.
//!
//! * [`lean`] writes HTTP/2 frames for many calls at once over plain TCP: it costs little, so that
//!   the server is measured and not the client.
//! * [`ordinary`] is a tonic client like those that users have, with TLS and passwords.

pub(crate) mod blocking;
pub(crate) mod lean;
pub(crate) mod ordinary;

use std::ops::Range;
use std::time::Instant;

use crate::failure::Failure;

/// Chosen by the driver, unique among its open calls.
pub(crate) type Tag = u64;

macro_rules! methods {
    ($($name:ident $path:literal $kind:ident),* $(,)?) => {
        /// The calls that are made.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Method { $($name),* }

        impl Method {
            pub(crate) const COUNT: usize = [$(Method::$name),*].len();

            pub(crate) fn path(self) -> &'static str {
                match self { $(Method::$name => $path),* }
            }

            /// One request, one answer.
            pub(crate) fn is_unary(self) -> bool {
                match self { $(Method::$name => matches!(Kind::$kind, Kind::Unary)),* }
            }
        }
    };
}

enum Kind {
    Unary,
    Stream,
}

methods! {
    Range "/etcdserverpb.KV/Range" Unary,
    RangeStream "/etcdserverpb.KV/RangeStream" Stream,
    Put "/etcdserverpb.KV/Put" Unary,
    DeleteRange "/etcdserverpb.KV/DeleteRange" Unary,
    Txn "/etcdserverpb.KV/Txn" Unary,
    Compact "/etcdserverpb.KV/Compact" Unary,
    Watch "/etcdserverpb.Watch/Watch" Stream,
    LeaseGrant "/etcdserverpb.Lease/LeaseGrant" Unary,
    LeaseKeepAlive "/etcdserverpb.Lease/LeaseKeepAlive" Stream,
    Status "/etcdserverpb.Maintenance/Status" Unary,
}

#[derive(Debug)]
enum What {
    Message(Range<usize>),
    End(Option<Failure>),
}

#[derive(Debug)]
struct Item {
    tag: Tag,
    at: Instant,
    what: What,
}

/// What happened to a call.
#[derive(Debug)]
pub(crate) enum Happened<'a> {
    Message(&'a [u8]),
    /// The call is over, without a failure if the server said that all is well.
    End(Option<&'a Failure>),
}

/// Messages and ends of calls in the order of their arrival; the memory is used again and again.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

impl Inbox {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Tag, Instant, Happened<'_>)> {
        self.items.iter().map(|item| {
            let happened = match &item.what {
                What::Message(range) => Happened::Message(&self.bytes[range.clone()]),
                What::End(failure) => Happened::End(failure.as_ref()),
            };
            (item.tag, item.at, happened)
        })
    }

    fn message(&mut self, tag: Tag, at: Instant, message: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.items.push(Item { tag, at, what: What::Message(start..self.bytes.len()) });
    }

    fn end(&mut self, tag: Tag, at: Instant, failure: Option<Failure>) {
        self.items.push(Item { tag, at, what: What::End(failure) });
    }
}

/// A client with one or more connections. A call that cannot be made ends with a failure in the
/// inbox, like any other.
pub(crate) trait Wire: Send {
    fn connections(&self) -> usize;

    /// Begins a call with its first message; `last` if no other follows.
    fn open(&mut self, connection: usize, tag: Tag, method: Method, message: &[u8], last: bool);

    /// Another message of an open call.
    fn send(&mut self, tag: Tag, message: &[u8]);

    /// Gives a call up. It is not heard of again.
    fn abandon(&mut self, tag: Tag);

    /// While a connection is held, nothing is read from it: a client that does not keep up.
    fn hold(&mut self, connection: usize, held: bool);

    /// Sends what is to be sent and waits until something happens or the time has come.
    fn wait(&mut self, until: Instant, inbox: &mut Inbox);
}
