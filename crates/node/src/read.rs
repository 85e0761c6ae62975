//! Reads: at the visible revision, beside the sequencer, in chunks that let writers in between.

mod txn;

use std::sync::Arc;
use std::time::Instant;

use vetch_counters::Histogram;
use vetch_seeded_bugs::Bug;
use vetch_store::auth::Caller;
use vetch_store::hash::{HashRun, PastHash};
use vetch_store::range::{RangeRun, resolve_revision};
use vetch_store::request::{RangeRequest, RangeResponse};
use vetch_store::{AnswerBytes, Mark, Store, StoreError, Validated};

use crate::error::NodeError;
use crate::state::{NodeState, ReadPin, ReadTurn};
use crate::types::{HashKv, RangeChunk, RangeEnd};

pub(crate) use txn::read_txn;

/// Times a read is begun because versions were freed in between. All but the first are pinned, so
/// that takes a read of minutes.
pub(crate) const READ_ATTEMPTS: usize = 8;
/// More versions than this are hashed away from the threads that serve requests.
const HASH_HERE: usize = 4096;

pub(crate) async fn range(
    node: &Arc<NodeState>,
    caller: &Caller,
    request: Validated<RangeRequest>,
) -> Result<RangeResponse, NodeError> {
    let metrics = &node.metrics;
    let open = metrics.reads.open.hold();
    let began = Instant::now();
    let response = confirm_and_run(node, caller, &request).await;
    let took = began.elapsed();
    drop(open);
    metrics.reads.ranges.add(1);
    if response.is_ok() { &metrics.reads.range } else { &metrics.reads.failed_range }.observe(took);
    // Counted and not logged: the server logs slow requests, with all the time that the client
    // waited.
    node.is_slow(took);
    node.permit_answer(caller)?;
    response
}

/// Who may read what is newest, too: users and roles are known as of the read, not as of what this
/// server knew before it.
async fn confirm_and_run(
    node: &Arc<NodeState>,
    caller: &Caller,
    request: &Validated<RangeRequest>,
) -> Result<RangeResponse, NodeError> {
    if !request.serializable {
        node.confirm().await?;
    }
    permit(node, caller, request)?;
    // Most ranges end within their first chunk. What the others need is boxed, because the future
    // of every range would have room for it.
    match begin_range(node, request, Pinned::No)? {
        Begun::Done(response) => Ok(response),
        Begun::Running(run, _) => Box::pin(finish_range(node, request, *run)).await,
    }
}

fn permit(node: &NodeState, caller: &Caller, request: &RangeRequest) -> Result<(), NodeError> {
    node.permit(caller, |auth| auth.check_read(caller, &request.range.key, &request.range.range_end))
}

/// Whether compaction waits for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pinned {
    No,
    Yes,
}

/// A range after its first chunk.
enum Begun<'a> {
    Done(RangeResponse),
    Running(Box<RangeRun>, Option<ReadPin<'a>>),
}

fn begin_range<'a>(
    node: &'a NodeState,
    request: &Validated<RangeRequest>,
    pinned: Pinned,
) -> Result<Begun<'a>, NodeError> {
    let store = node.store.read();
    let mut run = RangeRun::new(request.clone(), mark(node, &store))?;
    let pin = (pinned == Pinned::Yes).then(|| node.pin(&store, run.reads_at()));
    let count = advance(node, &store, &mut run)?;
    drop(store);
    Ok(match count {
        Some(count) => Begun::Done(run.finish(count)),
        None => Begun::Running(Box::new(run), pin),
    })
}

/// A range that compaction overtakes between two chunks is started again: only its first start
/// decides whether its revision is compacted.
async fn finish_range(
    node: &Arc<NodeState>,
    request: &Validated<RangeRequest>,
    run: RangeRun,
) -> Result<RangeResponse, NodeError> {
    let (mut run, mut _pin) = (run, None);
    let mut turn = node.visible.reads().begin();
    for _ in 1..READ_ATTEMPTS {
        match complete(node, run, &mut AnswerBytes::unlimited(), &mut turn).await {
            Err(NodeError::Store(StoreError::Compacted)) => {}
            outcome => return outcome,
        }
        // A pin is dropped only when the next one is there.
        (run, _pin) = match begin_range(node, request, Pinned::Yes)? {
            Begun::Done(response) => return Ok(response),
            Begun::Running(run, pin) => (*run, pin),
        };
    }
    match complete(node, run, &mut AnswerBytes::unlimited(), &mut turn).await {
        Err(NodeError::Store(StoreError::Compacted)) => Err(NodeError::Timeout),
        outcome => outcome,
    }
}

