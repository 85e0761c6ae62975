//! Peace: no more faults. The server must serve, let every watcher catch up, and keep what it
//! promised.

use std::rc::Rc;

use vetch_check::Outcome;
use vetch_model::{Answer, Delete, Keys, Put, Range, Request};
use vetch_node::types::HashKv;

use super::Run;
use crate::client;
use crate::coverage::Rare;
use crate::disk::Behaviour;
use crate::env::Phase;
use crate::keys;
use crate::operator;
use crate::time::{MILLI, SECOND};
use crate::trace::say;
use crate::watcher;
use crate::workload::How;
use crate::world::{Halt, World};

/// The client that asks for all that is asked here.
const PROBER: u32 = 99;
/// Every wait in here must end within this much virtual time.
const TIMEOUT: u64 = 90 * SECOND;
/// Leases longer than this are revoked instead of being waited for.
const LONG: i64 = 30;

impl Run {
    pub(super) fn liveness(&mut self) {
        if !self.env.is_sound() {
            return;
        }
        say!(self.env.trace, "peace");
        self.disk.disarm();
        self.disk.give_space();
        self.env.disk_full.set(false);
        let Some(mut world) = self.recover(false) else { return };
        self.disk.set_mood(Behaviour::usual(&mut self.rng));
        world.unpause();
        self.populate(&mut world);
        if !self.serves(&mut world) || !self.settles(&mut world) {
            world.kill();
            return;
        }
        let Some(before) = self.final_reads(&mut world) else {
            world.kill();
            return;
        };
        if self.stop(&mut world) != Halt::Done {
            self.env.violation("the last orderly stop did not succeed".to_owned());
            world.kill();
            return;
        }
        self.visible = self.visible.max(world.visible());
        world.kill();
        self.next_disk(false);
        self.after_restart(before);
    }

    /// Reads and writes are served, although it may take a moment after a full disk.
    fn serves(&mut self, world: &mut World) -> bool {
        let (env, node) = (Rc::clone(&self.env), world.node.clone());
        let served = world.complete(TIMEOUT, async move {
            loop {
                let put = Request::Put(Put::new(b"peace".as_slice(), b"at last".as_slice()));
                let outcome = client::call(&env, &node, PROBER, put, How::Plain, 20 * SECOND).await;
                if matches!(outcome, Outcome::Answered { .. }) {
                    return read(&env, &node, 0).await;
                }
                operator::lower_all_alarms(&env, &node).await;
                make_room(&env, &node).await;
                env.clock.sleep(200 * MILLI).await;
            }
        });
        match served {
            Some(true) => true,
            _ => self.not_live(world, "no write and read was served"),
        }
    }

    /// Load ends, leases run out, watchers catch up.
    fn settles(&mut self, world: &mut World) -> bool {
        let streams = self.streams.len();
        world.run_until(100 * MILLI, |_| false);
        // Watchers go on as under load until it is known what they are to reach.
        self.env.phase.set(Phase::Settle(i64::MAX));
        if world.run_until(TIMEOUT, |world| world.executor.len() <= streams) != Halt::Done {
            return self.not_live(world, "a client was not answered");
        }
        // Requests that their clients gave up on may still be under way; behind this write they are
        // not.
        if !self.serves(world) {
            return false;
        }
        let (env, node) = (Rc::clone(&self.env), world.node.clone());
        let ended = world.complete(TIMEOUT, async move {
            loop {
                let leases = node.leases().await.unwrap_or_default();
                if leases.is_empty() {
                    return;
                }
                for id in leases {
                    let long = node.lease_time_to_live(id, false).await;
                    if long.is_ok_and(|info| info.is_some_and(|info| info.granted_ttl > LONG)) {
                        let revoke = Request::LeaseRevoke { id };
                        client::call(&env, &node, PROBER, revoke, How::Plain, 20 * SECOND).await;
                    }
                }
                env.clock.sleep(500 * MILLI).await;
            }
        });
        if ended.is_none() {
            return self.not_live(world, "leases did not end");
        }
        self.env.phase.set(Phase::Settle(world.node.revision()));
        if world.run_until(TIMEOUT, |world| world.executor.is_empty()) != Halt::Done {
            return self.not_live(world, "a watcher did not catch up");
        }
        self.forgets_keys(world)
    }

