//! Passwords: bcrypt, away from the threads that serve requests.
//!
//! One comparison takes tens of milliseconds of a processor on purpose. So that no client can
//! overload the server by guessing, at most half of the processors compare passwords, and the queue
//! is bounded. Connections take turns in it, and one that has no password waiting is never refused:
//! guesses of one client do not keep others from logging in.

use std::sync::atomic::AtomicUsize;

use bcrypt::Version;
use bytes::Bytes;
use vetch_http2::border;

use crate::turns::{SharedPermit, SharedPermits, Turns, Waiting};

/// Longer ones are refused; bcrypt would ignore the rest.
pub const PASSWORD_LEN_MAX: usize = 72;
/// Passwords that may wait, and those of one connection; one more is answered "too many requests",
/// but for the first one of a connection.
const WAITING_MAX: usize = 128;
const WAITING_PER_CONNECTION_MAX: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    #[error("too many passwords are waiting to be hashed")]
    TooMany,
    #[error("passwords cannot be hashed")]
    Failed,
}

pub(super) struct Passwords {
    cost: u32,
    permits: SharedPermits,
    waiting: AtomicUsize,
}

impl Passwords {
    pub(super) fn new(cost: u32) -> Passwords {
        Passwords { cost, permits: SharedPermits::default(), waiting: AtomicUsize::new(0) }
    }

    /// The hash in the text form that etcd writes.
    pub(super) async fn hash(&self, turns: Option<&Turns>, password: String) -> Result<Bytes, PasswordError> {
        let cost = self.cost;
        let hash = move || {
            let parts = bcrypt::hash_with_result(password, cost).ok()?;
            Some(Bytes::from(parts.format_for_version(Version::TwoA)))
        };
        self.run_limited(turns, hash).await?.ok_or(PasswordError::Failed)
    }

    /// Whether `password` is the one that was hashed. A malformed hash matches no password.
    pub(super) async fn matches(
        &self,
        turns: Option<&Turns>,
        password: String,
        hash: Bytes,
    ) -> Result<bool, PasswordError> {
        let compare = move || {
            let hash = std::str::from_utf8(&hash).unwrap_or_default();
            bcrypt::verify(password, hash).unwrap_or(false)
        };
        self.run_limited(turns, compare).await
    }

    async fn run_limited<T: Send + 'static>(
        &self,
        turns: Option<&Turns>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PasswordError> {
        let permit = self.permit(turns).await?;
        // The work continues if the client disconnects, so it keeps its permit.
        let working = border::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        working.await.map_err(|_| PasswordError::Failed)
    }

    /// `turns`: those of the client. Calls within this process have none, and share one place.
    async fn permit(&self, turns: Option<&Turns>) -> Result<SharedPermit, PasswordError> {
        let of_all = Waiting::begin(&self.waiting);
        let of_client = turns.map(|turns| Waiting::begin(turns.waiting_passwords()));
        let (all, own) = (of_all.count(), of_client.as_ref().map_or(usize::MAX, Waiting::count));
        if (all > WAITING_MAX && own > 1) || (turns.is_some() && own > WAITING_PER_CONNECTION_MAX) {
            return Err(PasswordError::TooMany);
        }
        Ok(self.permits.acquire(turns.map(Turns::passwords)).await)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use tokio::sync::OwnedSemaphorePermit;

    use super::*;

    /// What Go makes of the password `secret`, as etcd stores it.
    const ETCD_HASH: &str = "$2a$04$i56Up.oBJjwlFF6XxZCibuhLWLvvo54UQSZ95VjWyfMgFmy2Wn4oW";

    #[tokio::test]
    async fn hashes_have_etcds_form_and_fit_their_password_only() {
        let passwords = Passwords::new(4);
        let hash = passwords.hash(None, "secret".into()).await.unwrap();
        assert!(hash.starts_with(b"$2a$04$") && hash.len() == 60, "{hash:?}");
        assert_eq!(passwords.matches(None, "secret".into(), hash.clone()).await, Ok(true));
        assert_eq!(passwords.matches(None, "Secret".into(), hash).await, Ok(false));
        assert_eq!(passwords.matches(None, "secret".into(), ETCD_HASH.into()).await, Ok(true));
        assert_eq!(passwords.matches(None, "secret".into(), Bytes::new()).await, Ok(false));
        assert_eq!(passwords.matches(None, "".into(), Bytes::from("no hash")).await, Ok(false));
    }

    #[tokio::test]
    async fn those_who_wait_are_counted_and_limited() {
        let passwords = Arc::new(Passwords::new(4));
        let all = all_permits(&passwords).await;
        let many: Vec<_> = (0..WAITING_MAX)
            .map(|_| {
                let passwords = Arc::clone(&passwords);
                tokio::spawn(async move { passwords.hash(None, "x".into()).await })
            })
            .collect();
        while passwords.waiting.load(Ordering::Relaxed) < WAITING_MAX {
            tokio::task::yield_now().await;
        }
        assert_eq!(passwords.hash(None, "x".into()).await, Err(PasswordError::TooMany));
        // Requests that give up make room.
        many.iter().for_each(tokio::task::JoinHandle::abort);
        drop(all);
        for gone in many {
            let _ = gone.await;
        }
        assert_eq!(passwords.waiting.load(Ordering::Relaxed), 0);
        assert!(passwords.hash(None, "x".into()).await.is_ok());
    }

    async fn all_permits(passwords: &Passwords) -> OwnedSemaphorePermit {
        let permits = passwords.permits.semaphore();
        Arc::clone(permits).acquire_many_owned(permits.available_permits() as u32).await.unwrap()
    }

    /// A stranger who guesses on several connections is refused; who logs in on another is not, and
    /// waits for one round of them only.
    #[tokio::test]
    async fn guesses_of_one_client_do_not_keep_others_from_logging_in() {
        let passwords = Arc::new(Passwords::new(4));
        let all = all_permits(&passwords).await;
        let strangers: Vec<Arc<Turns>> = (0..5).map(|_| Arc::default()).collect();
        let log_in = |turns: &Arc<Turns>| {
            let (passwords, turns) = (Arc::clone(&passwords), Arc::clone(turns));
            tokio::spawn(async move { passwords.hash(Some(&turns), "x".into()).await })
        };
        let mut guesses: Vec<_> = (0..2 * WAITING_PER_CONNECTION_MAX)
            .flat_map(|_| strangers.iter().map(log_in).collect::<Vec<_>>())
            .collect();
        while passwords.waiting.load(Ordering::Relaxed) < WAITING_MAX {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(passwords.hash(Some(&strangers[0]), "x".into()).await, Err(PasswordError::TooMany));
        let polite = log_in(&Arc::default());
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!polite.is_finished(), "it waits and is not refused");
        drop(all);
        assert!(polite.await.unwrap().is_ok());
        let waiting = passwords.waiting.load(Ordering::Relaxed);
        assert!(waiting > WAITING_MAX / 2, "it was served before {waiting} others");
        guesses.drain(..).for_each(|guess| guess.abort());
    }
}
