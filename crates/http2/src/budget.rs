//! What all connections together may hold for their clients.
//!
//! Every connection has an [`Account`] of the bytes that it holds: requests that are not whole,
//! streams, and answers that the client has not taken. A connection whose answers take much starts
//! no further calls until they take less; calls wait, in order. One whose answers take little may
//! always start a call, however much others hold, so a client that reads its answers is never
//! locked out. What is held may exceed the limit by an answer for each connection.
//!
//! What is not known to an HTTP/2 connection is counted by its holder, as a [`Charge`] on the
//! [`Holdings`] of the client: bodies that are collected, and everything on connections that do not
//! speak HTTP/2.

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
    /// What of it HTTP/2 connections hold of requests.
    requests: AtomicUsize,
    deferred: AtomicU64,
    refused: AtomicU64,
}

/// Whether a connection may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    None,
    /// Answers take half of what is allowed: calls whose answers may be long wait.
    High,
    /// All calls wait, and nothing more is accepted.
    Full,
}

impl Budget {
    /// Limits in bytes for one connection and for all of them.
    pub fn new(connection_max: usize, total_max: usize) -> Arc<Budget> {
        let (deferred, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let (held, requests) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Budget { connection_max, total_max, held, requests, deferred, refused })
    }

    /// Bytes held for all connections, but for less than 16 KiB of each.
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    pub fn total_max(&self) -> usize {
        self.total_max
    }

    /// Whether all connections together may hold so much more.
    fn has_room(&self, more: usize) -> bool {
        self.held().saturating_add(more) <= self.total_max
    }

    /// The same for an answer, which may be larger than anything that is allowed, or there would be
    /// no way to get it: one of any size is made while less than half is held, as calls whose
    /// answers may be long are begun.
    fn has_room_for_answer(&self, more: usize) -> bool {
        self.has_room(more) || self.held() < self.total_max / 2
    }

