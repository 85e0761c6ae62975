//! Remote: the client of a request, as far as services need it.

use std::sync::Arc;

use vetch_http2::Holdings;

/// The address of a client, and the account of its watchers. Requests that watch or take a snapshot
/// carry it in their extensions.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    pub(crate) address: Arc<str>,
    pub(crate) watching: Holdings,
}
