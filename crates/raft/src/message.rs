//! Message: what members say to each other.
//!
//! The types are those of Raft's paper and of etcd's extensions to it. What a member does only to
//! itself is no message here, nor are forwarded proposals and reads.

use bytes::Bytes;
use raft::eraftpb::{Message as Pb, MessageType};
use vetch_base::{Epoch, Seq};
use vetch_journal::Tip;

use crate::entry::LogEntry;
use crate::members::Members;
use crate::store::Checkpoint;

/// A message between two members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub from: u64,
    pub to: u64,
    /// The sender's term; of requests for pre-votes and their answers, the one that is asked for.
    pub term: Epoch,
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Encoded entries behind `after`, which may be none.
    Append {
        after: Place,
        commit: Seq,
        entries: Vec<Bytes>,
    },
    /// The sender has synced its log up to `index`.
    Accepted {
        index: Seq,
        commit: Seq,
    },
    /// The sender's log does not have `index`, which was to be appended behind. It may have `hint`.
    Rejected {
        index: Seq,
        hint: Place,
        commit: Seq,
    },
    Heartbeat {
        commit: Seq,
        beat: Beat,
    },
    HeartbeatAnswer {
        commit: Seq,
        beat: Beat,
    },
    /// The sender asks for votes, or for pre-votes. `forced` after a leadership transfer.
    Campaign {
        pre: bool,
        forced: bool,
        last: Place,
        commit: Place,
    },
    Vote {
        pre: bool,
        granted: bool,
        commit: Place,
    },
    /// What the receiver needs was trimmed. It needs a checkpoint at `tip` or later.
    Checkpoint {
        tip: Tip,
        members: Members,
    },
    /// Leadership is transferred to the receiver: it is to campaign at once.
    CampaignNow,
}

/// An index and its term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub seq: Seq,
    pub epoch: Epoch,
}

/// Which heartbeat: a number that the leader counts up, and the round of reads that it confirms, or
/// zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    pub number: u64,
    pub reads: u64,
}

impl Place {
    pub fn new(index: u64, term: u64) -> Place {
        Place { seq: Seq::new(index), epoch: Epoch::new(term) }
    }
}

/// The context of a heartbeat of the crate: the round of reads, if there is one.
fn reads_of(context: &[u8]) -> u64 {
    context.try_into().map_or(0, u64::from_le_bytes)
}

impl Message {
    /// A message of the crate. `entry` gives the bytes of its entries. `None` for what is not sent
    /// to others.
    pub(crate) fn from_raft(
        mut message: Pb,
        beat: u64,
        entry: impl Fn(&raft::eraftpb::Entry) -> LogEntry,
        checkpoint: &Checkpoint,
    ) -> Option<Message> {
        let commit = Seq::new(message.commit);
        let place = Place::new(message.index, message.log_term);
        let commit_place = Place::new(message.commit, message.commit_term);
        let body = match message.get_msg_type() {
            MessageType::MsgAppend => {
                let entries = message.get_entries().iter().map(|raft| entry(raft).bytes().clone()).collect();
                Body::Append { after: place, commit, entries }
            }
            MessageType::MsgAppendResponse if message.reject => Body::Rejected {
                index: place.seq,
                hint: Place::new(message.reject_hint, message.log_term),
                commit,
            },
            MessageType::MsgAppendResponse => Body::Accepted { index: place.seq, commit },
            MessageType::MsgHeartbeat => {
                Body::Heartbeat { commit, beat: Beat { number: beat, reads: reads_of(&message.context) } }
            }
            MessageType::MsgHeartbeatResponse => {
                let context = message.take_context();
                let (number, reads) = context.split_first_chunk().unwrap_or((&[0; 8], &[]));
                let beat = Beat { number: u64::from_le_bytes(*number), reads: reads_of(reads) };
                Body::HeartbeatAnswer { commit, beat }
            }
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => Body::Campaign {
                pre: message.get_msg_type() == MessageType::MsgRequestPreVote,
                forced: message.get_context() == raft::CAMPAIGN_TRANSFER,
                last: place,
                commit: commit_place,
            },
            MessageType::MsgRequestVoteResponse | MessageType::MsgRequestPreVoteResponse => Body::Vote {
                pre: message.get_msg_type() == MessageType::MsgRequestPreVoteResponse,
                granted: !message.reject,
                commit: commit_place,
            },
            MessageType::MsgSnapshot => {
                let Checkpoint { tip, members } = checkpoint.clone();
                Body::Checkpoint { tip, members }
            }
            MessageType::MsgTimeoutNow => Body::CampaignNow,
            _ => return None,
        };
        Some(Message { from: message.from, to: message.to, term: Epoch::new(message.term), body })
    }

    /// As the crate takes it. `entries` are those of the message, decoded.
    pub(crate) fn to_raft(&self, entries: &[LogEntry]) -> Pb {
        let mut pb = Pb::default();
        (pb.from, pb.to, pb.term) = (self.from, self.to, self.term.get());
        let set_place = |pb: &mut Pb, place: &Place| {
            (pb.index, pb.log_term) = (place.seq.get(), place.epoch.get());
        };
        let set_commit = |pb: &mut Pb, place: &Place| {
            (pb.commit, pb.commit_term) = (place.seq.get(), place.epoch.get());
        };
        let kind = match &self.body {
            Body::Append { after, commit, .. } => {
                set_place(&mut pb, after);
                pb.commit = commit.get();
                pb.set_entries(entries.iter().map(crate::store::to_raft).collect::<Vec<_>>().into());
                MessageType::MsgAppend
            }
            Body::Accepted { index, commit } => {
                (pb.index, pb.commit) = (index.get(), commit.get());
                MessageType::MsgAppendResponse
            }
            Body::Rejected { index, hint, commit } => {
                (pb.index, pb.commit, pb.reject) = (index.get(), commit.get(), true);
                (pb.reject_hint, pb.log_term) = (hint.seq.get(), hint.epoch.get());
                MessageType::MsgAppendResponse
            }
            Body::Heartbeat { commit, beat } => {
                pb.commit = commit.get();
                let mut context = beat.number.to_le_bytes().to_vec();
                if beat.reads != 0 {
                    context.extend_from_slice(&beat.reads.to_le_bytes());
                }
                pb.context = context.into();
                MessageType::MsgHeartbeat
            }
            Body::HeartbeatAnswer { commit, beat } => {
                pb.commit = commit.get();
                if beat.reads != 0 {
                    pb.context = beat.reads.to_le_bytes().to_vec().into();
                }
                MessageType::MsgHeartbeatResponse
            }
            Body::Campaign { pre, forced, last, commit } => {
                set_place(&mut pb, last);
                set_commit(&mut pb, commit);
                if *forced {
                    pb.context = raft::CAMPAIGN_TRANSFER.into();
                }
                if *pre { MessageType::MsgRequestPreVote } else { MessageType::MsgRequestVote }
            }
            Body::Vote { pre, granted, commit } => {
                set_commit(&mut pb, commit);
                pb.reject = !granted;
                if *pre {
                    MessageType::MsgRequestPreVoteResponse
                } else {
                    MessageType::MsgRequestVoteResponse
                }
            }
            Body::CampaignNow => MessageType::MsgTimeoutNow,
            Body::Checkpoint { tip, members } => {
                let metadata = pb.mut_snapshot().mut_metadata();
                (metadata.index, metadata.term) = (tip.seq.get(), tip.epoch.get());
                metadata.set_conf_state(members.conf_state());
                MessageType::MsgSnapshot
            }
        };
        pb.set_msg_type(kind);
        pb
    }
}
