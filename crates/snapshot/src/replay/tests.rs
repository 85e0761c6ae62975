use prost::Message;
use vetch_api::pb;
use vetch_api::pb::request_op::Request as Op;

use super::*;

/// A request as it stands in the log: one message under its number.
fn entry(tag: u32, message: &impl Message) -> Entry {
    let mut data = Vec::new();
    prost::encoding::encode_key(tag, prost::encoding::WireType::LengthDelimited, &mut data);
    prost::encoding::encode_varint(message.encoded_len() as u64, &mut data);
    message.encode(&mut data).unwrap();
    Entry { index: 1, data, ..Entry::default() }
}

/// The same with a user in its header.
fn by(user: &str, revision: u64, mut entry: Entry) -> Entry {
    let header = [&[0x12, user.len() as u8], user.as_bytes(), &[0x18, revision as u8]].concat();
    let mut data = vec![0xa2, 0x06, header.len() as u8];
    data.extend_from_slice(&header);
    data.append(&mut entry.data);
    Entry { data, ..entry }
}

fn put(key: &str) -> Entry {
    entry(4, &put_request(key, 0))
}

fn put_request(key: &str, lease: i64) -> pb::PutRequest {
    pb::PutRequest { key: key.to_owned().into(), value: "v".into(), lease, ..Default::default() }
}

fn replay(entries: &[Entry]) -> Replayed {
    let mut replay = Replay::new(Store::default());
    for entry in entries {
        replay.apply(entry).unwrap();
    }
    replay.finish()
}

fn revision(entries: &[Entry]) -> i64 {
    replay(entries).mark.revision
}

#[test]
fn what_the_log_asks_for_happens() {
    let delete = pb::DeleteRangeRequest { key: "a".into(), range_end: "c".into(), prev_kv: false };
    let nested = pb::TxnRequest {
        success: vec![pb::RequestOp { request: Some(Op::RequestPut(put_request("n", 0))) }],
        ..Default::default()
    };
    let txn = pb::TxnRequest {
        success: vec![
            pb::RequestOp { request: Some(Op::RequestPut(put_request("m", 0))) },
            pb::RequestOp { request: Some(Op::RequestTxn(nested)) },
        ],
        ..Default::default()
    };
    let replayed = replay(&[
        put("a"),
        put("b"),
        entry(5, &delete),
        entry(6, &txn),
        entry(7, &pb::CompactionRequest { revision: 4, physical: true }),
        entry(8, &pb::LeaseGrantRequest { id: 5, ttl: 1 }),
        entry(4, &put_request("leased", 5)),
        entry(9, &pb::LeaseRevokeRequest { id: 5 }),
        entry(8, &pb::LeaseGrantRequest { id: 6, ttl: 100 }),
    ]);
    assert_eq!((replayed.mark.revision, replayed.mark.compact_revision), (7, 4));
    assert_eq!(replayed.records.len(), 2 + 2 + 2 + 2);
    assert_eq!(replayed.unversioned.leases.len(), 1);
    assert_eq!(replayed.requests, 9);
}

#[test]
fn what_etcd_refused_changes_nothing() {
    let future = pb::CompactionRequest { revision: 9, physical: false };
    let refused = [
        entry(4, &put_request("a", 77)),
        entry(7, &future),
        entry(9, &pb::LeaseRevokeRequest { id: 77 }),
        entry(8, &pb::LeaseGrantRequest { id: 0, ttl: 9 }),
        entry(8, &pb::LeaseGrantRequest { id: 1, ttl: i64::MAX }),
        entry(1000, &pb::AuthEnableRequest {}),
    ];
    let replayed = replay(&refused);
    assert_eq!((replayed.mark, replayed.requests), (Mark::START, 0));
}

#[test]
fn leases_that_ask_for_less_than_the_minimum_get_it() {
    let leases = replay(&[entry(8, &pb::LeaseGrantRequest { id: 1, ttl: -3 })]).unversioned.leases;
    assert_eq!(leases.iter().next().unwrap().ttl, 2);
}

