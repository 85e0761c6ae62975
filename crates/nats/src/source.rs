//! Source: the stream's leader, asked for what it holds. That needs no consumer, only a stream that
//! has a leader.

use std::time::Duration;

use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use vetch_journal::Position;

use crate::page_size::bytes_of;
use crate::retry::{RETRY_INTERVAL, Unanswered, retry_every, retry_until_answered};

/// Concurrent requests for records; their answers are larger than what a feed sends.
const CONCURRENT_MAX: usize = 16;
/// How long the leader may take to answer for one.
const RECORD_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two requests for the same large one. Every request is answered, and answers that are no
/// longer needed delay the others: so large records are requested less often, and few at a time.
const LARGE_RETRY_INTERVAL: Duration = Duration::from_millis(500);
const CONCURRENT_LARGE_MAX: usize = 2;

/// Which records are asked for.
pub(crate) struct Wanted {
    pub(crate) from: u64,
    pub(crate) count: u64,
    /// No more once there are so many.
    pub(crate) bytes: usize,
    /// Whether they are likely to be large.
    pub(crate) large: bool,
}

pub(crate) struct Source {
    pub(crate) stream: Stream<()>,
    pub(crate) timeout: Duration,
}

impl Source {
    /// The first position and the last.
    pub(crate) async fn bounds(&self) -> Result<(Position, Position), Unanswered> {
        let ask = || async { self.stream.get_info().await.map_err(Unanswered::failed) };
        let state = retry_until_answered(ask, self.timeout).await?.state;
        Ok((Position(state.first_sequence.max(1)), Position(state.last_sequence)))
    }

    /// Adds the records that there are, up to the first that is not. It fails if the leader is
    /// silent; what was added before is good.
    pub(crate) async fn records(
        &self,
        wanted: Wanted,
        records: &mut Vec<(Position, Bytes)>,
    ) -> Result<(), Unanswered> {
        let Wanted { from, count, bytes, large } = wanted;
        let (again, at_once) = if large {
            (LARGE_RETRY_INTERVAL, CONCURRENT_LARGE_MAX)
        } else {
            (RETRY_INTERVAL, CONCURRENT_MAX)
        };
        let answers = stream::iter(from..from + count).map(|at| async move {
            let record = retry_every(again, || self.record(at), RECORD_TIMEOUT).await;
            (Position(at), record)
        });
        let mut answers = std::pin::pin!(answers.buffered(at_once));
        while bytes_of(records) < bytes
            && let Some((at, record)) = answers.next().await
        {
            let Some(record) = record? else { break };
            records.push((at, record));
        }
        Ok(())
    }

    /// The record at a position; nothing if there is none.
    async fn record(&self, at: u64) -> Result<Option<Bytes>, Unanswered> {
        match self.stream.get_raw_message(at).await {
            Ok(message) => Ok(Some(message.payload)),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(Unanswered::failed(error)),
        }
    }
}
