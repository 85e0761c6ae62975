//! Tending a shared journal: who shares it, how much of it may be given up, and how much room it
//! has.
//!
//! A writer gives up what enough servers have in checkpoints (`roster`). Every server looks how
//! full the journal is: when little room is left, all take checkpoints, so that it can be trimmed,
//! and the writer admits nothing that grows the state, so that barriers, claims, deletes and
//! compactions still find room. What room there is was heard of a moment ago; what was proposed
//! since is counted on top.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use vetch_cluster::Space;
use vetch_journal::{ChainedEntry, Position};

use super::shared_loop::SharedLoop;

/// How often all of this is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// A trim is asked for again after this long, should the last time have come to nothing.
const AGAIN: Duration = Duration::from_secs(60);
/// A journal larger than this does not wait for servers that are behind.
const LARGE: u64 = 1 << 30;
/// How long a journal that refused a record counts as full.
const REFUSED: Duration = Duration::from_secs(10);
/// Room that is kept: a tenth of all, at least for some records of the largest size, at most this.
const MOST_KEPT: u64 = 256 << 20;
const RECORDS_KEPT: u64 = 4;
/// How often it is noted how much was proposed, and how many notes are kept: far longer than news
/// takes to come.
const NOTE_EVERY: Duration = Duration::from_millis(100);
const NOTES: usize = 256;
/// What a record costs in the log beside its bytes, generously.
const RECORD_COST: u64 = 256;

#[derive(Default)]
pub(crate) struct Tending {
    looked: Option<Duration>,
    trimmed: Option<(Position, Duration)>,
    /// The log refused a record then.
    refused: Option<Duration>,
    /// How full the log was, and when.
    space: Option<(Space, Duration)>,
    proposed: Proposed,
}

/// Bytes proposed by this server, and how many they were at some times before.
#[derive(Default)]
struct Proposed {
    total: u64,
    then: VecDeque<(Duration, u64)>,
}

impl Proposed {
    fn add(&mut self, now: Duration, bytes: u64) {
        if self.then.back().is_none_or(|(last, _)| now >= *last + NOTE_EVERY) {
            self.then.push_back((now, self.total));
        }
        if self.then.len() > NOTES {
            self.then.pop_front();
        }
        self.total += bytes;
    }

    /// Bytes proposed since then, or a few more.
    fn since(&self, time: Duration) -> u64 {
        let before = self.then.iter().rev().find(|(at, _)| *at <= time).or(self.then.front());
        before.map_or(0, |(_, total)| self.total - total)
    }
}

impl SharedLoop {
    /// Looks after the journal, now and then.
    pub(super) fn tend(&mut self) {
        let now = self.driver.now();
        if self.work.tending.looked.is_some_and(|last| now < last + EVERY) {
            return;
        }
        self.work.tending.looked = Some(now);
        if let Some(cluster) = &self.node.cluster {
            let member = self.driver.replica();
            cluster.position.store(member.log_state().position().0, Ordering::Relaxed);
            cluster.alone.store(member.is_suspect(), Ordering::Relaxed);
        }
        // What was heard last counts until there is news.
        if let Some(space) = self.driver.log_mut().space() {
            self.work.tending.space = Some((space, now.saturating_sub(space.age)));
        }
        self.weigh(now);
        self.take_reports(now);
        if self.work.leading {
            self.trim(now);
        }
    }

    fn take_reports(&mut self, now: Duration) {
        let reports: Vec<_> = self.reports.try_iter().collect();
        if !self.work.leading {
            return;
        }
        let own = self.node.cluster.as_ref().map(|cluster| {
            let vote = cluster.board.lock().vote;
            self.node.report_of(cluster, vote)
        });
        for report in reports.into_iter().chain(own) {
            self.work.roster.heard(now, report);
        }
        self.work.roster.forget_gone(now);
    }

    fn trim(&mut self, now: Duration) {
        let used = self.work.tending.space.map_or(0, |(space, _)| space.used);
        let pressed = used > LARGE || self.node.disk.is_full();
        let floor = match self.work.roster.floor(now, pressed) {
            Ok(Some(floor)) => floor,
            Ok(None) => return,
            Err(disagreement) => {
                tracing::error!(%disagreement, "the journal is not trimmed");
                return;
            }
        };
        let is_done = |(at, when): (Position, Duration)| floor <= at && now < when + AGAIN;
        if !self.work.tending.trimmed.is_some_and(is_done) {
            tracing::debug!(floor = floor.0, "trimming the journal");
            self.driver.log_mut().start_trim(floor);
            self.work.tending.trimmed = Some((floor, now));
        }
    }