#[test]
fn an_alarm_stops_what_it_stops_in_etcd() {
    let alarm = |action, alarm| entry(10, &pb::AlarmRequest { action, member_id: 1, alarm });
    let delete = entry(5, &pb::DeleteRangeRequest { key: "a".into(), ..Default::default() });
    assert_eq!(revision(&[put("a"), alarm(1, 1), put("b"), delete.clone()]), 3);
    assert_eq!(revision(&[put("a"), alarm(1, 1), alarm(2, 1), put("b"), delete.clone()]), 4);
    assert_eq!(revision(&[put("a"), alarm(1, 2), put("b"), delete]), 2);
}

/// The entries that turn authentication on, with alice who may write `a`.
fn guarded() -> Vec<Entry> {
    let user = |name: &str| pb::AuthUserAddRequest {
        name: name.into(),
        hashed_password: "aGFzaA==".into(),
        ..Default::default()
    };
    let permission = vetch_api::authpb::Permission { perm_type: 1, key: "a".into(), range_end: "".into() };
    vec![
        entry(1100, &user("root")),
        entry(1104, &pb::AuthUserGrantRoleRequest { user: "root".into(), role: "root".into() }),
        entry(1100, &user("alice")),
        entry(1200, &pb::AuthRoleAddRequest { name: "writer".into() }),
        entry(1203, &pb::AuthRoleGrantPermissionRequest { name: "writer".into(), perm: Some(permission) }),
        entry(1104, &pb::AuthUserGrantRoleRequest { user: "alice".into(), role: "writer".into() }),
        entry(1000, &pb::AuthEnableRequest {}),
    ]
}

#[test]
fn callers_are_judged_when_their_requests_are_applied() {
    let state = replay(&guarded()).unversioned.auth;
    assert!(state.enabled);
    assert_eq!(state.users["alice"].password.as_ref(), b"hash");
    let now = state.revision;
    let after = |entry: Entry| revision(&[guarded(), vec![entry]].concat());
    assert_eq!(after(by("alice", now, put("a"))), 2);
    assert_eq!(after(by("alice", now, put("b"))), 1, "not permitted");
    assert_eq!(after(by("alice", now - 1, put("a"))), 1, "users have changed since");
    assert_eq!(after(put("a")), 1, "no user");
    assert_eq!(after(by("root", now, put("b"))), 2);
    let users = |who: &str| {
        let add = entry(1200, &pb::AuthRoleAddRequest { name: "another".into() });
        replay(&[guarded(), vec![by(who, now, add)]].concat()).unversioned.auth.roles.len()
    };
    assert_eq!((users("alice"), users("root")), (1, 2));
    // etcd judges these where they come in, and never again.
    let lease = |who: &str| {
        let grant = entry(8, &pb::LeaseGrantRequest { id: 1, ttl: 9 });
        replay(&[guarded(), vec![by(who, now, grant)]].concat()).unversioned.leases.len()
    };
    assert_eq!(lease("unknown"), 1);
}

#[test]
fn passwords_in_old_logs_are_hashed() {
    let user = pb::AuthUserAddRequest { name: "u".into(), password: "secret".into(), ..Default::default() };
    let state = replay(&[entry(1100, &user)]).unversioned.auth;
    let hash = String::from_utf8(state.users["u"].password.to_vec()).unwrap();
    assert!(bcrypt::verify("secret", &hash).unwrap(), "{hash}");
}

#[test]
fn what_is_not_known_is_refused_and_what_does_nothing_is_passed_over() {
    let mut replay = Replay::new(Store::default());
    let unknown = entry(1400, &pb::AuthEnableRequest {});
    assert!(may_change(&unknown));
    assert!(replay.apply(&unknown).unwrap_err().to_string().contains("1400"));
    assert!(replay.apply(&Entry { data: vec![0xff; 9], ..Entry::default() }).is_err());
    let nameless = entry(4, &pb::PutRequest::default());
    assert!(replay.apply(&nameless).is_err(), "etcd writes no such put down");
    for quiet in
        [Entry::default(), entry(1300, &pb::AuthEnableRequest {}), entry(3, &pb::RangeRequest::default())]
    {
        assert!(!may_change(&quiet));
        replay.apply(&quiet).unwrap();
    }
}
