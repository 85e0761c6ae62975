//! Changes of members: what is allowed, and how they are written.

use proptest::prelude::*;
use vetch_journal::{Draft, Entry, Kind, PartId, Tip};
use vetch_raft::{Action, MemberChange, Members, MembersError, bootstrap, members_draft, members_of};

fn change(member: u64, action: Action) -> MemberChange {
    MemberChange { member, action }
}

#[test]
fn members_change_one_at_a_time() {
    let members = Members::new([1, 2], [3]).unwrap();
    let after = |changes: &[MemberChange]| members.after(changes);
    assert_eq!(after(&[change(3, Action::Voter)]), Members::new([1, 2, 3], []));
    assert_eq!(after(&[change(4, Action::Learner)]), Members::new([1, 2], [3, 4]));
    assert_eq!(after(&[change(2, Action::Removed)]), Members::new([1], [3]));
    assert_eq!(after(&[change(3, Action::Removed)]), Members::new([1, 2], []));
    assert_eq!(after(&[change(1, Action::Voter)]), Err(MembersError::Present(1)));
    assert_eq!(after(&[change(1, Action::Learner)]), Err(MembersError::Present(1)));
    assert_eq!(after(&[change(5, Action::Removed)]), Err(MembersError::Absent(5)));
    assert_eq!(after(&[change(0, Action::Voter)]), Err(MembersError::Zero));
    assert_eq!(after(&[]), Err(MembersError::NotOne));
    assert_eq!(after(&[change(4, Action::Voter), change(5, Action::Voter)]), Err(MembersError::NotOne));
    let lone = Members::new([1], [3]).unwrap();
    assert_eq!(lone.after(&[change(1, Action::Removed)]), Err(MembersError::LastVoter));
    assert_eq!(Members::new([1], [1]), Err(MembersError::Present(1)));
}

#[test]
fn the_first_members_write_the_same_entries() {
    let (one, members) = bootstrap(&[1, 2, 3], b"names", 2).unwrap();
    assert_eq!(bootstrap(&[1, 2, 3], b"names", 2).unwrap().0, one);
    assert_eq!(members, Members::new([1, 2, 3], []).unwrap());
    assert_eq!((one[0].kind(), one[1].kind()), (Kind::NewEpoch, Kind::Members));
    let (changes, context) = members_of(&one[1].entry()).unwrap();
    assert_eq!((changes.len(), &context[..]), (3, &b"names"[..]));
}

proptest! {
    #[test]
    fn changes_round_trip(member in any::<u64>(), which in 0..3usize, context in any::<Vec<u8>>()) {
        let changes = [change(member, [Action::Voter, Action::Learner, Action::Removed][which])];
        let entry = members_draft(&changes, &context).chain(&mut Tip::genesis(2));
        let (decoded, rest) = members_of(&Entry::decode(entry.bytes()).unwrap()).unwrap();
        prop_assert_eq!((&decoded[..], &rest[..]), (&changes[..], &context[..]));
    }

    #[test]
    fn arbitrary_payloads_never_panic(payload in any::<Vec<u8>>()) {
        let mut draft = Draft::new(Kind::Members);
        draft.begin_part(PartId::default());
        draft.payload().extend_from_slice(&payload);
        draft.end_part(0);
        let entry = draft.chain(&mut Tip::genesis(2));
        let _ = members_of(&Entry::decode(entry.bytes()).unwrap());
    }
}
