//! Open: from a data directory to a running node.
//!
//! Take the directory, load the newest checkpoint, replay the journal behind it, claim a new epoch
//! (`load`), make the parts (`parts`), start the threads (`threads`). `replicated` does the same
//! for a shared journal.

mod load;
mod parts;
pub(crate) mod replicated;
mod threads;

use std::sync::Arc;

use vetch_checkpoint::identity;
use vetch_journal::{Disk, RealDisk};

use crate::config::NodeConfig;
use crate::error::OpenError;
use crate::handle::Node;
use crate::runtime::Parts;
use crate::runtime::journal_loop::{JournalLoop, JournalPart};
use crate::state::NodeState;
use crate::time::{Monotonic, Time};
use crate::types::Progress;

use load::{Recovered, load, recover};
use parts::{AssembledParts, connect};
use threads::start;

impl Node {
    /// Recovers the data directory and starts the node's threads. Blocks until the node can serve.
    pub fn open(config: NodeConfig, progress: impl FnMut(Progress)) -> Result<Node, OpenError> {
        let (node, parts) = assemble(Arc::new(RealDisk), Arc::new(Monotonic::new()), config, progress)?;
        Ok(Node::new(node, start(parts, JournalPart::run)))
    }
}

/// Recovers the data directory and makes the parts of a node, at rest.
pub(crate) fn assemble(
    disk: Arc<dyn Disk>,
    time: Arc<dyn Time>,
    config: NodeConfig,
    mut progress: impl FnMut(Progress),
) -> Result<(Arc<NodeState>, Parts), OpenError> {
    let member = config.data_dir.join("member");
    disk.create_dir_all(&member).map_err(|source| OpenError::Io {
        op: "creating",
        path: member.display().to_string(),
        source,
    })?;
    let lock = disk.lock_dir(&member)?;
    let identity = identity::load_or_create(disk.as_ref(), &member, config.proposed)?;
    let mut recovered = recover(&disk, &config, &mut progress)?;
    let local = recovered.journal.take().expect("a local journal was recovered");
    let (node, assembled) = connect(config, identity, time, recovered, Some(&local), None);
    let AssembledParts { mut sequencer, housekeeping, fan_out, lease_thread, batches, trims } = assembled;
    let journal = JournalPart::new(JournalLoop::new(&node, batches, trims, local, lock));
    sequencer.commit_through(journal.inline_commit());
    Ok((node, Parts { sequencer, journal, housekeeping, fan_out, lease_thread }))
}
