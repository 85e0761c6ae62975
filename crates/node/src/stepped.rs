//! Stepped: a node without threads, for simulations. The caller steps its parts, in any order it
//! likes.
//!
//! These are the very parts that [`Node::open`] runs on threads. A step never waits for another
//! part; it may take as long as the disk takes. A part whose step answers [`Step::Ended`] must be
//! dropped: others learn from that.

use std::sync::Arc;

use vetch_cluster::{Engine, ReplicaId};
use vetch_journal::Disk;

pub use crate::open::replicated::Env;
pub use crate::runtime::fan_out::FanOut;
pub use crate::runtime::housekeeping::Housekeeping;
pub use crate::runtime::journal_loop::JournalPart;
pub use crate::runtime::lease_thread::LeaseThread;
pub use crate::runtime::log_loop::ReplicatedLogLoop;
pub use crate::runtime::sequencer_loop::SequencerLoop;
pub use crate::runtime::{Parts, ReplicatedParts, Step};
pub use crate::time::Time;

use crate::cluster::ClusterConfig;
use crate::config::NodeConfig;
use crate::error::OpenError;
use crate::handle::{Node, Threads};
use crate::open::assemble;
use crate::runtime::lease_thread;
use crate::state::{Command, RunState};
use crate::types::Progress;

/// Recovers the data directory and returns a node at rest that follows the log of `engine` once
/// its parts are stepped. It may be served when it has caught up.
pub fn open_replicated(
    env: Env,
    config: NodeConfig,
    cluster: ClusterConfig,
    engine: Box<dyn Engine>,
    mut progress: impl FnMut(Progress),
) -> Result<(Node, ReplicatedParts), OpenError> {
    let (node, parts) = crate::open::replicated::assemble(env, config, cluster, engine, &mut progress)?;
    Ok((Node::new(node, Threads::default()), parts))
}

/// Recovers the data directory on `disk` and returns the node at rest.
pub fn open(
    disk: Arc<dyn Disk>,
    time: Arc<dyn Time>,
    config: NodeConfig,
    progress: impl FnMut(Progress),
) -> Result<(Node, Parts), OpenError> {
    let (node, parts) = assemble(disk, time, config, progress)?;
    Ok((Node::new(node, Threads::default()), parts))
}

/// Begins an orderly end: nothing new is accepted. False if the queue had no room: step the parts
/// and call again, until it is true; then step them until each has ended.
pub fn begin_stop(node: &Node) -> bool {
    let node = node.state();
    node.lifecycle.begin_stop();
    lease_thread::record(node, 0) && node.commands.try_send(Command::Stop).is_ok()
}

/// Makes the leader of a cluster name another server, without waiting for the transfer. False if
/// the queue had no room.
pub fn transfer_leadership(node: &Node, to: ReplicaId) -> bool {
    let (reply, _) = tokio::sync::oneshot::channel();
    node.state().commands.try_send(Command::TransferLeadership { to, reply }).is_ok()
}

/// Tells every caller that waits that the node has ended. To be called once every part has ended.
pub fn end(node: &Node) {
    node.state().lifecycle.end(RunState::Stopped);
}
