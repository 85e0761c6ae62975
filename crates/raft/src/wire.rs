//! Wire: the bytes of a message. docs/format.md draws them.
//!
//! Decoding takes any bytes: it does not panic, and it allocates no more than they justify. Entries
//! stay slices of what arrived; what is in them is checked by the member.

use bytes::{Buf, Bytes};
use vetch_base::{Epoch, Seq};
use vetch_journal::{EntryError, Tip, entry_len};

use crate::members::{Members, MembersError};
use crate::message::{Beat, Body, Message, Place};

/// Version byte of every message. A receiver refuses any other.
pub const WIRE_VERSION: u8 = 1;
/// Bytes before the body.
const HEAD_LEN: usize = 28;
/// Members in a message at most, voters and learners each.
const MEMBERS_MAX: u16 = 1000;

/// Why bytes are not a message of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("message is cut short")]
    Short,
    #[error("message version {0} is not known to this version of the software (it sends {WIRE_VERSION})")]
    Version(u8),
    #[error("message kind {0} is not known to this version of the software")]
    Kind(u8),
    #[error("flags {0:#x} are not known to this version of the software")]
    Flags(u16),
    #[error("{0} bytes are left over after the message")]
    Trailing(usize),
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error(transparent)]
    Members(#[from] MembersError),
    #[error("too many members")]
    TooMany,
}

const PRE: u16 = 1;
const FORCED: u16 = 2;
const GRANTED: u16 = 2;

impl Body {
    fn kind(&self) -> u8 {
        match self {
            Body::Append { .. } => 1,
            Body::Accepted { .. } => 2,
            Body::Rejected { .. } => 3,
            Body::Heartbeat { .. } => 4,
            Body::HeartbeatAnswer { .. } => 5,
            Body::Campaign { .. } => 6,
            Body::Vote { .. } => 7,
            Body::Checkpoint { .. } => 8,
            Body::CampaignNow => 9,
        }
    }

    fn flags(&self) -> u16 {
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        match self {
            Body::Campaign { pre, forced, .. } => flag(*pre, PRE) | flag(*forced, FORCED),
            Body::Vote { pre, granted, .. } => flag(*pre, PRE) | flag(*granted, GRANTED),
            _ => 0,
        }
    }
}

impl Message {
    /// All of the message.
    pub fn encode(&self) -> Bytes {
        let mut bytes = self.encode_head();
        self.entries().iter().for_each(|entry| bytes.extend_from_slice(entry));
        Bytes::from(bytes)
    }

    /// What goes before `entries`.
    pub fn encode_head(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_LEN + 32);
        out.extend_from_slice(&[WIRE_VERSION, self.body.kind()]);
        out.extend_from_slice(&self.body.flags().to_le_bytes());
        put(&mut out, [self.from, self.to, self.term.get()]);
        match &self.body {
            Body::Append { after, commit, .. } => {
                put_place(&mut out, after);
                put(&mut out, [commit.get()]);
            }
            Body::Accepted { index, commit } => put(&mut out, [index.get(), commit.get()]),
            Body::Rejected { index, hint, commit } => {
                put(&mut out, [index.get()]);
                put_place(&mut out, hint);
                put(&mut out, [commit.get()]);
            }
            Body::Heartbeat { commit, beat } | Body::HeartbeatAnswer { commit, beat } => {
                put(&mut out, [commit.get(), beat.number, beat.reads]);
            }
            Body::Campaign { last, commit, .. } => {
                put_place(&mut out, last);
                put_place(&mut out, commit);
            }
            Body::Vote { commit, .. } => put_place(&mut out, commit),
            Body::Checkpoint { tip, members } => put_checkpoint(&mut out, tip, members),
            Body::CampaignNow => {}
        }
        out
    }

    /// The entries at the end of the message, encoded.
    pub fn entries(&self) -> &[Bytes] {
        match &self.body {
            Body::Append { entries, .. } => entries,
            _ => &[],
        }
    }

    /// Reads a message that fills `bytes` exactly.
    pub fn decode(bytes: &Bytes) -> Result<Message, WireError> {
        let mut rest = bytes.clone();
        if rest.len() < HEAD_LEN {
            return Err(WireError::Short);
        }
        let version = rest.get_u8();
        if version != WIRE_VERSION {
            return Err(WireError::Version(version));
        }
        let (kind, flags) = (rest.get_u8(), rest.get_u16_le());
        let [from, to, term] = take(&mut rest)?;
        let body = take_body(kind, flags, &mut rest)?;
        if flags != body.flags() {
            return Err(WireError::Flags(flags));
        }
        if !rest.is_empty() {
            return Err(WireError::Trailing(rest.len()));
        }
        Ok(Message { from, to, term: Epoch::new(term), body })
    }
}

