//! Running the commands of a script.
//!
//! ```text
//! cluster SERVERS [unchecked]   servers that have read an empty log; unchecked: it takes every append
//! campaign 1                    server 1 campaigns
//! write 1 a b                   server 1 proposes a record of two entries
//! read 1 ID                     a read asks server 1 for an index
//! transfer 1 2                  server 1 transfers leadership to server 2
//! deliver [1]                   its commands reach the log, and the answers come back, until none is left
//! step 1                        only the oldest of its commands
//! lose 1                        its commands are lost
//! hold 1                        its commands stay on their way
//! store                         what is on its way reaches the log, without an answer
//! unknown 1                     the outcome of what server 1 has on its way is unknown
//! catch_up 1                    server 1 reads to the end of the log
//! tick 1 MS                     time passes, and only server 1 notices
//! pass MS                       time passes for all, and every command is delivered
//! restart 1                     the next incarnation of server 1 begins at its index
//! reconnect 1                   another endpoint of the log answers server 1 from here on
//! lose_tail N                   the log loses its last records
//! append_copy POSITION          the log gets a copy of a record
//! space RECORDS | none          how many records the log takes
//! checkpoint 1                  server 1 takes a checkpoint at its index
//! floor SERVERS                 below which position the log may be trimmed
//! trim POSITION                 the log deletes the records below
//! damage_checkpoint 1           its checkpoint is of another state at the same entry
//! log, state, lease 1           what is in the log, what servers know
//! ```
//!
//! Commands and events that follow are shown with the number of their server.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use goldenscript::{ArgumentConsumer, Context, Runner};
use vetch_cluster::{Command, LogEvent, LogIndex, ReadId, Replica, ReplicaId, trim_floor};
use vetch_journal::{Draft, Kind, PartId, Position};

use super::show;
use crate::harness::Harness;

type Failure = Box<dyn Error>;

pub(crate) struct Script {
    harness: Harness,
    /// Commands that no one has delivered, by server.
    queued: Vec<VecDeque<Command>>,
    /// Appends on their way to the log.
    held: Vec<Command>,
    incarnations: Vec<u64>,
    checkpoints: Vec<(u64, LogIndex)>,
}

impl Default for Script {
    fn default() -> Script {
        Script::new(0, true)
    }
}

impl Script {
    fn new(servers: usize, checks_position: bool) -> Script {
        let harness = Harness::new(servers, checks_position);
        let queued = vec![VecDeque::new(); servers];
        Script { harness, queued, held: Vec::new(), incarnations: vec![1; servers], checkpoints: Vec::new() }
    }

    /// The server whose number comes next.
    fn server(&self, args: &mut ArgumentConsumer<'_>) -> Result<usize, Failure> {
        self.at(args.next_pos().ok_or("a server is missing")?)
    }

    fn at(&self, server: &str) -> Result<usize, Failure> {
        let server: usize = server.parse()?;
        let at = server.checked_sub(1).filter(|at| *at < self.queued.len());
        Ok(at.ok_or("there is no such server")?)
    }

    /// Takes what replicas want and report, and shows it.
    fn flush(&mut self, out: &mut String) {
        for who in 0..self.queued.len() {
            let commands = self.harness.take_commands(who);
            for event in std::mem::take(&mut self.harness.events[who]) {
                let _ = writeln!(out, "{}: {}", who + 1, show::event(&event));
            }
            for command in commands {
                let _ = writeln!(out, "{} > {}", who + 1, show::command(&command));
                self.queued[who].push_back(command);
            }
        }
    }

    fn deliver(&mut self, who: usize, out: &mut String) {
        self.flush(out);
        while let Some(command) = self.queued[who].pop_front() {
            self.harness.deliver(who, &command);
            self.flush(out);
        }
    }

    fn write(&mut self, who: usize, args: &mut ArgumentConsumer<'_>) -> Result<(), Failure> {
        let mut tip = self.harness.replicas[who].head();
        let mut entries = Vec::new();
        while let Some(value) = args.next_pos() {
            let mut draft = Draft::new(Kind::Writes);
            draft.begin_part(PartId::default());
            draft.payload().extend_from_slice(value.as_bytes());
            draft.end_part(1);
            entries.push(draft.chain(&mut tip));
        }
        let now = self.harness.now;
        self.harness.replicas[who].propose(now, &entries)?;
        Ok(())
    }

    fn unknown(&mut self, who: usize) {
        for command in std::mem::take(&mut self.queued[who]) {
            if let Command::Append { ticket, .. } = command {
                self.held.push(command);
                self.harness.handle(who, LogEvent::Unknown { ticket, why: "no answer".into() });
            }
        }
    }

    fn restart(&mut self, who: usize) {
        self.incarnations[who] += 1;
        self.queued[who].clear();
        let me = ReplicaId { member: who as u64 + 1, incarnation: self.incarnations[who] };
        let start = self.harness.replicas[who].log_state().index();
        self.harness.replicas[who] = Replica::new(Default::default(), me, start, self.harness.now);
    }

    fn log(&self) -> String {
        let page = self.harness.log.read(Position(0), usize::MAX >> 1, 0);
        page.records.iter().map(|(at, bytes)| format!("@{} {}\n", at.0, show::record(bytes))).collect()
    }

    fn state(&self) -> String {
        let mut out = String::new();
        for (at, replica) in self.harness.replicas.iter().enumerate() {
            let role = match () {
                () if replica.is_stopped() => "stopped",
                () if replica.is_suspect() => "suspects the log",
                () if replica.is_leader() => "leads",
                () => "follows",
            };
            let read = replica.log_state().position().0;
            let index = show::index(&replica.log_state().index());
            let _ = writeln!(out, "{}: {role}, read to @{read}, {index}", at + 1);
        }
        out
    }

