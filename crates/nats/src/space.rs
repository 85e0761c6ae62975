//! Space: how much the stream still takes, asked every now and then.
//!
//! Two limits can be seen: the stream's own, and the account's, which counts every replica. A
//! server whose disk or whose own limit is full says nothing of it until it refuses a message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::Client;
use async_nats::jetstream;
use async_nats::jetstream::stream::Stream;
use tokio::sync::watch;
use vetch_cluster::Space;

/// Between two questions.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// What was heard longer ago is no news.
const STALE: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct Gauge(Arc<watch::Sender<Option<(Instant, Space)>>>);

impl Default for Gauge {
    fn default() -> Gauge {
        Gauge(Arc::new(watch::Sender::new(None)))
    }
}

impl Gauge {
    /// What was heard last.
    pub(crate) fn last(&self) -> Option<Space> {
        let last = self.0.borrow().filter(|(asked, _)| asked.elapsed() < STALE);
        last.map(|(asked, space)| Space { age: asked.elapsed(), ..space })
    }

    /// Asks until the runtime ends.
    pub(crate) async fn follow(self, client: Client, stream: Stream<()>, timeout: Duration) {
        let mut context = jetstream::new(client);
        context.set_timeout(timeout);
        loop {
            let asked = Instant::now();
            if let Ok(Some(space)) = tokio::time::timeout(timeout, ask(&context, &stream)).await {
                self.0.send_replace(Some((asked, space)));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

async fn ask(context: &jetstream::Context, stream: &Stream<()>) -> Option<Space> {
    let info = stream.get_info().await.ok()?;
    let used = info.state.bytes;
    let of_stream = limit(info.config.max_bytes).map(|limit| limit.saturating_sub(used));
    // Accounts with limits by number of replicas have none that is for all.
    let account = context.query_account().await.ok();
    let replicas = u64::try_from(info.config.num_replicas.max(1)).unwrap_or(1);
    let of_account = account.and_then(|account| {
        // What it says of itself lags behind by seconds; what the stream says does not.
        let stored = account.storage.max(used.saturating_mul(replicas));
        Some(limit(account.limits.max_storage?)?.saturating_sub(stored) / replicas)
    });
    Some(Space { used, left: [of_stream, of_account].into_iter().flatten().min(), age: Duration::ZERO })
}

/// Negative and zero mean that there is none.
fn limit(bytes: i64) -> Option<u64> {
    u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}
