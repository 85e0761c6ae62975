//! Commands: what the journal carries. Effects, never requests.
//!
//! Evaluation happens once, before the append; what is written down is its outcome: the versions
//! that came to be, the keys that went. Replaying them needs no evaluation and can be refused only
//! if the bytes are damaged. A payload is a sequence of commands, each a tag, a length and a body;
//! docs/format.md draws them.

use bytes::BufMut;

use crate::auth::Effects;
use crate::payload::{BadCommand, take, take_i64, take_u8, take_u32};
use crate::request::{Alarm, AlarmKind, Event, KeyRange};

const TXN: u8 = 1;
const LEASE_GRANT: u8 = 2;
const LEASE_REVOKE: u8 = 3;
const LEASE_REMAINING: u8 = 4;
const COMPACT: u8 = 5;
const ALARM_ON: u8 = 6;
const ALARM_OFF: u8 = 7;
const AUTH: u8 = 8;

const CHANGE_PUT: u8 = 0;
const CHANGE_DELETE: u8 = 1;
const CHANGE_DELETE_RANGE: u8 = 2;

/// A delete of at least this many keys, or bytes of keys, is written down as its range instead of
/// key by key, so that no delete makes an entry larger than itself by more than a constant.
pub(crate) const RANGE_DELETE_KEYS: usize = 256;
pub(crate) const RANGE_DELETE_BYTES: usize = 16 << 10;

