//! Describing: what a journal payload says, for people and tools. Nothing is applied and no state
//! is needed.
//!
//! A payload does not say which revision each of its commands made; that is worked out from the
//! revision of the first one. One thing cannot be known without state: whether a revoked lease had
//! keys, and so made a revision. Where that matters, puts, which carry their revision, set the
//! count right again.

use bytes::Bytes;

use crate::command::{Change, Command, decode};
use crate::payload::BadCommand;
use crate::record::Record;
use crate::request::Alarm;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// None: it made no revision, or it cannot be told which.
    pub revision: Option<i64>,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Put(Record),
    Delete {
        key: Bytes,
    },
    DeleteRange {
        key: Bytes,
        range_end: Bytes,
    },
    LeaseGrant {
        id: i64,
        ttl: i64,
    },
    /// Its keys went with it, if it had any.
    LeaseRevoke {
        id: i64,
    },
    LeaseRemaining {
        id: i64,
        seconds: i64,
    },
    Compact {
        revision: i64,
    },
    Alarm {
        alarm: Alarm,
        is_on: bool,
    },
    /// Users or roles changed.
    Auth,
}

/// What a payload says. `base_rev` is the revision of its first write unit, `units` how many it
/// has.
pub fn describe(mut payload: &[u8], base_rev: i64, units: u32) -> Result<Vec<Described>, BadCommand> {
    let mut commands = Vec::new();
    while !payload.is_empty() {
        commands.push(decode(&mut payload)?);
    }
    let txns = commands.iter().filter(|command| matches!(command, Command::Txn(_))).count() as i64;
    let revokes =
        commands.iter().filter(|command| matches!(command, Command::LeaseRevoke { .. })).count() as i64;
    // How many revokes made a revision; known if it is all of them or none.
    let made = i64::from(units) - txns;
    let per_revoke = (made == revokes || made == 0).then_some(i64::from(made > 0));
    let mut next = Some(base_rev);
    let mut out = Vec::new();
    for command in commands {
        next = one(command, next, per_revoke, &mut out)?;
    }
    Ok(out)
}

/// Describes a command at this revision and returns the one after it.
fn one(
    command: Command<'_>,
    next: Option<i64>,
    per_revoke: Option<i64>,
    out: &mut Vec<Described>,
) -> Result<Option<i64>, BadCommand> {
    let mut say = |revision, what| out.push(Described { revision, what });
    match command {
        Command::Txn(changes) => {
            let revision = revision_of(&changes)?.or(next);
            for (sub, change) in (0..).zip(changes) {
                say(revision, described(&change, sub)?);
            }
            return Ok(revision.map(|revision| revision.saturating_add(1)));
        }
        Command::LeaseRevoke { id } => {
            let revision = next.filter(|_| per_revoke == Some(1));
            say(revision, What::LeaseRevoke { id });
            return Ok(next.zip(per_revoke).map(|(next, made)| next.saturating_add(made)));
        }
        Command::LeaseGrant { id, ttl } => say(None, What::LeaseGrant { id, ttl }),
        Command::LeaseRemaining { id, remaining } => {
            say(None, What::LeaseRemaining { id, seconds: remaining })
        }
        Command::Compact { revision } => say(None, What::Compact { revision }),
        Command::AlarmOn(alarm) => say(None, What::Alarm { alarm, is_on: true }),
        Command::AlarmOff(alarm) => say(None, What::Alarm { alarm, is_on: false }),
        Command::Auth(_) => say(None, What::Auth),
    }
    Ok(next)
}

/// The revision that a put among the changes carries.
fn revision_of(changes: &[Change<'_>]) -> Result<Option<i64>, BadCommand> {
    for change in changes {
        if let Change::Put(wire) = change {
            return Ok(Some(Record::from_wire(wire, 0)?.mod_revision()));
        }
    }
    Ok(None)
}

fn described(change: &Change<'_>, sub: u32) -> Result<What, BadCommand> {
    Ok(match change {
        Change::Put(wire) => What::Put(Record::from_wire(wire, sub)?),
        Change::Delete(key) => What::Delete { key: Bytes::copy_from_slice(key) },
        Change::DeleteRange { key, range_end } => What::DeleteRange {
            key: Bytes::copy_from_slice(key),
            range_end: Bytes::copy_from_slice(range_end),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::request::{DeleteRangeRequest, KeyRange, PutRequest, WriteRequest};
    use crate::validated::valid;

    fn put(key: &'static str, lease: i64) -> WriteRequest {
        let (key, value) = (key.into(), "v".into());
        WriteRequest::Put(valid(PutRequest {
            key,
            value,
            lease,
            prev_kv: false,
            ignore_value: false,
            ignore_lease: false,
        }))
    }

    #[test]
    fn what_was_evaluated_is_described_with_its_revisions() {
        let mut store = Store::default();
        let mut payload = Vec::new();
        let delete = DeleteRangeRequest { range: KeyRange::new("a", ""), prev_kv: false };
        let requests = [
            WriteRequest::LeaseGrant { id: 7, ttl: 60 },
            put("a", 0),
            put("b", 7),
            WriteRequest::DeleteRange(valid(delete)),
            WriteRequest::LeaseRevoke { id: 7 },
            WriteRequest::Compact { revision: 3 },
        ];
        let mut units = 0;
        for request in &requests {
            units += u32::from(!store.evaluate(request, &mut payload).unwrap().events.is_empty());
        }
        let described = describe(&payload, 2, units).unwrap();
        let revisions: Vec<Option<i64>> = described.iter().map(|described| described.revision).collect();
        assert_eq!(revisions, [None, Some(2), Some(3), Some(4), Some(5), None]);
        assert_eq!(described[3].what, What::Delete { key: "a".into() });
        assert!(matches!(&described[2].what, What::Put(record) if record.lease() == 7));
        assert!(describe(&payload[..payload.len() - 1], 2, units).is_err(), "cut short");
    }
}
