//! The carrier: takes batches of linearizable reads from a follower to the leader, as the server
//! crate does.

use std::rc::Rc;
use std::time::Duration;

use vetch_node::Node;
use vetch_node::cluster::{ReadIndexBatch, ReadIndexBatches};

use super::directory::{Directory, Way};
use super::life::{Life, within};
use crate::env::Env;
use crate::time::MILLI;

/// Delay after a batch that was refused, or while there is no leader.
const RETRY_DELAY: u64 = 20 * MILLI;
/// The leader may never answer. In reality the wait ends when another leader is known.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Carries batches for as long as the life lasts.
pub(super) async fn carry(
    env: Rc<Env>,
    directory: Rc<Directory>,
    at: usize,
    node: Node,
    life: Rc<Life>,
    mut batches: ReadIndexBatches,
) {
    let carrying = async {
        while let Some(batch) = batches.next().await {
            answer(&env, &directory, at, &node, batch).await;
        }
    };
    within(&env, &life, carrying).await;
}

async fn answer(env: &Rc<Env>, directory: &Rc<Directory>, at: usize, node: &Node, mut batch: ReadIndexBatch) {
    while batch.has_reads() {
        match Directory::way(node) {
            Way::Here => {
                batch.retry_locally();
                return env.clock.sleep(MILLI).await;
            }
            Way::There(to) => {
                let asked = directory.read_index(env, at, to);
                if let Ok(Some(index)) = tokio::time::timeout(TIMEOUT, asked).await {
                    return batch.answer(index);
                }
            }
            Way::Nowhere => {}
        }
        env.clock.sleep(RETRY_DELAY).await;
    }
}
