//! The judge of a history: is there one sequence of writes that explains everything the clients were told?
//!
//! The watcher's events are the claim; acknowledgements, reads and the server's final state are the evidence:
//!
//! * revisions are dense: 2, 3, 4, ... each exactly once, in order, over all crashes;
//! * every acknowledged write is at its revision with exactly its effects, and no revision was acknowledged twice;
//! * every other revision is explained by one unanswered write, each used once;
//! * versions, create revisions and previous values follow from replaying the events;
//! * what a reader was shown is in the events;
//! * the server's state now, its state at past revisions, and its history read again agree with the replay.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use vetch_api::{mvccpb, pb};

use crate::client::Client;
use crate::load::{Effects, History};

type State = BTreeMap<Vec<u8>, mvccpb::KeyValue>;

pub(crate) struct Verdict {
    revisions: usize,
    acknowledged: usize,
    unknown: usize,
    unknown_that_happened: usize,
    reads: usize,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { revisions, acknowledged, unknown, unknown_that_happened, reads } = self;
        write!(
            f,
            "{revisions} revisions, {acknowledged} acknowledged, {unknown_that_happened} of {unknown} unanswered \
             writes happened, {reads} reads confirmed"
        )
    }
}

/// Judges a finished history against the server it came from. Revisions below `readable_from` have been compacted.
pub(crate) async fn judge(history: &History, client: &Client, readable_from: i64) -> Result<Verdict> {
    ensure!(history.broken.is_empty(), "clients saw what may not be: {:?}", history.broken);
    let revisions = by_revision(&history.events)?;
    let unknown_that_happened = explain(history, &revisions)?;
    check_reads(history)?;
    check_server(history, client, readable_from).await?;
    Ok(Verdict {
        revisions: revisions.len(),
        acknowledged: history.acknowledged.len(),
        unknown: history.unknown.len(),
        unknown_that_happened,
        reads: history.seen.len(),
    })
}

