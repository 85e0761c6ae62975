//! Lists: alarms, members and status, which are about the server and not about keys.
//!
//! Decided, where a list must not be behind: that each alarm in it can have been there at one
//! moment between call and return, and each that is missing can have been missing; that a member
//! once listed stays; that terms never go back, and one term has one leader. Of every status: that
//! there is some data.
//!
//! Not decided: what servers raise and lower by themselves, which the recorder leaves out; members
//! that leave, which no recorded run has; lists of a server of several that answers for itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::shorten;
use crate::history::{Alarm, Alarmed, History, Listed, Listing};
use crate::violation::{Kind, Violation};

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut linearizable: Vec<&Listed> = history.listed.iter().filter(|listed| listed.linearizable).collect();
    linearizable.sort_by_key(|listed| listed.called);
    let mut violations = sizes(history);
    violations.extend(alarms(history, &linearizable));
    violations.extend(members(&linearizable));
    violations.extend(terms(&linearizable));
    violations.extend(leaders(&linearizable));
    violations
}

fn violation(kind: Kind, listed: &Listed, why: &str) -> Violation {
    Violation::new(kind, format!("{}: {why}", shorten(format!("{listed:?}"), 400)))
}

fn sizes(history: &History) -> Vec<Violation> {
    let empty = |listed: &&Listed| {
        matches!(listed.listing, Listing::Status { db_size, db_size_in_use, .. }
            if db_size <= 0 || db_size_in_use < 0 || db_size_in_use > db_size)
    };
    let wrong = history.listed.iter().filter(empty);
    wrong.map(|listed| violation(Kind::Status, listed, "no server is of that size")).collect()
}

fn alarms(history: &History, lists: &[&Listed]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let known: BTreeSet<Alarm> = history.alarmed.iter().map(|change| change.alarm).collect();
    for listed in lists {
        let Listing::Alarms { alarms } = &listed.listing else { continue };
        for alarm in known.union(&alarms.iter().copied().collect()) {
            let is_raised = alarms.contains(alarm);
            let changes = history.alarmed.iter().filter(|change| change.alarm == *alarm);
            if !is_possible(changes, is_raised, listed) {
                let why = if is_raised { "was not raised" } else { "is raised" };
                violations.push(violation(Kind::Alarm, listed, &format!("{alarm:?} {why}")));
            }
        }
    }
    violations
}

/// Whether an alarm can have been raised, or lowered, at a moment of the list. At first it is
/// lowered.
fn is_possible<'h>(
    changes: impl Iterator<Item = &'h Alarmed> + Clone,
    raised: bool,
    listed: &Listed,
) -> bool {
    // Which change made it so; None stands for the beginning.
    let made = changes.clone().filter(|change| change.raised == raised && change.called <= listed.returned);
    let mut made = made.map(Some).chain((!raised).then_some(None));
    made.any(|by| {
        let since = by.map_or(0, |change| change.returned);
        let undone = |other: &Alarmed| {
            other.raised != raised && other.called > since && other.returned < listed.called
        };
        !changes.clone().any(undone)
    })
}

/// In the order of time, the lists that had returned before each was called.
fn after<'h>(lists: &[&'h Listed]) -> impl Iterator<Item = (&'h Listed, Vec<&'h Listed>)> {
    lists.iter().map(|&listed| {
        let before = lists.iter().copied().filter(|other| other.returned < listed.called);
        (listed, before.collect())
    })
}

fn members(lists: &[&Listed]) -> Vec<Violation> {
    let is_of_members = |listed: &&&Listed| matches!(listed.listing, Listing::Members { .. });
    let lists: Vec<&Listed> = lists.iter().filter(is_of_members).copied().collect();
    let ids = |listed: &Listed| match &listed.listing {
        Listing::Members { ids } => ids.clone(),
        _ => Vec::new(),
    };
    let mut violations = Vec::new();
    for (listed, before) in after(&lists) {
        let named = ids(listed);
        let missing = before.into_iter().flat_map(ids).find(|id| !named.contains(id));
        if let Some(id) = missing {
            violations.push(violation(Kind::Members, listed, &format!("{id} had been a member")));
        }
    }
    violations
}

fn terms(lists: &[&Listed]) -> Vec<Violation> {
    let term = |listed: &Listed| match listed.listing {
        Listing::Status { term, .. } => Some(term),
        _ => None,
    };
    let statuses: Vec<&Listed> = lists.iter().filter(|listed| term(listed).is_some()).copied().collect();
    let mut violations = Vec::new();
    for (listed, before) in after(&statuses) {
        let highest = before.into_iter().filter_map(term).max();
        if highest > term(listed) {
            let why = format!("the term had been {}", highest.unwrap_or(0));
            violations.push(violation(Kind::Status, listed, &why));
        }
    }
    violations
}

fn leaders(lists: &[&Listed]) -> Vec<Violation> {
    let mut known: BTreeMap<u64, u64> = BTreeMap::new();
    let mut violations = Vec::new();
    for listed in lists {
        let Listing::Status { leader, term, .. } = listed.listing else { continue };
        // There may be no leader for a while.
        if leader != 0 && *known.entry(term).or_insert(leader) != leader {
            let why = format!("{} leads in term {term}", known[&term]);
            violations.push(violation(Kind::Status, listed, &why));
        }
    }
    violations
}
