//! Clients of a cluster: each stays with one server until that is of no use, and goes on at the
//! next.

use std::rc::Rc;

use vetch_check::Outcome;
use vetch_model::Request;

use super::directory::Directory;
use super::life::within;
use crate::client;
use crate::coverage::Rare;
use crate::env::{Env, Phase};
use crate::operator;
use crate::show::Show;
use crate::time::{MILLI, SECOND};
use crate::trace::say;
use crate::watcher;
use crate::workload::{How, Memory};

/// Sends requests until the load is over or the run has had enough.
pub(super) async fn run(env: Rc<Env>, directory: Rc<Directory>, servers: usize, client: u32, memory: Memory) {
    let mut at = client as usize % servers;
    while env.phase.get() == Phase::Load {
        let think = memory.borrow_mut().rng().skewed(1, env.plan.think_nanos);
        env.clock.sleep(think).await;
        if env.phase.get() != Phase::Load || env.knowledge.borrow().answers >= env.plan.requests {
            break;
        }
        if memory.borrow_mut().rng().percent(3) {
            if let Some(serving) = directory.serving(at) {
                within(&env, &serving.life, operator::at_server(&env, &serving.node)).await;
            }
            continue;
        }
        let (request, how) = memory.borrow_mut().request(&env.plan, &env.knowledge.borrow());
        let timeout = match memory.borrow_mut().rng().below(10) {
            0 => 100 * MILLI,
            1..=4 => SECOND,
            _ => 10 * SECOND,
        };
        let outcome = call(&env, &directory, at, client, request.clone(), how, timeout).await;
        match &outcome {
            Outcome::Answered { revision, answer } => {
                memory.borrow_mut().learn(&request, *revision, answer);
            }
            Outcome::Unknown | Outcome::NotDone => {
                at = (at + 1) % servers;
                env.clock.sleep(60 * MILLI).await;
            }
            Outcome::Refused(_) => {}
        }
    }
}

/// Sends one request by way of one server and records what becomes of it.
pub(super) async fn call(
    env: &Rc<Env>,
    directory: &Rc<Directory>,
    at: usize,
    client: u32,
    request: Request,
    how: How,
    timeout: u64,
) -> Outcome {
    say!(env.trace, "client {client} asks server {at} {how:?} {}", Show(&request));
    let served = directory.ask(env, at, &request, how);
    client::record(env, client, &request, timeout, served).await
}

/// Watches, at one server after the other, until everything has settled.
pub(super) async fn watch(
    env: Rc<Env>,
    directory: Rc<Directory>,
    servers: usize,
    first: usize,
    memory: watcher::Memory,
) {
    let mut at = first % servers;
    let mut begun = false;
    loop {
        if let Some(serving) = directory.serving(at) {
            if std::mem::replace(&mut begun, true) {
                env.hit(Rare::WatchedElsewhere);
            }
            let watching = watcher::run(Rc::clone(&env), serving.node.clone(), Rc::clone(&memory));
            within(&env, &serving.life, watching).await;
        }
        if let Phase::Settle(revision) = env.phase.get()
            && memory.borrow().is_settled(revision)
        {
            return;
        }
        env.clock.sleep(50 * MILLI).await;
        at = (at + 1) % servers;
    }
}