/// Groups events by revision; the groups must be 2, 3, 4, ... without gap, repetition or disorder.
fn by_revision(events: &[mvccpb::Event]) -> Result<Vec<Effects>> {
    let mut revisions: Vec<Effects> = Vec::new();
    for event in events {
        let kv = event.kv.as_ref().context("an event without a key")?;
        let current = revisions.len() as i64 + 1;
        let value = (event.r#type == 0).then(|| text(&kv.value));
        let effect = (text(&kv.key), value);
        if kv.mod_revision == current {
            let group = revisions.last_mut().context("a first event at revision 1")?;
            ensure!(!group.contains(&effect), "revision {current} delivered {effect:?} twice");
            group.push(effect);
        } else {
            ensure!(kv.mod_revision == current + 1, "after revision {current} came {}", kv.mod_revision);
            revisions.push(vec![effect]);
        }
    }
    Ok(revisions)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sorted(effects: &Effects) -> Effects {
    let mut effects = effects.clone();
    effects.sort();
    effects
}

/// Every revision has one cause. Answers how many unanswered writes turned out to have happened.
fn explain(history: &History, revisions: &[Effects]) -> Result<usize> {
    let mut explained = vec![false; revisions.len()];
    for (revision, effects) in &history.acknowledged {
        let index = usize::try_from(revision - 2).context("a write acknowledged below revision 2")?;
        let Some(found) = revisions.get(index) else {
            bail!(
                "acknowledged revision {revision} ({effects:?}) is lost: history ends at {}",
                revisions.len() + 1
            );
        };
        ensure!(
            sorted(found) == sorted(effects),
            "revision {revision} was acknowledged as {effects:?} but holds {found:?}"
        );
        ensure!(
            !std::mem::replace(&mut explained[index], true),
            "revision {revision} was acknowledged twice"
        );
    }
    let mut unknown: HashMap<Effects, usize> = HashMap::new();
    for effects in &history.unknown {
        *unknown.entry(sorted(effects)).or_default() += 1;
        // A transaction's delete leaves no event when the key was not there.
        if effects.len() == 3 {
            *unknown.entry(sorted(&effects[..2].to_vec())).or_default() += 1;
        }
    }
    let mut happened = 0;
    for (index, effects) in revisions.iter().enumerate().filter(|(index, _)| !explained[*index]) {
        let Some(left) = unknown.get_mut(&sorted(effects)).filter(|left| **left > 0) else {
            bail!("revision {} holds {effects:?}, which nobody wrote, or wrote only once", index + 2);
        };
        *left -= 1;
        happened += 1;
    }
    Ok(happened)
}

/// What readers were shown must be in the events, exactly.
fn check_reads(history: &History) -> Result<()> {
    let mut versions = HashMap::new();
    for event in history.events.iter().filter(|event| event.r#type == 0) {
        let kv = event.kv.as_ref().context("an event without a key")?;
        versions.insert((kv.key.clone(), kv.mod_revision), kv);
    }
    for seen in &history.seen {
        let written = versions.get(&(seen.key.clone(), seen.mod_revision));
        ensure!(written == Some(&seen), "a reader was shown {seen:?}, but the history has {written:?}");
    }
    Ok(())
}

/// Replays the events, checking what each says about the one before it, and compares the server with the result.
async fn check_server(history: &History, client: &Client, readable_from: i64) -> Result<()> {
    let mut state = State::new();
    let last = history.events.last().and_then(|event| event.kv.as_ref()).map_or(1, |kv| kv.mod_revision);
    // A few dozen places in the past, and the present.
    let step = ((last - readable_from) / 40).max(1);
    let mut at = 1;
    for event in &history.events {
        let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
        if revision != at {
            if at >= readable_from && (at - readable_from) % step == 0 {
                compare_state(client, at, &state).await?;
            }
            at = revision;
        }
        replay(&mut state, event)?;
    }
    compare_state(client, last, &state).await?;
    compare_state(client, 0, &state).await?;
    compare_history(history, client, readable_from, last).await
}

fn replay(state: &mut State, event: &mvccpb::Event) -> Result<()> {
    let kv = event.kv.as_ref().context("an event without a key")?;
    let before = state.get(&kv.key[..]);
    ensure!(event.prev_kv.as_ref() == before, "{event:?} names another predecessor than {before:?}");
    if event.r#type == 1 {
        ensure!(before.is_some(), "{event:?} deletes a key that was not there");
        state.remove(&kv.key[..]);
        return Ok(());
    }
    let expected = match before {
        Some(before) => (before.create_revision, before.version + 1),
        None => (kv.mod_revision, 1),
    };
    ensure!((kv.create_revision, kv.version) == expected, "{event:?} does not follow {before:?}");
    state.insert(kv.key.to_vec(), kv.clone());
    Ok(())
}

async fn compare_state(client: &Client, revision: i64, state: &State) -> Result<()> {
    let request =
        pb::RangeRequest { key: "\0".into(), range_end: "\0".into(), revision, ..Default::default() };
    let response =
        client.kv.clone().range(request).await.with_context(|| format!("reading at {revision}"))?;
    let kvs = response.into_inner().kvs;
    ensure!(kvs.iter().eq(state.values()), "the state at revision {revision} is not what the history says");
    Ok(())
}

/// A fresh watcher is told the same story as the one that was there when it happened.
async fn compare_history(history: &History, client: &Client, from: i64, to: i64) -> Result<()> {
    let create = pb::WatchCreateRequest {
        key: "\0".into(),
        range_end: "\0".into(),
        start_revision: from,
        ..Default::default()
    };
    let union = pb::watch_request::RequestUnion::CreateRequest(create);
    let (requests, outgoing) = tokio::sync::mpsc::channel(1);
    requests.send(pb::WatchRequest { request_union: Some(union) }).await?;
    let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
    let mut responses = client.watch.clone().watch(outgoing).await?.into_inner();
    let revision_of = |event: &mvccpb::Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
    let expected: Vec<_> = history.events.iter().filter(|event| revision_of(event) >= from).collect();
    let mut told = 0;
    while told < expected.len() {
        let limit = std::time::Duration::from_secs(20);
        let response = tokio::time::timeout(limit, responses.message())
            .await
            .with_context(|| format!("a fresh watch from {from} stopped after {told} events"))??
            .context("a fresh watch ended")?;
        ensure!(!response.canceled, "a fresh watch from {from} was canceled: {response:?}");
        for event in response.events.iter().filter(|event| revision_of(event) <= to) {
            let expected = expected.get(told).context("a fresh watch tells more than happened")?;
            ensure!(
                event.kv == expected.kv && event.r#type == expected.r#type,
                "a fresh watch says {event:?} where the first one said {expected:?}"
            );
            told += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{by_revision, explain};
    use crate::load::History;
    use vetch_api::mvccpb::{Event, KeyValue};

    fn put(revision: i64, key: &'static str, value: &'static str) -> Event {
        let kv =
            KeyValue { key: key.into(), value: value.into(), mod_revision: revision, ..Default::default() };
        Event { r#type: 0, kv: Some(kv), prev_kv: None }
    }

    fn written(key: &str, value: &str) -> crate::load::Effects {
        vec![(key.to_owned(), Some(value.to_owned()))]
    }

    #[test]
    fn gaps_repetitions_and_disorder_are_found() {
        assert_eq!(by_revision(&[put(2, "a", "1"), put(3, "a", "2")]).unwrap().len(), 2);
        assert_eq!(by_revision(&[put(2, "a", "1"), put(2, "b", "2")]).unwrap().len(), 1);
        assert!(by_revision(&[put(2, "a", "1"), put(4, "a", "2")]).is_err());
        assert!(by_revision(&[put(2, "a", "1"), put(2, "a", "1")]).is_err());
        assert!(by_revision(&[put(2, "a", "1"), put(3, "a", "2"), put(2, "a", "1")]).is_err());
    }

    #[test]
    fn lost_changed_repeated_and_invented_writes_are_found() {
        let revisions = vec![written("a", "1"), written("b", "2")];
        let history = |acknowledged, unknown| History { acknowledged, unknown, ..Default::default() };
        let good = history(vec![(2, written("a", "1"))], vec![written("b", "2"), written("c", "3")]);
        assert_eq!(explain(&good, &revisions).unwrap(), 1);
        let lost = history(vec![(4, written("a", "9"))], vec![]);
        assert!(explain(&lost, &revisions).is_err());
        let changed = history(vec![(2, written("a", "other"))], vec![written("b", "2")]);
        assert!(explain(&changed, &revisions).is_err());
        let twice = history(vec![(2, written("a", "1")), (2, written("a", "1"))], vec![written("b", "2")]);
        assert!(explain(&twice, &revisions).is_err());
        let invented = history(vec![(2, written("a", "1"))], vec![]);
        assert!(explain(&invented, &revisions).is_err());
    }
}
