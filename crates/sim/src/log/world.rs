//! World: servers, histories of the log, and the queue of what happens next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use bytes::Bytes;
use vetch_base::Seq;
use vetch_cluster::{Command, Ignored, LogEvent, LogIndex, ReadId, ReplicaEvent, Ticket};
use vetch_journal::{Position, Tip};
use vetch_testkit::log::model::ModelLog;
use vetch_testkit::random::Rng;

use super::judge::{Judge, Judged, violated};
use super::oracle::Oracle;
use super::plan::{Breach, Plan};
use super::server::Server;

/// How often a server's timers run.
const TICK: Duration = Duration::from_millis(25);

/// Something that happens at one incarnation of a server, or to all servers.
pub(super) enum Occurrence {
    Tick,
    /// An append arrives at the history that its server was connected to when it sent it.
    Arrives {
        append: Append,
        answered: bool,
    },
    /// A read arrives at the log.
    Reads {
        after: Position,
        connection: u64,
    },
    /// An answer of the log arrives at the server, over a connection that may be gone.
    LogReply {
        event: LogEvent,
        connection: u64,
    },
    /// Another server requests an index for a read.
    ReadIndexRequest {
        read: ReadId,
    },
    /// The answer to a `ReadIndexRequest`.
    ReadIndexReply {
        read: ReadId,
        index: LogIndex,
    },
    Write,
    Read,
    Crash,
    Start,
    Pause,
    Trim,
    Full,
    Transfer,
    Breach,
}

#[derive(Clone)]
pub(super) struct Append {
    pub(super) ticket: Ticket,
    pub(super) after: Position,
    pub(super) record: Bytes,
    pub(super) branch: usize,
    pub(super) connection: u64,
}

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) plan: Plan,
    pub(super) now: Duration,
    pub(super) servers: Vec<Server>,
    /// All but the first are there only after a fork.
    pub(super) logs: Vec<(ModelLog, Oracle)>,
    pub(super) judge: Judge,
    pub(super) peace: bool,
    pub(super) coverage: BTreeMap<&'static str, u64>,
    pub(super) trace: Vec<String>,
    verbose: bool,
    queue: BinaryHeap<Reverse<(Duration, u64)>>,
    occurrences: BTreeMap<u64, (usize, u64, Occurrence)>,
    order: u64,
    /// Reads of clients that are not answered.
    pub(super) readers: BTreeMap<ReadId, Reader>,
    /// The last sequence number that was acknowledged in peace.
    pub(super) settled: Seq,
}

#[derive(Clone, Copy)]
pub(super) struct Reader {
    pub(super) at: usize,
    pub(super) incarnation: u64,
    /// The last sequence number that was acknowledged when the read began.
    pub(super) acknowledged: Seq,
}

impl World {
    pub(super) fn new(seed: u64, verbose: bool) -> World {
        let mut rng = Rng::split_mix(seed);
        let mut plan = Plan::draw(&mut rng);
        // Decided by the seed itself, so that the other seeds draw the same numbers as before there
        // were leadership transfers.
        if matches!(seed % 5, 1 | 3) {
            plan.transfers = 100 + seed % 2000;
        }
        // So are leases, and clocks that are wrong by almost as much as they may be.
        if seed % 4 < 2 {
            plan.config.lease_duration = Duration::ZERO;
        }
        let paces = if seed % 8 >= 6 { &[100, 65, 155] } else { &[100, 100, 100] };
        let pace = |node: usize| paces[(seed / 8 + node as u64) as usize % paces.len()];
        let start = Tip::genesis(2);
        let mut world = World {
            now: Duration::ZERO,
            servers: (0..plan.servers).map(|node| Server::new(node as u64 + 1, start, pace(node))).collect(),
            logs: vec![(ModelLog::new(plan.checks_position), Oracle::new(start))],
            judge: Judge::default(),
            peace: false,
            coverage: BTreeMap::new(),
            trace: Vec::new(),
            verbose,
            queue: BinaryHeap::new(),
            occurrences: BTreeMap::new(),
            order: 0,
            readers: BTreeMap::new(),
            settled: Seq::ZERO,
            rng,
            plan,
        };
        world.trace(|world| format!("{:?}", world.plan));
        world.begin();
        world
    }

