//! Peace: no more troubles. Every server must serve, let every watcher catch up, and have what all
//! others have.

use std::rc::Rc;

use vetch_check::Outcome;
use vetch_model::{Keys, Put, Range, Request};
use vetch_node::types::HashKv;

use super::clients::call;
use super::directory::Directory;
use super::plan::Breach;
use super::world::World;
use crate::coverage::Rare;
use crate::env::{Env, Phase};
use crate::executor::without_delay;
use crate::time::{MILLI, SECOND};
use crate::trace::say;
use crate::watcher;
use crate::workload::How;

/// The client that asks for all that is asked here.
const PROBER: u32 = 99;
/// Every wait in here must end within this much virtual time.
const TIMEOUT: u64 = 90 * SECOND;
/// Leases longer than this are revoked instead of being waited for.
const LONG: i64 = 30;

impl World {
    pub(super) fn make_peace(&mut self) {
        say!(self.env.trace, "peace");
        self.wire.make_peace();
        self.directory.heal();
        let now = self.env.now();
        for server in &mut self.servers {
            server.disk.disarm();
            server.starts_at = server.starts_at.min(now + MILLI);
            if let Some(running) = &mut server.running {
                running.wakeful = [100; 5];
            }
        }
    }

    /// On a log that kept its contract: everything that was promised.
    pub(super) fn everything_is_well(&mut self, streams: usize) {
        let well = self.all_serve()
            && self.load_ends(streams)
            && self.leases_end()
            && self.watchers_catch_up()
            && self.converges().is_some()
            && self.final_reads();
        if well {
            self.env.hit(Rare::Converged);
        }
    }

    fn not_live(&self, what: &str) -> bool {
        // A violation found meanwhile is the better explanation.
        if self.env.is_sound() {
            self.env.violation(format!("after all troubles had ended: {what}: {}", self.state()));
        }
        false
    }

    /// A write and a read by way of each server.
    fn all_serve(&mut self) -> bool {
        (0..self.servers.len()).all(|at| {
            let (env, directory) = (Rc::clone(&self.env), Rc::clone(&self.directory));
            let served = self.complete(TIMEOUT, async move { serves(&env, &directory, at).await });
            served.is_some() || self.not_live(&format!("server {at} does not serve"))
        })
    }

    fn load_ends(&mut self, streams: usize) -> bool {
        // Watchers go on as under load until it is known what they are to reach.
        self.env.phase.set(Phase::Settle(i64::MAX));
        let ended = self.run_until(TIMEOUT, |world| world.busy() <= streams);
        // Requests that their clients gave up on may still be under way; behind these writes they
        // are not.
        (ended || self.not_live("a client was not answered")) && self.all_serve()
    }

    fn leases_end(&mut self) -> bool {
        let (env, directory) = (Rc::clone(&self.env), Rc::clone(&self.directory));
        let servers = self.servers.len();
        let ended = self.complete(TIMEOUT, async move {
            loop {
                let found = (0..servers).filter_map(|at| directory.serving(at).map(|found| (at, found)));
                let writer = found.into_iter().find(|(_, found)| {
                    found.node.cluster().is_some_and(|cluster| cluster.borrow().is_leader)
                });
                if let Some((at, writer)) = writer
                    && let Ok(leases) = writer.node.leases().await
                {
                    if leases.is_empty() {
                        return;
                    }
                    for id in leases {
                        let left = writer.node.lease_time_to_live(id, false).await;
                        if left.is_ok_and(|left| left.is_some_and(|left| left.granted_ttl > LONG)) {
                            let revoke = Request::LeaseRevoke { id };
                            call(&env, &directory, at, PROBER, revoke, How::Plain, 10 * SECOND).await;
                        }
                    }
                }
                env.clock.sleep(500 * MILLI).await;
            }
        });
        ended.is_some() || self.not_live("leases did not end")
    }

    fn newest(&self) -> i64 {
        let running = self.servers.iter().filter_map(|server| server.running.as_ref());
        running.map(|running| running.node.revision()).max().unwrap_or(0)
    }

    fn watchers_catch_up(&mut self) -> bool {
        self.env.phase.set(Phase::Settle(self.newest()));
        self.run_until(TIMEOUT, |world| world.busy() == 0) || self.not_live("a watcher did not catch up")
    }

