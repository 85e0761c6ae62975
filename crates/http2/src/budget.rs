//! What all connections together may hold for their clients.
//!
//! Every connection has an [`Account`] of the bytes that it holds: requests that are not whole, streams, and answers
//! that the client has not taken. A connection that holds much starts no further calls until it holds less; they wait,
//! in order. One that holds little may always start a call, however much others hold, so a client that reads its
//! answers is never locked out, and what is held stays below the limit by more than one answer for each connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A connection that holds less than this is under no pressure from what others hold.
pub(crate) const SHARE_MIN: usize = 256 << 10;
/// Differences below this are not worth touching a counter that all connections share.
const STEP: usize = 16 << 10;

/// The limits, and what is held now.
#[derive(Debug)]
pub struct Budget {
    connection_max: usize,
    total_max: usize,
    held: AtomicUsize,
    deferred: AtomicU64,
    refused: AtomicU64,
}

/// Whether a connection may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    None,
    /// Half of what is allowed is held: calls whose answers may be long wait.
    High,
    /// All calls wait, and nothing more is accepted.
    Full,
}

impl Budget {
    /// Limits in bytes for one connection and for all of them.
    pub fn new(connection_max: usize, total_max: usize) -> Arc<Budget> {
        let (deferred, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Budget { connection_max, total_max, held: AtomicUsize::new(0), deferred, refused })
    }

    /// Bytes held for all connections, but for less than 16 KiB of each.
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    pub fn total_max(&self) -> usize {
        self.total_max
    }

    /// Calls that had to wait until their connection held less.
    pub fn deferred(&self) -> u64 {
        self.deferred.load(Relaxed)
    }

    /// Requests that were refused or cut short because their connection held too much.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}

/// What one connection holds.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    held: usize,
    /// What of it is counted in the budget.
    charged: usize,
}

impl Account {
    pub(crate) fn new(budget: Arc<Budget>) -> Account {
        Account { budget, held: 0, charged: 0 }
    }

    /// The connection holds this much now.
    pub(crate) fn set(&mut self, held: usize) {
        self.held = held;
        if self.held.abs_diff(self.charged) >= STEP {
            self.settle();
        }
    }

    fn settle(&mut self) {
        match self.held.checked_sub(self.charged) {
            Some(more) => self.budget.held.fetch_add(more, Relaxed),
            None => self.budget.held.fetch_sub(self.charged - self.held, Relaxed),
        };
        self.charged = self.held;
    }

    pub(crate) fn pressure(&self) -> Pressure {
        let budget = &*self.budget;
        let of_all = if self.held < SHARE_MIN { 0 } else { budget.held() };
        if self.held >= budget.connection_max || of_all >= budget.total_max {
            Pressure::Full
        } else if self.held >= budget.connection_max / 2 || of_all >= budget.total_max / 2 {
            Pressure::High
        } else {
            Pressure::None
        }
    }

    /// Whether a connection that holds `requests` bytes for requests alone takes no more of them.
    pub(crate) fn is_too_much(&self, requests: usize) -> bool {
        let budget = &*self.budget;
        requests >= budget.connection_max / 2 || (requests >= SHARE_MIN && budget.held() >= budget.total_max)
    }

    pub(crate) fn note_deferred(&self) {
        self.budget.deferred.fetch_add(1, Relaxed);
    }

    pub(crate) fn note_refused(&self) {
        self.budget.refused.fetch_add(1, Relaxed);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.held = 0;
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_follows_what_a_connection_holds() {
        let budget = Budget::new(1 << 20, 100 << 20);
        let mut account = Account::new(Arc::clone(&budget));
        for (held, pressure) in
            [(0, Pressure::None), (600 << 10, Pressure::High), (1 << 20, Pressure::Full), (0, Pressure::None)]
        {
            account.set(held);
            assert_eq!(account.pressure(), pressure, "{held}");
            assert!(budget.held().abs_diff(held) < STEP);
        }
        account.set(1 << 20);
        drop(account);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn who_holds_little_is_not_stopped_by_others() {
        let budget = Budget::new(4 << 20, 8 << 20);
        let mut greedy: Vec<Account> = (0..3).map(|_| Account::new(Arc::clone(&budget))).collect();
        greedy.iter_mut().for_each(|account| account.set(3 << 20));
        assert!(greedy.iter().all(|account| account.pressure() == Pressure::Full));
        let mut polite = Account::new(Arc::clone(&budget));
        polite.set(SHARE_MIN - 1);
        assert_eq!(polite.pressure(), Pressure::None);
        polite.set(SHARE_MIN);
        assert_eq!(polite.pressure(), Pressure::Full);
    }
}
