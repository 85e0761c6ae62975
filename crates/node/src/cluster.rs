//! Cluster: a node that shares its journal with other servers, as the rest of the node and its callers see it.
//!
//! One server writes, the others apply what it wrote and stand by. What is asked here is what a server that stands alone
//! need not ask: whether this one still is the writer, before a read is answered or a renewal is promised.

use std::time::Duration;

use crossbeam_channel::{Sender, TrySendError};
use tokio::sync::{oneshot, watch};
use vetch_journal::{Draft, Entry, Kind, PartId, Payload};

use crate::error::NodeError;
use crate::shared::Shared;

/// What a node on a shared journal is told at start.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// Where clients, and servers that pass requests on, reach this one.
    pub url: String,
    pub fence: vetch_fence::Config,
}

/// Who writes, and how far this server has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterStatus {
    pub epoch: u64,
    /// Number of the last entry applied.
    pub index: u64,
    /// Whether this server is the writer.
    pub is_writer: bool,
    /// The writer, once it has said where it is.
    pub writer: Option<Writer>,
    /// Whether the journal has been read to its end since the start.
    pub caught_up: bool,
    /// The journal seems to have lost what was read from it.
    pub suspect: bool,
}

/// A server that writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    pub member: u64,
    pub url: String,
}

/// One read, or many at once, waiting for the proof that nothing newer exists.
pub(crate) type Waiting = oneshot::Sender<Result<(), NodeError>>;

pub(crate) struct Cluster {
    pub(crate) reads: Sender<Waiting>,
    pub(crate) status: watch::Sender<ClusterStatus>,
}

impl Shared {
    /// Returns once it is certain that whatever was acknowledged anywhere before the call is visible here. At once on a
    /// journal of one's own.
    pub(crate) async fn confirm(&self) -> Result<(), NodeError> {
        match &self.cluster {
            None => Ok(()),
            Some(cluster) => cluster.confirm(self.config.request_timeout).await,
        }
    }
}

impl Cluster {
    async fn confirm(&self, patience: Duration) -> Result<(), NodeError> {
        let (reply, answer) = oneshot::channel();
        match self.reads.try_send(reply) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(NodeError::TooManyRequests),
            Err(TrySendError::Disconnected(_)) => return Err(NodeError::Stopped),
        }
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(NodeError::Stopped),
            Err(_) => Err(NodeError::Timeout),
        }
    }
}

/// An entry without effect in which the writer says where it is.
pub(crate) fn announcement(writer: &Writer) -> Draft {
    let mut draft = Draft::new(Kind::Barrier);
    draft.begin_part(PartId::default());
    draft.payload().extend_from_slice(&writer.member.to_le_bytes());
    draft.payload().extend_from_slice(writer.url.as_bytes());
    draft.end_part(0);
    draft
}

/// What an entry announces, if it is an announcement.
pub(crate) fn announced(entry: &Entry) -> Option<Writer> {
    let Payload::Inline(payload) = &entry.parts.first()?.payload else { return None };
    if entry.kind != Kind::Barrier {
        return None;
    }
    let (member, url) = payload.split_first_chunk()?;
    Some(Writer { member: u64::from_le_bytes(*member), url: String::from_utf8(url.to_vec()).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vetch_journal::Tip;

    #[test]
    fn an_announcement_is_read_as_it_was_made() {
        let writer = Writer { member: 7, url: "http://10.0.0.1:2379".into() };
        let mut tip = Tip { epoch: 3, seq: 9, hash: [1; 32], next_rev: 5 };
        let sealed = announcement(&writer).seal(&mut tip);
        let entry = Entry::decode(sealed.bytes()).unwrap();
        assert_eq!(announced(&entry), Some(writer));
        assert_eq!(tip.next_rev, 5, "it takes no revision");
        let plain = Draft::new(Kind::Barrier).seal(&mut tip);
        assert_eq!(announced(&Entry::decode(plain.bytes()).unwrap()), None);
    }
}