fn take_body(kind: u8, flags: u16, rest: &mut Bytes) -> Result<Body, WireError> {
    let is_set = |flag: u16| flags & flag != 0;
    Ok(match kind {
        1 => {
            let [seq, epoch, commit] = take(rest)?;
            let (after, commit) = (Place::new(seq, epoch), Seq::new(commit));
            let mut entries = Vec::new();
            while !rest.is_empty() {
                entries.push(rest.split_to(entry_len(rest)?));
            }
            Body::Append { after, commit, entries }
        }
        2 => {
            let [index, commit] = take(rest)?.map(Seq::new);
            Body::Accepted { index, commit }
        }
        3 => {
            let [index, seq, epoch, commit] = take(rest)?;
            Body::Rejected { index: Seq::new(index), hint: Place::new(seq, epoch), commit: Seq::new(commit) }
        }
        4 | 5 => {
            let [commit, number, reads] = take(rest)?;
            let (commit, beat) = (Seq::new(commit), Beat { number, reads });
            if kind == 4 { Body::Heartbeat { commit, beat } } else { Body::HeartbeatAnswer { commit, beat } }
        }
        6 => {
            let [last, last_epoch, commit, commit_epoch] = take(rest)?;
            let (last, commit) = (Place::new(last, last_epoch), Place::new(commit, commit_epoch));
            Body::Campaign { pre: is_set(PRE), forced: is_set(FORCED), last, commit }
        }
        7 => {
            let [seq, epoch] = take(rest)?;
            Body::Vote { pre: is_set(PRE), granted: is_set(GRANTED), commit: Place::new(seq, epoch) }
        }
        8 => take_checkpoint(rest)?,
        9 => Body::CampaignNow,
        other => return Err(WireError::Kind(other)),
    })
}

fn put<const N: usize>(out: &mut Vec<u8>, numbers: [u64; N]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn put_place(out: &mut Vec<u8>, place: &Place) {
    put(out, [place.seq.get(), place.epoch.get()]);
}

fn take<const N: usize>(rest: &mut Bytes) -> Result<[u64; N], WireError> {
    if rest.len() < N * 8 {
        return Err(WireError::Short);
    }
    Ok(std::array::from_fn(|_| rest.get_u64_le()))
}

fn put_checkpoint(out: &mut Vec<u8>, tip: &Tip, members: &Members) {
    put(out, [tip.epoch.get(), tip.seq.get(), tip.next_rev.cast_unsigned()]);
    out.extend_from_slice(&tip.hash);
    for members in [members.voters(), members.learners()] {
        let count = u16::try_from(members.len()).expect("members are limited");
        out.extend_from_slice(&count.to_le_bytes());
        members.iter().for_each(|member| out.extend_from_slice(&member.to_le_bytes()));
    }
}

fn take_checkpoint(rest: &mut Bytes) -> Result<Body, WireError> {
    let [epoch, seq, next_rev] = take(rest)?;
    let (epoch, seq, next_rev) = (Epoch::new(epoch), Seq::new(seq), next_rev.cast_signed());
    let mut hash = [0; 32];
    rest.try_copy_to_slice(&mut hash).map_err(|_| WireError::Short)?;
    let (voters, learners) = (take_members(rest)?, take_members(rest)?);
    let members = Members::new(voters, learners)?;
    Ok(Body::Checkpoint { tip: Tip { epoch, seq, hash, next_rev }, members })
}

/// Member ids in ascending order, so that one list has one form.
fn take_members(rest: &mut Bytes) -> Result<Vec<u64>, WireError> {
    let count = rest.try_get_u16_le().map_err(|_| WireError::Short)?;
    if count > MEMBERS_MAX {
        return Err(WireError::TooMany);
    }
    let mut members: Vec<u64> = Vec::new();
    for _ in 0..count {
        let [member] = take(rest)?;
        if members.last().is_some_and(|last| *last >= member) {
            return Err(MembersError::Present(member).into());
        }
        members.push(member);
    }
    Ok(members)
}
