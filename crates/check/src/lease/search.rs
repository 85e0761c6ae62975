//! The search for an order of a lease's steps.
//!
//! Depth first, earliest call first, never twice into the same situation. Which steps are done is
//! kept as how many of the earliest are all done and which few beyond, so that a lease may live
//! long.

use std::collections::HashSet;

use super::steps::{Lease, Step, What};

/// Situations looked at before giving up.
const SITUATIONS: usize = 200_000;

/// How coarse a server's clock may be: it may count a moment as up to this much earlier, in
/// nanoseconds.
const CLOCK_GRAIN: u64 = 1_000_000;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No order; the furthest got stuck where only these steps could have come next.
    Stuck {
        at: Vec<usize>,
    },
    GaveUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Alive {
    ttl: i64,
    /// Before this time it cannot end by itself.
    until: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Situation {
    /// All steps before this one are done.
    next: usize,
    /// Steps done beyond it, ascending.
    beyond: Vec<usize>,
    optional: Vec<usize>,
    lease: Option<Alive>,
    /// The place of what came last.
    place: i64,
}

/// None if there is an order. Without the clock a lease may end by itself at any time.
pub(super) fn search(lease: &Lease, clock: bool) -> Option<Found> {
    // The lowest last place of all steps from each on.
    let mut lowest = vec![i64::MAX; lease.steps.len() + 1];
    for (index, step) in lease.steps.iter().enumerate().rev() {
        lowest[index] = step.to.min(lowest[index + 1]);
    }
    let start = Situation { next: 0, beyond: Vec::new(), optional: Vec::new(), lease: None, place: 0 };
    let mut known = HashSet::from([start.clone()]);
    let mut stack = vec![start];
    let mut furthest = (0, Vec::new());
    while let Some(situation) = stack.pop() {
        if situation.next == lease.steps.len() {
            return None;
        }
        if known.len() > SITUATIONS {
            return Some(Found::GaveUp);
        }
        let (steps, optional) = candidates(lease, &lowest, &situation);
        let depth = situation.next + situation.beyond.len();
        if furthest.1.is_empty() || depth > furthest.0 {
            furthest = (depth, steps.clone());
        }
        // The last pushed is tried first.
        for index in optional.into_iter().rev() {
            let mut after = situation.clone();
            after.optional.push(index);
            push(lease, &situation, after, &lease.optional[index], clock, &mut known, &mut stack);
        }
        for index in steps.into_iter().rev() {
            let after = done(&situation, index);
            push(lease, &situation, after, &lease.steps[index], clock, &mut known, &mut stack);
        }
    }
    Some(Found::Stuck { at: furthest.1 })
}

fn push(
    lease: &Lease,
    before: &Situation,
    after: Situation,
    step: &Step,
    clock: bool,
    known: &mut HashSet<Situation>,
    stack: &mut Vec<Situation>,
) {
    let revokes = match step.what {
        What::Ended { .. } => lent_revokes(lease, before, step),
        _ => Vec::new(),
    };
    let revoked = revokes.into_iter().map(|index| (None, before.place.max(step.from), Some(index)));
    let outcomes =
        outcomes(lease, before, step, clock).into_iter().map(|(state, place)| (state, place, None));
    for (state, place, revoke) in outcomes.chain(revoked) {
        let mut next = Situation { lease: state, place, ..after.clone() };
        next.optional.extend(revoke);
        next.optional.sort_unstable();
        if known.insert(next.clone()) {
            stack.push(next);
        }
    }
}

/// The revokes of unknown outcome that may have made the revision of the lease's end.
fn lent_revokes(lease: &Lease, before: &Situation, end: &Step) -> Vec<usize> {
    let revokes = lease.optional.iter().enumerate().filter(|(index, step)| {
        let fits = step.called <= end.returned && step.from <= end.to;
        step.what == What::Revoke && fits && !before.optional.contains(index)
    });
    revokes.filter(|_| before.lease.is_some()).map(|(index, _)| index).collect()
}

fn done(situation: &Situation, index: usize) -> Situation {
    let mut after = situation.clone();
    after.beyond.push(index);
    after.beyond.sort_unstable();
    let passed = after.beyond.iter().zip(after.next..).take_while(|(step, next)| **step == *next).count();
    after.next += passed;
    after.beyond.drain(..passed);
    after
}

/// The steps, and the optional ones, that nothing left has to come before.
fn candidates(lease: &Lease, lowest: &[i64], situation: &Situation) -> (Vec<usize>, Vec<usize>) {
    let mut first_return = u64::MAX;
    let mut last_place = i64::MAX;
    let mut window = Vec::new();
    let mut index = situation.next;
    while index < lease.steps.len() && lease.steps[index].called <= first_return {
        if situation.beyond.binary_search(&index).is_err() {
            let step = &lease.steps[index];
            first_return = first_return.min(step.returned);
            last_place = last_place.min(step.to);
            window.push(index);
        }
        index += 1;
    }
    last_place = last_place.min(lowest[index]);
    let ready = |step: &Step| step.called <= first_return && step.from <= last_place;
    window.retain(|&index| ready(&lease.steps[index]));
    let mut optional: Vec<usize> = Vec::new();
    for index in 0..lease.optional.len() {
        let step = &lease.optional[index];
        let is_left = !situation.optional.contains(&index) && ready(step);
        // Of several that would do the same, the one with the most freedom is enough: whatever
        // another could do, it can.
        if is_left && !optional.iter().any(|&other| is_freer(&lease.optional[other], step)) {
            optional.retain(|&other| !is_freer(step, &lease.optional[other]));
            optional.push(index);
        }
    }
    (window, optional)
}

fn is_freer(one: &Step, other: &Step) -> bool {
    one.what == other.what
        && one.called <= other.called
        && one.returned >= other.returned
        && one.from <= other.from
        && one.to >= other.to
}

/// The first place from `place` on at which the lease has no keys. None: it keeps some to the end.
fn bare_place(lease: &Lease, place: i64) -> Option<i64> {
    lease.bare_from(place.div_euclid(2)).checked_mul(2)?.checked_add(1)
}

/// The states that the lease can be in after a step, with the place of it.
fn outcomes(lease: &Lease, before: &Situation, step: &Step, clock: bool) -> Vec<(Option<Alive>, i64)> {
    let place = before.place.max(step.from);
    let in_time = |alive: &Alive| !clock || step.returned >= alive.until;
    let until = |ttl: i64| {
        let time = u64::try_from(ttl).unwrap_or(0).saturating_mul(1_000_000_000);
        step.called.saturating_add(time).saturating_sub(CLOCK_GRAIN)
    };
    // Where it can have ended without a trace before this step, if it can.
    let ended = match &before.lease {
        None => Some(place),
        Some(alive) => {
            let bare = bare_place(lease, before.place).filter(|bare| in_time(alive) && *bare <= step.to);
            bare.map(|bare| place.max(bare))
        }
    };
    match (step.what, before.lease) {
        (What::Grant { ttl }, _) => {
            ended.map(|place| (Some(Alive { ttl, until: until(ttl) }), place)).into_iter().collect()
        }
        (What::Gone, _) => ended.map(|place| (None, place)).into_iter().collect(),
        (What::Renew { ttl }, Some(alive)) if alive.ttl == ttl => {
            vec![(Some(Alive { ttl, until: until(ttl).max(alive.until) }), place)]
        }
        (What::Revoke, Some(_)) if step.from % 2 == 0 => vec![(None, place)],
        // A revoke without a revision needs a lease without keys.
        (What::Revoke, Some(_)) => {
            let bare = bare_place(lease, place).filter(|bare| *bare <= step.to);
            bare.map(|bare| (None, place.max(bare))).into_iter().collect()
        }
        (What::Attach | What::Exists, Some(alive)) => vec![(Some(alive), place)],
        (What::Ended { deleted }, Some(alive)) => {
            let lives_on = deleted.then_some((Some(alive), place));
            let ends = in_time(&alive).then_some((None, place));
            ends.into_iter().chain(lives_on).collect()
        }
        _ => Vec::new(),
    }
}
