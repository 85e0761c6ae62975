//! Nemesis: faults of the servers and of the log, how they end, and what has to be true then.

use std::time::Duration;

use vetch_base::Seq;
use vetch_cluster::{LogEvent, LogIndex, Replica, trim_floor};

use super::judge::Judged;
use super::plan::Breach;
use super::world::{Occurrence, World};

impl World {
    pub(super) fn begin(&mut self) {
        for at in 0..self.servers.len() {
            let wait = self.soon(1000);
            self.after(wait, at, Occurrence::Start);
        }
        let plan = self.plan.clone();
        let rounds = [
            (plan.writes, Occurrence::Write),
            (plan.reads, Occurrence::Read),
            (plan.crashes, Occurrence::Crash),
            (plan.pauses, Occurrence::Pause),
            (plan.trims, Occurrence::Trim),
            (plan.full, Occurrence::Full),
            (plan.transfers, Occurrence::Transfer),
        ];
        for (mean, occurrence) in rounds {
            if mean > 0 {
                let wait = self.soon(mean);
                self.after(wait, 0, occurrence);
            }
        }
        if plan.breach != Breach::None {
            let wait = plan.trouble / 4 + self.soon(plan.trouble.as_millis() as u64 / 2);
            self.after(wait, 0, Occurrence::Breach);
        }
    }

    /// Faults and clients recur. They ignore `server` and draw one.
    pub(super) fn trouble(&mut self, server: usize, occurrence: Occurrence) -> Judged {
        let any = self.rng.below(self.servers.len());
        let mean = match occurrence {
            Occurrence::Start => {
                self.start(server);
                return self.stepped(server, self.servers[server].checkpoint.position);
            }
            Occurrence::Write => {
                self.again(self.plan.writes, Occurrence::Write);
                // Clients find the leader.
                let leader =
                    (0..self.servers.len()).find(|at| self.servers[*at].is_leader() && self.rng.percent(70));
                return self.write(leader.unwrap_or(any));
            }
            Occurrence::Read => {
                self.read(any);
                self.again(self.plan.reads, Occurrence::Read);
                return Ok(());
            }
            _ if self.peace => return Ok(()),
            Occurrence::Crash => {
                self.crash(any);
                self.plan.crashes
            }
            Occurrence::Pause => {
                self.servers[any].paused_until =
                    self.servers[any].paused_until.max(self.now + self.soon(4000));
                self.count("paused");
                self.plan.pauses
            }
            Occurrence::Trim => {
                self.trim()?;
                self.plan.trims
            }
            Occurrence::Transfer => {
                self.again(self.plan.transfers, Occurrence::Transfer);
                return match (0..self.servers.len()).find(|at| self.servers[*at].is_leader()) {
                    Some(leader) => self.transfer_leadership(leader, any),
                    None => Ok(()),
                };
            }
            Occurrence::Full => {
                let log = &mut self.logs[0].0;
                let room = self.rng.between(0, 20) as usize;
                log.capacity = if log.capacity.is_some() { None } else { Some(log.held() + room) };
                self.plan.full
            }
            _ => {
                self.breach();
                self.plan.trouble.as_millis() as u64 / 6
            }
        };
        self.again(mean, occurrence);
        Ok(())
    }

    fn again(&mut self, mean: u64, occurrence: Occurrence) {
        let wait = self.soon(mean);
        self.after(wait, 0, occurrence);
    }

    /// A random time around this many milliseconds.
    fn soon(&mut self, mean: u64) -> Duration {
        Duration::from_micros(self.rng.between(mean * 200, mean * 1800))
    }

    fn start(&mut self, at: usize) {
        let server = &mut self.servers[at];
        if server.replica.is_some() || server.halted.is_some() {
            return;
        }
        server.incarnation += 1;
        server.paused_until = self.now;
        server.replica = Some(Replica::new(
            self.plan.config.clone(),
            server.replica_id(),
            server.checkpoint,
            server.time(self.now),
        ));
        self.after(Duration::from_millis(1), at, Occurrence::Tick);
    }

    fn crash(&mut self, at: usize) {
        if self.servers[at].replica.is_none() || self.servers[at].halted.is_some() {
            return;
        }
        self.count("crashed");
        self.servers[at].crash();
        let wait = self.soon(1000);
        self.after(wait, at, Occurrence::Start);
    }

