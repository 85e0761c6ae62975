//! Faults: what recurs, and what breaks.

use std::time::Duration;

use super::judge::Judged;
use super::world::{Occurrence, World};

impl World {
    pub(super) fn begin(&mut self) {
        for at in 0..self.members.len() {
            let wait = self.soon(300);
            self.after(wait, at, Occurrence::Start);
        }
        let plan = self.plan.clone();
        let rounds = [
            (plan.writes, Occurrence::Write),
            (plan.reads, Occurrence::Read),
            (plan.crashes, Occurrence::Crash),
            (plan.blackouts, Occurrence::Blackout),
            (plan.pauses, Occurrence::Pause),
            (plan.cuts, Occurrence::Cut),
            (plan.flaps, Occurrence::Flap),
            (plan.changes, Occurrence::Change),
            (plan.transfers, Occurrence::Transfer),
            (plan.checkpoints, Occurrence::Checkpoint),
        ];
        for (mean, occurrence) in rounds {
            if mean > 0 {
                self.again(mean, occurrence);
            }
        }
    }

    /// Faults and clients recur. They ignore `member` and draw one.
    pub(super) fn trouble(&mut self, member: usize, occurrence: Occurrence) -> Judged {
        let any = self.rng.below(self.members.len());
        // Faults hit the leader as often as all others together.
        let target = self.leader().filter(|_| self.rng.percent(45)).unwrap_or(any);
        match occurrence {
            Occurrence::Start => return self.start(member),
            Occurrence::Write => {
                self.again(self.plan.writes, Occurrence::Write);
                // Clients find the leader.
                let leader = self.leader().filter(|_| self.rng.percent(70));
                return self.write(leader.unwrap_or(any));
            }
            Occurrence::Read => {
                self.again(self.plan.reads, Occurrence::Read);
                return self.read(any);
            }
            Occurrence::Heal => {
                self.cuts.clear();
                return Ok(());
            }
            _ if self.peace => return Ok(()),
            _ => {}
        }
        let mean = match &occurrence {
            Occurrence::Crash => {
                let loses_power = self.rng.percent(60);
                self.crash(target, loses_power);
                self.plan.crashes
            }
            Occurrence::Blackout => {
                (0..self.members.len()).for_each(|at| self.crash(at, true));
                self.count("all lost power");
                self.plan.blackouts
            }
            Occurrence::Pause => {
                let until = self.now + self.soon(2000);
                self.members[target].paused_until = self.members[target].paused_until.max(until);
                self.count("paused");
                self.plan.pauses
            }
            Occurrence::Cut => {
                if self.rng.percent(30) {
                    self.split();
                } else {
                    self.cut(target);
                }
                self.plan.cuts
            }
            Occurrence::Flap => {
                let times = self.rng.between(3, 15);
                self.after(Duration::ZERO, any, Occurrence::Again(times));
                self.count("flapped");
                self.plan.flaps
            }
            Occurrence::Change => {
                self.again(self.plan.changes, Occurrence::Change);
                return self.change();
            }
            Occurrence::Transfer => {
                self.again(self.plan.transfers, Occurrence::Transfer);
                return self.transfer();
            }
            _ => {
                self.checkpoint();
                self.plan.checkpoints
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
    pub(super) fn soon(&mut self, mean: u64) -> Duration {
        Duration::from_micros(self.rng.between(mean * 200, mean * 1800))
    }

    pub(super) fn start(&mut self, at: usize) -> Judged {
        if self.members[at].core.is_some() {
            return Ok(());
        }
        let (seed, config) = (self.rng.draw(), self.plan.config.clone());
        self.members[at].paused_until = self.now;
        self.members[at].start(config, seed, self.now);
        self.trace(|world| format!("member {} starts", world.members[at].id));
        self.after(Duration::from_millis(1), at, Occurrence::Tick);
        self.stepped(at)
    }

    /// The power goes, at the worst moment.
    pub(super) fn strike(&mut self, at: usize) -> Judged {
        if !self.peace {
            self.count("struck");
            self.crash(at, true);
        }
        Ok(())
    }

    /// A member is killed and is back before others notice, and so on.
    pub(super) fn flap(&mut self, at: usize, times: u32) -> Judged {
        if self.peace {
            return Ok(());
        }
        self.crash(at, false);
        self.start(at)?;
        if times > 0 {
            let wait = self.soon(200);
            self.after(wait, at, Occurrence::Again(times - 1));
        }
        Ok(())
    }

    /// A member is killed, or loses its power.
    fn crash(&mut self, at: usize, loses_power: bool) {
        if self.members[at].core.is_none() {
            return;
        }
        let member = &mut self.members[at];
        let mut content = member.disk.content();
        if loses_power {
            content.lose_power(member.writing.iter(), &mut self.rng);
        } else {
            member.writing.iter().for_each(|write| content.complete(write));
        }
        drop(content);
        member.end();
        self.count(if loses_power { "lost power" } else { "killed" });
        self.trace(|world| format!("member {} ends, power lost: {loses_power}", world.members[at].id));
        let mean = if self.rng.percent(50) { 60 } else { 1000 };
        let wait = self.soon(mean);
        self.after(wait, at, Occurrence::Start);
    }

    /// Two sides do not hear each other for a while.
    fn split(&mut self) {
        let side: Vec<bool> = self.members.iter().map(|_| self.rng.percent(50)).collect();
        for (one, on_one) in self.members.iter().zip(&side) {
            for (other, on_other) in self.members.iter().zip(&side) {
                if on_one != on_other {
                    self.cuts.insert((one.id, other.id));
                }
            }
        }
        self.count("split");
        let wait = self.soon(3000);
        self.after(wait, 0, Occurrence::Heal);
    }

    /// Links of one member, or one link, carry nothing for a while, in one direction or both.
    fn cut(&mut self, at: usize) {
        let id = self.members[at].id;
        let (sends, receives) = *self.rng.pick(&[(true, true), (true, false), (false, true)]);
        let only = self.rng.percent(40).then(|| self.members[self.rng.below(self.members.len())].id);
        for other in
            self.members.iter().map(|member| member.id).filter(|other| only.is_none_or(|only| only == *other))
        {
            if sends {
                self.cuts.insert((id, other));
            }
            if receives {
                self.cuts.insert((other, id));
            }
        }
        self.count("cut off");
        let wait = self.soon(3000);
        self.after(wait, 0, Occurrence::Heal);
    }
}
