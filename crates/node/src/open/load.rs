//! Load: the newest checkpoint and the journal behind it, as a state.

use std::sync::Arc;

use vetch_checkpoint::replay;
use vetch_checkpoint::{Checkpointer, Loaded};
use vetch_journal::{Disk, Entry, Journal, LocalConfig, LocalJournal, Position, Tip};
use vetch_store::load::History;
use vetch_store::{Record, Store};
use vetch_watch::{EventLog, Events};

use crate::config::NodeConfig;
use crate::error::OpenError;
use crate::event::NodeEvent;
use crate::types::Progress;

/// Events by revision.
type Revisions = Vec<(i64, Events<NodeEvent>)>;

/// Everything recovery found.
pub(super) struct Recovered {
    pub(super) store: Store,
    /// What the checkpoint holds and may still be watched.
    pub(super) history: History,
    /// What the journal holds behind it.
    pub(super) revisions: Revisions,
    /// Records that are in the journal and not yet in a checkpoint.
    pub(super) dirty: Vec<Record>,
    /// None on a shared journal.
    pub(super) journal: Option<LocalJournal>,
    pub(super) tip: Tip,
    pub(super) checkpointer: Checkpointer,
}

/// The newest checkpoint.
pub(super) fn load(
    disk: &Arc<dyn Disk>,
    config: &NodeConfig,
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded, OpenError> {
    let mut report = |bytes_done, bytes_total| progress(Progress::Checkpoint { bytes_done, bytes_total });
    let loaded = vetch_checkpoint::load(
        Arc::clone(disk),
        &config.data_dir.join("member").join("checkpoint"),
        config.tuning.checkpoints.files,
        config.tuning.checkpoints.recovery_threads,
        &config.keys,
        &mut report,
    )?;
    if let Some(why) = &loaded.report.fell_back {
        progress(Progress::Note(format!("the newest checkpoint was passed over: {why}")));
    }
    loaded.report.notes.iter().for_each(|note| progress(Progress::Note(note.clone())));
    Ok(loaded)
}

/// The state of a server on a local journal, with a new epoch claimed.
pub(super) fn recover(
    disk: &Arc<dyn Disk>,
    config: &NodeConfig,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recovered, OpenError> {
    let mut recovered = replayed(disk, config, progress)?;
    let journal = recovered.journal.as_mut().expect("a local journal was recovered");
    recovered.tip = journal.claim()?;
    Ok(recovered)
}

/// The state that the directory of a server on a local journal holds, as it was left.
fn replayed(
    disk: &Arc<dyn Disk>,
    config: &NodeConfig,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recovered, OpenError> {
    let member = config.data_dir.join("member");
    let mut loaded = load(disk, config, progress)?;
    if loaded.position > 0 {
        return Err(OpenError::Shared(config.data_dir.display().to_string()));
    }
    let local = LocalConfig {
        segment_len: config.journal_segment_bytes,
        spares: config.tuning.journal.spare_segments,
        unsafe_no_fsync: config.unsafe_no_fsync,
        new_journal_id: config.tuning.journal.new_id,
        keys: config.keys.clone(),
        ..LocalConfig::default()
    };
    let recovery = LocalJournal::recover(Arc::clone(disk), &member.join("journal"), local, loaded.tip)?;
    let mut tail =
        Tail { store: std::mem::take(&mut loaded.store), revisions: Vec::new(), dirty: Vec::new() };
    let journal = tail.replay(recovery, progress)?;
    // What the checkpoint before the newest would have to replay must be readable too.
    let oldest = loaded.checkpointer.journal_needed_from().unwrap_or(loaded.tip);
    journal.check_keys(Position(oldest.seq.next().get()))?;
    let tip = *journal.tip();
    assert!(tip.next_rev == tail.store.head().revision + 1, "journal and store agree on the next revision");
    let mark = tail.store.head();
    tail.store.publish(mark);
    let Tail { store, revisions, dirty } = tail;
    let Loaded { history, checkpointer, .. } = loaded;
    Ok(Recovered { store, history, revisions, dirty, journal: Some(journal), tip, checkpointer })
}

/// The state while the journal's tail is replayed into it.
struct Tail {
    store: Store,
    revisions: Revisions,
    dirty: Vec<Record>,
}

impl Tail {
    fn replay(
        &mut self,
        mut recovery: vetch_journal::Recovery,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<LocalJournal, OpenError> {
        while let Some(item) = recovery.next_entry()? {
            self.apply(&item.entry).map_err(|source| OpenError::Replay { seq: item.entry.seq, source })?;
            let read = recovery.progress();
            progress(Progress::Journal { bytes_done: read.done, bytes_total: read.total });
        }
        let (journal, report) = recovery.finish()?;
        if let Some(cut) = report.cut {
            progress(Progress::Note(format!(
                "cut an unacknowledged write that a power loss had torn: {} bytes of {} at {}: {}",
                cut.bytes, cut.file, cut.offset, cut.reason
            )));
        }
        Ok(journal)
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), vetch_store::BadCommand> {
        for unit in replay::replay(&mut self.store, entry)? {
            self.dirty.extend(unit.events.iter().map(|event| event.kv.clone()));
            let events: Vec<NodeEvent> = unit.events.into_iter().map(NodeEvent).collect();
            self.revisions.push((unit.revision, events.into()));
        }
        Ok(())
    }
}

/// Groups events, which come in revision order, by their revision.
fn by_revision(history: History) -> impl Iterator<Item = (i64, Events<NodeEvent>)> {
    let mut events = history.into_events().map(|(revision, event)| (revision, NodeEvent(event))).peekable();
    std::iter::from_fn(move || {
        let (revision, first) = events.next()?;
        let is_of_it = |(other, _): &(i64, NodeEvent)| *other == revision;
        let Some((_, second)) = events.next_if(is_of_it) else {
            return Some((revision, Events::One(first)));
        };
        let mut group = vec![first, second];
        while let Some((_, event)) = events.next_if(is_of_it) {
            group.push(event);
        }
        Some((revision, group.into()))
    })
}

impl Recovered {
    /// Everything that may still be watched.
    pub(super) fn event_log(history: History, revisions: Revisions, store: &Store) -> EventLog<NodeEvent> {
        let mark = store.head();
        EventLog::load(mark.compact_revision.max(0), mark.revision, by_revision(history).chain(revisions))
    }
}
