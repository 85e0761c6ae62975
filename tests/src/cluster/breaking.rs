//! The faults: each breaks something beneath a loaded cluster, and heals it.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use rustix::process::Signal;

use super::members::Writer;
use super::{Field, LIMIT};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// The writer is killed; once another one writes it is started again.
    WriterKilled,
    /// Another server is killed and started again.
    FollowerKilled,
    /// The writer is stopped for four seconds, and goes on after it was replaced.
    WriterPaused,
    /// Another server is stopped for four seconds.
    FollowerPaused,
    /// A server of the journal that does not lead the stream is killed and started again.
    JournalFollowerKilled,
    /// The one that leads the stream.
    JournalLeaderKilled,
    /// Two of the journal's three servers are away for three seconds.
    QuorumLost,
    /// Every server is asked to end, and started again, one after the other.
    RollingRestart,
    /// All servers are killed at once and started again.
    AllKilled,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("?", |value| value.get_name()))
    }
}

const PAUSE: Duration = Duration::from_secs(4);
const WITHOUT_QUORUM: Duration = Duration::from_secs(3);
/// After which everybody must be served again by every server.
const RECOVERY: Duration = Duration::from_secs(30);

impl Field {
    /// Breaks and heals one thing, and waits until every server serves again.
    pub(super) async fn suffer(&mut self, fault: Fault) -> Result<()> {
        let done = self.work(20).await?;
        let writer = self.members.writer().await?;
        let begun = Instant::now();
        let what = match fault {
            Fault::WriterKilled => self.kill_writer(writer).await?,
            Fault::FollowerKilled => self.kill_follower(writer).await?,
            Fault::WriterPaused => self.pause_writer(writer).await?,
            Fault::FollowerPaused => self.pause_follower(writer).await?,
            Fault::JournalFollowerKilled => self.kill_of_journal(false).await?,
            Fault::JournalLeaderKilled => self.kill_of_journal(true).await?,
            Fault::QuorumLost => self.lose_quorum().await?,
            Fault::RollingRestart => self.restart_all().await?,
            Fault::AllKilled => self.kill_all().await?,
        };
        let healed = Instant::now();
        self.serves_again(healed).await?;
        let (back, whole) = (healed.elapsed().as_millis(), begun.elapsed().as_secs_f64());
        println!("  {fault}: after {done} writes {what}; all serve {back} ms after it, {whole:.1}s in all");
        self.journal.healthy().await
    }

    async fn serves_again(&mut self, healed: Instant) -> Result<()> {
        for endpoint in self.members.endpoints() {
            while !self.recorder.serves(&endpoint).await {
                self.members.all_run()?;
                ensure!(
                    healed.elapsed() < RECOVERY,
                    "{endpoint} serves nobody {RECOVERY:?} after everything was healed"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        self.members.all_run()
    }

    async fn kill_writer(&mut self, writer: Writer) -> Result<String> {
        let since = self.recorder.now();
        self.members.servers[writer.at].kill()?;
        let took = self.failover(writer, since).await?;
        self.rest(0, 300).await;
        self.members.run(&[writer.at])?;
        Ok(format!("server {} was killed, another one wrote after {} ms", writer.at, took.as_millis()))
    }

    async fn kill_follower(&mut self, writer: Writer) -> Result<String> {
        let follower = self.follower(writer);
        self.members.servers[follower].kill()?;
        self.rest(100, 1_000).await;
        self.members.run(&[follower])?;
        Ok(format!("server {follower} was killed, which did not write"))
    }

    async fn pause_writer(&mut self, writer: Writer) -> Result<String> {
        let since = self.recorder.now();
        self.members.servers[writer.at].signal(Signal::STOP)?;
        tokio::time::sleep(PAUSE).await;
        self.members.servers[writer.at].signal(Signal::CONT)?;
        let what = format!("server {} was stopped", writer.at);
        // Nobody takes over from a writer whose last sign came late enough; a slow machine shows that.
        Ok(match self.recorder.first_write_by_another(writer.member, since) {
            Some(at) => {
                self.failovers.push(at - since);
                format!("{what}, another one wrote after {} ms", (at - since).as_millis())
            }
            None => format!("{what}, and nobody else wrote meanwhile"),
        })
    }

    async fn pause_follower(&mut self, writer: Writer) -> Result<String> {
        let follower = self.follower(writer);
        self.members.servers[follower].signal(Signal::STOP)?;
        tokio::time::sleep(PAUSE).await;
        self.members.servers[follower].signal(Signal::CONT)?;
        Ok(format!("server {follower} was stopped, which did not write"))
    }

    async fn kill_of_journal(&mut self, leader: bool) -> Result<String> {
        let leading = self.journal.leader().await?;
        let at = if leader { leading } else { (leading + 1 + self.chance.below(2)) % 3 };
        self.journal.kill(at)?;
        let begun = Instant::now();
        // The two that are left are enough.
        let before = self.recorder.acknowledged();
        self.writes_since(before, 5, "the journal to go on with two of three servers").await?;
        let took = begun.elapsed();
        self.rest(0, 500).await;
        self.journal.run(at)?;
        let name = if leader { "leader" } else { "follower" };
        Ok(format!("the journal's {name} {at} was killed, five more writes took {} ms", took.as_millis()))
    }

    async fn lose_quorum(&mut self) -> Result<String> {
        let left = self.chance.below(3);
        let lost = [(left + 1) % 3, (left + 2) % 3];
        for at in lost {
            self.journal.kill(at)?;
        }
        let begun = Instant::now();
        for endpoint in self.members.endpoints() {
            self.recorder.reads_here(&endpoint).await?;
        }
        tokio::time::sleep(WITHOUT_QUORUM.saturating_sub(begun.elapsed())).await;
        for at in lost {
            self.journal.run(at)?;
        }
        Ok(format!("the journal's servers {lost:?} were away, serializable reads went on"))
    }

    async fn restart_all(&mut self) -> Result<String> {
        let mut took = Vec::new();
        for at in 0..self.members.servers.len() {
            let writer = self.members.writer().await?;
            let since = self.recorder.now();
            self.members.servers[at].terminate()?;
            if at == writer.at {
                took.push(self.failover(writer, since).await?.as_millis());
            }
            self.members.run(&[at])?;
            self.work(5).await?;
        }
        Ok(format!("every server was restarted, and another one wrote after {took:?} ms"))
    }

    async fn kill_all(&mut self) -> Result<String> {
        let all: Vec<usize> = (0..self.members.servers.len()).collect();
        for &at in &all {
            self.members.servers[at].kill()?;
        }
        self.rest(0, 500).await;
        self.members.run(&all)?;
        Ok("all servers were killed".to_owned())
    }

    fn follower(&mut self, writer: Writer) -> usize {
        (writer.at + 1 + self.chance.below(2)) % 3
    }

    /// Waits until another server acknowledges a write.
    async fn failover(&mut self, writer: Writer, since: Duration) -> Result<Duration> {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.recorder.first_write_by_another(writer.member, since) {
                self.failovers.push(at - since);
                return Ok(at - since);
            }
            ensure!(
                begun.elapsed() < LIMIT,
                "waited {LIMIT:?} for another server to write instead of server {} of epoch {}",
                writer.at,
                writer.epoch
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
