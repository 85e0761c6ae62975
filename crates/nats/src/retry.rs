//! Retry: a request that is repeated until it is answered.
//!
//! A request to a stream without a leader is not refused, it is lost. So it is repeated soon. An
//! answer to an earlier one still counts, if the server is only slow.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, MissedTickBehavior};

/// How often a request is repeated.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    #[error("no server answered")]
    Silent,
    #[error("{0}")]
    Failed(async_nats::Error),
}

impl Unanswered {
    pub(crate) fn failed(error: impl Into<async_nats::Error>) -> Unanswered {
        Unanswered::Failed(error.into())
    }
}

/// The first answer, or the last failure.
pub(crate) async fn retry_until_answered<T, F>(
    request: impl Fn() -> F,
    timeout: Duration,
) -> Result<T, Unanswered>
where
    F: Future<Output = Result<T, Unanswered>>,
{
    retry_every(RETRY_INTERVAL, request, timeout).await
}

/// The same, for requests that should be repeated less often.
pub(crate) async fn retry_every<T, F>(
    interval: Duration,
    request: impl Fn() -> F,
    timeout: Duration,
) -> Result<T, Unanswered>
where
    F: Future<Output = Result<T, Unanswered>>,
{
    let until = Instant::now() + timeout;
    let mut why = Unanswered::Silent;
    let mut requests = FuturesUnordered::new();
    let mut interval = tokio::time::interval(interval);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some(answer) = requests.next() => match answer {
                Ok(answer) => return Ok(answer),
                Err(failed) => why = failed,
            },
            _ = interval.tick() => {
                if Instant::now() >= until {
                    return Err(why);
                }
                requests.push(request());
            }
        }
    }
}
