//! Holds: checkpoints that somebody copies, whose files stay until the copy is done.
//!
//! A checkpointer removes what its two newest checkpoints do not need. A copy of a large one may
//! take longer than that, so whoever copies holds the checkpoint meanwhile. A hold costs space, and
//! space may be needed for more than that: [`Holds::release_all`] takes every hold away, and a copy
//! that then misses a file begins anew with a newer checkpoint.

use std::sync::Arc;

use vetch_journal::Tip;
use vetch_store::Mark;

use super::checkpointer::Published;
use super::directory::{Needed, data_name, manifest_name};

use crate::sync::Mutex;

/// A checkpoint by its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The number of its manifest.
    pub number: u64,
    pub manifest: String,
    pub data: Vec<String>,
    /// The journal's tip that leads to it.
    pub tip: Tip,
    /// Where the record lies that made the tip, in a shared journal; 0 for a local one.
    pub position: u64,
    pub mark: Mark,
    ids: Vec<u64>,
}

#[derive(Debug, Default)]
pub struct Holds {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The newest checkpoint.
    current: Option<Files>,
    held: Vec<(u64, Files)>,
    next: u64,
}

/// Keeps the files of a checkpoint until it is dropped.
#[derive(Debug)]
pub struct Held {
    pub files: Files,
    holds: Arc<Holds>,
    ticket: u64,
}

impl Holds {
    /// Holds the newest checkpoint. None: there is none yet.
    pub fn hold(self: &Arc<Holds>) -> Option<Held> {
        let mut state = self.state.lock();
        let files = state.current.clone()?;
        let ticket = state.next;
        state.next += 1;
        state.held.push((ticket, files.clone()));
        Some(Held { files, holds: Arc::clone(self), ticket })
    }

    /// The lowest position in a shared journal that a checkpoint somebody holds was taken at.
    pub fn lowest_position(&self) -> Option<u64> {
        self.state.lock().held.iter().map(|(_, files)| files.position).min()
    }

    /// Lets go of everything. True if there was anything.
    pub fn release_all(&self) -> bool {
        !std::mem::take(&mut self.state.lock().held).is_empty()
    }

    /// Called before anything is removed, so that a hold is on what is there, or on what was there
    /// a moment ago and is then among the needed.
    pub(super) fn publish(&self, published: &Published) {
        self.state.lock().current = published.number.map(|number| {
            let ids: Vec<u64> = published.files.iter().map(|file| file.written.id).collect();
            let data = ids.iter().map(|&id| data_name(id)).collect();
            let Published { tip, position, mark, .. } = *published;
            Files { number, manifest: manifest_name(number), data, tip, position, mark, ids }
        });
    }

    pub(super) fn add_to(&self, needed: &mut Needed) {
        for (_, files) in &self.state.lock().held {
            needed.manifests.insert(files.number);
            needed.data.extend(&files.ids);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.holds.state.lock();
        state.held.retain(|(ticket, _)| *ticket != self.ticket);
    }
}
