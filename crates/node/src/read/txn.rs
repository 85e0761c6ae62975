//! Transactions that only read: beside the sequencer, at one visible revision.

use std::sync::Arc;

use vetch_store::auth::Caller;
use vetch_store::request::{ResponseOp, TxnRequest, TxnResponse};
use vetch_store::{ReadTxn, ReadTxnRun, StoreError, Validated};

use super::{READ_ATTEMPTS, complete};
use crate::error::NodeError;
use crate::state::{NodeState, ReadTurn};

/// Decides the compares and runs the ranges in chunks, all of them at the same revision.
pub(crate) async fn read_txn(
    node: &Arc<NodeState>,
    caller: &Caller,
    request: &Validated<TxnRequest>,
) -> Result<TxnResponse, NodeError> {
    node.metrics.writes.txns.add(1);
    let open = node.metrics.reads.open.hold();
    let response = match node.confirm().await {
        Ok(()) => match node.permit(caller, |auth| auth.check_read_txn(caller, request)) {
            Ok(()) => begin_and_run_txn(node, request).await,
            Err(refusal) => Err(refusal),
        },
        Err(error) => Err(error),
    };
    drop(open);
    permit_txn_answer(node, caller, request)?;
    response
}

/// A transaction without a user is judged by what it reads, as when it came: one that reads nothing
/// is always permitted.
fn permit_txn_answer(node: &NodeState, caller: &Caller, request: &TxnRequest) -> Result<(), NodeError> {
    match caller {
        Caller::Anonymous => node.permit(caller, |auth| auth.check_read_txn(caller, request)),
        _ => node.permit_answer(caller),
    }
}

async fn begin_and_run_txn(
    node: &Arc<NodeState>,
    request: &Validated<TxnRequest>,
) -> Result<TxnResponse, NodeError> {
    let mut turn = node.visible.reads().begin();
    for attempt in 0..READ_ATTEMPTS {
        if let Some(response) = try_read_txn(node, request, attempt > 0, &mut turn).await? {
            return Ok(response);
        }
    }
    Err(NodeError::Timeout)
}

/// None if a compaction overtook it.
async fn try_read_txn(
    node: &Arc<NodeState>,
    request: &Validated<TxnRequest>,
    pinned: bool,
    turn: &mut ReadTurn<'_>,
) -> Result<Option<TxnResponse>, NodeError> {
    let budget = node.config.tuning.scan.keys;
    let (mut run, mut step, _pin) = {
        let store = node.store.read();
        let mut run = ReadTxnRun::new(request, &store);
        let pin = pinned.then(|| node.pin(&store, run.reads_from()));
        let step = run.step(&store, budget)?;
        (run, step, pin)
    };
    let txn = loop {
        if let Some(txn) = step {
            break txn;
        }
        turn.note(budget);
        turn.wait().await?;
        tokio::task::yield_now().await;
        let store = node.store.read();
        if run.is_overtaken(&store) {
            return Ok(None);
        }
        step = run.step(&store, budget)?;
    };
    match run_read_txn(node, txn, turn).await {
        Err(NodeError::Store(StoreError::Compacted)) => Ok(None),
        outcome => outcome.map(Some),
    }
}

async fn run_read_txn(
    node: &Arc<NodeState>,
    txn: ReadTxn,
    turn: &mut ReadTurn<'_>,
) -> Result<TxnResponse, NodeError> {
    let ReadTxn { revision, succeeded, ranges, mut allowance } = txn;
    let mut responses = Vec::with_capacity(ranges.len());
    for run in ranges {
        responses.push(ResponseOp::Range(complete(node, run, &mut allowance, turn).await?));
        turn.wait().await?;
    }
    Ok(TxnResponse { revision, succeeded, responses })
}
