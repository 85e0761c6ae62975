//! Answers that must never change: journal bytes, what compaction keeps, etcd's HashKV numbers.
//!
//! The expectations are text files in `testdata`. A test that fails prints the whole text it would
//! have expected, so that an intended change is a copy away.

mod spec;

use std::fmt::Write as _;

use vetch_model::Model;
use vetch_store::auth::{Change, Permission, PermissionKind};
use vetch_store::hash::{HashRun, PastHashes};
use vetch_store::request::*;
use vetch_store::{Record, Store};

use spec::Spec;
use vetch_testkit::to_model;

fn put(words: &[&str]) -> PutRequest {
    PutRequest {
        key: words[0].to_owned().into(),
        value: words[1].to_owned().into(),
        lease: words.get(2).map_or(0, |id| id.parse().expect("a lease id")),
        prev_kv: false,
        ignore_value: false,
        ignore_lease: false,
    }
}

fn delete(words: &[&str]) -> DeleteRangeRequest {
    let end = words.get(1).copied().unwrap_or("");
    DeleteRangeRequest { range: KeyRange::new(words[0].to_owned(), end.to_owned()), prev_kv: false }
}

fn op(text: &str) -> RequestOp {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[0] {
        "put" => RequestOp::Put(put(&words[1..])),
        "del" => RequestOp::DeleteRange(delete(&words[1..])),
        other => panic!("unknown operation {other}"),
    }
}

fn number(word: &str) -> i64 {
    word.parse().expect("a number")
}

/// One line of a script: `put K V [LEASE]`, `del K [END]`, `txn OP; OP`, `grant ID TTL`, `revoke
/// ID`, `remaining ID SECONDS`, `compact REV`, `alarm MEMBER on|off`, `auth CHANGE` (see
/// [`change`]).
fn request(line: &str) -> WriteRequest {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[0] {
        "put" => WriteRequest::Put(put(&words[1..])),
        "del" => WriteRequest::DeleteRange(delete(&words[1..])),
        "txn" => {
            let success = line[4..].split(';').map(op).collect();
            WriteRequest::Txn(TxnRequest { success, ..TxnRequest::default() })
        }
        "grant" => WriteRequest::LeaseGrant { id: number(words[1]), ttl: number(words[2]) },
        "revoke" => WriteRequest::LeaseRevoke { id: number(words[1]) },
        "remaining" => {
            let (id, seconds) = (number(words[1]), number(words[2]));
            WriteRequest::LeaseRemaining { leases: vec![Remaining { id, grant: 1, seconds }] }
        }
        "compact" => WriteRequest::Compact { revision: number(words[1]) },
        "alarm" => {
            let alarm = Alarm { member: number(words[1]) as u64, kind: AlarmKind::NoSpace };
            if words[2] == "on" {
                WriteRequest::AlarmActivate(alarm)
            } else {
                WriteRequest::AlarmDeactivate(alarm)
            }
        }
        "auth" => WriteRequest::Auth(change(&words[1..])),
        other => panic!("unknown request {other}"),
    }
}

/// `enable`, `disable`, `user+ NAME [HASH]`, `user- NAME`, `password NAME HASH`, `grant USER ROLE`,
/// `revoke USER ROLE`, `role+ NAME`, `role- NAME`, `allow ROLE KIND KEY [END]`, `deny ROLE KEY
/// [END]`.
fn change(words: &[&str]) -> Change {
    let word = |at: usize| words.get(at).copied().unwrap_or("").to_owned();
    let hash = |at: usize| words.get(at).map(|hash| hash.to_string().into());
    match words[0] {
        "enable" => Change::Enable,
        "disable" => Change::Disable,
        "user+" => Change::UserAdd { name: word(1), password: hash(2), no_password: words.len() == 2 },
        "user-" => Change::UserDelete { name: word(1) },
        "password" => Change::UserChangePassword { name: word(1), password: hash(2) },
        "grant" => Change::UserGrantRole { user: word(1), role: word(2) },
        "revoke" => Change::UserRevokeRole { user: word(1), role: word(2) },
        "role+" => Change::RoleAdd { name: word(1) },
        "role-" => Change::RoleDelete { name: word(1) },
        "allow" => {
            let kind = PermissionKind::of_number(words[2].parse().expect("a number"));
            let permission = Permission { kind, key: word(3).into(), range_end: word(4).into() };
            Change::RoleGrantPermission { role: word(1), permission: Some(permission) }
        }
        "deny" => {
            Change::RoleRevokePermission { role: word(1), key: word(2).into(), range_end: word(3).into() }
        }
        other => panic!("unknown change {other}"),
    }
}

