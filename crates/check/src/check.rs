//! The entry point: everything that can be judged of a history, in one go.

use std::collections::BTreeMap;

use crate::compaction::Compactions;
use crate::history::{Ending, History, Outcome, WatchMessage};
use crate::refusal::Limits;
use crate::replay::{Maker, Replay, Replayed};
use crate::report::{Outcomes, Report};
use crate::seen::Seen;
use crate::violation::Violation;
use crate::{access, finish, hash, lease, listing, order, refusal, watch};

/// How often the revisions are explained anew because of what is said of leases.
const EXPLANATIONS: usize = 30;

/// Judges a history. What was judged if it is right, else everything that is wrong with it.
///
/// What revisions and times say, and what each watcher's messages say by themselves, is always
/// judged. The rest needs all revisions explained; if they cannot be, the first that cannot is
/// reported and the rest is left.
pub fn check(history: &History) -> Result<Report, Vec<Violation>> {
    let malformed = order::malformed(history);
    if !malformed.is_empty() {
        return Err(malformed);
    }
    let seen = Seen::new(history);
    let mut violations = order::real_time(history, &seen);
    for (index, watched) in history.watches.iter().enumerate() {
        violations.extend(watch::check_stream(&name(index, history), watched));
    }
    violations.extend(hash::contradictions(history));
    violations.extend(listing::check(history));
    violations.extend(access::check(history));
    let explained = order::answered_writes(history).and_then(|writes| explain(history, &seen, &writes));
    let (replayed, limits, judged) = match explained {
        Ok(explained) => explained,
        Err(found) => {
            violations.extend(found);
            return Err(violations);
        }
    };
    let mut report = count(history, &seen, &replayed);
    report.leases = judged.leases;
    violations.extend(judged.violations);
    violations.extend(check_state(history, &seen, &replayed, &limits, &mut report));
    if violations.is_empty() { Ok(report) } else { Err(violations) }
}

/// Explains all revisions so that what is said of leases is possible, if there is a way.
fn explain(
    history: &History,
    seen: &Seen<'_>,
    writes: &BTreeMap<i64, usize>,
) -> Result<(Replayed, Limits, lease::Judged), Vec<Violation>> {
    let replay = Replay::new(history, seen, writes);
    let attempt = |forbidden: &[(i64, Maker)]| {
        let replayed = replay.explain(forbidden)?;
        let limits = Limits::new(history, &replayed);
        let judged = lease::check(history, seen, &replayed, &limits);
        Ok::<_, Violation>((replayed, limits, judged))
    };
    let first = attempt(&[]).map_err(|violation| vec![violation])?;
    let mut forbidden = suspected(&first.0, &first.2.suspects);
    for _ in 0..EXPLANATIONS {
        if forbidden.is_empty() {
            break;
        }
        match attempt(&forbidden) {
            Ok(other) if other.2.violations.is_empty() => return Ok(other),
            Ok(other) if !other.2.suspects.is_empty() => {
                forbidden.extend(suspected(&other.0, &other.2.suspects));
            }
            _ => break,
        }
    }
    Ok(first)
}

fn suspected(replayed: &Replayed, suspects: &[i64]) -> Vec<(i64, Maker)> {
    suspects.iter().filter_map(|&revision| Some((revision, replayed.maker(revision)?))).collect()
}

/// Everything else that needs to know what happened.
fn check_state(
    history: &History,
    seen: &Seen<'_>,
    replayed: &Replayed,
    limits: &Limits,
    report: &mut Report,
) -> Vec<Violation> {
    let compactions = Compactions::new(history);
    let model = &replayed.world.model;
    let mut violations = compactions.check(history);
    violations.extend(refusal::check(history, seen, replayed, limits, &compactions));
    violations.extend(hash::check(history, &compactions));
    for (index, watched) in history.watches.iter().enumerate() {
        let name = name(index, history);
        violations.extend(watch::check_content(&name, watched, model));
        let certain = compactions.certain_by(watched.called);
        let forgotten = watch::Forgotten { possible_by: &|at| compactions.possible_by(at), certain };
        violations.extend(watch::prev_kv(&name, watched, model, &forgotten));
        violations.extend(watch::dropped(&name, watched));
        violations.extend(watch::compacted(&name, watched, |at| compactions.is_possible(at)));
    }
    if let Some(finish) = history.finish {
        violations.extend(finish::check(history, finish, seen, &compactions));
    }
    report.compactions = compactions.answered();
    violations
}

fn count(history: &History, seen: &Seen<'_>, replayed: &Replayed) -> Report {
    let outcomes = |wanted: fn(&Outcome) -> bool| {
        history.operations.iter().filter(|operation| wanted(&operation.outcome)).count()
    };
    let makers = |wanted: fn(&Maker) -> bool| replayed.makers.iter().filter(|maker| wanted(maker)).count();
    let messages = || history.watches.iter().flat_map(|watch| &watch.messages);
    let compacted = |ending: &Ending| matches!(ending, Ending::Compacted { .. });
    Report {
        operations: history.operations.len(),
        outcomes: Outcomes {
            answered: outcomes(|outcome| matches!(outcome, Outcome::Answered { .. })),
            refused: outcomes(|outcome| matches!(outcome, Outcome::Refused(_))),
            not_done: outcomes(|outcome| *outcome == Outcome::NotDone),
            unknown: outcomes(|outcome| *outcome == Outcome::Unknown),
        },
        revisions: seen.newest(),
        unknown_done: makers(|maker| matches!(maker, Maker::Unknown(_))),
        expiries: makers(|maker| matches!(maker, Maker::Expiry(_))),
        reads: replayed.reads,
        compactions: 0,
        leases: 0,
        watches: history.watches.len(),
        events: messages().map(|message| message.events().len()).sum(),
        progress: messages().filter(|message| matches!(message, WatchMessage::Progress { .. })).count(),
        compacted_watches: history.watches.iter().filter(|watch| compacted(&watch.ending)).count(),
        hashes: history.hashes.len(),
        leased: history.leased.len(),
        listed: history.listed.len(),
        accesses: history.accesses.len(),
        refused_accesses: history.accesses.iter().filter(|access| !access.granted).count(),
        finished: history.finish.is_some(),
    }
}

fn name(index: usize, history: &History) -> String {
    format!("watch {index} of client {}", history.watches[index].client)
}
