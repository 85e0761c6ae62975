//! Replay: commands from the journal applied to head, as evaluation applied them the first time.

use std::sync::Arc;

use vetch_seeded_bugs::Bug;

use crate::auth::Effects;
use crate::command::{self, Change, Command};
use crate::evaluate::Txn;
use crate::payload::BadCommand;
use crate::record::Record;
use crate::request::{Event, KeyRange};
use crate::state::Store;

/// The events of one replayed revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    pub revision: i64,
    pub events: Vec<Event>,
}

impl Store {
    /// Applies a payload written by [`Store::evaluate`]. An error means that the bytes are damaged
    /// or belong elsewhere; the state is then not to be used.
    pub fn replay(&mut self, payload: &[u8]) -> Result<Vec<Replayed>, BadCommand> {
        self.replay_upto(payload, i64::MAX)
    }

    /// The same, but ends with the command that makes `revision`, wherever in the payload that is:
    /// nothing behind it is applied, not even what has no revision of its own.
    pub fn replay_upto(&mut self, mut payload: &[u8], revision: i64) -> Result<Vec<Replayed>, BadCommand> {
        let mut replayed = Vec::new();
        while !payload.is_empty() && self.head.revision < revision {
            let events = match command::decode(&mut payload)? {
                Command::Txn(changes) => self.replay_changes(&changes)?,
                Command::LeaseRevoke { id } if vetch_seeded_bugs::on(Bug::LeaseResurrected) => {
                    let ttl = self.leases.get(id).map_or(1, |lease| lease.ttl());
                    let events = self.revoke_lease(id).unwrap_or_default();
                    self.leases.grant(id, ttl, 0);
                    events
                }
                Command::LeaseRevoke { id } => {
                    self.revoke_lease(id).ok_or(BadCommand::Misfit("revoked lease does not exist"))?
                }
                other => {
                    self.replay_quiet(other)?;
                    continue;
                }
            };
            if !events.is_empty() {
                replayed.push(Replayed { revision: self.head.revision, events });
            }
        }
        Ok(replayed)
    }

    fn replay_quiet(&mut self, command: Command<'_>) -> Result<(), BadCommand> {
        match command {
            Command::LeaseGrant { id, ttl } => {
                if id == 0 || self.leases.get(id).is_some() {
                    return Err(BadCommand::Misfit("granted lease exists"));
                }
                self.leases.grant(id, ttl, 0);
            }
            Command::LeaseRemaining { id, remaining } => {
                self.leases.set_remaining(id, remaining);
            }
            Command::Compact { revision } => {
                if revision <= self.head.compact_revision || revision > self.head.revision {
                    return Err(BadCommand::Misfit("compaction out of range"));
                }
                self.head.compact_revision = revision;
            }
            Command::AlarmOn(alarm) => {
                self.alarms.insert(alarm);
            }
            Command::AlarmOff(alarm) => {
                self.alarms.remove(&alarm);
            }
            Command::Auth(effects) => self.replay_auth(&effects)?,
            Command::Txn(_) | Command::LeaseRevoke { .. } => unreachable!("handled by the caller"),
        }
        Ok(())
    }

    fn replay_auth(&mut self, effects: &Effects) -> Result<(), BadCommand> {
        let current = self.auth.revision();
        if effects.revision < current || effects.revision - current > 1 {
            return Err(BadCommand::Misfit("users and roles of another revision"));
        }
        Arc::make_mut(&mut self.auth).apply(effects);
        Ok(())
    }

    fn replay_changes(&mut self, changes: &[Change<'_>]) -> Result<Vec<Event>, BadCommand> {
        let revision = self.head.revision + 1;
        let mut store = &mut *self;
        let mut txn = Txn::begin(&mut store);
        for change in changes {
            match change {
                Change::Put(wire) => {
                    let record = Record::from_wire(wire, txn.sub())?;
                    if record.mod_revision() != revision || record.is_tombstone() {
                        return Err(BadCommand::Misfit("record of another revision"));
                    }
                    txn.apply_put(record);
                }
                Change::Delete(key) => {
                    let slot = txn.living(key).ok_or(BadCommand::Misfit("deleted key does not exist"))?;
                    txn.delete_slot(slot);
                }
                Change::DeleteRange { key, range_end } => {
                    txn.delete_range(&KeyRange::new(key.to_vec(), range_end.to_vec()));
                }
            }
        }
        Ok(txn.commit())
    }
}