    fn lease(&self, who: usize) -> String {
        match self.harness.replicas[who].lease() {
            Some(lease) => {
                let left = lease.until.saturating_sub(self.harness.now);
                format!("{}: until {left:?} from now, at {}", who + 1, show::index(&lease.index))
            }
            None => format!("{}: no lease", who + 1),
        }
    }

    fn floor(&self, servers: usize) -> String {
        match trim_floor(servers, &self.checkpoints) {
            Ok(Some(floor)) => format!("@{}", floor.0),
            Ok(None) => "less than a majority has a checkpoint".to_owned(),
            Err(mismatch) => mismatch.to_string(),
        }
    }

    /// Returns what the command itself shows.
    fn execute(
        &mut self,
        name: &str,
        args: &mut ArgumentConsumer<'_>,
        out: &mut String,
    ) -> Result<(), Failure> {
        let now = self.harness.now;
        match name {
            "cluster" => *self = Script::new(number(args)?.try_into()?, args.next_pos() != Some("unchecked")),
            "campaign" => {
                let who = self.server(args)?;
                self.harness.replicas[who].campaign(now);
            }
            "write" => {
                let who = self.server(args)?;
                self.write(who, args)?;
            }
            "read" => {
                let (who, id) = (self.server(args)?, number(args)?);
                self.harness.replicas[who].read_index(now, ReadId(id))?;
            }
            "transfer" => {
                let (who, to) = (self.server(args)?, self.server(args)?);
                let to = ReplicaId { member: to as u64 + 1, incarnation: self.incarnations[to] };
                self.harness.replicas[who].transfer_leadership(now, to)?;
            }
            "deliver" => {
                let servers = match args.next_pos() {
                    Some(text) => self.at(text)?..self.at(text)? + 1,
                    None => 0..self.queued.len(),
                };
                servers.for_each(|who| self.deliver(who, out));
            }
            "step" => {
                let who = self.server(args)?;
                let command = self.queued[who].pop_front().ok_or("it wants nothing of the log")?;
                self.harness.deliver(who, &command);
            }
            "lose" => {
                let who = self.server(args)?;
                self.queued[who].clear();
            }
            "hold" => {
                let who = self.server(args)?;
                self.held.extend(std::mem::take(&mut self.queued[who]));
            }
            "store" => {
                for command in std::mem::take(&mut self.held) {
                    self.harness.execute(&command);
                }
            }
            "unknown" => {
                let who = self.server(args)?;
                self.unknown(who);
            }
            "catch_up" => {
                let who = self.server(args)?;
                self.harness.catch_up(who);
            }
            "tick" => {
                let who = self.server(args)?;
                self.harness.tick(who, number(args)?);
            }
            "pass" => self.pass(number(args)?, out),
            "restart" => {
                let who = self.server(args)?;
                self.restart(who);
            }
            "reconnect" => {
                let who = self.server(args)?;
                self.harness.handle(who, LogEvent::Reconnected);
            }
            "lose_tail" => self.harness.log.lose(number(args)?.try_into()?),
            "append_copy" => self.append_copy(number(args)?)?,
            "space" => self.harness.log.capacity = args.next_pos().and_then(|records| records.parse().ok()),
            "checkpoint" => {
                let who = self.server(args)?;
                let index = self.harness.replicas[who].log_state().index();
                self.checkpoints.retain(|(member, _)| *member != who as u64 + 1);
                self.checkpoints.push((who as u64 + 1, index));
            }
            "damage_checkpoint" => {
                let who = self.server(args)? as u64 + 1;
                let held = self.checkpoints.iter_mut().filter(|(member, _)| *member == who);
                held.for_each(|(_, index)| index.tip.hash[0] ^= 1);
            }
            "floor" => out.push_str(&self.floor(number(args)?.try_into()?)),
            "trim" => self.harness.log.trim(Position(number(args)?)),
            "log" => out.push_str(&self.log()),
            "state" => out.push_str(&self.state()),
            "lease" => out.push_str(&self.lease(self.server(args)?)),
            other => return Err(format!("unknown command {other}").into()),
        }
        Ok(())
    }

    fn pass(&mut self, millis: u64, out: &mut String) {
        for _ in 0..millis / 10 {
            self.harness.now += Duration::from_millis(10);
            for who in 0..self.queued.len() {
                self.harness.replicas[who].tick(self.harness.now);
                self.deliver(who, out);
            }
        }
    }

    fn append_copy(&mut self, at: u64) -> Result<(), Failure> {
        let page = self.harness.log.read(Position(at - 1), 1, 0);
        let (_, record) = page.records.into_iter().next().ok_or("the log has no such record")?;
        let last = self.harness.log.last();
        self.harness.log.append(last, record);
        Ok(())
    }
}

impl Runner for Script {
    type Command = goldenscript::Command;

    fn run(&mut self, command: &goldenscript::Command, _: &Context) -> Result<String, Failure> {
        let (mut args, mut out) = (command.consume_args(), String::new());
        self.execute(&command.name, &mut args, &mut out)?;
        args.reject_next()?;
        self.flush(&mut out);
        Ok(out)
    }

    /// Servers that have not stopped agree on every entry that they hold.
    fn end_script(&mut self) -> Result<(), Failure> {
        let running = self.harness.replicas.iter().filter(|replica| !replica.is_stopped());
        let indexes: Vec<LogIndex> = running.clone().map(|replica| replica.log_state().index()).collect();
        for replica in running {
            for index in &indexes {
                replica.log_state().reached(index)?;
            }
        }
        Ok(())
    }
}

fn number(args: &mut ArgumentConsumer<'_>) -> Result<u64, Failure> {
    Ok(args.next_pos().ok_or("a number is missing")?.parse()?)
}
