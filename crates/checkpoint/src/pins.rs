//! Pins: checkpoints that are being copied, whose files stay until the copy is done.
//!
//! A checkpointer removes files that its two newest checkpoints do not need. Copying a large
//! checkpoint may take longer than that, so a copy pins it. A pin costs space. When space runs out,
//! [`CheckpointPins::release_all`] drops every pin, and a copy that then misses a file starts over
//! with a newer checkpoint.

use std::sync::Arc;

use parking_lot::Mutex;
use vetch_journal::Tip;
use vetch_store::Mark;

use super::directory::{ReferencedFiles, data_name, manifest_name};
use super::published::Published;

/// The files of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointFiles {
    /// The number of its manifest.
    pub number: u64,
    pub manifest: String,
    pub data: Vec<String>,
    /// The journal's tip that leads to it.
    pub tip: Tip,
    /// The position of the record that made the tip, in a shared journal; 0 in a local one.
    pub position: u64,
    pub mark: Mark,
    ids: Vec<u64>,
}

#[derive(Debug, Default)]
pub struct CheckpointPins {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    newest: Option<CheckpointFiles>,
    pinned: Vec<(u64, CheckpointFiles)>,
    next_ticket: u64,
}

/// Keeps the files of a checkpoint until it is dropped.
#[derive(Debug)]
pub struct PinnedCheckpoint {
    files: CheckpointFiles,
    pins: Arc<CheckpointPins>,
    ticket: u64,
}

impl CheckpointPins {
    /// Pins the newest checkpoint, if there is one.
    pub fn pin_newest(self: &Arc<CheckpointPins>) -> Option<PinnedCheckpoint> {
        let mut state = self.state.lock();
        let files = state.newest.clone()?;
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.pinned.push((ticket, files.clone()));
        Some(PinnedCheckpoint { files, pins: Arc::clone(self), ticket })
    }

    /// The lowest position in a shared journal of a pinned checkpoint.
    pub fn lowest_position(&self) -> Option<u64> {
        self.state.lock().pinned.iter().map(|(_, files)| files.position).min()
    }

    /// Drops every pin. True if there was one.
    pub fn release_all(&self) -> bool {
        !std::mem::take(&mut self.state.lock().pinned).is_empty()
    }

    /// Called before files are removed: a pin is either on the new checkpoint, or on the one
    /// before, whose files are then referenced.
    pub(super) fn publish(&self, published: &Published) {
        self.state.lock().newest = published.number.map(|number| {
            let ids: Vec<u64> = published.files.iter().map(|file| file.written.id).collect();
            let data = ids.iter().map(|&id| data_name(id)).collect();
            let Published { tip, position, mark, .. } = *published;
            CheckpointFiles { number, manifest: manifest_name(number), data, tip, position, mark, ids }
        });
    }

    /// Adds the files of pinned checkpoints.
    pub(super) fn add_to(&self, referenced: &mut ReferencedFiles) {
        for (_, files) in &self.state.lock().pinned {
            referenced.manifests.insert(files.number);
            referenced.data.extend(&files.ids);
        }
    }
}

impl PinnedCheckpoint {
    pub fn files(&self) -> &CheckpointFiles {
        &self.files
    }
}

impl Drop for PinnedCheckpoint {
    fn drop(&mut self) {
        let mut state = self.pins.state.lock();
        state.pinned.retain(|(ticket, _)| *ticket != self.ticket);
    }
}
