//! The carrier: takes the batches of reads at a server that does not write to whoever does, as
//! the server's edge does.

use std::rc::Rc;
use std::time::Duration;

use vetch_node::Node;
use vetch_node::cluster::{ReadIndexBatch, ReadIndexBatches};

use super::directory::{Directory, Way};
use super::life::{Life, within};
use crate::env::Env;
use crate::time::MILLI;

/// After a batch that was refused, or without anybody to ask.
const PAUSE: u64 = 20 * MILLI;
/// Whoever was asked may never answer. In reality the next news of a writer ends the wait.
const PATIENCE: Duration = Duration::from_secs(1);

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
                if let Ok(Some(index)) = tokio::time::timeout(PATIENCE, asked).await {
                    return batch.answer(index);
                }
            }
            Way::Nowhere => {}
        }
        env.clock.sleep(PAUSE).await;
    }
}
