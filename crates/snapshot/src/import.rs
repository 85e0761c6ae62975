//! Import: the buckets of an etcd as the state of a node.
//!
//! Versions come in order of revision, as a node's first checkpoint wants them, and are passed on a
//! piece at a time. Everything is checked that etcd takes for granted; what etcd would not have
//! written is refused by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prost::Message;
use vetch_node::store::auth::{AuthState, Permission, PermissionKind, Role, User};
use vetch_node::store::load::{SavedLease, SavedLeases, Unversioned};
use vetch_node::store::request::{Alarm, AlarmKind};
use vetch_node::store::{BadRecord, Mark, Record};

use crate::file::{SnapshotError, SnapshotFile};
use crate::messages;
use crate::schema::{self, RevisionKey};

/// The newest storage format that is understood.
const NEWEST: (u64, u64) = (3, 7);
/// Revisions above the compaction that may be missing. etcd leaves none out; each costs a little
/// memory.
const MISSING: i64 = 1_000_000;

/// What remembering where a life began costs besides the key, roughly.
const LIFE_BYTES: usize = 64;

/// Why an entry of the `key` bucket is not a version that etcd would have written.
#[derive(Debug, thiserror::Error)]
enum RecordError {
    #[error("{0} is too large for a sub-revision")]
    SubRevision(i64),
    #[error("a tombstone without a key")]
    NoKey,
    #[error("the value belongs to another revision")]
    OtherRevision,
    #[error(transparent)]
    Tombstone(#[from] prost::DecodeError),
    #[error(transparent)]
    Value(#[from] BadRecord),
}

/// What stands in the `meta` bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Meta {
    pub(crate) consistent_index: u64,
    pub(crate) scheduled: Option<i64>,
    pub(crate) finished: Option<i64>,
}

impl Meta {
    /// The compaction that had been asked for; -1 if there was none.
    pub(crate) fn compact_revision(&self) -> i64 {
        self.scheduled.max(self.finished).unwrap_or(-1)
    }

