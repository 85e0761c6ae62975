//! Joining: a server that is new, or that the journal was trimmed beyond, takes another server's
//! checkpoint.
//!
//! The last announcements of the journal have the addresses of the other servers, and the proof
//! that this server reads the journal. The journal must contain the tip of the checkpoint. After
//! any failure the next server is tried, and then all of them again, for as long as a start may
//! take.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tonic::Streaming;
use tonic::transport::Endpoint;
use vetch_api::vetch::peer_client::PeerClient;
use vetch_api::vetch::{self, CheckpointHead, CheckpointRequest, CheckpointResponse};
use vetch_base::{Epoch, Seq};
use vetch_checkpoint::transfer::{CheckpointReceiver, TransferError, TransferManifest};
use vetch_cluster::{CheckpointMatch, Log, LogIndex, PeekError};
use vetch_members::announcement::find_in_record;
use vetch_members::{Peer, Proof};
use vetch_node::journal::{Position, Tip};

use super::peer_dialer::DialError;
use super::{ClusterError, PeerDialer};
use crate::engine::LogPlace;

/// Records before the end in which announcements are looked for, before the next one is waited for.
const ANNOUNCEMENT_RECORDS: u64 = 64;
/// Announcements come every second; after this long there is no leader.
const ANNOUNCEMENT_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a start waits for another server to give its checkpoint.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const START_RETRY_DELAY: Duration = Duration::from_secs(1);
const READ_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A server that sends nothing for this long is given up.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// No other server has given its checkpoint.
#[derive(Debug, thiserror::Error)]
#[error(
    "the journal was trimmed beyond the state of this server, and no checkpoint could be fetched from another server: {0}"
)]
pub(crate) struct NoCheckpoint(JoinError);

/// Why one attempt to fetch a checkpoint failed.
#[derive(Debug, thiserror::Error)]
enum JoinError {
    #[error(transparent)]
    Log(#[from] PeekError),
    #[error("no server announces itself in the journal")]
    NoAnnouncement,
    #[error("there is no other server")]
    NoOther,
    #[error("{}", .0.join("; "))]
    AllFailed(Vec<String>),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("{}", .0.message())]
    Refused(#[from] tonic::Status),
    #[error("received nothing for {0:?}")]
    Silent(Duration),
    #[error("it sent no manifest")]
    NoManifest,
    #[error("the journal was trimmed beyond its checkpoint")]
    Trimmed,
    #[error("its checkpoint does not match the journal's history")]
    Differs,
    #[error(transparent)]
    Receive(#[from] TransferError),
}

/// Blocks until a checkpoint has been taken over, on a thread that may.
pub(super) fn fetch_checkpoint(
    data_dir: &Path,
    member: u64,
    place: &LogPlace,
    dialer: &PeerDialer,
) -> Result<(), ClusterError> {
    let deadline = Instant::now() + START_TIMEOUT;
    let mut log = place.connect()?;
    loop {
        let why = match attempt(log.as_mut(), data_dir, member, dialer) {
            Ok(()) => return Ok(()),
            Err(why) => why,
        };
        if Instant::now() >= deadline {
            return Err(NoCheckpoint(why).into());
        }
        tracing::warn!(%why, "no checkpoint from another server yet; retrying");
        std::thread::sleep(START_RETRY_DELAY);
    }
}

fn attempt(log: &mut dyn Log, data_dir: &Path, member: u64, dialer: &PeerDialer) -> Result<(), JoinError> {
    let (proof, peers) = find_peers(log)?;
    let mut failures = Vec::new();
    for peer in peers.iter().filter(|peer| peer.member != member) {
        match Handle::current().block_on(fetch_from(log, data_dir, peer, &proof, dialer)) {
            Ok(()) => return Ok(()),
            Err(why) => failures.push(format!("{}: {why}", peer.url)),
        }
    }
    Err(if failures.is_empty() { JoinError::NoOther } else { JoinError::AllFailed(failures) })
}

/// Which servers there are, as the leader said last.
fn find_peers(log: &mut dyn Log) -> Result<(Proof, Vec<Peer>), JoinError> {
    let (_, end) = vetch_cluster::bounds(log, READ_TIMEOUT)?;
    let mut seen = None;
    vetch_cluster::scan_after(
        log,
        Position(end.0.saturating_sub(ANNOUNCEMENT_RECORDS)),
        ANNOUNCEMENT_TIMEOUT,
        |at, record| {
            seen = find_in_record(record).or(seen.take());
            seen.is_some() && at >= end
        },
    );
    seen.ok_or(JoinError::NoAnnouncement)
}

async fn fetch_from(
    log: &mut dyn Log,
    data_dir: &Path,
    peer: &Peer,
    proof: &Proof,
    dialer: &PeerDialer,
) -> Result<(), JoinError> {
    let with_keepalive = |endpoint: Endpoint| {
        endpoint.connect_timeout(CONNECT_TIMEOUT).http2_keep_alive_interval(CONNECT_TIMEOUT)
    };
    let channel = dialer.connect(&peer.url, with_keepalive).await?;
    let proof = vetch::Proof { seq: proof.seq.get(), hash: proof.hash.to_vec() };
    let response = PeerClient::new(channel).checkpoint(CheckpointRequest { proof: Some(proof) }).await;
    let mut pieces = response?.into_inner();
    let first = next(&mut pieces).await?.and_then(|first| first.head);
    let manifest = first.and_then(manifest).ok_or(JoinError::NoManifest)?;
    check_history(log, &LogIndex { position: manifest.position, tip: manifest.tip })?;
    let (bytes, revision) = (manifest.bytes(), manifest.revision);
    tracing::info!(from = peer.url, bytes, revision, "fetching a checkpoint from another server");
    let mut receiver = CheckpointReceiver::begin(data_dir, manifest)?;
    while let Some(message) = next(&mut pieces).await? {
        receiver.write(&message.piece)?;
    }
    receiver.finish()?;
    tracing::info!(bytes, revision, "fetched a checkpoint");
    Ok(())
}

async fn next(pieces: &mut Streaming<CheckpointResponse>) -> Result<Option<CheckpointResponse>, JoinError> {
    let piece = tokio::time::timeout(IDLE_TIMEOUT, pieces.message()).await;
    Ok(piece.map_err(|_| JoinError::Silent(IDLE_TIMEOUT))??)
}

/// The checkpoint is of this journal's history.
fn check_history(log: &mut dyn Log, index: &LogIndex) -> Result<(), JoinError> {
    match vetch_cluster::match_checkpoint(log, index, READ_TIMEOUT)? {
        CheckpointMatch::Matches => Ok(()),
        CheckpointMatch::Trimmed => Err(JoinError::Trimmed),
        CheckpointMatch::Differs => Err(JoinError::Differs),
    }
}

fn manifest(head: CheckpointHead) -> Option<TransferManifest> {
    let vetch::Place { position, epoch, seq, hash, next_rev } = head.place?;
    let tip = Tip { epoch: Epoch::new(epoch), seq: Seq::new(seq), hash: hash.try_into().ok()?, next_rev };
    Some(TransferManifest {
        position: Position(position),
        tip,
        revision: head.revision,
        number: head.number,
        files: head.files.into_iter().map(|file| (file.name, file.bytes)).collect(),
    })
}
