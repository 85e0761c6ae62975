//! Nemesis: what troubles the servers and the log, how it ends, and what has to be true then.

use std::time::Duration;

use vetch_fence::{Index, Member, News, floor};

use super::judge::Judged;
use super::plan::Breach;
use super::world::{Happening, World};

impl World {
    pub(super) fn begin(&mut self) {
        for at in 0..self.servers.len() {
            let wait = self.soon(1000);
            self.after(wait, at, Happening::Start);
        }
        let plan = self.plan.clone();
        let rounds = [
            (plan.writes, Happening::Write),
            (plan.reads, Happening::Read),
            (plan.crashes, Happening::Crash),
            (plan.pauses, Happening::Pause),
            (plan.trims, Happening::Trim),
            (plan.full, Happening::Full),
            (plan.hand_overs, Happening::HandOver),
        ];
        for (mean, happening) in rounds {
            if mean > 0 {
                let wait = self.soon(mean);
                self.after(wait, 0, happening);
            }
        }
        if plan.breach != Breach::None {
            let wait = plan.trouble / 4 + self.soon(plan.trouble.as_millis() as u64 / 2);
            self.after(wait, 0, Happening::Breach);
        }
    }

    /// Troubles and clients come again and again; the first number means nothing for them, a server
    /// is drawn.
    pub(super) fn trouble(&mut self, server: usize, happening: Happening) -> Judged {
        let any = self.rng.below(self.servers.len());
        let mean = match happening {
            Happening::Start => {
                self.start(server);
                return self.stepped(server, self.servers[server].checkpoint.position);
            }
            Happening::Write => {
                self.again(self.plan.writes, Happening::Write);
                // Clients find the writer.
                let writer =
                    (0..self.servers.len()).find(|at| self.servers[*at].is_leading() && self.rng.percent(70));
                return self.write(writer.unwrap_or(any));
            }
            Happening::Read => {
                self.read(any);
                self.again(self.plan.reads, Happening::Read);
                return Ok(());
            }
            _ if self.peace => return Ok(()),
            Happening::Crash => {
                self.crash(any);
                self.plan.crashes
            }
            Happening::Pause => {
                self.servers[any].paused_until =
                    self.servers[any].paused_until.max(self.now + self.soon(4000));
                self.count("paused");
                self.plan.pauses
            }
            Happening::Trim => {
                self.trim()?;
                self.plan.trims
            }
            Happening::HandOver => {
                self.again(self.plan.hand_overs, Happening::HandOver);
                return match (0..self.servers.len()).find(|at| self.servers[*at].is_leading()) {
                    Some(writer) => self.hand_over(writer, any),
                    None => Ok(()),
                };
            }
            Happening::Full => {
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
        self.again(mean, happening);
        Ok(())
    }

    fn again(&mut self, mean: u64, happening: Happening) {
        let wait = self.soon(mean);
        self.after(wait, 0, happening);
    }

    /// A time around this many milliseconds.
    fn soon(&mut self, mean: u64) -> Duration {
        Duration::from_micros(self.rng.between(mean * 200, mean * 1800))
    }

    fn start(&mut self, at: usize) {
        let server = &mut self.servers[at];
        if server.member.is_some() || server.halted.is_some() {
            return;
        }
        server.life += 1;
        server.paused_until = self.now;
        server.member = Some(Member::new(
            self.plan.config.clone(),
            server.author(),
            server.checkpoint,
            server.time(self.now),
        ));
        self.after(Duration::from_millis(1), at, Happening::Tick);
    }

    fn crash(&mut self, at: usize) {
        if self.servers[at].member.is_none() || self.servers[at].halted.is_some() {
            return;
        }
        self.count("crashed");
        self.servers[at].crash();
        let wait = self.soon(1000);
        self.after(wait, at, Happening::Start);
    }

    /// A server whose next record is gone begins again, from another server's checkpoint.
    pub(super) fn begin_from_a_peer(&mut self, at: usize) {
        let newest = self.servers.iter().map(|server| server.checkpoint).max_by_key(|index| index.position);
        self.servers[at].crash();
        self.servers[at].checkpoint = newest.expect("there is a server");
        self.after(Duration::from_millis(1), at, Happening::Start);
    }

    /// Some servers take checkpoints; what a majority has is given up.
    fn trim(&mut self) -> Judged {
        for server in &mut self.servers {
            if let Some(member) = server.member.as_ref().filter(|member| !member.is_stopped())
                && self.rng.percent(60)
            {
                server.checkpoint = member.view().index();
            }
        }
        if self.plan.breach != Breach::None {
            return Ok(());
        }
        let held: Vec<(u64, Index)> =
            self.servers.iter().map(|server| (server.node, server.checkpoint)).collect();
        let taken: Vec<(u64, Index)> = held.into_iter().filter(|(_, index)| index.position.0 > 0).collect();
        match floor(self.servers.len(), &taken) {
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
            self.say(|_| format!("the log lost {count} records"));
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
        self.say(|world| {
            format!("sides: {:?}", world.servers.iter().map(|server| server.branch).collect::<Vec<_>>())
        });
    }

    fn reconnect_all(&mut self) {
        for at in 0..self.servers.len() {
            self.servers[at].connection += 1;
            // Before anything else that the new connection tells.
            let connection = self.servers[at].connection;
            self.after(Duration::ZERO, at, Happening::Told { news: News::Reconnected, connection });
        }
    }

    pub(super) fn make_peace(&mut self) {
        self.peace = true;
        self.say(|_| "peace".into());
        self.logs.iter_mut().for_each(|(log, _)| log.capacity = None);
        if self.logs.len() > 1 {
            self.reconnect_all();
        }
        for at in 0..self.servers.len() {
            // Who is paused wakes up in its own time: it must not hear new things before old ones.
            self.servers[at].branch = 0;
            if self.servers[at].member.is_none() {
                self.after(Duration::from_millis(1), at, Happening::Start);
            }
        }
    }

    /// Whether a write was acknowledged since peace began, and everybody holds it or stands aside.
    pub(super) fn is_well(&mut self) -> bool {
        let oracle = &self.logs[0].1;
        let mut following = 0;
        for server in &self.servers {
            if server.halted.is_some() {
                continue;
            }
            let Some(member) = &server.member else { return false };
            if member.is_suspect() {
                continue;
            }
            let tip = member.view().tip();
            if !oracle.holds(tip.seq, tip.hash) || self.settled == 0 || tip.seq < self.settled {
                return false;
            }
            following += 1;
        }
        if following == 0 {
            self.count("everybody stopped");
        }
        true
    }

    /// For whoever has to find out why not all is well.
    pub(super) fn state(&self) -> String {
        let (log, oracle) = &self.logs[0];
        let mut state =
            format!("log ends at {}, entry {}; settled {}", log.last().0, oracle.tip().seq, self.settled);
        for server in &self.servers {
            let what = server.member.as_ref().map(|member| {
                let view = member.view();
                format!(
                    "at {} entry {} leading {} suspect {}",
                    view.position().0,
                    view.tip().seq,
                    member.is_leading(),
                    member.is_suspect()
                )
            });
            state += &format!("; server {}: {what:?} {:?}", server.node, server.halted);
        }
        state
    }
}
