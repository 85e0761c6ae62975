use proptest::prelude::*;

use crate::event::Events;
use crate::matched::Match;
use crate::testing::{Ev, del, put};
use crate::{Filters, KeyRange};

fn key(n: usize) -> String {
    format!("{n:02}")
}

proptest! {
    /// A match of many events, which has an index, is what a look at each of them finds.
    #[test]
    fn a_match_is_what_a_look_at_every_event_finds(
        list in prop::collection::vec((0..12_usize, any::<bool>()), 1..80),
        in_order in any::<bool>(),
        (from, to) in (0..13_usize, 0..14_usize),
        (no_put, no_delete) in (any::<bool>(), any::<bool>()),
    ) {
        let mut list = list;
        if in_order {
            list.sort_by_key(|(n, _)| *n);
        }
        let events: Vec<Ev> =
            list.iter().map(|(n, delete)| if *delete { del(&key(*n), 7) } else { put(&key(*n), 7) }).collect();
        let filters = Filters { no_put, no_delete };
        let end = match to {
            0 => Vec::new(),
            13 => vec![0],
            to => key(to).into_bytes(),
        };
        let Ok(range) = KeyRange::new(key(from).as_bytes(), &end) else { return Ok(()) };
        let wanted: Vec<&Ev> =
            events.iter().filter(|event| range.contains(&event.key) && filters.admit(*event)).collect();
        let all = Events::from(events.clone());
        prop_assert_eq!(all.touch(&range), events.iter().any(|event| range.contains(&event.key)));
        prop_assert_eq!(all.size(), events.iter().map(|event| 10 + event.key.len()).sum::<usize>());
        let found = Match::of(7, &all, &range, filters);
        prop_assert_eq!(found.is_some(), !wanted.is_empty());
        if let Some(found) = found {
            prop_assert_eq!(found.len(), wanted.len());
            prop_assert_eq!(found.bytes(), wanted.iter().map(|event| 10 + event.key.len()).sum::<usize>());
            prop_assert_eq!(found.events().collect::<Vec<_>>(), wanted);
        }
    }
}
