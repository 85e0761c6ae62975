//! Source: the stream's leader, asked for what it holds. That needs no consumer, only a stream that has a leader.

use std::time::Duration;

use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use vetch_journal::Position;

use crate::insist::insist;

/// Records asked for at once; their answers are larger than what a feed sends.
const AT_ONCE: usize = 16;
/// How long the leader may take to tell of one.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Source {
    pub(crate) stream: Stream<()>,
    pub(crate) timeout: Duration,
}

impl Source {
    /// The first position and the last.
    pub(crate) async fn bounds(&self) -> Result<(Position, Position), String> {
        let ask = || async { self.stream.get_info().await.map_err(|error| error.to_string()) };
        let state = insist(ask, self.timeout).await?.state;
        Ok((Position(state.first_sequence.max(1)), Position(state.last_sequence)))
    }

    /// So many records from a position on: those that there are, up to the first that is not.
    pub(crate) async fn records(&self, from: u64, count: u64) -> Vec<(Position, Bytes)> {
        let answers = stream::iter(from..from + count).map(|at| async move {
            let record = insist(|| self.record(at), PATIENCE).await;
            Some((Position(at), record.ok().flatten()?))
        });
        let found = answers.buffered(AT_ONCE).take_while(|answer| std::future::ready(answer.is_some()));
        found.filter_map(std::future::ready).collect().await
    }

    /// The record at a position; nothing if there is none.
    async fn record(&self, at: u64) -> Result<Option<Bytes>, String> {
        match self.stream.get_raw_message(at).await {
            Ok(message) => Ok(Some(message.payload)),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}
