//! Following: what a watch tells goes into the node, whole revisions at a time.

use tonic::Streaming;
use vetch_api::pb;
use vetch_node::Follower;

use super::leases;
use super::revisions::{Assembler, Revision};
use super::source::Source;
use super::trouble::Trouble;

/// Revisions handed to the node at once.
const AT_ONCE: usize = 1024;

/// A watch over everything, from the revision behind the node's on.
pub(super) struct Feed {
    stream: Streaming<pb::WatchResponse>,
    assembler: Assembler,
}

impl Feed {
    pub(super) async fn begin(source: &Source, from: i64) -> Result<Feed, Trouble> {
        Ok(Feed { stream: source.watch(from).await?, assembler: Assembler::default() })
    }

    /// The next revisions; none if the etcd had other things to tell. May be dropped while it waits.
    pub(super) async fn next(&mut self) -> Result<Vec<Revision>, Trouble> {
        let Some(answer) = self.stream.message().await? else {
            return Err(Trouble::Lost("the etcd ended the watch".into()));
        };
        if answer.compact_revision > 0 {
            return Err(Trouble::Anew(format!(
                "the etcd was compacted at revision {} before everything up to there was here",
                answer.compact_revision
            )));
        }
        if answer.canceled {
            return Err(Trouble::Lost(format!("the etcd cancelled the watch: {}", answer.cancel_reason)));
        }
        self.assembler.take(answer.events, answer.fragment).map_err(Trouble::Anew)
    }
}

/// Writes revisions down; leases that they name come first.
pub(super) async fn take_over(
    source: &Source,
    follower: &Follower,
    revisions: Vec<Revision>,
) -> Result<(), Trouble> {
    leases::make_known(source, follower, &revisions).await?;
    let mut revisions = revisions.into_iter();
    loop {
        let some: Vec<Revision> = revisions.by_ref().take(AT_ONCE).collect();
        if some.is_empty() {
            return Ok(());
        }
        follower.take_over(some).await?;
    }
}