    /// What was encrypted with an old key is encrypted anew, and the key can go; the restart that
    /// follows does without.
    fn forgets_keys(&mut self, world: &mut World) -> bool {
        if !self.env.plan.encrypted {
            return true;
        }
        if world.run_until(TIMEOUT, |world| keys::is_settled(&world.node.encryption_status())) != Halt::Done {
            return self.not_live(
                world,
                &format!("old keys are still needed: {:?}", world.node.encryption_status()),
            );
        }
        if let Err(error) = keys::remove_old(&world.node) {
            return self.not_live(world, &error.to_string());
        }
        self.env.hit(Rare::OldKeysRemoved);
        true
    }

    fn not_live(&self, world: &World, what: &str) -> bool {
        // A violation found meanwhile is the better explanation.
        if self.env.is_sound() {
            let revision = world.node.revision();
            self.env.violation(format!("after all faults had ended: {what} (at revision {revision})"));
        }
        false
    }

    /// Reads everything, at a few old revisions and now, watches everything, and hashes it.
    fn final_reads(&mut self, world: &mut World) -> Option<HashKv> {
        let (env, node) = (Rc::clone(&self.env), world.node.clone());
        let newest = node.revision();
        let span = (newest - node.status().compact_revision.max(0)).max(1) as u64;
        let olds: Vec<i64> = (0..3).map(|_| newest - self.rng.below(span) as i64).collect();
        let hash = world.complete(TIMEOUT, async move {
            for old in olds {
                read(&env, &node, old).await;
            }
            let oldest = node.status().compact_revision.max(1);
            let watch = watcher::show_all(Rc::clone(&env), node.clone(), oldest, newest).await?;
            read(&env, &node, 0).await;
            env.recorder.borrow_mut().finish(watch);
            client::hash(&env, &node, 0).await
        });
        if hash.flatten().is_none() {
            self.not_live(world, "the final reads were not answered");
        }
        hash.flatten()
    }

    /// A clean restart changes nothing at all.
    fn after_restart(&mut self, before: HashKv) {
        let Some(mut world) = self.recover(false) else { return };
        match self.final_reads(&mut world) {
            Some(after) if after == before => self.env.hit(Rare::HashCompared),
            Some(after) => {
                self.env.violation(format!("before a clean restart {before:?}, after it {after:?}"));
            }
            None => {}
        }
        world.kill();
    }
}

/// Reads everything at a revision. Whether it was answered.
async fn read(env: &Rc<crate::env::Env>, node: &vetch_node::Node, revision: i64) -> bool {
    let mut range = Range::new(Keys::all());
    range.revision = revision;
    let request = Request::Range(range);
    let outcome = client::call(env, node, PROBER, request, How::Plain, 20 * SECOND).await;
    matches!(outcome, Outcome::Answered { answer: Answer::Range(_), .. })
}

/// What an operator does whose store has reached its quota.
async fn make_room(env: &Rc<crate::env::Env>, node: &vetch_node::Node) {
    if env.plan.node.quota_bytes == 0 {
        return;
    }
    let delete = Request::Delete(Delete { keys: Keys::all(), prev_kv: false });
    client::call(env, node, PROBER, delete, How::Plain, 20 * SECOND).await;
    // Leases count as well, and some would live for minutes.
    for id in node.leases().await.unwrap_or_default() {
        client::call(env, node, PROBER, Request::LeaseRevoke { id }, How::Plain, 20 * SECOND).await;
    }
    let compact = Request::Compact { revision: node.revision() };
    client::call(env, node, PROBER, compact, How::Plain, 20 * SECOND).await;
}
