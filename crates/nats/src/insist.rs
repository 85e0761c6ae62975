//! Insist: a question that is asked again and again until somebody answers.
//!
//! A question to a stream that has no leader at the moment is not refused, it is lost. So it is
//! asked anew before long; the earlier ones still count, for whoever is only slow.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, MissedTickBehavior};

/// Between two questions.
pub(crate) const AGAIN: Duration = Duration::from_millis(250);

/// The first answer, or what the last failure was.
pub(crate) async fn insist<T, F>(ask: impl Fn() -> F, patience: Duration) -> Result<T, String>
where
    F: Future<Output = Result<T, String>>,
{
    insist_every(AGAIN, ask, patience).await
}

/// The same, for questions that should be asked less often.
pub(crate) async fn insist_every<T, F>(
    again: Duration,
    ask: impl Fn() -> F,
    patience: Duration,
) -> Result<T, String>
where
    F: Future<Output = Result<T, String>>,
{
    let until = Instant::now() + patience;
    let mut why = "nobody answered".to_string();
    let mut asked = FuturesUnordered::new();
    let mut again = tokio::time::interval(again);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some(answer) = asked.next() => match answer {
                Ok(answer) => return Ok(answer),
                Err(failed) => why = failed,
            },
            _ = again.tick() => {
                if Instant::now() >= until {
                    return Err(why);
                }
                asked.push(ask());
            }
        }
    }
}