    pub(super) fn run(&mut self) -> Judged {
        let end = self.plan.trouble + self.plan.grace;
        while let Some(Reverse((at, id))) = self.queue.pop() {
            self.now = self.now.max(at);
            if !self.peace && self.now >= self.plan.trouble {
                self.make_peace();
            }
            if self.now >= end {
                return violated(format!(
                    "{:?} after the last fault not all is well: {}",
                    self.plan.grace,
                    self.state()
                ));
            }
            let Some((server, incarnation, occurrence)) = self.occurrences.remove(&id) else { continue };
            self.happen(server, incarnation, occurrence)?;
            if self.peace && self.is_well() {
                self.judge.verdict(&self.logs[0].1, self.plan.breach)?;
                return Ok(());
            }
        }
        violated("nothing happens any more")
    }

    pub(super) fn after(&mut self, wait: Duration, server: usize, occurrence: Occurrence) {
        let incarnation = self.servers.get(server).map_or(0, |server| server.incarnation);
        self.schedule(self.now + wait, server, incarnation, occurrence);
    }

    pub(super) fn schedule(&mut self, at: Duration, server: usize, incarnation: u64, occurrence: Occurrence) {
        self.order += 1;
        self.queue.push(Reverse((at, self.order)));
        self.occurrences.insert(self.order, (server, incarnation, occurrence));
    }

    fn happen(&mut self, at: usize, incarnation: u64, occurrence: Occurrence) -> Judged {
        match occurrence {
            // An append on its way to the log arrives whatever became of its sender.
            Occurrence::Arrives { append, answered } => {
                self.arrives(at, incarnation, append, answered);
                Ok(())
            }
            Occurrence::Reads { after, connection } => {
                if connection == self.servers[at].connection {
                    self.reads(at, incarnation, after);
                }
                Ok(())
            }
            Occurrence::Tick
            | Occurrence::LogReply { .. }
            | Occurrence::ReadIndexRequest { .. }
            | Occurrence::ReadIndexReply { .. } => self.at_server(at, incarnation, occurrence),
            other => self.trouble(at, other),
        }
    }

    fn at_server(&mut self, at: usize, incarnation: u64, occurrence: Occurrence) -> Judged {
        let now = self.now;
        let server = &mut self.servers[at];
        if server.incarnation != incarnation || server.replica.is_none() {
            return Ok(());
        }
        if server.paused_until > now {
            let until = server.paused_until;
            self.schedule(until, at, incarnation, occurrence);
            return Ok(());
        }
        let now = server.time(now);
        let Some(replica) = server.replica.as_mut() else { return Ok(()) };
        let before = replica.log_state().position();
        match occurrence {
            Occurrence::LogReply { connection, .. } if connection != server.connection => {}
            Occurrence::LogReply { event, .. } => replica.handle(now, event),
            Occurrence::ReadIndexRequest { read } => drop(replica.read_index(now, read)),
            Occurrence::ReadIndexReply { read, index } => drop(server.indexed.insert(read, index)),
            _ => {
                replica.tick(now);
                self.after(TICK, at, Occurrence::Tick);
            }
        }
        self.stepped(at, before)
    }

    /// After every event at a server: judges its log state, and executes its commands and events.
    pub(super) fn stepped(&mut self, at: usize, before: Position) -> Judged {
        let server = &mut self.servers[at];
        let Some(replica) = server.replica.as_mut() else { return Ok(()) };
        let (commands, events) = (replica.take_commands(), replica.take_events());
        if replica.log_state().position() > before {
            let oracle = &self.logs[server.branch].1;
            let who = format!("server {}", server.member);
            self.judge.holds(
                replica.log_state().tip(),
                oracle.tip_at(replica.log_state().position()),
                &who,
            )?;
            if self.plan.breach != Breach::None {
                server.history = oracle.chain()[..replica.log_state().tip().seq.get() as usize].to_vec();
            }
        }
        for event in events {
            self.event(at, event)?;
        }
        for command in commands {
            self.command(at, command);
        }
        self.answer_reads(at)
    }

