use crate::testing::{World, prefix, show};
use crate::{Budget, Create, KeyRange, Stream};

#[test]
fn watchers_of_one_range_share_a_group() {
    let mut world = World::new(8);
    let mut a = Stream::open(&mut world.hub);
    let mut b = Stream::open(&mut world.hub);
    for stream in [&mut a, &mut b] {
        stream.create(&mut world.hub, &world.log, &prefix("a")).unwrap();
        stream.create(&mut world.hub, &world.log, &prefix("a")).unwrap();
        stream.create(&mut world.hub, &world.log, &prefix("b")).unwrap();
    }
    assert_eq!(world.hub.groups(), 2);
    let gauges = world.hub.gauges();
    assert_eq!((gauges.streams(), gauges.watchers()), (2, 6));
    a.close(&mut world.hub);
    a.close(&mut world.hub);
    assert_eq!((world.hub.groups(), gauges.streams(), gauges.watchers()), (2, 1, 3));
    b.cancel(&mut world.hub, &world.log, 2);
    assert_eq!(world.hub.groups(), 1);
    b.close(&mut world.hub);
    assert_eq!((world.hub.groups(), gauges.streams(), gauges.watchers()), (0, 0, 0));
}

#[test]
fn only_streams_with_matches_are_woken_and_only_once_until_they_drain() {
    let mut world = World::new(8);
    let mut a = Stream::open(&mut world.hub);
    let mut b = Stream::open(&mut world.hub);
    a.create(&mut world.hub, &world.log, &prefix("a")).unwrap();
    b.create(&mut world.hub, &world.log, &prefix("b")).unwrap();
    world.drain(&mut a);
    assert_eq!(world.put(&["c"]), []);
    assert_eq!(world.put(&["a1"]), [a.id()]);
    assert_eq!(world.put(&["a2", "b1"]), [b.id()]);
    assert_eq!(show(&world.drain(&mut a)), ["w0 @3 3:+a1", "w0 @4 4:+a2"]);
    assert_eq!(world.put(&["a3"]), [a.id()]);
}

#[test]
fn a_group_gets_the_events_of_a_revision_in_order_and_only_its_own() {
    let mut world = World::new(8);
    let mut stream = Stream::open(&mut world.hub);
    for key in ["a", "b"] {
        stream.create(&mut world.hub, &world.log, &prefix(key)).unwrap();
    }
    stream.create(&mut world.hub, &world.log, &Create { key: b"b1".into(), ..Create::default() }).unwrap();
    world.put(&["b2", "a1", "b1", "c", "a0"]);
    let drained = show(&world.drain(&mut stream));
    assert_eq!(drained[3..], ["w1 @2 2:+b2+b1", "w0 @2 2:+a1+a0", "w2 @2 2:+b1"]);
}

#[test]
fn publishing_goes_in_steps() {
    let mut world = World::new(8);
    let mut stream = Stream::open(&mut world.hub);
    stream.create(&mut world.hub, &world.log, &prefix("a")).unwrap();
    for _ in 0..3 {
        world.append(&["a"]);
    }
    assert_eq!(world.publish_some(2, usize::MAX), [stream.id()]);
    assert_eq!(world.hub.published(), 3);
    assert_eq!(world.publish_some(2, usize::MAX), []);
    assert_eq!(world.hub.published(), 4);
    assert_eq!(world.drain(&mut stream).len(), 4);
}

#[test]
fn rings_keep_what_the_last_compaction_removed_until_the_next_one() {
    let mut world = World::new(8);
    let mut stream = Stream::open(&mut world.hub);
    stream.create(&mut world.hub, &world.log, &prefix("a")).unwrap();
    world.drain(&mut stream);
    world.put(&["a"]);
    world.put(&["a"]);
    world.compact(3);
    while !world.hub.sweep_step(1) {}
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @2 2:+a", "w0 @3 3:+a"]);

    world.put(&["a"]);
    world.put(&["a"]);
    world.compact(5);
    while !world.hub.sweep_step(1) {}
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @4 4:+a", "w0 @5 5:+a"]);

    world.put(&["a"]);
    world.put(&["a"]);
    world.compact(7);
    world.put(&["b"]);
    world.compact(8);
    while !world.hub.sweep_step(1) {}
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @0 canceled compact=8"]);
}

#[test]
fn a_stream_with_more_groups_than_the_inbox_names_misses_nothing() {
    let mut world = World::new(2);
    let mut stream = Stream::open(&mut world.hub);
    for n in 0..100 {
        let key = format!("{n:03}").into_bytes();
        stream.create(&mut world.hub, &world.log, &Create { key, ..Create::default() }).unwrap();
    }
    world.drain(&mut stream);
    let keys: Vec<String> = (0..100).map(|n| format!("{n:03}")).collect();
    let mut woken = 0;
    for key in &keys {
        woken += world.put(&[key]).len();
    }
    assert_eq!(woken, 1);
    let drained = world.drain_within(&mut stream, Budget { responses: 7, ..Budget::default() });
    let mut seen: Vec<i64> = drained.iter().map(|response| response.watch_id).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<i64>>());
}

