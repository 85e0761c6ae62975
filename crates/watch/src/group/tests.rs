use super::*;
use crate::testing::{Ev, events, put};

/// Ever more groups, the last few of which match: those before keep what they were given when there
/// were few, unless it is taken.
#[test]
fn rings_together_hold_no_more_than_their_share_however_they_were_filled() {
    let limit = RingLimit { revisions: 512, bytes: 1 << 20 };
    let (mut groups, inbox) = (Groups::<Ev>::new(), Arc::default());
    let mut rev = 1;
    for round in 0..40 {
        let ids: Vec<GroupId> = (0..8)
            .map(|n| {
                let range = KeyRange::Key(format!("{round}-{n}").into_bytes().into());
                groups.join(&range, 1, &inbox, rev + 1).0
            })
            .collect();
        for _ in 0..512 {
            rev += 1;
            let events = events(vec![put("k", rev)]);
            for id in &ids {
                groups.add_match(*id, rev, &events, limit);
            }
        }
        let held: usize = groups.slots.iter().flatten().map(|group| group.ring.len()).sum();
        assert_eq!(groups.held(), held);
        assert!(held <= ALL_RINGS + groups.len(), "{held} matches in {} rings", groups.len());
    }
    for id in 0..40 * 8 {
        groups.leave(id, 1);
    }
    assert_eq!((groups.held(), groups.len()), (0, 0));
}