    pub(crate) fn read(file: &SnapshotFile) -> Result<Meta, SnapshotError> {
        let mut meta = Meta::default();
        for_each(file, schema::META, |key, value| {
            let wrong = |reason: &str| SnapshotError::content(schema::META, key, reason);
            let revision = || {
                let revision = RevisionKey::decode(value).ok_or_else(|| wrong("this is not a revision"));
                revision.map(|revision| Some(revision.main))
            };
            match key {
                schema::CONSISTENT_INDEX => {
                    meta.consistent_index = number(value).ok_or_else(|| wrong("this is not a number"))?;
                }
                schema::SCHEDULED_COMPACT => meta.scheduled = revision()?,
                schema::FINISHED_COMPACT => meta.finished = revision()?,
                schema::STORAGE_VERSION => check_version(value)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(meta)
    }
}

fn check_version(value: &[u8]) -> Result<(), SnapshotError> {
    let text = String::from_utf8_lossy(value);
    let mut parts = text.split('.').map(|part| part.parse::<u64>().unwrap_or(u64::MAX));
    let version = (parts.next().unwrap_or(u64::MAX), parts.next().unwrap_or(u64::MAX));
    if version > NEWEST {
        let reason = format!(
            "the storage version is {text}, and versions up to {}.{} are understood",
            NEWEST.0, NEWEST.1
        );
        return Err(SnapshotError::Refused(reason));
    }
    Ok(())
}

/// Refuses buckets that no etcd up to 3.7 has: leaving them out would lose what they hold.
pub(crate) fn check_buckets(file: &SnapshotFile) -> Result<(), SnapshotError> {
    const KNOWN: [&[u8]; 10] = [
        schema::ALARM,
        schema::AUTH,
        schema::AUTH_ROLES,
        schema::AUTH_USERS,
        schema::CLUSTER,
        schema::KEY,
        schema::LEASE,
        schema::MEMBERS,
        schema::MEMBERS_REMOVED,
        schema::META,
    ];
    let mut has_keys = false;
    let mut buckets = file.db.buckets();
    while let Some(bucket) = buckets.next().map_err(file.format())? {
        if !KNOWN.contains(&bucket.key) {
            return Err(SnapshotError::content(bucket.key, b"", "this bucket is not known here"));
        }
        has_keys |= bucket.key == schema::KEY;
    }
    if has_keys {
        return Ok(());
    }
    Err(SnapshotError::Refused(format!("{} is not a database of etcd: it has no keys", file.path.display())))
}

/// Leases, alarms, users and roles.
pub(crate) fn unversioned(file: &SnapshotFile) -> Result<Unversioned, SnapshotError> {
    Ok(Unversioned { leases: leases(file)?, alarms: alarms(file)?, auth: auth(file)?.into() })
}

fn leases(file: &SnapshotFile) -> Result<SavedLeases, SnapshotError> {
    let mut leases = Vec::new();
    for_each(file, schema::LEASE, |key, value| {
        let lease: messages::Lease = decode(schema::LEASE, key, value)?;
        if lease.id == 0 || key != lease.id.to_be_bytes() {
            return Err(SnapshotError::content(schema::LEASE, key, "a lease under the id of another"));
        }
        leases.push(SavedLease { id: lease.id, ttl: lease.ttl, remaining: lease.remaining_ttl.max(0) });
        Ok(())
    })?;
    Ok(leases.into())
}

fn alarms(file: &SnapshotFile) -> Result<Vec<Alarm>, SnapshotError> {
    let mut alarms = Vec::new();
    for_each(file, schema::ALARM, |key, _| {
        let alarm: messages::AlarmMember = decode(schema::ALARM, key, key)?;
        let kind = match alarm.alarm {
            1 => AlarmKind::NoSpace,
            2 => AlarmKind::Corrupt,
            _ => return Err(SnapshotError::content(schema::ALARM, key, "an alarm that is not known here")),
        };
        alarms.push(Alarm { member: alarm.member_id, kind });
        Ok(())
    })?;
    Ok(alarms)
}

fn auth(file: &SnapshotFile) -> Result<AuthState, SnapshotError> {
    let mut auth = AuthState::default();
    for_each(file, schema::AUTH, |key, value| {
        match key {
            schema::AUTH_ENABLED => auth.enabled = value == [1],
            schema::AUTH_REVISION => {
                let wrong = || SnapshotError::content(schema::AUTH, key, "this is not a number");
                auth.revision = number(value).ok_or_else(wrong)?.max(1);
            }
            _ => {}
        }
        Ok(())
    })?;
    auth.users = users(file)?;
    auth.roles = roles(file)?;
    Ok(auth)
}

fn users(file: &SnapshotFile) -> Result<BTreeMap<String, User>, SnapshotError> {
    let mut users = BTreeMap::new();
    for_each(file, schema::AUTH_USERS, |key, value| {
        let user: messages::User = decode(schema::AUTH_USERS, key, value)?;
        let no_password = user.options.is_some_and(|options| options.no_password);
        let roles = user.roles.into_iter().collect();
        users.insert(name(schema::AUTH_USERS, key)?, User { password: user.password, no_password, roles });
        Ok(())
    })?;
    Ok(users)
}

fn roles(file: &SnapshotFile) -> Result<BTreeMap<String, Role>, SnapshotError> {
    let mut roles = BTreeMap::new();
    for_each(file, schema::AUTH_ROLES, |key, value| {
        let role: messages::Role = decode(schema::AUTH_ROLES, key, value)?;
        let permission = |permission: messages::Permission| Permission {
            kind: PermissionKind::of_number(permission.perm_type),
            key: permission.key,
            range_end: permission.range_end,
        };
        let permissions = role.key_permission.into_iter().map(permission).collect();
        roles.insert(name(schema::AUTH_ROLES, key)?, Role { permissions });
        Ok(())
    })?;
    Ok(roles)
}

/// Ids of the members that may vote.
pub(crate) fn voters(file: &SnapshotFile) -> Result<BTreeSet<u64>, SnapshotError> {
    #[derive(serde::Deserialize)]
    struct Member {
        id: u64,
        #[serde(rename = "isLearner", default)]
        is_learner: bool,
    }
    let mut voters = BTreeSet::new();
    for_each(file, schema::MEMBERS, |key, value| {
        let member: Member = serde_json::from_slice(value)
            .map_err(|error| SnapshotError::content(schema::MEMBERS, key, error.to_string()))?;
        if !member.is_learner {
            voters.insert(member.id);
        }
        Ok(())
    })?;
    Ok(voters)
}

/// Versions in pieces of whole revisions.
pub(crate) struct Versions<'f> {
    file: &'f SnapshotFile,
    compact_revision: i64,
    /// A piece is passed on when it has this many bytes.
    pub(crate) piece_bytes: usize,
    piece: Vec<Record>,
    bytes: usize,
    /// Where the life began that a key of this piece is in, for the tombstone that will end it.
    lives: HashMap<Vec<u8>, i64>,
    last: i64,
    /// Different revisions above the compaction.
    distinct: i64,
    pub(crate) count: u64,
}

impl<'f> Versions<'f> {
    pub(crate) fn new(file: &'f SnapshotFile, meta: &Meta, piece_bytes: usize) -> Versions<'f> {
        Versions {
            file,
            compact_revision: meta.compact_revision(),
            piece_bytes,
            piece: Vec::new(),
            bytes: 0,
            lives: HashMap::new(),
            last: 0,
            distinct: 0,
            count: 0,
        }
    }

    /// Reads everything, passes it to `take`, and returns where history stands.
    pub(crate) fn read(
        &mut self,
        take: &mut dyn FnMut(Vec<Record>) -> Result<(), SnapshotError>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Mark, SnapshotError> {
        let file = self.file;
        let Some(bucket) = file.db.bucket(schema::KEY).map_err(file.format())? else {
            return Ok(self.mark());
        };
        let mut entries = file.db.entries(&bucket);
        let mut done = 0;
        while let Some(entry) = entries.next().map_err(file.format())? {
            let wrong = |reason: &str| SnapshotError::content(schema::KEY, entry.key, reason);
            let revision = RevisionKey::decode(entry.key).ok_or_else(|| wrong("this is not a revision"))?;
            if self.bytes >= self.piece_bytes && revision.main > self.last {
                take(self.pass_on())?;
            }
            if revision.main > self.last && revision.main > self.compact_revision {
                self.distinct += 1;
            }
            self.last = revision.main;
            done += (entry.key.len() + entry.value.len()) as u64;
            progress(done);
            // A restore that moved the revision forward leaves an empty value at its new place.
            if entry.value.is_empty() {
                continue;
            }
            let record = self.record(revision, entry.value).map_err(|error| wrong(&error.to_string()))?;
            self.bytes += record.footprint();
            self.count += 1;
            self.piece.push(record);
        }
        take(self.pass_on())?;
        self.check_gaps()?;
        Ok(self.mark())
    }

    fn pass_on(&mut self) -> Vec<Record> {
        self.bytes = 0;
        self.lives.clear();
        std::mem::take(&mut self.piece)
    }

    fn record(&mut self, at: RevisionKey, value: &[u8]) -> Result<Record, RecordError> {
        let sub = u32::try_from(at.sub).map_err(|_| RecordError::SubRevision(at.sub))?;
        if at.is_tombstone {
            let key = messages::Tombstone::decode(value)?.key;
            if key.is_empty() {
                return Err(RecordError::NoKey);
            }
            // Where the life began is known if it is in the same piece; 0 says that it may have
            // been any time ago.
            let created = self.lives.remove(&key[..]).unwrap_or(0);
            return Ok(Record::tombstone(&key, at.main, sub, created));
        }
        let record = Record::from_wire(value, sub)?;
        if record.is_tombstone() || record.mod_revision() != at.main {
            return Err(RecordError::OtherRevision);
        }
        if !self.lives.contains_key(record.key()) {
            self.bytes += record.key().len() + LIFE_BYTES;
            self.lives.insert(record.key().to_vec(), record.create_revision());
        }
        Ok(record)
    }

    /// A watch of the past walks over every revision above the compaction, so there must not be
    /// millions of them that never existed.
    fn check_gaps(&self) -> Result<(), SnapshotError> {
        let missing = self.last - self.compact_revision.max(0) - self.distinct;
        if missing > MISSING {
            return Err(SnapshotError::Refused(format!(
                "{missing} revisions between the compaction at {} and the newest revision {} are missing; compact this \
                 etcd at its newest revision and try again",
                self.compact_revision, self.last
            )));
        }
        Ok(())
    }

    fn mark(&self) -> Mark {
        let compact_revision = self.compact_revision;
        Mark { revision: self.last.max(compact_revision).max(Mark::START.revision), compact_revision }
    }
}

/// Calls `take` with every key and value of a bucket, if there is such a bucket.
fn for_each(
    file: &SnapshotFile,
    bucket: &[u8],
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    let Some(bucket) = file.db.bucket(bucket).map_err(file.format())? else { return Ok(()) };
    let mut entries = file.db.entries(&bucket);
    while let Some(entry) = entries.next().map_err(file.format())? {
        take(entry.key, entry.value)?;
    }
    Ok(())
}

fn decode<M: Message + Default>(bucket: &[u8], key: &[u8], value: &[u8]) -> Result<M, SnapshotError> {
    M::decode(value).map_err(|error| SnapshotError::content(bucket, key, error.to_string()))
}

fn name(bucket: &[u8], key: &[u8]) -> Result<String, SnapshotError> {
    String::from_utf8(key.to_vec())
        .map_err(|_| SnapshotError::content(bucket, key, "a name that is not UTF-8"))
}

fn number(value: &[u8]) -> Option<u64> {
    value.try_into().map(u64::from_be_bytes).ok()
}