#[test]
fn a_stream_that_is_not_drained_is_behind_at_its_first_undelivered_revision() {
    let mut world = World::new(8);
    let mut stream = Stream::open(&mut world.hub);
    stream.create(&mut world.hub, &world.log, &prefix("a")).unwrap();
    world.drain(&mut stream);
    let behind = |world: &World| -> Vec<(u64, i64)> {
        world.hub.behind().map(|behind| (behind.stream, behind.revision)).collect()
    };
    world.put(&["b"]);
    assert_eq!(behind(&world), []);
    world.put(&["a"]);
    world.put(&["a"]);
    assert_eq!(behind(&world), [(stream.id(), 3)]);
    assert_eq!(world.hub.behind().next().unwrap().range, KeyRange::new(b"a", b"b").ok());

    // A drain that could not take all of it leaves a note of where it stopped.
    let mut out = Vec::new();
    let one = Budget { responses: 1, ..Budget::default() };
    assert!(stream.drain(&world.hub, &world.log, one, &mut out).more);
    assert_eq!(behind(&world), [(stream.id(), 4)]);
    world.drain(&mut stream);
    assert_eq!(behind(&world), []);
    stream.close(&mut world.hub);
}

/// As many ranges around the key `k` as are wanted, each another one.
fn around(n: usize) -> Create {
    Create { key: format!("k{:05}", 99_999 - n).into_bytes(), range_end: b"l".into(), ..Create::default() }
}

#[test]
fn a_step_does_no_more_than_it_was_given_whatever_is_watched() {
    let mut world = World::new(8);
    let mut streams: Vec<_> = (0..3).map(|_| Stream::open(&mut world.hub)).collect();
    for n in 0..600 {
        streams[n % 3].create(&mut world.hub, &world.log, &around(n)).unwrap();
    }
    for stream in &mut streams {
        world.drain(stream);
    }
    // One event for all of them, and events for some.
    for keys in [vec!["k99999"], (0..50).map(|_| "k99999").collect(), vec!["k99500", "x", "k99400"]] {
        world.append(&keys);
        let (mut steps, mut held, mut woken) = (0, world.hub.held(), 0);
        while world.hub.published() < world.log.last() {
            assert_eq!(world.drain(&mut streams[0]).len(), 0, "a revision is seen before it is whole");
            woken += world.publish_some(1, 40).len();
            assert!(world.hub.held() <= held + 60, "{} matches in one step", world.hub.held() - held);
            (steps, held) = (steps + 1, world.hub.held());
        }
        assert!(steps > 10 && woken == 3, "{steps} steps, {woken} streams");
        for stream in &mut streams {
            let told = world.drain(stream);
            assert!(told.len() >= 30 && told.iter().all(|response| response.revisions.len() == 1));
        }
    }
}

#[test]
fn rings_and_responses_share_the_events_of_a_revision() {
    let mut world = World::new(8);
    let mut stream = Stream::open(&mut world.hub);
    for n in 0..50 {
        stream.create(&mut world.hub, &world.log, &around(n)).unwrap();
    }
    world.drain(&mut stream);
    let keys: Vec<String> = (0..100).map(|n| format!("k{:05}", 99_999 - n)).collect();
    world.put(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let own = world.log.slot(2).as_slice().as_ptr_range();
    let told = world.drain(&mut stream);
    assert_eq!(told.len(), 50);
    for response in &told {
        assert_eq!(response.events().count() as i64, response.watch_id + 1);
        assert!(response.events().all(|event| own.contains(&std::ptr::from_ref(event))), "a copy was made");
    }
}

#[test]
fn who_joins_in_the_middle_of_a_revision_misses_nothing_of_it() {
    for work in 1..40 {
        let mut world = World::new(8);
        let mut stream = Stream::open(&mut world.hub);
        for n in 0..10 {
            stream.create(&mut world.hub, &world.log, &around(n)).unwrap();
        }
        world.drain(&mut stream);
        world.append(&["k99999"]);
        world.publish_some(1, work);
        // A range that was there, and one that is new.
        for n in [3, 77] {
            stream.create(&mut world.hub, &world.log, &Create { start_revision: 2, ..around(n) }).unwrap();
        }
        world.drain(&mut stream);
        let mut woken = world.hub.published() == 2;
        while world.hub.is_matching() {
            woken |= !world.publish_some(1, work).is_empty();
        }
        assert!(woken, "no stream is woken for what came meanwhile");
        world.drain(&mut stream);
        let (group, other) = (world.hub.group(3), world.hub.group(10));
        assert_eq!((group.ring.newest(), other.ring.newest()), (2, 2));
    }
}