    pub(super) fn event(&mut self, at: usize, event: ReplicaEvent) -> Judged {
        self.trace(|world| format!("server {} {event:?}", world.servers[at].member));
        let (node, branch) = (self.servers[at].member, self.servers[at].branch);
        match event {
            ReplicaEvent::Committed { ticket, .. } => {
                let entries = self.servers[at].proposals.remove(&ticket).unwrap_or_default();
                self.judge.committed(&entries, &self.logs[branch].1, self.plan.breach)?;
                if self.peace && branch == 0 {
                    self.settled = self.settled.max(entries.last().map_or(Seq::ZERO, |(seq, _)| *seq));
                }
                self.count("committed");
            }
            ReplicaEvent::Dropped { ticket } => {
                let entries = self.servers[at].proposals.remove(&ticket).unwrap_or_default();
                self.judge.dropped(&entries)?;
                self.count("dropped");
            }
            ReplicaEvent::ReadIndex { reads, index } => self.send_index(&reads, index)?,
            ReplicaEvent::ReadIndexLost { .. } => self.count("index lost"),
            ReplicaEvent::Leading { .. } => self.count("elected"),
            ReplicaEvent::Following { .. } => self.count("followed"),
            ReplicaEvent::LeadershipTransferred => self.count("leadership transferred"),
            ReplicaEvent::Ignored { why, .. } => self.count(match why {
                Ignored::StaleEpoch => "ignored: stale epoch",
                Ignored::LostElection => "ignored: lost election",
                Ignored::Duplicate => "ignored: duplicate",
                Ignored::Gap => "ignored: gap",
            }),
            ReplicaEvent::Suspect { .. } => {
                // Reads that always lag look like a loss; reads that never do must not.
                if self.plan.breach == Breach::None && self.plan.lagging == 0 {
                    return violated(format!("server {node} suspects an honest log"));
                }
                self.count(if self.plan.breach == Breach::None { "suspect, but honest" } else { "suspect" });
            }
            ReplicaEvent::Full => self.count("full"),
            ReplicaEvent::Behind { .. } => {
                self.count("behind the trim");
                self.begin_from_a_peer(at);
            }
            ReplicaEvent::Halted(divergence) => {
                if self.plan.breach == Breach::None {
                    return violated(format!("server {node} halted on an honest log: {divergence}"));
                }
                self.count("halted");
                self.servers[at].halted = Some(divergence.to_string());
            }
            ReplicaEvent::Applied { .. } => {}
        }
        Ok(())
    }

    fn command(&mut self, at: usize, command: Command) {
        let (wait, troubled) = (self.delay(), !self.peace);
        match command {
            Command::Read { after } => {
                if !(troubled && self.rng.percent(self.plan.lost)) {
                    let connection = self.servers[at].connection;
                    self.after(wait, at, Occurrence::Reads { after, connection });
                }
            }
            Command::Append { ticket, after, record } => {
                self.trace(|world| {
                    format!("server {} appends {ticket:?} after {}", world.servers[at].member, after.0)
                });
                let (branch, connection) = (self.servers[at].branch, self.servers[at].connection);
                let append = Append { ticket, after, record, branch, connection };
                if troubled && self.rng.percent(self.plan.lost) {
                    self.count("append lost");
                    self.send_later(
                        at,
                        Duration::from_millis(500),
                        LogEvent::Unknown { ticket, why: "lost".into() },
                    );
                    return;
                }
                if troubled && self.rng.percent(self.plan.doubled) {
                    self.count("append doubled");
                    let (append, wait) = (append.clone(), self.delay());
                    self.after(wait, at, Occurrence::Arrives { append, answered: false });
                }
                let answered = !(troubled && self.rng.percent(self.plan.answer_lost));
                self.after(wait, at, Occurrence::Arrives { append, answered });
            }
        }
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.coverage.entry(what).or_default() += 1;
    }

    pub(super) fn trace(&mut self, what: impl FnOnce(&World) -> String) {
        if self.verbose {
            let line = format!("{:>10.3}ms {}", self.now.as_secs_f64() * 1000.0, what(self));
            self.trace.push(line);
        }
    }
}