    /// Of what is held, `before` becomes `after`.
    fn count(&self, before: usize, after: usize) {
        change(&self.held, before, after);
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

/// Of what `counter` counts, `before` becomes `after`.
fn change(counter: &AtomicUsize, before: usize, after: usize) {
    match after.checked_sub(before) {
        Some(more) => counter.fetch_add(more, Relaxed),
        None => counter.fetch_sub(before - after, Relaxed),
    };
}

/// What is held for one client by others than its HTTP/2 connection. Clones are the same.
#[derive(Debug, Clone)]
pub struct Holdings(Arc<Held>);

#[derive(Debug)]
struct Held {
    budget: Arc<Budget>,
    /// Bytes of all charges.
    charges: AtomicUsize,
    /// What of them is counted in the budget.
    counted: AtomicUsize,
    /// What the HTTP/2 connection holds, if it is one.
    beside: AtomicUsize,
}

/// So much is held that this was not counted and has to be given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMuchHeld;

impl From<Arc<Budget>> for Holdings {
    fn from(budget: Arc<Budget>) -> Holdings {
        let none = || AtomicUsize::new(0);
        Holdings(Arc::new(Held { budget, charges: none(), counted: none(), beside: none() }))
    }
}

impl Holdings {
    /// A charge of nothing.
    pub fn charge(&self) -> Charge {
        Charge { holdings: self.clone(), len: 0 }
    }

    /// Bytes of all charges.
    pub fn charged(&self) -> usize {
        self.0.charges.load(Relaxed)
    }

    fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// Whether so much more may be held of what the client sends.
    fn has_room(&self, more: usize) -> bool {
        let held = self.charged().saturating_add(self.0.beside.load(Relaxed)).saturating_add(more);
        held <= self.budget().connection_max && (held < SHARE_MIN || self.budget().has_room(more))
    }

    fn change(&self, before: usize, after: usize) {
        change(&self.0.charges, before, after);
        let (held, counted) = (self.charged(), self.0.counted.load(Relaxed));
        // A thread that changes it at the same time counts what is left to be counted.
        if held.abs_diff(counted) >= STEP
            && self.0.counted.compare_exchange(counted, held, Relaxed, Relaxed).is_ok()
        {
            self.budget().count(counted, held);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.count(*self.counted.get_mut(), 0);
    }
}

/// Bytes that are held for a client, for as long as this lives.
#[derive(Debug)]
pub struct Charge {
    holdings: Holdings,
    len: usize,
}

impl Charge {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Counts `len` bytes, however much is held.
    pub fn set(&mut self, len: usize) {
        self.holdings.change(self.len, len);
        self.len = len;
    }

    /// Counts `len` bytes of what the client sent, unless that is more than its connection may
    /// hold, or all may and it holds more than little.
    pub fn try_set(&mut self, len: usize) -> Result<(), TooMuchHeld> {
        let is_refused = len > self.len && !self.holdings.has_room(len - self.len);
        self.set_unless(is_refused, len)
    }

    /// Counts `len` bytes of an answer, unless all connections hold too much. An answer may be
    /// larger than anything that is allowed, or there would be no way to get it.
    pub fn try_answer(&mut self, len: usize) -> Result<(), TooMuchHeld> {
        let more = len.saturating_sub(self.len);
        let is_refused = more > 0 && len >= SHARE_MIN && !self.holdings.budget().has_room_for_answer(more);
        self.set_unless(is_refused, len)
    }

    fn set_unless(&mut self, is_refused: bool, len: usize) -> Result<(), TooMuchHeld> {
        if is_refused {
            self.holdings.budget().refused.fetch_add(1, Relaxed);
            return Err(TooMuchHeld);
        }
        self.set(len);
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// What one HTTP/2 connection holds, beside the charges on its holdings.
#[derive(Debug)]
pub(crate) struct Account {
    holdings: Holdings,
    holds: Holds,
    /// What of it is counted in the budget, and what of that as requests.
    charged: usize,
    charged_requests: usize,
}

/// What a connection holds, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Holds {
    /// A flat amount for each stream: a client with many open calls that wait is no reason to hold
    /// back others of its own.
    pub(crate) streams: usize,
    pub(crate) requests: usize,
    pub(crate) answers: usize,
    /// What giant answers have still to encode. It is no memory.
    pub(crate) giant: usize,
}

impl Holds {
    fn memory(&self) -> usize {
        self.of_requests() + self.answers
    }

    fn of_requests(&self) -> usize {
        self.streams + self.requests
    }
}

impl Account {
    pub(crate) fn new(holdings: Holdings) -> Account {
        Account { holdings, holds: Holds::default(), charged: 0, charged_requests: 0 }
    }

    /// The connection holds this much now.
    pub(crate) fn set(&mut self, holds: Holds) {
        self.holds = holds;
        let held = holds.memory();
        self.holdings.0.beside.store(held, Relaxed);
        if held.abs_diff(self.charged) >= STEP || holds.of_requests().abs_diff(self.charged_requests) >= STEP
        {
            self.settle();
        }
    }

    /// Whether there would be no pressure with these holds, whatever others hold.
    pub(crate) fn is_far_from_limits(&self, holds: &Holds) -> bool {
        let (max, charged) = (self.holdings.budget().connection_max, self.holdings.charged());
        holds.answers + holds.giant + charged < SHARE_MIN.min(max / 2) && holds.memory() + charged < max
    }

    fn settle(&mut self) {
        let (budget, held, requests) =
            (self.holdings.budget(), self.holds.memory(), self.holds.of_requests());
        budget.count(self.charged, held);
        change(&budget.requests, self.charged_requests, requests);
        (self.charged, self.charged_requests) = (held, requests);
    }

    /// Calls are held back for answers, not for requests: those have a bound of their own
    /// ([`Account::refuses_requests`]), and calls that waited for room which their own requests
    /// take would wait for ever.
    pub(crate) fn pressure(&self) -> Pressure {
        let budget = self.holdings.budget();
        let charged = self.holdings.charged();
        let (held, answers) = (self.holds.memory() + charged, self.holds.answers + charged);
        let of_all = if answers < SHARE_MIN { 0 } else { budget.held() };
        if held >= budget.connection_max || of_all >= budget.total_max {
            Pressure::Full
        } else if answers + self.holds.giant >= budget.connection_max / 2 || of_all >= budget.total_max / 2 {
            Pressure::High
        } else {
            Pressure::None
        }
    }

    /// Whether the connection takes no more requests, for what it and all others hold of them
    /// alone: answers that some do not read are no reason to refuse what others write. They cost
    /// next to nothing to ask for, and requests have to be sent.
    pub(crate) fn refuses_requests(&self) -> bool {
        let (budget, requests) = (self.holdings.budget(), self.holds.of_requests());
        let of_all = budget.requests.load(Relaxed);
        requests >= budget.connection_max / 2 || (requests >= SHARE_MIN && of_all >= budget.total_max / 2)
    }

    pub(crate) fn note_deferred(&self) {
        self.holdings.budget().deferred.fetch_add(1, Relaxed);
    }

    pub(crate) fn note_refused(&self) {
        self.holdings.budget().refused.fetch_add(1, Relaxed);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.holds = Holds::default();
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(answers: usize) -> Holds {
        Holds { answers, ..Holds::default() }
    }

    #[test]
    fn pressure_follows_what_a_connection_holds() {
        let budget = Budget::new(1 << 20, 100 << 20);
        let mut account = Account::new(Arc::clone(&budget).into());
        for (held, pressure) in
            [(0, Pressure::None), (600 << 10, Pressure::High), (1 << 20, Pressure::Full), (0, Pressure::None)]
        {
            account.set(answers(held));
            assert_eq!(account.pressure(), pressure, "{held}");
            assert!(budget.held().abs_diff(held) < STEP);
        }
        account.set(answers(1 << 20));
        drop(account);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn far_from_limits_there_is_no_pressure() {
        let budget = Budget::new(1 << 20, 1 << 20);
        let mut greedy = Account::new(Arc::clone(&budget).into());
        greedy.set(answers(1 << 20));
        let mut account = Account::new(Arc::clone(&budget).into());
        for (streams, answers) in
            [(0, 0), (900 << 10, 200 << 10), (0, SHARE_MIN - 1), (0, SHARE_MIN), (1 << 20, 0)]
        {
            let holds = Holds { streams, answers, ..Holds::default() };
            account.set(holds);
            let is_none = account.pressure() == Pressure::None;
            assert_eq!(account.is_far_from_limits(&holds), is_none, "{holds:?}");
        }
    }

    /// They are refused instead, beyond a bound of their own.
    #[test]
    fn requests_hold_back_no_calls() {
        let budget = Budget::new(1 << 20, 1 << 20);
        let mut account = Account::new(Arc::clone(&budget).into());
        account.set(Holds { requests: 900 << 10, ..Holds::default() });
        assert_eq!(account.pressure(), Pressure::None);
        assert!(account.refuses_requests());
    }

    #[test]
    fn charges_are_refused_by_what_their_client_and_all_clients_hold() {
        let budget = Budget::new(4 << 20, 8 << 20);
        let clients: Vec<Holdings> = (0..4).map(|_| Holdings::from(Arc::clone(&budget))).collect();
        let mut charges: Vec<Charge> = clients.iter().map(Holdings::charge).collect();
        assert_eq!(charges[0].try_set(4 << 20), Ok(()));
        assert_eq!(charges[0].try_set((4 << 20) + 1), Err(TooMuchHeld));
        assert_eq!((charges[0].len(), clients[0].charged()), (4 << 20, 4 << 20));
        // What is held and what comes are looked at together.
        assert_eq!(charges[1].try_answer(5 << 20), Err(TooMuchHeld), "half is held");
        charges[3].set((4 << 20) - SHARE_MIN);
        assert_eq!(charges[1].try_set(SHARE_MIN), Ok(()), "all of it is held");
        assert_eq!(charges[1].try_set(SHARE_MIN + 1), Err(TooMuchHeld));
        charges[1].set(0);
        charges[3].set(0);
        // An answer may be larger than anything that may be held.
        charges[0].set((4 << 20) - STEP);
        assert_eq!(charges[1].try_answer(9 << 20), Ok(()));
        assert_eq!(budget.held(), (13 << 20) - STEP);
        for is_answer in [false, true] {
            let more = |charge: &mut Charge, len| {
                if is_answer { charge.try_answer(len) } else { charge.try_set(len) }
            };
            assert_eq!(more(&mut charges[2], SHARE_MIN), Err(TooMuchHeld));
            assert_eq!(more(&mut charges[2], SHARE_MIN - 1), Ok(()), "who holds little is served");
            // Less is always possible.
            assert_eq!(more(&mut charges[2], 10), Ok(()));
        }
        assert_eq!(budget.refused(), 5);
        charges[1].set(0);
        assert_eq!(charges[3].try_set(SHARE_MIN), Ok(()));
        drop((charges, clients));
        assert_eq!(budget.held(), 0);
    }

    /// The calls of a connection wait for what is charged beside it, and charges see what the
    /// connection holds.
    #[test]
    fn a_connection_and_its_charges_count_together() {
        let budget = Budget::new(1 << 20, 100 << 20);
        let holdings = Holdings::from(Arc::clone(&budget));
        let (mut account, mut charge) = (Account::new(holdings.clone()), holdings.charge());
        charge.set(600 << 10);
        assert_eq!(account.pressure(), Pressure::High);
        account.set(answers(600 << 10));
        assert_eq!(account.pressure(), Pressure::Full);
        assert_eq!(charge.try_set(601 << 10), Err(TooMuchHeld));
        assert_eq!(budget.held(), 1200 << 10);
        drop(charge);
        assert_eq!(account.pressure(), Pressure::High);
        drop((account, holdings));
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn who_holds_little_is_not_stopped_by_others() {
        let budget = Budget::new(4 << 20, 8 << 20);
        let mut greedy: Vec<Account> = (0..3).map(|_| Account::new(Arc::clone(&budget).into())).collect();
        greedy.iter_mut().for_each(|account| account.set(answers(3 << 20)));
        assert!(greedy.iter().all(|account| account.pressure() == Pressure::Full));
        let mut polite = Account::new(Arc::clone(&budget).into());
        polite.set(answers(SHARE_MIN - 1));
        assert_eq!(polite.pressure(), Pressure::None);
        polite.set(answers(SHARE_MIN));
        assert_eq!(polite.pressure(), Pressure::Full);
    }

    #[test]
    fn requests_are_refused_for_requests_only() {
        let budget = Budget::new(100 << 20, 8 << 20);
        let requests = |requests| Holds { requests, ..Holds::default() };
        let mut others: Vec<Account> = (0..4).map(|_| Account::new(Arc::clone(&budget).into())).collect();
        others.iter_mut().for_each(|account| account.set(answers(5 << 20)));
        let mut account = Account::new(Arc::clone(&budget).into());
        account.set(requests(1 << 20));
        assert!(!account.refuses_requests(), "others do not read their answers");
        others[0].set(requests(2 << 20));
        others[1].set(requests(1 << 20));
        assert!(account.refuses_requests(), "half of what all may hold are requests");
        account.set(requests(SHARE_MIN - 1));
        others[2].set(requests(1 << 20));
        assert!(!account.refuses_requests(), "who holds little is served");
        drop((account, others));
        assert_eq!((budget.held(), budget.requests.load(Relaxed)), (0, 0));
    }

    /// A client with many open calls, and one that reads a giant list, may go on with small ones.
    #[test]
    fn streams_and_giant_answers_hold_back_only_what_is_like_them() {
        let budget = Budget::new(4 << 20, 8 << 20);
        let mut greedy: Vec<Account> = (0..3).map(|_| Account::new(Arc::clone(&budget).into())).collect();
        greedy.iter_mut().for_each(|account| account.set(answers(3 << 20)));
        let mut account = Account::new(Arc::clone(&budget).into());
        account.set(Holds { streams: 1 << 20, answers: SHARE_MIN - 1, ..Holds::default() });
        assert_eq!((account.pressure(), account.refuses_requests()), (Pressure::None, false));
        drop(greedy);
        account.set(Holds { giant: 1 << 30, ..Holds::default() });
        assert_eq!((account.pressure(), account.refuses_requests()), (Pressure::High, false));
        assert!(budget.held() < STEP);
    }
}
