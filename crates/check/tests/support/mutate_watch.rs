//! One false message to a watcher.
//!
//! Only revisions that an answered write claims are touched: what watchers saw of the others is the
//! evidence by which they are explained, so a lie there shows as a revision that nothing explains.

use std::collections::BTreeSet;

use vetch_check::{Ending, History, WatchMessage};
use vetch_model::{Event, KeyValue, Request};

use super::mutate::wrote;
use vetch_testkit::random::Rng;

/// The place of an event: watch, message, event.
type Place = (usize, usize, usize);

fn claimed(history: &History) -> BTreeSet<i64> {
    let writes = history.operations.iter().filter(|operation| wrote(operation));
    writes.filter_map(|operation| operation.revision()).collect()
}

fn places(history: &History, wanted: impl Fn(&Event) -> bool) -> Vec<Place> {
    let claimed = claimed(history);
    let mut places = Vec::new();
    for (watch, watched) in history.watches.iter().enumerate() {
        for (message, sent) in watched.messages.iter().enumerate() {
            for (index, event) in sent.events().iter().enumerate() {
                if claimed.contains(&event.kv.mod_revision) && wanted(event) {
                    places.push((watch, message, index));
                }
            }
        }
    }
    places
}

fn choose(rng: &mut Rng, from: &[Place]) -> Option<Place> {
    (!from.is_empty()).then(|| *rng.pick(from))
}

fn events(history: &mut History, watch: usize, message: usize) -> &mut Vec<Event> {
    match &mut history.watches[watch].messages[message] {
        WatchMessage::Events { events, .. } => events,
        other => panic!("there are events in it: {other:?}"),
    }
}

fn change(history: &mut History, rng: &mut Rng, wanted: fn(&Event) -> bool, how: fn(&mut Event)) -> bool {
    let Some((watch, message, index)) = choose(rng, &places(history, wanted)) else { return false };
    how(&mut events(history, watch, message)[index]);
    true
}

fn remove(history: &mut History, (watch, message, index): Place) {
    let events = events(history, watch, message);
    events.remove(index);
    if events.is_empty() {
        history.watches[watch].messages.remove(message);
    }
}

fn events_at(history: &History, watch: usize) -> Vec<(usize, usize)> {
    let messages = history.watches[watch].messages.iter().enumerate();
    messages
        .flat_map(|(number, message)| (0..message.events().len()).map(move |event| (number, event)))
        .collect()
}

/// Neither the first nor the last event of the watcher.
pub(crate) fn dropped_event(history: &mut History, rng: &mut Rng) -> bool {
    let inner = |&(watch, message, index): &Place| {
        let sent = events_at(history, watch);
        sent.first() != Some(&(message, index)) && sent.last() != Some(&(message, index))
    };
    let places: Vec<Place> = places(history, |_| true).into_iter().filter(inner).collect();
    let Some(place) = choose(rng, &places) else { return false };
    remove(history, place);
    true
}

/// The first of several, of a watcher that knows where it began.
pub(crate) fn dropped_first_event(history: &mut History, rng: &mut Rng) -> bool {
    let first = |&(watch, message, index): &Place| {
        let sent = events_at(history, watch);
        sent.first() == Some(&(message, index)) && sent.len() > 1
    };
    let places: Vec<Place> = places(history, |_| true).into_iter().filter(first).collect();
    let Some(place) = choose(rng, &places) else { return false };
    remove(history, place);
    true
}

pub(crate) fn repeated_message(history: &mut History, rng: &mut Rng) -> bool {
    let Some((watch, message, _)) = choose(rng, &places(history, |_| true)) else { return false };
    let again = history.watches[watch].messages[message].clone();
    history.watches[watch].messages.insert(message + 1, again);
    true
}

