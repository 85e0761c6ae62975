//! Contents: the state of a node as the buckets of an etcd.
//!
//! Everything but the versions of keys is small and is encoded at once; the versions are encoded
//! one by one when they are written.

use std::borrow::Cow;

use prost::Message;
use serde::Serialize;
use vetch_node::Snapshot;
use vetch_node::store::auth::{AuthState, Permission, Role, User};
use vetch_node::store::load::{SavedLease, SavedLeases, Unversioned};
use vetch_node::store::request::{Alarm, AlarmKind};
use vetch_node::store::{Mark, Record};

use crate::member::Member;
use crate::messages;
use crate::schema::{self, RevisionKey};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A piece of a bbolt file, in the order in which it is written.
pub(crate) enum Step {
    Bucket(&'static [u8]),
    Put(Vec<u8>, Vec<u8>),
    /// All versions of all keys come here.
    Versions,
}

/// What to write before, in place of and behind the versions.
pub(crate) fn steps(state: &Snapshot, member: &Member) -> Vec<Step> {
    let Unversioned { leases, alarms, auth } = &state.unversioned;
    let mut steps = Vec::new();
    let mut bucket = |name: &'static [u8], pairs: Pairs| {
        steps.push(Step::Bucket(name));
        steps.extend(pairs.into_iter().map(|(key, value)| Step::Put(key, value)));
    };
    bucket(schema::ALARM, alarm_pairs(alarms));
    bucket(schema::AUTH, auth_pairs(auth));
    bucket(schema::AUTH_ROLES, auth.roles.iter().map(role_pair).collect());
    bucket(schema::AUTH_USERS, auth.users.iter().map(user_pair).collect());
    let version = member.cluster_version.as_bytes().to_vec();
    bucket(schema::CLUSTER, vec![(schema::CLUSTER_VERSION.to_vec(), version)]);
    bucket(schema::KEY, Vec::new());
    steps.push(Step::Versions);
    let mut bucket = |name: &'static [u8], pairs: Pairs| {
        steps.push(Step::Bucket(name));
        steps.extend(pairs.into_iter().map(|(key, value)| Step::Put(key, value)));
    };
    bucket(schema::LEASE, lease_pairs(leases));
    bucket(schema::MEMBERS, vec![(format!("{:x}", member.id).into_bytes(), member_json(member))]);
    bucket(schema::MEMBERS_REMOVED, Vec::new());
    bucket(schema::META, meta_pairs(state, member));
    steps
}

/// Under which key etcd keeps a version, and what it keeps there.
pub(crate) fn version_pair(version: &Record) -> (Vec<u8>, Cow<'_, [u8]>) {
    let is_tombstone = version.is_tombstone();
    let key = RevisionKey { main: version.mod_revision(), sub: version.sub().into(), is_tombstone };
    let value = match version.wire() {
        _ if is_tombstone => Cow::Borrowed(version.wire_of_key()),
        [whole, b""] => Cow::Borrowed(whole),
        parts => Cow::Owned(parts.concat()),
    };
    (key.encode(), value)
}

fn alarm_pairs(alarms: &[Alarm]) -> Pairs {
    let number = |kind| match kind {
        AlarmKind::NoSpace => 1,
        AlarmKind::Corrupt => 2,
    };
    let encode = |alarm: &Alarm| {
        messages::AlarmMember { member_id: alarm.member, alarm: number(alarm.kind) }.encode_to_vec()
    };
    sorted(alarms.iter().map(|alarm| (encode(alarm), Vec::new())).collect())
}

fn auth_pairs(auth: &AuthState) -> Pairs {
    vec![
        (schema::AUTH_ENABLED.to_vec(), vec![u8::from(auth.enabled)]),
        (schema::AUTH_REVISION.to_vec(), auth.revision.to_be_bytes().to_vec()),
    ]
}

fn role_pair((name, role): (&String, &Role)) -> (Vec<u8>, Vec<u8>) {
    let permission = |permission: &Permission| messages::Permission {
        perm_type: permission.kind.number(),
        key: permission.key.clone(),
        range_end: permission.range_end.clone(),
    };
    let message = messages::Role {
        name: name.clone().into(),
        key_permission: role.permissions.iter().map(permission).collect(),
    };
    (name.clone().into_bytes(), message.encode_to_vec())
}

fn user_pair((name, user): (&String, &User)) -> (Vec<u8>, Vec<u8>) {
    let message = messages::User {
        name: name.clone().into(),
        password: user.password.clone(),
        roles: user.roles.iter().cloned().collect(),
        options: Some(messages::UserAddOptions { no_password: user.no_password }),
    };
    (name.clone().into_bytes(), message.encode_to_vec())
}

fn lease_pairs(leases: &SavedLeases) -> Pairs {
    let pair = |lease: &SavedLease| {
        let message = messages::Lease { id: lease.id, ttl: lease.ttl, remaining_ttl: lease.remaining };
        (lease.id.to_be_bytes().to_vec(), message.encode_to_vec())
    };
    sorted(leases.iter().map(pair).collect())
}

fn meta_pairs(state: &Snapshot, member: &Member) -> Pairs {
    #[derive(Serialize)]
    struct ConfState {
        voters: [u64; 1],
        auto_leave: bool,
    }
    let conf_state = ConfState { voters: [member.id], auto_leave: false };
    let conf_state = serde_json::to_vec(&conf_state).expect("numbers have a JSON form");
    let mut pairs = vec![
        (schema::CONF_STATE.to_vec(), conf_state),
        (schema::CONSISTENT_INDEX.to_vec(), state.index.to_be_bytes().to_vec()),
        (schema::STORAGE_VERSION.to_vec(), member.storage_version.as_bytes().to_vec()),
        (schema::TERM.to_vec(), member.term.to_be_bytes().to_vec()),
    ];
    let Mark { compact_revision, .. } = state.mark;
    if compact_revision > 0 {
        let revision = RevisionKey { main: compact_revision, sub: 0, is_tombstone: false }.encode();
        pairs.push((schema::FINISHED_COMPACT.to_vec(), revision.clone()));
        pairs.push((schema::SCHEDULED_COMPACT.to_vec(), revision));
    }
    sorted(pairs)
}

fn member_json(member: &Member) -> Vec<u8> {
    #[derive(Serialize)]
    struct Json<'m> {
        id: u64,
        #[serde(rename = "peerURLs")]
        peer_urls: &'m [String],
        name: &'m str,
        #[serde(rename = "clientURLs")]
        client_urls: &'m [String],
    }
    let Member { id, name, peer_urls, client_urls, .. } = member;
    let json = Json { id: *id, peer_urls, name, client_urls };
    serde_json::to_vec(&json).expect("text and numbers have a JSON form")
}

fn sorted(mut pairs: Pairs) -> Pairs {
    pairs.sort_unstable();
    pairs
}
