//! The messages of one watcher by themselves: order, uniqueness, wholeness, bookmarks.

use std::collections::BTreeSet;

use vetch_model::Event;

use super::{first_revision, matches};
use crate::facts::bytes;
use crate::history::{WatchMessage, Watched};
use crate::violation::{Kind, Violation};

type Check = fn(&Watched) -> Result<(), Violation>;

const CHECKS: [Check; 9] =
    [created, filter, ordered, unique, atomic, bookmarkable, create_flag, future_start, header];

/// Everything that can be checked without knowing what really happened. `name` identifies the
/// watcher.
pub(crate) fn check_stream(name: &str, watch: &Watched) -> Vec<Violation> {
    CHECKS.iter().filter_map(|check| check(watch).err()).map(|violation| violation.of(name)).collect()
}

/// All events with the number and the time of the message they came in.
pub(super) fn numbered(watch: &Watched) -> impl Iterator<Item = (usize, u64, &Event)> {
    let messages = watch.messages.iter().enumerate();
    messages
        .flat_map(|(number, message)| message.events().iter().map(move |event| (number, message.at(), event)))
}

pub(super) fn event_text(number: usize, at: u64, event: &Event) -> String {
    let what = if event.deleted { "delete" } else { "put" };
    let revision = event.kv.mod_revision;
    format!("message {number} at {at}: {what} of {} at revision {revision}", bytes(&event.kv.key))
}

/// Created comes first, and once.
fn created(watch: &Watched) -> Result<(), Violation> {
    for (number, message) in watch.messages.iter().enumerate() {
        let is_created = matches!(message, WatchMessage::Created { .. });
        if is_created != (number == 0) {
            let what = if is_created { "created again" } else { "not created before its first message" };
            return Err(Violation::new(
                Kind::WatchCreated,
                format!("{what}, message {number} at {}", message.at()),
            ));
        }
    }
    Ok(())
}

/// Only what was asked for.
fn filter(watch: &Watched) -> Result<(), Violation> {
    match numbered(watch).find(|(_, _, event)| !matches(&watch.request, event)) {
        Some((number, at, event)) => Err(Violation::new(
            Kind::WatchFilter,
            format!("not asked for: {}", event_text(number, at, event)),
        )),
        None => Ok(()),
    }
}

/// Revisions never go down.
fn ordered(watch: &Watched) -> Result<(), Violation> {
    let mut last = 0;
    for (number, at, event) in numbered(watch) {
        if event.kv.mod_revision < last {
            return Err(Violation::new(
                Kind::WatchOrdered,
                format!("after revision {last} came {}", event_text(number, at, event)),
            ));
        }
        last = event.kv.mod_revision;
    }
    Ok(())
}

/// No change is sent twice.
fn unique(watch: &Watched) -> Result<(), Violation> {
    let mut sent = BTreeSet::new();
    for (number, at, event) in numbered(watch) {
        if !sent.insert((event.kv.mod_revision, &event.kv.key)) {
            return Err(Violation::new(
                Kind::WatchUnique,
                format!("sent twice: {}", event_text(number, at, event)),
            ));
        }
    }
    Ok(())
}

/// A revision is never split over two responses.
fn atomic(watch: &Watched) -> Result<(), Violation> {
    let mut last = None;
    for (number, message) in watch.messages.iter().enumerate() {
        let events = message.events();
        if let (Some(first), Some(end)) = (events.first(), events.last()) {
            if last == Some(first.kv.mod_revision) {
                return Err(Violation::new(
                    Kind::WatchAtomic,
                    format!("continues a revision: {}", event_text(number, message.at(), first)),
                ));
            }
            last = Some(end.kv.mod_revision);
        }
    }
    Ok(())
}

/// Progress is a bookmark: it never goes back, lies behind every event before it, and none at or
/// below it follows.
fn bookmarkable(watch: &Watched) -> Result<(), Violation> {
    let (mut bookmark, mut last) = (0, 0);
    for (number, message) in watch.messages.iter().enumerate() {
        for event in message.events() {
            if event.kv.mod_revision <= bookmark {
                let event = event_text(number, message.at(), event);
                return Err(Violation::new(
                    Kind::WatchBookmarkable,
                    format!("after progress to {bookmark} came {event}"),
                ));
            }
            last = event.kv.mod_revision.max(last);
        }
        if let WatchMessage::Progress { revision, at } = message {
            if *revision < bookmark.max(last) {
                let before = format!("after progress to {bookmark} and events to {last}");
                return Err(Violation::new(
                    Kind::WatchBookmarkable,
                    format!("{before} came progress to {revision}, message {number} at {at}"),
                ));
            }
            bookmark = *revision;
        }
    }
    Ok(())
}

/// An event says in three ways whether it creates its key; they agree.
fn create_flag(watch: &Watched) -> Result<(), Violation> {
    let wrong = |(_, _, event): &(usize, u64, &Event)| {
        let kv = &event.kv;
        !event.deleted && (kv.version == 1) != (kv.create_revision == kv.mod_revision)
    };
    match numbered(watch).find(wrong) {
        Some((number, at, event)) => {
            let (version, create) = (event.kv.version, event.kv.create_revision);
            Err(Violation::new(
                Kind::WatchCreateFlag,
                format!("version {version}, created at {create}: {}", event_text(number, at, event)),
            ))
        }
        None => Ok(()),
    }
}

/// Nothing from before its start, and no progress below the revision before it.
fn future_start(watch: &Watched) -> Result<(), Violation> {
    let Some(first) = first_revision(watch) else { return Ok(()) };
    for (number, message) in watch.messages.iter().enumerate() {
        if let Some(event) = message.events().iter().find(|event| event.kv.mod_revision < first) {
            return Err(Violation::new(
                Kind::WatchFutureStart,
                format!("starts at {first}, but {}", event_text(number, message.at(), event)),
            ));
        }
        if let WatchMessage::Progress { revision, at } = message
            && *revision < first - 1
        {
            return Err(Violation::new(
                Kind::WatchFutureStart,
                format!("starts at {first}, but progress to {revision}, message {number} at {at}"),
            ));
        }
    }
    Ok(())
}

/// A response's header is not older than what it carries.
fn header(watch: &Watched) -> Result<(), Violation> {
    for (number, message) in watch.messages.iter().enumerate() {
        let newer = message.events().iter().find(|event| event.kv.mod_revision > message.revision());
        if let Some(event) = newer {
            let header = message.revision();
            return Err(Violation::new(
                Kind::WatchHeader,
                format!("header {header}, but {}", event_text(number, message.at(), event)),
            ));
        }
    }
    Ok(())
}