fn is_comment(line: &str) -> bool {
    line.is_empty() || line.starts_with('#')
}

fn check(name: &str, expected: &str, actual: &str) {
    assert!(expected == actual, "{name} should now read:\n{actual}");
}

fn hash(store: &Store, at: i64) -> u32 {
    let mut run = HashRun::new(at, store.visible());
    while !run.step(store, 3).expect("no compaction has moved") {}
    run.finish()
}

/// The numbers were taken from an etcd 3.7.1 that was given the same requests.
#[test]
fn hashkv_gives_the_numbers_of_etcd() {
    check_hashes(include_str!("../testdata/hashkv.txt"));
    check_hashes(include_str!("../testdata/hashkv-again.txt"));
}

fn check_hashes(script: &str) {
    let (mut store, mut spec) = (Store::default(), Spec::new());
    for (index, line) in script.lines().enumerate().filter(|(_, line)| !is_comment(line)) {
        let Some(rest) = line.strip_prefix("hash ") else {
            let answer = store.evaluate(&request(line), &mut Vec::new());
            spec.judge(&request(line), &answer);
            store.publish(store.head());
            while !store.compact_step(1, &mut Vec::new()) {}
            continue;
        };
        let (at, expected) = rest.split_once(' ').expect("a revision and a number");
        let at = if at == "0" { store.head().revision } else { number(at) };
        let in_model = spec.model.hash_kv(at, spec.model.compact_revision());
        assert_eq!(in_model.to_string(), expected, "model, line {}: {line}", index + 1);
        assert_eq!(hash(&store, at).to_string(), expected, "line {}: {line}", index + 1);
    }
}

/// At a revision that was compacted, etcd answers with what the compaction found. The numbers are
/// its own.
#[test]
fn hashkv_of_compacted_revisions_gives_the_numbers_of_etcd() {
    let (mut store, mut spec, mut past) = (Store::default(), Spec::new(), PastHashes::default());
    let script = include_str!("../testdata/hashkv-compacted.txt");
    for (index, line) in script.lines().enumerate().filter(|(_, line)| !is_comment(line)) {
        let place = format!("line {}: {line}", index + 1);
        match line.split_whitespace().collect::<Vec<&str>>()[..] {
            ["restart"] => past = PastHashes::default(),
            ["hash", at, ref expected @ ..] => {
                check_past_hash(&store, &spec.model, &past, number(at), expected, &place);
            }
            _ => {
                let before = store.visible().compact_revision;
                let answer = store.evaluate(&request(line), &mut Vec::new());
                spec.judge(&request(line), &answer);
                store.publish(store.head());
                past.compacted(before, store.visible().compact_revision);
                hash_compactions(&store, &mut past);
                while !store.compact_step(1, &mut Vec::new()) {}
            }
        }
    }
}

fn hash_compactions(store: &Store, past: &mut PastHashes) {
    while let Some(next) = past.next_to_hash() {
        let mut run = HashRun::in_compaction(&next);
        while !run.step(store, 3).expect("the past does not move") {}
        past.hashed(next.revision, run.finish());
    }
}

fn check_past_hash(store: &Store, model: &Model, past: &PastHashes, at: i64, expected: &[&str], place: &str) {
    let mark = store.visible();
    let known = if at > 0 { past.find(at) } else { None };
    if known.is_none() && at > 0 && at < mark.compact_revision {
        assert_eq!(expected, ["refused"], "{place}");
        return;
    }
    let at = if at == 0 { mark.revision } else { at };
    let (specified, compacted) = match known {
        Some(past) => (model.hash_in_compaction(at, past.compact_revision), past.compact_revision),
        None => (model.hash_kv(at, mark.compact_revision), mark.compact_revision),
    };
    let given = known.map_or_else(|| hash(store, at), |past| past.hash.expect("it was hashed"));
    assert_eq!([specified.to_string(), compacted.to_string()], *expected, "model, {place}");
    assert_eq!(given, specified, "{place}");
}

/// The journal outlives the program that wrote it.
#[test]
fn journal_bytes_are_frozen() {
    let script = include_str!("../testdata/journal.txt");
    let mut store = Store::default();
    let mut actual = String::new();
    for line in script.lines().filter(|line| !line.starts_with("  ")) {
        writeln!(actual, "{line}").expect("a string takes everything");
        if is_comment(line) {
            continue;
        }
        let mut bytes = Vec::new();
        store.evaluate(&request(line), &mut bytes).expect("every line is a valid request");
        for chunk in bytes.chunks(32) {
            let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(actual, "  {}", hex.join(" ")).expect("a string takes everything");
        }
    }
    check("testdata/journal.txt", script, &actual);
}