/// One decoded command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command<'a> {
    /// One revision: versions that came to be and keys that went, in order.
    Txn(Vec<Change<'a>>),
    LeaseGrant {
        id: i64,
        ttl: i64,
    },
    /// The lease goes, and its keys with it: one revision if there are any, none otherwise.
    LeaseRevoke {
        id: i64,
    },
    LeaseRemaining {
        id: i64,
        remaining: i64,
    },
    Compact {
        revision: i64,
    },
    AlarmOn(Alarm),
    AlarmOff(Alarm),
    /// Users and roles, as they are from now on.
    Auth(Effects),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// The wire form of the version.
    Put(&'a [u8]),
    Delete(&'a [u8]),
    /// Every key of the range that is alive at this point of the transaction.
    DeleteRange {
        key: &'a [u8],
        range_end: &'a [u8],
    },
}

/// Which events of a transaction came from one large delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeDelete {
    pub(crate) events: std::ops::Range<usize>,
    pub(crate) range: KeyRange,
}

/// `range_deletes` are in order and do not overlap.
pub(crate) fn encode_txn(out: &mut Vec<u8>, events: &[Event], range_deletes: &[RangeDelete]) {
    framed(out, TXN, |out| {
        let mut from = 0;
        for delete in range_deletes {
            put_changes(out, &events[from..delete.events.start]);
            out.put_u8(CHANGE_DELETE_RANGE);
            out.put_u32_le(len_u32(&delete.range.key) + len_u32(&delete.range.range_end) + 4);
            out.put_u32_le(len_u32(&delete.range.key));
            out.extend_from_slice(&delete.range.key);
            out.extend_from_slice(&delete.range.range_end);
            from = delete.events.end;
        }
        put_changes(out, &events[from..]);
    });
}

pub(crate) fn encode_lease_grant(out: &mut Vec<u8>, id: i64, ttl: i64) {
    framed(out, LEASE_GRANT, |out| {
        out.put_i64_le(id);
        out.put_i64_le(ttl);
    });
}

pub(crate) fn encode_lease_revoke(out: &mut Vec<u8>, id: i64) {
    framed(out, LEASE_REVOKE, |out| out.put_i64_le(id));
}

pub(crate) fn encode_lease_remaining(out: &mut Vec<u8>, id: i64, remaining: i64) {
    framed(out, LEASE_REMAINING, |out| {
        out.put_i64_le(id);
        out.put_i64_le(remaining);
    });
}

pub(crate) fn encode_compact(out: &mut Vec<u8>, revision: i64) {
    framed(out, COMPACT, |out| out.put_i64_le(revision));
}

pub(crate) fn encode_alarm(out: &mut Vec<u8>, alarm: Alarm, on: bool) {
    framed(out, if on { ALARM_ON } else { ALARM_OFF }, |out| {
        out.put_u64_le(alarm.member);
        out.put_u8(alarm_number(alarm.kind));
    });
}

pub(crate) fn encode_auth(out: &mut Vec<u8>, effects: &Effects) {
    framed(out, AUTH, |out| effects.encode(out));
}

fn framed(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.put_u8(tag);
    let at = out.len();
    out.put_u32_le(0);
    body(out);
    let len = u32::try_from(out.len() - at - 4).expect("a command is far below 4 GiB");
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

fn put_changes(out: &mut Vec<u8>, events: &[Event]) {
    for event in events {
        let (tag, parts) = if event.kv.is_tombstone() {
            (CHANGE_DELETE, [event.kv.key(), &[]])
        } else {
            (CHANGE_PUT, event.kv.wire())
        };
        out.put_u8(tag);
        out.put_u32_le(len_u32(parts[0]) + len_u32(parts[1]));
        parts.iter().for_each(|part| out.extend_from_slice(part));
    }
}

fn len_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a record is far below 4 GiB")
}

/// The number of an alarm in files; the API uses the same.
pub fn alarm_number(kind: AlarmKind) -> u8 {
    match kind {
        AlarmKind::NoSpace => 1,
        AlarmKind::Corrupt => 2,
    }
}

pub fn alarm_of_number(number: u8) -> Option<AlarmKind> {
    match number {
        1 => Some(AlarmKind::NoSpace),
        2 => Some(AlarmKind::Corrupt),
        _ => None,
    }
}

/// Reads the first command of `payload` and moves past it.
pub(crate) fn decode<'a>(payload: &mut &'a [u8]) -> Result<Command<'a>, BadCommand> {
    let tag = take_u8(payload)?;
    let len = take_u32(payload)? as usize;
    let mut body = take(payload, len)?;
    let command = match tag {
        TXN => Command::Txn(take_changes(&mut body)?),
        LEASE_GRANT => Command::LeaseGrant { id: take_i64(&mut body)?, ttl: take_i64(&mut body)? },
        LEASE_REVOKE => Command::LeaseRevoke { id: take_i64(&mut body)? },
        LEASE_REMAINING => {
            Command::LeaseRemaining { id: take_i64(&mut body)?, remaining: take_i64(&mut body)? }
        }
        COMPACT => Command::Compact { revision: take_i64(&mut body)? },
        ALARM_ON => Command::AlarmOn(take_alarm(&mut body)?),
        ALARM_OFF => Command::AlarmOff(take_alarm(&mut body)?),
        AUTH => Command::Auth(Effects::decode(&mut body)?),
        tag => return Err(BadCommand::UnknownTag(tag)),
    };
    if !body.is_empty() {
        return Err(BadCommand::Trailing(tag));
    }
    Ok(command)
}

fn take_changes<'a>(body: &mut &'a [u8]) -> Result<Vec<Change<'a>>, BadCommand> {
    let mut changes = Vec::new();
    while !body.is_empty() {
        let tag = take_u8(body)?;
        let len = take_u32(body)? as usize;
        let mut bytes = take(body, len)?;
        changes.push(match tag {
            CHANGE_PUT => Change::Put(bytes),
            CHANGE_DELETE => Change::Delete(bytes),
            CHANGE_DELETE_RANGE => {
                let key_len = take_u32(&mut bytes)? as usize;
                Change::DeleteRange { key: take(&mut bytes, key_len)?, range_end: bytes }
            }
            tag => return Err(BadCommand::UnknownTag(tag)),
        });
    }
    Ok(changes)
}

fn take_alarm(body: &mut &[u8]) -> Result<Alarm, BadCommand> {
    let member = take_i64(body)? as u64;
    let kind = alarm_of_number(take_u8(body)?).ok_or(BadCommand::Misfit("unknown alarm"))?;
    Ok(Alarm { member, kind })
}