    /// Records are on their way to the journal.
    pub(super) fn proposed(&mut self, entries: &[ChainedEntry]) {
        let bytes: usize = entries.iter().map(|entry| entry.bytes().len()).sum();
        let now = self.driver.now();
        self.work.tending.proposed.add(now, bytes as u64 + RECORD_COST);
        self.weigh(now);
    }

    /// The journal refused a record for lack of room.
    pub(super) fn full(&mut self) {
        let now = self.driver.now();
        if self.work.tending.refused.is_none_or(|since| now >= since + REFUSED) {
            tracing::warn!("the journal is full: nothing can be written until there is room");
        }
        self.work.tending.refused = Some(now);
        self.weigh(now);
    }

    /// The state of this server may exist nowhere else: it goes to disk at once.
    pub(super) fn stand_alone(&mut self) {
        if let Some(cluster) = &self.node.cluster {
            cluster.alone.store(true, Ordering::Relaxed);
            self.node.housekeeping.ring();
        }
    }

    fn weigh(&mut self, now: Duration) {
        let Tending { refused, space, proposed, .. } = &self.work.tending;
        let was_full = self.node.disk.is_full();
        // Those who refuse nothing take their checkpoints as long as a writer that does waits for
        // them.
        let was_low = was_full || !self.work.leading;
        let is_refused = refused.is_some_and(|refused| now < refused + REFUSED);
        let record = self.driver.log().max_record() as u64;
        let (left, is_low) = match space {
            Some((Space { used, left: Some(left), .. }, when)) => {
                let left_now = left.saturating_sub(proposed.since(*when));
                (left_now, is_low(used + left, left_now, record, was_low))
            }
            // Without a limit only a refusal tells, and nothing is known of what is left: deletes
            // may try.
            _ => (RECORDS_KEPT * record, false),
        };
        let is_full = is_low || is_refused;
        self.node.disk.set_active_room(left);
        if is_full != was_full {
            self.node.disk.set_full(is_full);
            self.node.housekeeping.ring();
            if is_full && self.work.leading {
                tracing::error!(
                    left,
                    "the journal is nearly full: writes are refused until it has been trimmed"
                );
            } else if is_full {
                tracing::warn!(
                    left,
                    "the journal is nearly full: a checkpoint is taken so that it can be trimmed"
                );
            } else {
                tracing::info!(left, "the journal has room again");
            }
        }
    }
}

/// Whether so little is left of `whole` that it is kept. Once it was little, half as much again is
/// needed.
fn is_low(whole: u64, left: u64, record: u64, was_low: bool) -> bool {
    let kept =
        (whole / 10).max(RECORDS_KEPT * record).min(MOST_KEPT.max(RECORDS_KEPT * record)).min(whole / 2);
    left < if was_low { kept + kept / 2 } else { kept }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{NOTES, Proposed, is_low};

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_was_proposed_since_is_never_less_than_it_was() {
        let mut proposed = Proposed::default();
        assert_eq!(proposed.since(Duration::ZERO), 0);
        for millis in 0..100 * NOTES as u64 {
            proposed.add(Duration::from_millis(millis), 1);
        }
        let total = 100 * NOTES as u64;
        let since = |millis| proposed.since(Duration::from_millis(millis));
        for millis in [total - 1, total - 1000, total - 10_050] {
            assert!((total - millis..=total - millis + 100).contains(&since(millis)), "{millis}");
        }
        assert!(since(0) <= total && since(total + 5000) <= 100);
    }

    #[test]
    fn a_tenth_is_kept_or_some_records_and_a_little_more_to_go_on() {
        let record = 8 * MIB;
        assert!(!is_low(1000 * MIB, 100 * MIB, record, false));
        assert!(is_low(1000 * MIB, 99 * MIB, record, false));
        assert!(is_low(1000 * MIB, 149 * MIB, record, true));
        assert!(!is_low(1000 * MIB, 150 * MIB, record, true));
        assert!(is_low(100 * MIB, 31 * MIB, record, false), "four records");
        assert!(!is_low(100 * MIB, 32 * MIB, record, false));
        assert!(!is_low(1 << 40, 256 * MIB, record, false), "not a tenth of everything");
        assert!(!is_low(10 * MIB, 5 * MIB, record, false), "at most half");
    }
}