pub(crate) fn reordered_messages(history: &mut History, rng: &mut Rng) -> bool {
    let followed = |&(watch, message, _): &Place| {
        history.watches[watch].messages.get(message + 1).is_some_and(|next| !next.events().is_empty())
    };
    let places: Vec<Place> = places(history, |_| true).into_iter().filter(followed).collect();
    let Some((watch, message, _)) = choose(rng, &places) else { return false };
    history.watches[watch].messages.swap(message, message + 1);
    true
}

/// A revision of several events comes in two responses.
pub(crate) fn split_revision(history: &mut History, rng: &mut Rng) -> bool {
    let continues = |&(watch, message, index): &Place| {
        let events = history.watches[watch].messages[message].events();
        index > 0 && events[index - 1].kv.mod_revision == events[index].kv.mod_revision
    };
    let places: Vec<Place> = places(history, |_| true).into_iter().filter(continues).collect();
    let Some((watch, message, index)) = choose(rng, &places) else { return false };
    let rest = events(history, watch, message).split_off(index);
    let (revision, at) =
        (history.watches[watch].messages[message].revision(), history.watches[watch].messages[message].at());
    history.watches[watch].messages.insert(message + 1, WatchMessage::Events { revision, events: rest, at });
    true
}

/// Progress comes just before an event that it vouches for.
pub(crate) fn early_progress(history: &mut History, rng: &mut Rng) -> bool {
    let Some((watch, message, index)) = choose(rng, &places(history, |_| true)) else { return false };
    let sent = &history.watches[watch].messages[message];
    let (revision, at) = (sent.events()[index].kv.mod_revision, sent.at());
    history.watches[watch].messages.insert(message, WatchMessage::Progress { revision, at });
    true
}

pub(crate) fn progress_goes_back(history: &mut History, rng: &mut Rng) -> bool {
    let progress: Vec<Place> = (0..history.watches.len())
        .flat_map(|watch| (0..history.watches[watch].messages.len()).map(move |message| (watch, message, 0)))
        .filter(|&(watch, message, _)| {
            matches!(history.watches[watch].messages[message], WatchMessage::Progress { .. })
        })
        .collect();
    let Some((watch, message, _)) = choose(rng, &progress) else { return false };
    let (revision, at) =
        (history.watches[watch].messages[message].revision(), history.watches[watch].messages[message].at());
    history.watches[watch]
        .messages
        .insert(message + 1, WatchMessage::Progress { revision: revision - 1, at });
    true
}

/// A watcher that waits for a future revision gets progress long before it.
pub(crate) fn progress_before_start(history: &mut History, _: &mut Rng) -> bool {
    let waiting = |watch: &&mut vetch_check::Watched| {
        let created = watch.messages.first().map(|message| (message.revision(), message.at()));
        created.is_some_and(|(revision, _)| watch.request.start_revision > revision + 1)
    };
    let Some(watch) = history.watches.iter_mut().find(waiting) else { return false };
    let (revision, at) = (watch.messages[0].revision(), watch.messages[0].at());
    watch.messages.insert(1, WatchMessage::Progress { revision, at });
    true
}

/// The watcher had asked to begin later.
pub(crate) fn event_before_start(history: &mut History, rng: &mut Rng) -> bool {
    let Some((watch, message, index)) = choose(rng, &places(history, |_| true)) else { return false };
    let revision = events(history, watch, message)[index].kv.mod_revision;
    history.watches[watch].request.start_revision = revision + 1;
    true
}

pub(crate) fn wrong_prev_kv(history: &mut History, rng: &mut Rng) -> bool {
    change(
        history,
        rng,
        |event| event.prev_kv.is_some(),
        |event| {
            if let Some(prev) = &mut event.prev_kv {
                prev.value.push(b'!');
            }
        },
    )
}

/// Only where no compaction excuses it.
pub(crate) fn missing_prev_kv(history: &mut History, rng: &mut Rng) -> bool {
    let compactions = history.operations.iter().filter_map(|operation| match operation.request {
        Request::Compact { revision } => Some(revision),
        _ => None,
    });
    let compacted = compactions.max().unwrap_or(0);
    let wanted = |event: &Event| event.prev_kv.is_some() && event.kv.mod_revision > compacted;
    let Some((watch, message, index)) = choose(rng, &places(history, wanted)) else { return false };
    events(history, watch, message)[index].prev_kv = None;
    true
}

