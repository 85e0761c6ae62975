//! Passwords: bcrypt, away from the threads that serve requests.
//!
//! One comparison takes tens of milliseconds of a processor on purpose. So that no client can
//! overload the server by guessing, at most half of the processors compare passwords, and the queue
//! is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bcrypt::Version;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use vetch_http2::border;

use crate::offload::half_of_cpus;

/// Longer ones are refused; bcrypt would ignore the rest.
pub const PASSWORD_LEN_MAX: usize = 72;
/// Passwords that may wait; one more is answered "too many requests".
const WAITING_MAX: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    #[error("too many passwords are waiting to be hashed")]
    TooMany,
    #[error("passwords cannot be hashed")]
    Failed,
}

pub(super) struct Passwords {
    cost: u32,
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Passwords {
    pub(super) fn new(cost: u32) -> Passwords {
        let permits = Arc::new(Semaphore::new(half_of_cpus()));
        Passwords { cost, permits, waiting: AtomicUsize::new(0) }
    }

    /// The hash in the text form that etcd writes.
    pub(super) async fn hash(&self, password: String) -> Result<Bytes, PasswordError> {
        let cost = self.cost;
        let hash = move || {
            let parts = bcrypt::hash_with_result(password, cost).ok()?;
            Some(Bytes::from(parts.format_for_version(Version::TwoA)))
        };
        self.run_limited(hash).await?.ok_or(PasswordError::Failed)
    }

    /// Whether `password` is the one that was hashed. A malformed hash matches no password.
    pub(super) async fn matches(&self, password: String, hash: Bytes) -> Result<bool, PasswordError> {
        let compare = move || {
            let hash = std::str::from_utf8(&hash).unwrap_or_default();
            bcrypt::verify(password, hash).unwrap_or(false)
        };
        self.run_limited(compare).await
    }

    async fn run_limited<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PasswordError> {
        let permit = self.permit().await?;
        // The work continues if the client disconnects, so it keeps its permit.
        let working = border::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        working.await.map_err(|_| PasswordError::Failed)
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, PasswordError> {
        let waiting = WaitingGuard::begin(&self.waiting)?;
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed");
        drop(waiting);
        Ok(permit)
    }
}

/// A waiting request, counted until dropped.
struct WaitingGuard<'a>(&'a AtomicUsize);

impl<'a> WaitingGuard<'a> {
    fn begin(count: &'a AtomicUsize) -> Result<WaitingGuard<'a>, PasswordError> {
        let waiting = WaitingGuard(count);
        if count.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            return Err(PasswordError::TooMany);
        }
        Ok(waiting)
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Go makes of the password `secret`, as etcd stores it.
    const ETCD_HASH: &str = "$2a$04$i56Up.oBJjwlFF6XxZCibuhLWLvvo54UQSZ95VjWyfMgFmy2Wn4oW";

    #[tokio::test]
    async fn hashes_have_etcds_form_and_fit_their_password_only() {
        let passwords = Passwords::new(4);
        let hash = passwords.hash("secret".into()).await.unwrap();
        assert!(hash.starts_with(b"$2a$04$") && hash.len() == 60, "{hash:?}");
        assert_eq!(passwords.matches("secret".into(), hash.clone()).await, Ok(true));
        assert_eq!(passwords.matches("Secret".into(), hash).await, Ok(false));
        assert_eq!(passwords.matches("secret".into(), ETCD_HASH.into()).await, Ok(true));
        assert_eq!(passwords.matches("secret".into(), Bytes::new()).await, Ok(false));
        assert_eq!(passwords.matches("".into(), Bytes::from("no hash")).await, Ok(false));
    }

    #[tokio::test]
    async fn those_who_wait_are_counted_and_limited() {
        let passwords = Arc::new(Passwords::new(4));
        let all =
            Arc::clone(&passwords.permits).acquire_many_owned(passwords.permits.available_permits() as u32);
        let all = all.await.unwrap();
        let many: Vec<_> = (0..WAITING_MAX)
            .map(|_| {
                let passwords = Arc::clone(&passwords);
                tokio::spawn(async move { passwords.hash("x".into()).await })
            })
            .collect();
        while passwords.waiting.load(Ordering::Relaxed) < WAITING_MAX {
            tokio::task::yield_now().await;
        }
        assert_eq!(passwords.hash("x".into()).await, Err(PasswordError::TooMany));
        // Requests that give up make room.
        many.iter().for_each(tokio::task::JoinHandle::abort);
        drop(all);
        for gone in many {
            let _ = gone.await;
        }
        assert_eq!(passwords.waiting.load(Ordering::Relaxed), 0);
        assert!(passwords.hash("x".into()).await.is_ok());
    }
}
