//! Several replicas on threads of their own, over real connections. The leader
//! writes as fast as requested; everything that any of them receives goes into one ledger,
//! which must not contradict itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vetch_base::Seq;
use vetch_cluster::{Config, Driver, LogIndex, ReplicaEvent, ReplicaId, ReplicatedLog, Ticket};
use vetch_journal::{ChainedEntry, Draft, Hash, Kind, PartId, Position, Tip};
use vetch_nats::NatsLog;

pub(crate) fn start() -> LogIndex {
    LogIndex { position: Position(0), tip: Tip::genesis(2) }
}

/// What servers read and clients got.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Every entry that any server holds, by number.
    entries: BTreeMap<Seq, Hash>,
    /// Those that were acknowledged, and when.
    pub(crate) acknowledged: BTreeMap<Seq, (Hash, Instant)>,
    /// How many followers have read an entry, and when the last of them did.
    heard: BTreeMap<Seq, (usize, Instant)>,
    void: Vec<Hash>,
    tips: BTreeMap<u64, Tip>,
    pub(crate) elections: u64,
    pub(crate) trouble: Vec<String>,
}

impl Ledger {
    fn hold(&mut self, seq: Seq, hash: Hash) {
        if *self.entries.entry(seq).or_insert(hash) != hash {
            self.trouble.push(format!("two entries have the number {seq}"));
        }
    }

    fn acknowledge(&mut self, seq: Seq, hash: Hash) {
        self.hold(seq, hash);
        self.acknowledged.insert(seq, (hash, Instant::now()));
    }
}

pub(crate) struct ReplicaThreads {
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl ReplicaThreads {
    pub(crate) fn start(logs: Vec<NatsLog>, between_writes: Duration) -> ReplicaThreads {
        let (ledger, stop) = (Arc::new(Mutex::new(Ledger::default())), Arc::new(AtomicBool::new(false)));
        let threads = logs.into_iter().zip(1..).map(|(log, node)| {
            let hand = Hand {
                node,
                driver: Driver::new(
                    log,
                    Config::default(),
                    ReplicaId { member: node, incarnation: 1 },
                    start(),
                ),
                ledger: ledger.clone(),
                mine: BTreeMap::new(),
            };
            let stop = stop.clone();
            std::thread::spawn(move || hand.work(&stop, between_writes))
        });
        let threads = threads.collect();
        ReplicaThreads { ledger, stop, threads }
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.ledger.lock().expect("no thread panics").acknowledged.len()
    }

    /// Waits until this many more writes are acknowledged; how long that took.
    pub(crate) fn wait_for(&self, more: usize, timeout: Duration) -> Duration {
        let (begun, before) = (Instant::now(), self.acknowledged());
        while self.acknowledged() < before + more {
            assert!(begun.elapsed() < timeout, "no {more} writes in {timeout:?}");
            assert_eq!(self.ledger.lock().expect("no thread panics").trouble, Vec::<String>::new());
            std::thread::sleep(Duration::from_millis(5));
        }
        begun.elapsed()
    }

    /// The longest time without an acknowledgement since this moment, and when it ended.
    pub(crate) fn longest_pause(&self, since: Instant) -> (Duration, Instant) {
        let ledger = self.ledger.lock().expect("no thread panics");
        let mut times: Vec<Instant> =
            ledger.acknowledged.values().map(|(_, at)| *at).filter(|at| *at >= since).collect();
        times.push(since);
        times.sort_unstable();
        let pauses = times.windows(2).map(|pair| (pair[1] - pair[0], pair[1]));
        pauses.max().unwrap_or((Duration::ZERO, since))
    }

    /// The longest time from the acknowledgement of a write since this moment until all others had
    /// heard of it.
    pub(crate) fn slowest_to_hear(&self, since: Instant) -> Duration {
        let ledger = self.ledger.lock().expect("no thread panics");
        let late = ledger.acknowledged.iter().filter(|(_, (_, at))| *at >= since);
        let late = late.map(|(seq, (_, at))| match ledger.heard.get(seq) {
            Some((servers, heard)) if *servers == self.threads.len() - 1 => *heard - *at,
            _ => at.elapsed(),
        });
        late.max().unwrap_or_default()
    }

    /// Lets everybody catch up and end; checks that all hold the same.
    pub(crate) fn finish(self) -> Ledger {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().expect("no server panics");
        }
        let ledger = Arc::into_inner(self.ledger)
            .expect("all threads ended")
            .into_inner()
            .expect("no thread panicked");
        assert_eq!(ledger.trouble, Vec::<String>::new());
        for (seq, (hash, _)) in &ledger.acknowledged {
            assert!(!ledger.void.contains(hash), "entry {seq} was acknowledged and called void");
        }
        ledger
    }
}

struct Hand {
    node: u64,
    driver: Driver<NatsLog>,
    ledger: Arc<Mutex<Ledger>>,
    /// Own proposals that are not decided.
    mine: BTreeMap<Ticket, (Seq, Hash)>,
}

impl Hand {
    fn work(mut self, stop: &AtomicBool, between_writes: Duration) {
        let mut next_write = Instant::now();
        while !stop.load(Ordering::SeqCst) {
            if self.driver.replica().is_leader() && Instant::now() >= next_write {
                self.write();
                next_write = Instant::now() + between_writes;
            }
            self.step(between_writes.min(Duration::from_millis(5)));
        }
        let tip = *self.driver.replica().log_state().tip();
        self.ledger.lock().expect("no thread panics").tips.insert(self.node, tip);
    }

    fn write(&mut self) {
        let mut tip = self.driver.replica().head();
        let entry = entry(&mut tip, &[7; 300]);
        let now = self.driver.now();
        if let Ok(ticket) = self.driver.replica_mut().propose(now, std::slice::from_ref(&entry)) {
            self.mine.insert(ticket, (entry.seq(), entry.after().hash));
        }
    }

    fn step(&mut self, wait: Duration) {
        let events = self.driver.step_replica(wait);
        let mut ledger = self.ledger.lock().expect("no thread panics");
        for event in events {
            match event {
                ReplicaEvent::Applied { tip, .. } => {
                    ledger.hold(tip.seq, tip.hash);
                    let heard = ledger.heard.entry(tip.seq).or_insert((0, Instant::now()));
                    *heard = (heard.0 + 1, Instant::now());
                }
                ReplicaEvent::Committed { ticket, .. } => {
                    let (seq, hash) = self.mine.remove(&ticket).expect("proposed here");
                    ledger.acknowledge(seq, hash);
                }
                ReplicaEvent::Dropped { ticket } => {
                    let (_, hash) = self.mine.remove(&ticket).expect("proposed here");
                    ledger.void.push(hash);
                }
                ReplicaEvent::Leading { .. } => ledger.elections += 1,
                ReplicaEvent::Halted(divergence) => {
                    ledger.trouble.push(format!("server {} halted: {divergence}", self.node))
                }
                ReplicaEvent::Suspect { read, end } => {
                    ledger
                        .trouble
                        .push(format!("server {}: the log ends at {end:?}, {read:?} was read", self.node));
                }
                _ => {}
            }
        }
    }
}

pub(crate) fn entry(tip: &mut Tip, payload: &[u8]) -> ChainedEntry {
    let mut draft = Draft::with_capacity(Kind::Writes, payload.len());
    draft.begin_part(PartId { partition: 0, owner_epoch: tip.epoch.get(), pseq: tip.seq.next().get() });
    draft.payload().extend_from_slice(payload);
    draft.end_part(1);
    draft.chain(tip)
}