/// What a reader may see.
fn mark(node: &NodeState, store: &Store) -> Mark {
    let mut mark = store.visible();
    if vetch_seeded_bugs::on(Bug::DirtyRead) {
        mark = store.head();
    }
    if vetch_seeded_bugs::on(Bug::StaleRead) {
        mark.revision = node.hub.read().published().max(mark.compact_revision);
    }
    mark
}

/// One chunk; the count of the whole range once everything is there.
fn advance(node: &NodeState, store: &Store, run: &mut RangeRun) -> Result<Option<i64>, NodeError> {
    let tuning = &node.config.tuning;
    let done = run.step(store, tuning.scan.keys, tuning.scan.bytes)?;
    Ok(if done { Some(run.count(store)?) } else { None })
}

/// Runs a range to its end, chunk by chunk.
async fn complete(
    node: &Arc<NodeState>,
    mut run: RangeRun,
    allowance: &mut AnswerBytes,
    turn: &mut ReadTurn<'_>,
) -> Result<RangeResponse, NodeError> {
    loop {
        let (seen, examined) = (run.fetched(), run.examined());
        let count = advance(node, &node.store.read(), &mut run)?;
        run.take_allowance(allowance, seen)?;
        turn.note(run.examined() - examined);
        if let Some(count) = count {
            return node.visible.reads().finish(run, count).await;
        }
        turn.wait().await?;
        tokio::task::yield_now().await;
    }
}

/// A range being streamed at one revision, as fast as its reader takes it.
pub struct RangeStream {
    node: Arc<NodeState>,
    caller: Caller,
    state: State,
    chunk_bytes: usize,
    /// Keys to examine in the next chunk. The first is small, so that the first bytes leave at
    /// once.
    chunk_keys: usize,
    has_begun: bool,
}

enum State {
    Begin(Box<Validated<RangeRequest>>),
    Running(Box<RangeRun>),
    Ended,
}

const FIRST_CHUNK_KEYS: usize = 10;

impl RangeStream {
    pub(crate) fn new(
        node: &Arc<NodeState>,
        caller: Caller,
        request: Validated<RangeRequest>,
        chunk_bytes: usize,
    ) -> RangeStream {
        let state = State::Begin(Box::new(request));
        let tuning = &node.config.tuning;
        let chunk_bytes = chunk_bytes.clamp(1, tuning.scan.chunk_bytes);
        let chunk_keys = FIRST_CHUNK_KEYS.min(tuning.scan.keys);
        RangeStream { node: Arc::clone(node), caller, state, chunk_bytes, chunk_keys, has_begun: false }
    }

    /// The next chunk; None after the last one or after an error.
    pub async fn next(&mut self) -> Option<Result<RangeChunk, NodeError>> {
        if let Err(error) = self.confirm().await {
            self.state = State::Ended;
            return Some(Err(error));
        }
        loop {
            let chunk = self.step();
            match chunk {
                // A stretch of deleted keys: nothing to send, but writers get their turn.
                Ok(Some(chunk)) if chunk.kvs.is_empty() && chunk.end.is_none() => {
                    tokio::task::yield_now().await
                }
                Ok(chunk) => return chunk.map(Ok),
                Err(error) => {
                    self.state = State::Ended;
                    return Some(Err(error));
                }
            }
        }
    }

    /// Before the first chunk.
    async fn confirm(&self) -> Result<(), NodeError> {
        match &self.state {
            State::Begin(request) if !request.serializable => self.node.confirm().await,
            _ => Ok(()),
        }
    }

