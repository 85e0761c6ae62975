//! Remote: the client of a request, as far as services need it.

use std::sync::Arc;

use vetch_http2::Holdings;

use crate::turns::Turns;

/// The address of a client, the account of its watchers, and its places in the queues that all
/// clients share. Requests that watch, wait in such a queue or take a snapshot carry it in their
/// extensions.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    pub(crate) address: Arc<str>,
    pub(crate) watching: Holdings,
    pub(crate) turns: Arc<Turns>,
}