    /// All have the same state. None, and a violation, if not.
    fn converges(&mut self) -> Option<HashKv> {
        let newest = self.newest();
        let everybody = |world: &World| {
            world.servers.iter().all(|server| {
                server.running.as_ref().is_some_and(|running| running.node.revision() == newest)
            })
        };
        if !self.run_until(TIMEOUT, everybody) {
            self.not_live("a server did not catch up");
            return None;
        }
        let hashes: Vec<(usize, HashKv)> = (0..self.servers.len()).filter_map(|at| self.hash(at)).collect();
        self.agree(&hashes)
    }

    fn hash(&mut self, at: usize) -> Option<(usize, HashKv)> {
        let node = self.servers[at].running.as_ref()?.node.clone();
        let hash = self.complete(TIMEOUT, async move { without_delay(node.hash_kv(0)).await.ok() });
        hash.flatten().map(|hash| (at, hash))
    }

    fn agree(&self, hashes: &[(usize, HashKv)]) -> Option<HashKv> {
        let state = |hash: &HashKv| (hash.revision, hash.compact_revision, hash.hash);
        let (_, first) = hashes.first()?;
        match hashes.iter().find(|(_, hash)| state(hash) != state(first)) {
            None => Some(*first),
            Some(_) => {
                self.env.violation(format!("the servers have different states: {hashes:?}"));
                None
            }
        }
    }

    /// Reads everything, at a few old revisions and now, and watches everything.
    fn final_reads(&mut self) -> bool {
        let (env, directory) = (Rc::clone(&self.env), Rc::clone(&self.directory));
        let (at, other) = (self.rng.below(self.servers.len()), self.rng.below(self.servers.len()));
        let Some(serving) = directory.serving(other) else { return self.not_live("a server is gone") };
        let newest = serving.node.revision();
        let oldest = serving.node.status().compact_revision.max(1);
        let span = (newest - oldest).max(1) as u64;
        let olds: Vec<i64> = (0..3).map(|_| newest - self.rng.below(span) as i64).collect();
        let done = self.complete(TIMEOUT, async move {
            for old in olds {
                read(&env, &directory, at, old).await;
            }
            let watch = watcher::show_all(Rc::clone(&env), serving.node, oldest, newest).await?;
            while !read(&env, &directory, at, 0).await {
                env.clock.sleep(100 * MILLI).await;
            }
            env.recorder.borrow_mut().finish(watch);
            Some(())
        });
        done.flatten().is_some() || self.not_live("the final reads were not answered")
    }

    /// On a log that broke its contract: all servers that go on have the same state, and the others
    /// have said why they stopped.
    pub(super) fn survivors_agree(&mut self) {
        self.env.phase.set(Phase::Settle(i64::MAX));
        self.run_until(40 * SECOND, |_| false);
        let mut following = Vec::new();
        for at in 0..self.servers.len() {
            let Some(running) = &self.servers[at].running else { continue };
            let status = running.node.cluster().map(|cluster| cluster.borrow().clone()).unwrap_or_default();
            match status.suspect || !status.caught_up {
                true => self.env.hit(Rare::ServerSuspicious),
                false => following.push(at),
            }
        }
        let hashes: Vec<(usize, HashKv)> = following.into_iter().filter_map(|at| self.hash(at)).collect();
        self.agree(&hashes);
    }

    /// The state of all servers, to debug a run that does not end well.
    fn state(&self) -> String {
        let of = |at: usize| {
            let server = &self.servers[at];
            let Some(running) = &server.running else { return format!("server {at}: {:?}", server.halted) };
            let status = running.node.cluster().map(|cluster| cluster.borrow().clone()).unwrap_or_default();
            format!("server {at}: revision {}, {status:?}", running.node.revision())
        };
        (0..self.servers.len()).map(of).collect::<Vec<_>>().join("; ")
    }

    pub(super) fn is_honest(&self) -> bool {
        self.plan.breach == Breach::None
    }
}

async fn serves(env: &Rc<Env>, directory: &Rc<Directory>, at: usize) {
    loop {
        let put = Request::Put(Put::new(b"peace".as_slice(), format!("at last {}", env.now()).into_bytes()));
        let outcome = call(env, directory, at, PROBER, put, How::Plain, 5 * SECOND).await;
        if matches!(outcome, Outcome::Answered { .. }) && read(env, directory, at, 0).await {
            return;
        }
        env.clock.sleep(200 * MILLI).await;
    }
}

/// Reads everything at a revision. Whether it was answered.
async fn read(env: &Rc<Env>, directory: &Rc<Directory>, at: usize, revision: i64) -> bool {
    let request = Request::Range(Range { revision, ..Range::new(Keys::all()) });
    let outcome = call(env, directory, at, PROBER, request, How::Plain, 5 * SECOND).await;
    matches!(outcome, Outcome::Answered { .. })
}
