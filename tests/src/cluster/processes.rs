//! Faults of processes: servers and servers of the journal are killed, stopped, and restarted.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;

use super::Field;
use crate::replicas::members::Leader;

const PAUSE: Duration = Duration::from_secs(4);

impl Field {
    pub(super) async fn kill_leader(&mut self, leader: Leader) -> Result<String> {
        let since = self.recorder.now();
        self.members.kill(leader.at)?;
        let took = self.failover(leader, since).await?;
        self.times.failovers.push(took);
        self.rest(0, 300).await;
        self.members.run(&[leader.at])?;
        Ok(format!("server {} was killed, another one wrote after {} ms", leader.at, took.as_millis()))
    }

    pub(super) async fn kill_follower(&mut self, leader: Leader) -> Result<String> {
        let follower = self.follower(leader);
        self.members.kill(follower)?;
        self.rest(100, 1_000).await;
        self.members.run(&[follower])?;
        Ok(format!("server {follower} was killed, which did not write"))
    }

    pub(super) async fn pause_leader(&mut self, leader: Leader) -> Result<String> {
        let since = self.recorder.now();
        self.members.signal(leader.at, Signal::STOP)?;
        tokio::time::sleep(PAUSE).await;
        self.members.signal(leader.at, Signal::CONT)?;
        let what = format!("server {} was stopped", leader.at);
        // No follower campaigns if the last heartbeat before the stop came late enough, as on a
        // slow machine.
        Ok(match self.recorder.first_write_by_another(leader.member, since) {
            Some(at) => {
                self.times.failovers.push(at - since);
                format!("{what}, another one wrote after {} ms", (at - since).as_millis())
            }
            None => format!("{what}, and no other server wrote meanwhile"),
        })
    }

    pub(super) async fn pause_follower(&mut self, leader: Leader) -> Result<String> {
        let follower = self.follower(leader);
        self.members.signal(follower, Signal::STOP)?;
        tokio::time::sleep(PAUSE).await;
        self.members.signal(follower, Signal::CONT)?;
        Ok(format!("server {follower} was stopped, which did not write"))
    }

    pub(super) async fn kill_of_journal(&mut self, leader: bool) -> Result<String> {
        let leading = self.journal.stream_leader().await?;
        let at = if leader { leading } else { (leading + 1 + self.rng.below(2)) % 3 };
        self.journal.kill(at)?;
        let took = self.goes_on("on two of the journal's three servers").await?;
        if leader {
            self.times.journal.push(took);
        }
        self.rest(0, 500).await;
        self.journal.run(at)?;
        let name = if leader { "leader" } else { "follower" };
        Ok(format!("the journal's {name} {at} was killed, five more writes took {} ms", took.as_millis()))
    }

    pub(super) async fn pause_of_journal(&mut self) -> Result<String> {
        let at = self.journal.stream_leader().await?;
        self.journal.signal(at, Signal::STOP)?;
        tokio::time::sleep(PAUSE).await;
        self.journal.signal(at, Signal::CONT)?;
        Ok(format!("the journal's leader {at} was stopped"))
    }

    pub(super) async fn restart_all(&mut self) -> Result<String> {
        let mut took = Vec::new();
        for at in 0..self.members.endpoints().len() {
            let leader = self.members.leader().await?;
            let since = self.recorder.now();
            self.members.end(at)?;
            if at == leader.at {
                let failover = self.failover(leader, since).await?;
                self.times.failovers.push(failover);
                took.push(failover.as_millis());
            }
            self.members.run(&[at])?;
            self.work(5).await?;
        }
        Ok(format!("every server was restarted, and another one wrote after {took:?} ms"))
    }

    /// The next one waits until the last one is well: that is how it is done by hand as well.
    pub(super) async fn restart_journal(&mut self) -> Result<String> {
        let begun = Instant::now();
        for at in 0..3 {
            self.journal.end(at)?;
            self.rest(0, 300).await;
            self.journal.run(at)?;
            self.journal.healthy().await?;
            self.work(5).await?;
        }
        let took = begun.elapsed().as_secs_f64();
        Ok(format!("every server of the journal was restarted within {took:.1}s"))
    }

    pub(super) async fn kill_all(&mut self) -> Result<String> {
        let all: Vec<usize> = (0..self.members.endpoints().len()).collect();
        for &at in &all {
            self.members.kill(at)?;
        }
        self.rest(0, 500).await;
        self.members.run(&all)?;
        Ok("all servers were killed".to_owned())
    }
}
