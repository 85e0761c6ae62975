//! The carrier: takes the questions of reads at a server that does not write to whoever does, as
//! the server's edge does.

use std::rc::Rc;
use std::time::Duration;

use vetch_node::Node;
use vetch_node::cluster::{Question, Questions};

use super::directory::{Directory, Way};
use super::life::{Life, within};
use crate::env::Env;
use crate::time::MILLI;

/// After a question that was refused, or without anybody to ask.
const PAUSE: u64 = 20 * MILLI;
/// Whoever was asked may never answer. In reality the next news of a writer ends the wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// Carries questions for as long as the life lasts.
pub(super) async fn carry(
    env: Rc<Env>,
    directory: Rc<Directory>,
    at: usize,
    node: Node,
    life: Rc<Life>,
    mut questions: Questions,
) {
    let carrying = async {
        while let Some(question) = questions.next().await {
            answer(&env, &directory, at, &node, question).await;
        }
    };
    within(&env, &life, carrying).await;
}

async fn answer(env: &Rc<Env>, directory: &Rc<Directory>, at: usize, node: &Node, mut question: Question) {
    while question.is_wanted() {
        match Directory::way(node) {
            Way::Here => {
                question.ask_here();
                return env.clock.sleep(MILLI).await;
            }
            Way::There(to) => {
                let asked = directory.read_index(env, at, to);
                if let Ok(Some(index)) = tokio::time::timeout(PATIENCE, asked).await {
                    return question.answer(index);
                }
            }
            Way::Nowhere => {}
        }
        env.clock.sleep(PAUSE).await;
    }
}