/// A delete of very many keys is written down as its range; 255 keys are still named one by one.
#[test]
fn journal_bytes_of_a_large_delete_are_frozen() {
    for (keys, expected) in [(255, None), (256, Some(b"\x01\x0d\0\0\0\x02\x08\0\0\0\x02\0\0\0k/k0"))] {
        let mut store = Store::default();
        let mut journal = Vec::new();
        for number in 0..keys {
            let line = format!("put k/{number} v");
            store.evaluate(&request(&line), &mut journal).expect("a valid request");
        }
        let mut bytes = Vec::new();
        let evaluated = store.evaluate(&request("del k/ k0"), &mut bytes).expect("a valid request");
        assert_eq!(evaluated.events.len(), keys);
        match expected {
            Some(expected) => assert_eq!(bytes, expected),
            None => assert_eq!(bytes[..11], *b"\x01\x88\x09\0\0\x01\x03\0\0\0k"),
        }
        let mut again = Store::default();
        again.replay(&journal).expect("just written");
        let replayed = again.replay(&bytes).expect("just written");
        assert_eq!(replayed[0].events, evaluated.events);
    }
}

/// Bytes written by an earlier version are still understood, whatever is written today.
#[test]
fn frozen_journal_bytes_replay() {
    let script = include_str!("../testdata/journal.txt");
    let (mut store, mut model) = (Store::default(), Model::new());
    let mut bytes = Vec::new();
    for line in script.lines().filter(|line| !is_comment(line)) {
        match line.strip_prefix("  ") {
            Some(hex) => bytes.extend(
                hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("two hex digits")),
            ),
            None => {
                // The others leave no trace in the keys.
                let specified = to_model::request(&request(line));
                specified.map(|request| model.evaluate(&request).expect("every line is a valid request"));
            }
        }
    }
    let replayed = store.replay(&bytes).expect("frozen bytes");
    let events: Vec<&Event> = replayed.iter().flat_map(|batch| &batch.events).collect();
    assert_eq!(to_model::events(events.iter().copied()), model.log());
    assert_eq!(to_model::moment(store.head()), model.now());
    for event in events {
        assert!(store.retains(&event.kv), "{event:?}");
    }
    assert_eq!(store.leases().iter().map(|(id, _)| id).collect::<Vec<_>>(), [8]);
    assert_eq!(store.lease_keys(8), model.lease_keys(8));
    let auth = store.auth();
    assert_eq!((auth.enabled(), auth.revision()), (false, 14));
    assert_eq!(auth.user_names().collect::<Vec<_>>(), ["root"]);
    assert_eq!(auth.user("root").expect("it is listed").password, "$2a$04$new");
    assert_eq!(auth.role_names().collect::<Vec<_>>(), ["s"]);
}

/// One key through two lives, another that only lives, compacted at every revision in turn.
#[test]
fn compaction_keeps_what_readers_and_watchers_from_there_need() {
    let script = include_str!("../testdata/compaction.txt");
    let requests: Vec<&str> = script.lines().filter_map(|line| line.strip_prefix("> ")).collect();
    let mut actual: String = script
        .lines()
        .take_while(|line| !line.is_empty())
        .fold(String::new(), |text, line| text + line + "\n");
    actual.push('\n');
    let mut store = Store::default();
    let mut journal = Vec::new();
    let mut versions: Vec<Record> = Vec::new();
    for line in &requests {
        let evaluated = store.evaluate(&request(line), &mut journal).expect("a valid request");
        versions.extend(evaluated.events.into_iter().map(|event| event.kv));
    }
    for compacted in 2..=store.head().revision {
        let mut store = Store::default();
        store.replay(&journal).expect("just written");
        store.evaluate(&WriteRequest::Compact { revision: compacted }, &mut Vec::new()).expect("in range");
        store.publish(store.head());
        while !store.compact_step(1, &mut Vec::new()) {}
        let kept: Vec<String> = versions
            .iter()
            .filter(|version| store.retains(version))
            .map(|version| format!("{version:?}"))
            .collect();
        writeln!(actual, "C={compacted}: {}", kept.join(" ")).expect("a string takes everything");
    }
    check("testdata/compaction.txt", script, &actual);
}
