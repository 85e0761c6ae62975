//! Schema: the buckets of an etcd 3.7, and the keys in them.
//!
//! | bucket | key | value |
//! |---|---|---|
//! | `alarm` | `AlarmMember` | |
//! | `auth` | `authEnabled` | one byte |
//! | | `authRevision` | 8 bytes |
//! | `authRoles`, `authUsers` | name | `authpb.Role`, `authpb.User` |
//! | `cluster` | `clusterVersion` | as text |
//! | `key` | revision, `_`, position in it, and `t` if that is a delete | `KeyValue` |
//! | `lease` | id | `leasepb.Lease` |
//! | `members`, `members_removed` | id in hexadecimal digits | JSON |
//! | `meta` | `consistent_index`, `term` | 8 bytes |
//! | | `scheduledCompactRev`, `finishedCompactRev` | a revision in the form of the `key` bucket |
//! | | `confState` | JSON |
//! | | `storageVersion` | as text |
//!
//! Numbers are big-endian, so that their order is the order of the bytes.

pub(crate) const ALARM: &[u8] = b"alarm";
pub(crate) const AUTH: &[u8] = b"auth";
pub(crate) const AUTH_ROLES: &[u8] = b"authRoles";
pub(crate) const AUTH_USERS: &[u8] = b"authUsers";
pub(crate) const CLUSTER: &[u8] = b"cluster";
pub(crate) const KEY: &[u8] = b"key";
pub(crate) const LEASE: &[u8] = b"lease";
pub(crate) const MEMBERS: &[u8] = b"members";
pub(crate) const MEMBERS_REMOVED: &[u8] = b"members_removed";
pub(crate) const META: &[u8] = b"meta";

pub(crate) const AUTH_ENABLED: &[u8] = b"authEnabled";
pub(crate) const AUTH_REVISION: &[u8] = b"authRevision";
pub(crate) const CLUSTER_VERSION: &[u8] = b"clusterVersion";
pub(crate) const CONF_STATE: &[u8] = b"confState";
pub(crate) const CONSISTENT_INDEX: &[u8] = b"consistent_index";
pub(crate) const FINISHED_COMPACT: &[u8] = b"finishedCompactRev";
pub(crate) const SCHEDULED_COMPACT: &[u8] = b"scheduledCompactRev";
pub(crate) const STORAGE_VERSION: &[u8] = b"storageVersion";
pub(crate) const TERM: &[u8] = b"term";

const REVISION_LEN: usize = 17;
const TOMBSTONE: u8 = b't';

/// What a key of the `key` bucket says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RevisionKey {
    pub(crate) main: i64,
    pub(crate) sub: i64,
    pub(crate) is_tombstone: bool,
}

impl RevisionKey {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(REVISION_LEN + 1);
        bytes.extend_from_slice(&self.main.to_be_bytes());
        bytes.push(b'_');
        bytes.extend_from_slice(&self.sub.to_be_bytes());
        if self.is_tombstone {
            bytes.push(TOMBSTONE);
        }
        bytes
    }

    /// None if these are not the bytes of a revision.
    pub(crate) fn decode(bytes: &[u8]) -> Option<RevisionKey> {
        let (revision, mark) = bytes.split_at_checked(REVISION_LEN)?;
        let is_tombstone = match mark {
            [] => false,
            [TOMBSTONE] => true,
            _ => return None,
        };
        let number = |at: usize| i64::from_be_bytes(revision[at..at + 8].try_into().expect("eight bytes"));
        let key = RevisionKey { main: number(0), sub: number(9), is_tombstone };
        (revision[8] == b'_' && key.main > 0 && key.sub >= 0).then_some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_ordered_as_bytes_and_come_back() {
        let key = |main, sub, is_tombstone| RevisionKey { main, sub, is_tombstone };
        let keys = [key(2, 0, false), key(2, 0, true), key(2, 1, false), key(300, 0, false)];
        for pair in keys.windows(2) {
            assert!(pair[0].encode() < pair[1].encode());
        }
        for key in keys {
            assert_eq!(RevisionKey::decode(&key.encode()), Some(key));
        }
        for bad in [&b""[..], b"0123456789abcdef", b"01234567x01234567", b"\xff2345678_12345678"] {
            assert_eq!(RevisionKey::decode(bad), None, "{bad:?}");
        }
    }
}
