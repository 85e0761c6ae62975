//! The directory: how clients reach servers, and servers each other. What only the writer can
//! answer is passed on to it, as the server's edge does; ranges are answered by the server that is
//! asked, from its own state.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use vetch_check::Outcome;
use vetch_cluster::LogIndex;
use vetch_model::{Answer, Refusal, Request};
use vetch_node::Node;

use super::life::{Life, within};
use crate::client;
use crate::coverage::Rare;
use crate::env::Env;
use crate::time::{MICRO, MILLI};
use crate::workload::How;
use vetch_testkit::random::Rng;

/// A server that serves.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) node: Node,
    pub(super) life: Rc<Life>,
}

/// Where the writer is, as a server sees it.
pub(super) enum Way {
    Here,
    There(usize),
    Nowhere,
}

pub(super) struct Directory {
    servers: RefCell<BTreeMap<usize, Serving>>,
    /// Two servers that do not hear each other, and until when.
    cuts: RefCell<BTreeMap<(usize, usize), u64>>,
    rng: RefCell<Rng>,
}

impl Directory {
    pub(super) fn new(rng: Rng) -> Directory {
        Directory { servers: RefCell::default(), cuts: RefCell::default(), rng: RefCell::new(rng) }
    }

    pub(super) fn enter(&self, at: usize, serving: Serving) {
        self.servers.borrow_mut().insert(at, serving);
    }

    pub(super) fn leave(&self, at: usize) {
        self.servers.borrow_mut().remove(&at);
    }

    pub(super) fn serving(&self, at: usize) -> Option<Serving> {
        self.servers.borrow().get(&at).cloned()
    }

    pub(super) fn cut(&self, one: usize, other: usize, until: u64) {
        self.cuts.borrow_mut().insert((one.min(other), one.max(other)), until);
    }

    pub(super) fn heal(&self) {
        self.cuts.borrow_mut().clear();
    }

    fn are_cut(&self, one: usize, other: usize, now: u64) -> bool {
        self.cuts.borrow().get(&(one.min(other), one.max(other))).is_some_and(|until| *until > now)
    }

    fn delay(&self) -> u64 {
        self.rng.borrow_mut().between(100 * MICRO, 3 * MILLI)
    }

    /// Has a request answered by way of one server.
    pub(super) async fn ask(
        &self,
        env: &Rc<Env>,
        at: usize,
        request: &Request,
        how: How,
    ) -> Result<(i64, Answer), Outcome> {
        let Some(here) = self.serving(at) else { return Err(Outcome::NotDone) };
        if let Request::Range(range) = request {
            return self.answer_here(env, &here, request, how, range.serializable).await;
        }
        let to = match Directory::way(&here.node) {
            Way::Here => return answer(env, &here, request, how).await,
            Way::There(to) => to,
            Way::Nowhere => {
                env.hit(Rare::NoLeader);
                return Err(Outcome::NotDone);
            }
        };
        self.hop(env, at, to).await;
        let Some(there) = self.serving(to) else {
            env.hit(Rare::ForwardedInVain);
            return Err(Outcome::Unknown);
        };
        let answered = answer(env, &there, request, how).await;
        self.hop(env, at, to).await;
        if here.life.over.get() {
            return Err(Outcome::Unknown);
        }
        if answered.is_ok() {
            env.hit(Rare::Forwarded);
        }
        answered
    }

    async fn answer_here(
        &self,
        env: &Rc<Env>,
        here: &Serving,
        request: &Request,
        how: How,
        serializable: bool,
    ) -> Result<(i64, Answer), Outcome> {
        let is_leader = matches!(Directory::way(&here.node), Way::Here);
        let answered = answer(env, here, request, how).await;
        match answered {
            // A server that is behind does not know of what another one has shown.
            Err(Outcome::Refused(Refusal::FutureRevision)) if serializable => return Err(Outcome::NotDone),
            Ok((revision, _)) if serializable && revision < env.knowledge.borrow().revision => {
                env.hit(Rare::ReadBehind);
            }
            Ok(_) if !serializable && !is_leader => env.hit(Rare::ReadElsewhere),
            _ => {}
        }
        answered
    }

    /// Where to a server takes what only the writer can answer.
    pub(super) fn way(node: &Node) -> Way {
        let status = node.cluster().map(|cluster| cluster.borrow().clone()).unwrap_or_default();
        match status.leader {
            _ if status.is_leader => Way::Here,
            Some(writer) => Way::There(writer.member as usize - 1),
            None => Way::Nowhere,
        }
    }

    /// An index for reads at one server, from another one that it takes for the writer.
    pub(super) async fn read_index(&self, env: &Rc<Env>, at: usize, to: usize) -> Option<LogIndex> {
        self.hop(env, at, to).await;
        let there = self.serving(to)?;
        let index = within(env, &there.life, there.node.read_index()).await?.ok()?;
        self.hop(env, at, to).await;
        Some(index)
    }

    /// A message between two servers; lost for good if they are cut off from each other.
    async fn hop(&self, env: &Env, one: usize, other: usize) {
        env.clock.sleep(self.delay()).await;
        if self.are_cut(one, other, env.now()) {
            std::future::pending::<()>().await;
        }
    }
}

async fn answer(
    env: &Rc<Env>,
    serving: &Serving,
    request: &Request,
    how: How,
) -> Result<(i64, Answer), Outcome> {
    match within(env, &serving.life, client::serve(env, &serving.node, request, how)).await {
        Some(answered) => answered.map_err(|error| client::not_served(env, &error)),
        None => Err(Outcome::Unknown),
    }
}