pub(crate) fn prev_kv_of_a_create(history: &mut History, rng: &mut Rng) -> bool {
    change(
        history,
        rng,
        |event| event.kv.version == 1,
        |event| {
            let kv = &event.kv;
            event.prev_kv = Some(KeyValue { mod_revision: kv.mod_revision - 1, ..kv.clone() });
        },
    )
}

/// The watcher had asked for other keys.
pub(crate) fn other_key(history: &mut History, rng: &mut Rng) -> bool {
    let Some((watch, ..)) = choose(rng, &places(history, |_| true)) else { return false };
    history.watches[watch].request.keys = vetch_model::Keys::single("zzz");
    true
}

/// The watcher had asked for no deletions.
pub(crate) fn other_type(history: &mut History, rng: &mut Rng) -> bool {
    let Some((watch, ..)) = choose(rng, &places(history, |event| event.deleted)) else { return false };
    history.watches[watch].request.no_delete = true;
    true
}

pub(crate) fn update_as_create(history: &mut History, rng: &mut Rng) -> bool {
    change(history, rng, |event| event.kv.version > 1, |event| event.kv.version = 1)
}

/// Consistent in itself, but the key was there.
pub(crate) fn consistent_create(history: &mut History, rng: &mut Rng) -> bool {
    change(
        history,
        rng,
        |event| event.kv.version > 1,
        |event| {
            event.kv.version = 1;
            event.kv.create_revision = event.kv.mod_revision;
        },
    )
}

pub(crate) fn wrong_event_value(history: &mut History, rng: &mut Rng) -> bool {
    change(history, rng, |event| !event.deleted, |event| event.kv.value.push(b'!'))
}

pub(crate) fn wrong_event_lease(history: &mut History, rng: &mut Rng) -> bool {
    change(history, rng, |event| !event.deleted, |event| event.kv.lease += 1)
}

pub(crate) fn wrong_event_version(history: &mut History, rng: &mut Rng) -> bool {
    change(history, rng, |event| event.kv.version > 1, |event| event.kv.version += 1)
}

pub(crate) fn created_twice(history: &mut History, _: &mut Rng) -> bool {
    let Some(watch) = history.watches.iter_mut().find(|watch| watch.messages.len() > 1) else { return false };
    let again = watch.messages[0].clone();
    watch.messages.push(again);
    true
}

pub(crate) fn not_created(history: &mut History, _: &mut Rng) -> bool {
    let wanted =
        |watch: &&mut vetch_check::Watched| watch.messages.len() > 1 && watch.request.start_revision > 0;
    let Some(watch) = history.watches.iter_mut().find(wanted) else { return false };
    watch.messages.remove(0);
    true
}

/// The watcher got everything, and then that its start was compacted.
pub(crate) fn needless_cancel(history: &mut History, _: &mut Rng) -> bool {
    let newest =
        history.watches.last().and_then(|watch| watch.messages.last()).map_or(1, WatchMessage::revision);
    let Some(last) = history.watches.last_mut() else { return false };
    last.ending = Ending::Compacted { compact_revision: newest };
    true
}

/// No request ever compacted there.
pub(crate) fn invented_compaction(history: &mut History, _: &mut Rng) -> bool {
    let Some(last) = history.watches.last_mut() else { return false };
    last.ending = Ending::Compacted { compact_revision: 1_000_000 };
    true
}

pub(crate) fn header_behind(history: &mut History, rng: &mut Rng) -> bool {
    let Some((watch, message, index)) = choose(rng, &places(history, |_| true)) else { return false };
    let behind = events(history, watch, message)[index].kv.mod_revision - 1;
    if let WatchMessage::Events { revision, .. } = &mut history.watches[watch].messages[message] {
        *revision = behind;
    }
    true
}
