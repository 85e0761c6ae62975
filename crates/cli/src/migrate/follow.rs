//! Following: applies the events of a watch to the node, whole revisions at a time.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio_stream::Stream;
use tonic::Streaming;
use vetch_api::pb;
use vetch_node::Follower;

use super::error::MigrateError;
use super::leases;
use super::revisions::{Assembler, Revision};
use super::source::Source;

/// Revisions in one batch.
const BATCH_REVISIONS_MAX: usize = 1024;
/// Bytes that are enough for one batch.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// A watch over everything, from the revision behind the node's on.
pub(super) struct Feed {
    stream: Streaming<pb::WatchResponse>,
    assembler: Assembler,
}

impl Feed {
    pub(super) async fn begin(source: &Source, from: i64) -> Result<Feed, MigrateError> {
        Ok(Feed { stream: source.watch(from).await?, assembler: Assembler::default() })
    }

    /// The next revisions; none if the response had no events. May be dropped while it waits.
    ///
    /// An etcd sends every revision alone. Revisions that arrived while the last batch was written
    /// form one batch, because each batch waits for the disk once.
    pub(super) async fn next(&mut self) -> Result<Vec<Revision>, MigrateError> {
        let first = self.stream.message().await?;
        let mut revisions = self.take(first)?;
        let mut bytes = size(&revisions);
        while revisions.len() < BATCH_REVISIONS_MAX && bytes < BATCH_BYTES_MAX {
            let stream = &mut self.stream;
            let Some(answer) = poll_fn(|cx| Poll::Ready(ready(Pin::new(&mut *stream).poll_next(cx)))).await
            else {
                break;
            };
            let more = self.take(answer.transpose()?)?;
            bytes += size(&more);
            revisions.extend(more);
        }
        Ok(revisions)
    }

    fn take(&mut self, answer: Option<pb::WatchResponse>) -> Result<Vec<Revision>, MigrateError> {
        let Some(answer) = answer else {
            return Err(MigrateError::Disconnected("the etcd ended the watch".into()));
        };
        if answer.compact_revision > 0 {
            return Err(MigrateError::CopyAgain(format!(
                "the etcd was compacted at revision {} before everything up to there was here",
                answer.compact_revision
            )));
        }
        if answer.canceled {
            return Err(MigrateError::Disconnected(format!(
                "the etcd cancelled the watch: {}",
                answer.cancel_reason
            )));
        }
        Ok(self.assembler.take(answer.events, answer.fragment)?)
    }
}

fn ready<T>(polled: Poll<T>) -> Option<T> {
    match polled {
        Poll::Ready(ready) => Some(ready),
        Poll::Pending => None,
    }
}

fn size(revisions: &[Revision]) -> usize {
    revisions.iter().flatten().map(|change| change.footprint()).sum()
}

/// Applies revisions; leases that they name are granted first.
pub(super) async fn apply(
    source: &Source,
    follower: &Follower,
    revisions: Vec<Revision>,
) -> Result<(), MigrateError> {
    leases::grant_missing(source, follower, &revisions).await?;
    let mut revisions = revisions.into_iter();
    loop {
        let some: Vec<Revision> = revisions.by_ref().take(BATCH_REVISIONS_MAX).collect();
        if some.is_empty() {
            return Ok(());
        }
        follower.take_over(some).await?;
    }
}