    /// A server whose next record was trimmed starts again from another server's checkpoint.
    pub(super) fn begin_from_a_peer(&mut self, at: usize) {
        let newest = self.servers.iter().map(|server| server.checkpoint).max_by_key(|index| index.position);
        self.servers[at].crash();
        self.servers[at].checkpoint = newest.expect("there is a server");
        self.after(Duration::from_millis(1), at, Occurrence::Start);
    }

    /// Some servers take checkpoints; records that a majority has covered are trimmed.
    fn trim(&mut self) -> Judged {
        for server in &mut self.servers {
            if let Some(replica) = server.replica.as_ref().filter(|replica| !replica.is_stopped())
                && self.rng.percent(60)
            {
                server.checkpoint = replica.log_state().index();
            }
        }
        if self.plan.breach != Breach::None {
            return Ok(());
        }
        let held: Vec<(u64, LogIndex)> =
            self.servers.iter().map(|server| (server.member, server.checkpoint)).collect();
        let taken: Vec<(u64, LogIndex)> =
            held.into_iter().filter(|(_, index)| index.position.0 > 0).collect();
        match trim_floor(self.servers.len(), &taken) {
            Ok(Some(floor)) => {
                self.logs[0].0.trim(floor);
                self.count("trimmed");
            }
            Ok(None) => {}
            Err(disagreement) => return super::judge::violated(disagreement.to_string()),
        }
        Ok(())
    }

    fn breach(&mut self) {
        self.reconnect_all();
        if self.plan.breach == Breach::TailLoss {
            let count = self.rng.between(1, 12) as usize;
            let (log, oracle) = &mut self.logs[0];
            let count = count.min(log.held());
            log.lose(count);
            oracle.lose(count);
            self.trace(|_| format!("the log lost {count} records"));
            self.count("tail lost");
            return;
        }
        if self.logs.len() == 1 {
            let copy = self.logs[0].clone();
            self.logs.push(copy);
            self.count("forked");
        }
        for server in &mut self.servers {
            server.branch = self.rng.below(2);
        }
        self.trace(|world| {
            format!("sides: {:?}", world.servers.iter().map(|server| server.branch).collect::<Vec<_>>())
        });
    }

    fn reconnect_all(&mut self) {
        for at in 0..self.servers.len() {
            self.servers[at].connection += 1;
            // Before any other event of the new connection.
            let connection = self.servers[at].connection;
            self.after(Duration::ZERO, at, Occurrence::LogReply { event: LogEvent::Reconnected, connection });
        }
    }

    pub(super) fn make_peace(&mut self) {
        self.peace = true;
        self.trace(|_| "peace".into());
        self.logs.iter_mut().for_each(|(log, _)| log.capacity = None);
        if self.logs.len() > 1 {
            self.reconnect_all();
        }
        for at in 0..self.servers.len() {
            // A paused server wakes up in its own time: it must receive events in order.
            self.servers[at].branch = 0;
            if self.servers[at].replica.is_none() {
                self.after(Duration::from_millis(1), at, Occurrence::Start);
            }
        }
    }

    /// Whether a write was acknowledged since peace began, and every server holds it, or has halted
    /// or suspects the log.
    pub(super) fn is_well(&mut self) -> bool {
        let oracle = &self.logs[0].1;
        let mut following = 0;
        for server in &self.servers {
            if server.halted.is_some() {
                continue;
            }
            let Some(replica) = &server.replica else { return false };
            if replica.is_suspect() {
                continue;
            }
            let tip = replica.log_state().tip();
            if !oracle.holds(tip.seq, tip.hash) || self.settled == Seq::ZERO || tip.seq < self.settled {
                return false;
            }
            following += 1;
        }
        if following == 0 {
            self.count("all servers stopped");
        }
        true
    }

    /// A summary of all servers, for debugging.
    pub(super) fn state(&self) -> String {
        let (log, oracle) = &self.logs[0];
        let mut state =
            format!("log ends at {}, entry {}; settled {}", log.last().0, oracle.tip().seq, self.settled);
        for server in &self.servers {
            let what = server.replica.as_ref().map(|replica| {
                let state = replica.log_state();
                format!(
                    "at {} entry {} leading {} suspect {}",
                    state.position().0,
                    state.tip().seq,
                    replica.is_leader(),
                    replica.is_suspect()
                )
            });
            state += &format!("; server {}: {what:?} {:?}", server.member, server.halted);
        }
        state
    }
}