    fn step(&mut self) -> Result<Option<RangeChunk>, NodeError> {
        if let State::Begin(request) = &self.state {
            permit(&self.node, &self.caller, request)?;
        }
        let store = self.node.store.read();
        let mut run = match std::mem::replace(&mut self.state, State::Ended) {
            State::Begin(request) => {
                self.node.metrics.reads.ranges.add(1);
                self.node.metrics.reads.open.add(1);
                self.has_begun = true;
                Box::new(RangeRun::new(*request, store.visible())?)
            }
            State::Running(run) => run,
            State::Ended => return Ok(None),
        };
        // As in etcd: a stream takes as long as its client does, so it has no claim to what was
        // compacted meanwhile.
        if run.reads_at() < store.visible().compact_revision {
            return Err(StoreError::Compacted.into());
        }
        let done = run.step(&store, self.chunk_keys, self.chunk_bytes)?;
        self.chunk_keys = (self.chunk_keys * 2).min(self.node.config.tuning.scan.keys);
        if !done {
            let kvs = run.take();
            self.state = State::Running(run);
            return Ok(Some(RangeChunk { kvs, end: None }));
        }
        let count = run.count(&store)?;
        drop(store);
        self.node.permit_answer(&self.caller)?;
        let response = run.finish(count);
        let end = RangeEnd { revision: response.revision, more: response.more, count: response.count };
        Ok(Some(RangeChunk { kvs: response.kvs, end: Some(end) }))
    }
}

impl Drop for RangeStream {
    fn drop(&mut self) {
        if self.has_begun {
            self.node.metrics.reads.open.add(-1);
        }
    }
}

/// Also notes in `took` how long it took.
pub(crate) async fn hash_kv(
    node: &Arc<NodeState>,
    revision: i64,
    took: &Histogram,
) -> Result<HashKv, NodeError> {
    let began = Instant::now();
    let open = node.metrics.reads.open.hold();
    let hash = run_hash(node, revision).await;
    drop(open);
    took.observe(began.elapsed());
    hash
}

async fn run_hash(node: &Arc<NodeState>, revision: i64) -> Result<HashKv, NodeError> {
    let mut turn = node.visible.reads().begin();
    for attempt in 0..READ_ATTEMPTS {
        let (mark, past, _pin) = {
            let store = node.store.read();
            let mark = store.visible();
            let pin = (attempt > 0).then(|| node.pin(&store, mark.compact_revision));
            (mark, past_hash(node, revision), pin)
        };
        let (mut run, at) = match past {
            Some(PastHash { hash: Some(hash), compact_revision, .. }) => {
                let (hash_revision, revision) = (revision, mark.revision);
                return Ok(HashKv { hash, compact_revision, hash_revision, revision });
            }
            Some(past) => (HashRun::in_compaction(&past), revision),
            None => {
                let at = resolve_revision(revision, mark)?;
                (HashRun::new(at, mark), at)
            }
        };
        if collect(node, &mut run, past, &mut turn).await? {
            let hash = if run.versions() > HASH_HERE {
                tokio::task::spawn_blocking(move || run.finish()).await.map_err(|_| NodeError::Stopped)?
            } else {
                run.finish()
            };
            let compact_revision = past.map_or(mark.compact_revision, |past| past.compact_revision);
            return Ok(HashKv { hash, compact_revision, hash_revision: at, revision: mark.revision });
        }
    }
    Err(NodeError::Timeout)
}

/// The compaction at exactly `revision`, if it is remembered. 0 is the newest, whatever was
/// compacted.
fn past_hash(node: &NodeState, revision: i64) -> Option<PastHash> {
    if revision > 0 { node.compaction.past_hashes().find(revision) } else { None }
}

/// Collects all that is to be hashed. False if something of it may have been freed meanwhile: start
/// again.
async fn collect(
    node: &Arc<NodeState>,
    run: &mut HashRun,
    past: Option<PastHash>,
    turn: &mut ReadTurn<'_>,
) -> Result<bool, NodeError> {
    loop {
        let step = {
            let store = node.store.read();
            // What a past compaction found is kept until it has been hashed.
            if past.is_some_and(|past| past_hash(node, past.revision) != Some(past)) {
                return Ok(false);
            }
            run.step(&store, node.config.tuning.scan.keys)
        };
        match step {
            Some(true) => return Ok(true),
            Some(false) => turn.note(node.config.tuning.scan.keys),
            None => return Ok(false),
        }
        turn.wait().await?;
        tokio::task::yield_now().await;
    }
}
