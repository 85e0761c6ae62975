//! The events that a watcher got, compared with what happened.

use vetch_model::{Event, Model};

use super::stream::{event_text, numbered};
use super::{coverage, first_revision, matches, without_prev};
use crate::history::{Ending, WatchMessage, Watched};
use crate::violation::{Kind, Violation};

type Check = fn(&Watched, &Model) -> Result<(), Violation>;

const CHECKS: [Check; 4] = [reliable, resumable, progress_ahead, create_flag];

/// Everything that needs to know what happened, except what compaction has a say in.
pub(crate) fn check_content(name: &str, watch: &Watched, model: &Model) -> Vec<Violation> {
    let failed = CHECKS.iter().filter_map(|check| check(watch, model).err());
    failed.map(|violation| violation.of(name)).collect()
}

/// Between its first and its last revision a watcher got exactly the events that match, in
/// every field.
fn reliable(watch: &Watched, model: &Model) -> Result<(), Violation> {
    let Some((first, last)) = coverage(watch) else { return Ok(()) };
    let mut expected = expected(watch, model, first, last);
    for (number, at, event) in numbered(watch) {
        let got = without_prev(event);
        match expected.next().map(without_prev) {
            Some(next) if next == got => {}
            Some(next) => {
                return Err(Violation::new(
                    Kind::WatchReliable,
                    format!("expected {next:?}, got {got:?}, {}", event_text(number, at, event)),
                ));
            }
            None => {
                return Err(Violation::new(
                    Kind::WatchReliable,
                    format!("never happened: {}", event_text(number, at, event)),
                ));
            }
        }
    }
    match expected.next() {
        Some(missing) => Err(Violation::new(
            Kind::WatchReliable,
            format!("covers {first} to {last} but did not get {missing:?}"),
        )),
        None => Ok(()),
    }
}

/// The first event is the first that matches from the start on.
fn resumable(watch: &Watched, model: &Model) -> Result<(), Violation> {
    let (Some(first), Some((number, at, event))) = (first_revision(watch), numbered(watch).next()) else {
        return Ok(());
    };
    let due = expected(watch, model, first, i64::MAX).next();
    if due.is_some_and(|due| without_prev(due) == without_prev(event)) {
        return Ok(());
    }
    Err(Violation::new(
        Kind::WatchResumable,
        format!("starts at {first}, where {due:?} is first, but {}", event_text(number, at, event)),
    ))
}

/// Progress to a revision comes behind every matching event up to it.
fn progress_ahead(watch: &Watched, model: &Model) -> Result<(), Violation> {
    let Some(first) = first_revision(watch) else { return Ok(()) };
    let mut expected = expected(watch, model, first, i64::MAX).peekable();
    let (mut got, mut due) = (0, 0);
    for (number, message) in watch.messages.iter().enumerate() {
        got += message.events().iter().filter(|event| event.kv.mod_revision >= first).count();
        if let WatchMessage::Progress { revision, at } = message {
            while expected.next_if(|event| event.kv.mod_revision <= *revision).is_some() {
                due += 1;
            }
            if got < due {
                let before = format!("{got} of {due} events before progress to {revision}");
                return Err(Violation::new(
                    Kind::WatchProgressAhead,
                    format!("{before}, message {number} at {at}"),
                ));
            }
        }
    }
    Ok(())
}

/// An event creates its key exactly if the key was not there before.
fn create_flag(watch: &Watched, model: &Model) -> Result<(), Violation> {
    let wrong = |(_, _, event): &(usize, u64, &Event)| {
        let kv = &event.kv;
        !event.deleted && (kv.version == 1) != model.get(&kv.key, kv.mod_revision - 1).is_none()
    };
    match numbered(watch).find(wrong) {
        Some((number, at, event)) => Err(Violation::new(
            Kind::WatchCreateFlag,
            format!("version {}: {}", event.kv.version, event_text(number, at, event)),
        )),
        None => Ok(()),
    }
}

/// What compactions have to say about previous values.
pub(crate) struct Forgotten<'a> {
    /// The highest revision that may have been compacted by a time: at and below it a previous
    /// value may be gone.
    pub(crate) possible_by: &'a dyn Fn(u64) -> i64,
    /// The one that had certainly been compacted when the watcher was asked for: there it must be
    /// gone.
    pub(crate) certain: i64,
}

/// Previous values are sent exactly if they were requested and there was one that is still known,
/// and are right.
pub(crate) fn prev_kv(
    name: &str,
    watch: &Watched,
    model: &Model,
    forgotten: &Forgotten<'_>,
) -> Option<Violation> {
    for (number, at, event) in numbered(watch) {
        let revision = event.kv.mod_revision;
        let before = model.get(&event.kv.key, revision - 1);
        let is_known = watch.request.prev_kv && revision > forgotten.certain;
        let expected = before.filter(|_| is_known);
        let excused = event.prev_kv.is_none() && revision <= (forgotten.possible_by)(at);
        if event.prev_kv.as_ref() != expected && !excused {
            let got = &event.prev_kv;
            let text =
                format!("{name}: expected {expected:?}, got {got:?}, {}", event_text(number, at, event));
            return Some(Violation::new(Kind::WatchPrevKv, text));
        }
    }
    None
}

/// Only its client and compaction end a watch.
pub(crate) fn dropped(name: &str, watch: &Watched) -> Option<Violation> {
    let Ending::Dropped { reason } = &watch.ending else { return None };
    Some(Violation::new(Kind::WatchDropped, format!("{name} was ended by the server: {reason:?}")))
}

/// A watcher that was ended by compaction needed something that was compacted: `real` says of a
/// revision whether it may have been.
pub(crate) fn compacted(name: &str, watch: &Watched, real: impl Fn(i64) -> bool) -> Option<Violation> {
    let Ending::Compacted { compact_revision } = watch.ending else { return None };
    let first = first_revision(watch).unwrap_or(1);
    let next = coverage(watch).map_or(first, |(_, last)| last + 1);
    let why = if compact_revision <= next {
        format!("needed revision {next} next")
    } else if !real(compact_revision) {
        "no request compacted there".to_owned()
    } else {
        return None;
    };
    let text = format!("{name}: ended by a compaction at {compact_revision}, but {why}");
    Some(Violation::new(Kind::WatchCompacted, text))
}

fn expected<'a>(
    watch: &'a Watched,
    model: &'a Model,
    first: i64,
    last: i64,
) -> impl Iterator<Item = &'a Event> {
    model.changes(first, last).iter().filter(|event| matches(&watch.request, event))
}
