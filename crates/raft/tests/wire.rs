//! The wire form on generated and hostile bytes, and the bytes themselves.

use std::fmt::Write;

use bytes::Bytes;
use expect_test::expect_file;
use proptest::prelude::*;
use vetch_base::{Epoch, Seq};
use vetch_journal::Tip;
use vetch_raft::{Beat, Body, Members, Message, Place, WireError, bootstrap};

fn place() -> impl Strategy<Value = Place> {
    any::<(u64, u64)>().prop_map(|(seq, epoch)| Place::new(seq, epoch))
}

fn seq() -> impl Strategy<Value = Seq> {
    any::<u64>().prop_map(Seq::new)
}

fn members() -> impl Strategy<Value = Members> {
    let ids = || proptest::collection::btree_set(1..u64::MAX, 0..5);
    (ids(), ids()).prop_map(|(voters, learners)| {
        let learners: Vec<u64> = learners.difference(&voters).copied().collect();
        Members::new(voters, learners).expect("no member is both")
    })
}

fn entries() -> impl Strategy<Value = Vec<Bytes>> {
    (0..3usize).prop_map(|count| {
        let (entries, _) = bootstrap(&[1, 2, 3], b"context", 2).expect("three members");
        entries.iter().take(count).map(|entry| entry.bytes().clone()).collect()
    })
}

fn body() -> impl Strategy<Value = Body> {
    let beat = || {
        (seq(), any::<(u64, u64)>()).prop_map(|(commit, (number, reads))| (commit, Beat { number, reads }))
    };
    let tip = any::<(u64, u64, [u8; 32], i64)>().prop_map(|(epoch, seq, hash, next_rev)| Tip {
        epoch: Epoch::new(epoch),
        seq: Seq::new(seq),
        hash,
        next_rev,
    });
    prop_oneof![
        (place(), seq(), entries()).prop_map(|(after, commit, entries)| Body::Append {
            after,
            commit,
            entries
        }),
        (seq(), seq()).prop_map(|(index, commit)| Body::Accepted { index, commit }),
        (seq(), place(), seq()).prop_map(|(index, hint, commit)| Body::Rejected { index, hint, commit }),
        beat().prop_map(|(commit, beat)| Body::Heartbeat { commit, beat }),
        beat().prop_map(|(commit, beat)| Body::HeartbeatAnswer { commit, beat }),
        (any::<(bool, bool)>(), place(), place()).prop_map(|((pre, forced), last, commit)| Body::Campaign {
            pre,
            forced,
            last,
            commit
        }),
        (any::<(bool, bool)>(), place()).prop_map(|((pre, granted), commit)| Body::Vote {
            pre,
            granted,
            commit
        }),
        (tip, members()).prop_map(|(tip, members)| Body::Checkpoint { tip, members }),
        Just(Body::CampaignNow),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    (any::<(u64, u64, u64)>(), body()).prop_map(|((from, to, term), body)| Message {
        from,
        to,
        term: Epoch::new(term),
        body,
    })
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(message in message()) {
        prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Message::decode(&Bytes::from(bytes));
    }

    #[test]
    fn what_is_accepted_encodes_to_itself(
        message in message(),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
    ) {
        let mut bytes = message.encode().to_vec();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(decoded) = Message::decode(&Bytes::from(bytes.clone())) {
            prop_assert_eq!(decoded.encode(), bytes);
        }
    }
}

#[test]
fn what_is_of_another_version_or_too_long_is_refused() {
    let message = Message { from: 1, to: 2, term: Epoch::new(3), body: Body::CampaignNow };
    let changed = |at: usize, byte: u8| {
        let mut bytes = message.encode().to_vec();
        bytes[at] = byte;
        Message::decode(&Bytes::from(bytes))
    };
    assert_eq!(changed(0, 2), Err(WireError::Version(2)));
    assert_eq!(changed(1, 10), Err(WireError::Kind(10)));
    assert_eq!(changed(2, 1), Err(WireError::Flags(1)));
    let mut long = message.encode().to_vec();
    long.push(0);
    assert_eq!(Message::decode(&Bytes::from(long)), Err(WireError::Trailing(1)));
    let checkpoint = Body::Checkpoint { tip: Tip::genesis(2), members: Members::default() };
    let mut bytes = Message { body: checkpoint, ..message }.encode().to_vec();
    let count = bytes.len() - 4;
    bytes[count..count + 2].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(Message::decode(&Bytes::from(bytes)), Err(WireError::TooMany));
}

#[test]
fn the_bytes_do_not_change() {
    let (entries, members) = bootstrap(&[1, 2, 3], b"names", 2).expect("three members");
    let members = members
        .after(&[vetch_raft::MemberChange { member: 9, action: vetch_raft::Action::Learner }])
        .expect("a new learner");
    let (after, commit) = (Place::new(0x11, 0x12), Seq::new(0x13));
    let beat = Beat { number: 0x21, reads: 0x22 };
    let tip = *entries[1].tip();
    let encoded = entries.iter().map(|entry| entry.bytes().clone()).collect();
    let bodies = [
        Body::Append { after, commit, entries: encoded },
        Body::Accepted { index: Seq::new(0x14), commit },
        Body::Rejected { index: Seq::new(0x14), hint: after, commit },
        Body::Heartbeat { commit, beat },
        Body::HeartbeatAnswer { commit, beat },
        Body::Campaign { pre: true, forced: false, last: after, commit: Place::new(0x15, 0x16) },
        Body::Campaign { pre: false, forced: true, last: after, commit: Place::new(0x15, 0x16) },
        Body::Vote { pre: true, granted: true, commit: after },
        Body::Checkpoint { tip, members },
        Body::CampaignNow,
    ];
    let mut text = String::new();
    for body in bodies {
        let message = Message { from: 0x01, to: 0x02, term: Epoch::new(0x03), body };
        let name = format!("{:?}", message.body);
        writeln!(text, "{}", name.split([' ', '{']).next().unwrap_or_default()).expect("to memory");
        for line in message.encode().chunks(16) {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "    {}", hex.join(" ")).expect("to memory");
        }
    }
    expect_file!["../testdata/wire-v1.txt"].assert_eq(&text);
}
