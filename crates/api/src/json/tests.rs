use bytes::Bytes;

use super::{Stream, from_slice, to_stream_line, to_vec};
use crate::mvccpb::{Event, KeyValue, event::EventType};
use crate::pb;
use crate::{authpb, v3electionpb};

fn text<M: serde::Serialize>(message: &M) -> String {
    String::from_utf8(to_vec(message).expect("messages serialise")).expect("JSON is UTF-8")
}

fn read<M: serde::de::DeserializeOwned + Default>(body: &str) -> M {
    from_slice(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error}"))
}

#[test]
fn integers_are_strings_bytes_are_base64_and_defaults_are_left_out() {
    let response = pb::RangeResponse {
        header: Some(pb::ResponseHeader { cluster_id: u64::MAX, member_id: 0, revision: -1, raft_term: 2 }),
        kvs: vec![KeyValue { key: Bytes::from_static(b"\xfb\xff"), mod_revision: 7, ..KeyValue::default() }],
        more: true,
        count: 0,
    };
    assert_eq!(
        text(&response),
        r#"{"header":{"cluster_id":"18446744073709551615","revision":"-1","raft_term":"2"},"#.to_owned()
            + r#""kvs":[{"key":"+/8=","mod_revision":"7"}],"more":true}"#
    );
    assert_eq!(
        text(&pb::PutResponse { header: Some(pb::ResponseHeader::default()), prev_kv: None }),
        r#"{"header":{}}"#
    );
}

#[test]
fn narrow_integers_are_numbers_and_enums_are_names() {
    assert_eq!(text(&pb::HashResponse { header: None, hash: 7 }), r#"{"hash":7}"#);
    let put = Event { r#type: EventType::Put.into(), ..Event::default() };
    assert_eq!(text(&put), "{}");
    let delete = Event { r#type: EventType::Delete.into(), ..Event::default() };
    assert_eq!(text(&delete), r#"{"type":"DELETE"}"#);
}

#[test]
fn field_names_are_those_of_etcd() {
    let member = pb::Member {
        id: 1,
        name: "n".into(),
        peer_ur_ls: vec!["p".into()],
        client_ur_ls: vec!["c".into()],
        is_learner: true,
    };
    assert_eq!(
        text(&member),
        r#"{"ID":"1","name":"n","peerURLs":["p"],"clientURLs":["c"],"isLearner":true}"#
    );

    let lease = pb::LeaseTimeToLiveResponse {
        header: None,
        id: 1,
        ttl: 2,
        granted_ttl: 3,
        keys: vec![Bytes::from_static(b"a")],
    };
    assert_eq!(text(&lease), r#"{"ID":"1","TTL":"2","grantedTTL":"3","keys":["YQ=="]}"#);

    let permission =
        authpb::Permission { perm_type: 2, key: Bytes::from_static(b"k"), range_end: Bytes::new() };
    let role = authpb::Role { name: Bytes::new(), key_permission: vec![permission] };
    assert_eq!(text(&role), r#"{"keyPermission":[{"permType":"READWRITE","key":"aw=="}]}"#);

    let status = pb::StatusResponse {
        db_size: 1,
        raft_index: 2,
        raft_term: 3,
        raft_applied_index: 4,
        db_size_in_use: 5,
        storage_version: "3.7.0".into(),
        db_size_quota: 6,
        downgrade_info: Some(pb::DowngradeInfo { enabled: true, target_version: "3.6.0".into() }),
        ..pb::StatusResponse::default()
    };
    assert_eq!(
        text(&status),
        r#"{"dbSize":"1","raftIndex":"2","raftTerm":"3","raftAppliedIndex":"4","dbSizeInUse":"5","#
            .to_owned()
            + r#""storageVersion":"3.7.0","dbSizeQuota":"6","downgradeInfo":{"enabled":true,"targetVersion":"3.6.0"}}"#
    );
    assert_eq!(text(&pb::MoveLeaderRequest { target_id: 9 }), r#"{"targetID":"9"}"#);
    assert_eq!(
        text(&pb::AuthStatusResponse { auth_revision: 9, ..Default::default() }),
        r#"{"authRevision":"9"}"#
    );
    assert_eq!(
        text(&pb::AuthUserChangePasswordRequest { hashed_password: "h".into(), ..Default::default() }),
        r#"{"hashedPassword":"h"}"#
    );
    assert_eq!(
        text(&pb::AlarmMember { member_id: 3, alarm: pb::AlarmType::Nospace.into() }),
        r#"{"memberID":"3","alarm":"NOSPACE"}"#
    );
}

#[test]
fn integers_are_read_from_numbers_and_strings() {
    for body in [r#"{"limit":"-5"}"#, r#"{"limit":-5}"#, r#"{"limit":-5.0}"#, r#"{"limit":-50e-1}"#] {
        assert_eq!(read::<pb::RangeRequest>(body).limit, -5);
    }
    assert_eq!(read::<pb::MemberRemoveRequest>(r#"{"ID":"18446744073709551615"}"#).id, u64::MAX);
    assert_eq!(read::<pb::MemberRemoveRequest>(r#"{"ID":18446744073709551615}"#).id, u64::MAX);
    assert!(from_slice::<pb::RangeRequest>(br#"{"limit":"x"}"#).is_err());
    for number in ["9223372036854775808", "1e19", "1.5"] {
        assert!(
            from_slice::<pb::RangeRequest>(format!(r#"{{"limit":{number}}}"#).as_bytes()).is_err(),
            "{number}"
        );
    }
}

#[test]
fn enums_are_read_from_names_and_numbers() {
    for body in [r#"{"sort_order":"DESCEND"}"#, r#"{"sort_order":2}"#, r#"{"sortOrder":"DESCEND"}"#] {
        assert_eq!(read::<pb::RangeRequest>(body).sort_order, 2, "{body}");
    }
    assert_eq!(read::<pb::WatchCreateRequest>(r#"{"filters":["NODELETE",0]}"#).filters, [1, 0]);
    assert!(from_slice::<pb::RangeRequest>(br#"{"sort_order":"UP"}"#).is_err());
    assert!(from_slice::<pb::RangeRequest>(br#"{"sort_order":9}"#).is_err());
}

#[test]
fn bytes_are_read_from_both_alphabets_padded_or_not() {
    for body in ["+/8=", "+/8", "-_8=", "-_8"] {
        assert_eq!(
            read::<pb::RangeRequest>(&format!(r#"{{"key":"{body}"}}"#)).key,
            &b"\xfb\xff"[..],
            "{body}"
        );
    }
    assert!(from_slice::<pb::RangeRequest>(br#"{"key":"foo bar"}"#).is_err());
}

#[test]
fn both_spellings_of_a_name_null_and_unknown_fields_are_read() {
    for body in [r#"{"range_end":"YQ=="}"#, r#"{"rangeEnd":"YQ==","key":null,"nonsense":{"a":[null]}}"#] {
        assert_eq!(read::<pb::RangeRequest>(body).range_end, "a");
    }
    assert_eq!(read::<v3electionpb::ProclaimRequest>(r#"{"leader":null}"#).leader, None);
}

#[test]
fn an_empty_body_is_the_default_and_a_tail_is_ignored() {
    assert_eq!(read::<pb::StatusRequest>(""), pb::StatusRequest {});
    assert_eq!(read::<pb::MemberListRequest>("\n"), pb::MemberListRequest::default());
    assert!(read::<pb::MemberListRequest>(r#"{"linearizable":true} {"linearizable":false}"#).linearizable);
    for body in ["{", "[]", "null", "7", r#"{"linearizable":true,"linearizable":true}"#] {
        assert!(from_slice::<pb::MemberListRequest>(body.as_bytes()).is_err(), "{body}");
    }
    assert!(from_slice::<pb::TxnRequest>(br#"{"success":[null]}"#).is_err());
}

#[test]
fn a_transaction_is_read_whole() {
    let body = r#"{"compare":[{"key":"YQ==","target":"MOD","result":"EQUAL","mod_revision":"3"}],
        "success":[{"requestPut":{"key":"YQ==","value":"Yg=="}},{"request_txn":{}}],
        "failure":[{"request_range":{"key":"YQ=="}}]}"#;
    let txn: pb::TxnRequest = read(body);
    assert_eq!(txn.compare[0].target_union, Some(pb::compare::TargetUnion::ModRevision(3)));
    let put = pb::PutRequest { key: "a".into(), value: "b".into(), ..Default::default() };
    assert_eq!(txn.success[0].request, Some(pb::request_op::Request::RequestPut(put)));
    assert_eq!(txn.success[1].request, Some(pb::request_op::Request::RequestTxn(Default::default())));
    assert_eq!(from_slice::<pb::TxnRequest>(text(&txn).as_bytes()).expect("our own JSON"), txn);
}

#[test]
fn messages_are_taken_off_a_stream_as_they_complete() {
    let mut stream = Stream::default();
    stream.push(b" {\"cancel_request\":{\"watch_id\":\"4\"}}\n {\"progress_req");
    let first: pb::WatchRequest = stream.take().expect("valid").expect("complete");
    let cancel = pb::watch_request::RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: 4 });
    assert_eq!(first.request_union, Some(cancel));
    assert_eq!(stream.take::<pb::WatchRequest>().expect("not wrong yet"), None);

    stream.push(b"uest\":{}} ");
    let second: pb::WatchRequest = stream.take().expect("valid").expect("complete");
    let progress = pb::watch_request::RequestUnion::ProgressRequest(pb::WatchProgressRequest {});
    assert_eq!(second.request_union, Some(progress));
    assert_eq!(stream.take::<pb::WatchRequest>().expect("only space is left"), None);
    assert!(stream.is_empty());

    stream.push(b"nonsense");
    assert!(stream.take::<pb::WatchRequest>().is_err());
}

#[test]
fn space_between_messages_takes_no_room() {
    let mut stream = Stream::default();
    for _ in 0..3 {
        for _ in 0..1000 {
            stream.push(b"\n ");
            assert_eq!(stream.take::<pb::WatchRequest>().expect("only space"), None);
        }
        assert_eq!(stream.len(), 0);
        stream.push(b"{");
        assert_eq!(stream.take::<pb::WatchRequest>().expect("begun"), None);
        stream.push(b"} ");
        assert!(stream.take::<pb::WatchRequest>().expect("whole").is_some());
    }
}

/// Unknown fields are read and dropped; what they may take meanwhile is bounded.
#[test]
fn a_tree_that_takes_far_more_than_its_text_is_refused() {
    let body = |item: &str, count: usize| format!("{{\"unknown\":[{}]}}", vec![item; count].join(","));
    for (item, most) in [("0", 1 << 20), ("[]", 1 << 20), ("{}", 1 << 20), ("{\"\":0}", (1 << 20) / 18)] {
        assert!(from_slice::<pb::RangeRequest>(body(item, most - 100).as_bytes()).is_ok(), "{item}");
        let refused = from_slice::<pb::RangeRequest>(body(item, most + 100).as_bytes()).unwrap_err();
        assert!(refused.to_string().starts_with("too many values"), "{refused}");
    }
}

#[test]
fn a_stream_answers_in_lines() {
    let line =
        to_stream_line(&pb::LeaseKeepAliveResponse { id: 1, ..Default::default() }).expect("serialises");
    assert_eq!(line, b"{\"result\":{\"ID\":\"1\"}}\n");
}
