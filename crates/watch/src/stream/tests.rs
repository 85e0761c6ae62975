use super::*;
use crate::testing::{Ev, World, del, events, prefix, show};
use crate::{Filters, NO_WATCH};

/// Creates a watcher on the prefix `a` with one change to the request.
fn create(world: &mut World, stream: &mut Stream<Ev>, change: impl Fn(&mut Create)) -> Option<i64> {
    let mut request = prefix("a");
    change(&mut request);
    stream.create(&mut world.hub, &world.log, &request)
}

fn start_at(revision: i64) -> impl Fn(&mut Create) {
    move |request| request.start_revision = revision
}

fn named(id: i64) -> impl Fn(&mut Create) {
    move |request| request.watch_id = id
}

#[test]
fn automatic_ids_count_up_and_skip_those_in_use() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    assert_eq!(create(&mut world, &mut stream, named(0)), Some(0));
    assert_eq!(create(&mut world, &mut stream, named(2)), Some(2));
    assert_eq!(create(&mut world, &mut stream, named(0)), Some(1));
    assert!(stream.cancel(&mut world.hub, &world.log, 0));
    assert_eq!(create(&mut world, &mut stream, named(0)), Some(3));
    assert_eq!(create(&mut world, &mut stream, named(-4)), Some(-4));
}

#[test]
fn a_chosen_id_is_refused_while_in_use_and_free_after_a_cancel() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    assert_eq!(create(&mut world, &mut stream, named(7)), Some(7));
    assert_eq!(create(&mut world, &mut stream, named(7)), None);
    assert!(stream.cancel(&mut world.hub, &world.log, 7));
    assert!(!stream.cancel(&mut world.hub, &world.log, 7));
    assert!(!stream.cancel(&mut world.hub, &world.log, 99));
    assert_eq!(create(&mut world, &mut stream, named(7)), Some(7));
    let drained = [
        "w7 @1 created",
        "w-1 @1 created canceled (mvcc: duplicate watch ID provided on the WatchStream)",
        "w7 @1 canceled",
        "w7 @1 created",
    ];
    assert_eq!(show(&world.drain(&mut stream)), drained);
}

#[test]
fn refusals_have_the_shape_and_the_order_of_etcd() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    world.put(&["a"]);
    let empty = |request: &mut Create| request.range_end = b"a".into();
    assert_eq!(create(&mut world, &mut stream, empty), None);
    // A negative start is noticed before the empty range.
    let both = |request: &mut Create| (empty(request), start_at(-3)(request)).0;
    assert_eq!(create(&mut world, &mut stream, both), None);
    stream.refuse_create(&world.log, "denied".to_string());
    let drained = [
        "w-1 @2 created canceled (mvcc: watcher range is empty)",
        "w-1 @2 created canceled (etcdserver: mvcc: required revision has been compacted)",
        "w-1 @2 created canceled (denied)",
    ];
    assert_eq!(show(&world.drain(&mut stream)), drained);
    assert_eq!(stream.watchers(), 0);
}

#[test]
fn created_comes_before_events_and_carries_the_newest_revision() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    world.put(&["a"]);
    world.append(&["a"]);
    create(&mut world, &mut stream, start_at(0));
    create(&mut world, &mut stream, start_at(9));
    create(&mut world, &mut stream, start_at(2));
    world.publish();
    let drained = ["w0 @3 created", "w1 @3 created", "w2 @3 created", "w2 @3 2:+a 3:+a"];
    assert_eq!(show(&world.drain(&mut stream)), drained);
}

#[test]
fn now_means_after_everything_appended_even_if_not_yet_published() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    world.append(&["a"]);
    create(&mut world, &mut stream, start_at(0));
    world.append(&["a"]);
    world.publish();
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @2 created", "w0 @3 3:+a"]);
}

#[test]
fn a_future_watcher_gets_neither_events_nor_progress_from_before() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, |request| {
        request.start_revision = 4;
        request.progress_notify = true;
    });
    stream.request_progress(&mut world.hub, &world.log);
    stream.tick_progress();
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @1 created"]);
    world.put(&["a"]);
    world.put(&["a"]);
    stream.tick_progress();
    assert_eq!(show(&world.drain(&mut stream)), [""; 0]);
    assert_eq!(world.put(&["a"]), [stream.id()]);
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @4 4:+a", "w-1 @4 progress"]);
}

#[test]
fn live_responses_hold_one_revision_and_catch_up_holds_many() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    for _ in 0..3 {
        world.put(&["a", "a1", "b"]);
    }
    create(&mut world, &mut stream, start_at(3));
    let drained = show(&world.drain(&mut stream));
    assert_eq!(drained, ["w0 @4 created", "w0 @4 3:+a+a1 4:+a+a1"]);
    world.put(&["a"]);
    world.put(&["a"]);
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @5 5:+a", "w0 @6 6:+a"]);
}

#[test]
fn catch_up_batches_hold_at_most_a_thousand_revisions() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    for _ in 0..1500 {
        world.append(&["a"]);
    }
    world.publish();
    create(&mut world, &mut stream, start_at(1));
    let sizes: Vec<usize> = world.drain(&mut stream).iter().map(|r| r.revisions.len()).collect();
    assert_eq!(sizes, [0, 1000, 500]);
}

#[test]
fn a_watcher_that_fell_out_of_the_ring_reads_history_and_returns_to_live() {
    let mut world = World::new(2);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(0));
    world.drain(&mut stream);
    for _ in 0..5 {
        world.put(&["a"]);
    }
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @6 2:+a 3:+a 4:+a 5:+a 6:+a"]);
    world.put(&["a"]);
    world.put(&["a"]);
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @7 7:+a", "w0 @8 8:+a"]);
}

#[test]
fn a_start_below_the_floor_is_created_and_then_cancelled_even_if_the_ring_remembers() {
    let mut world = World::new(8);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(0));
    for _ in 0..4 {
        world.put(&["a"]);
    }
    world.compact(4);
    world.drain(&mut stream);
    create(&mut world, &mut stream, start_at(3));
    create(&mut world, &mut stream, start_at(4));
    let drained = ["w1 @5 created", "w2 @5 created", "w1 @0 canceled compact=4", "w2 @5 4:+?a 5:+a"];
    assert_eq!(show(&world.drain(&mut stream)), drained);
}

#[test]
fn only_who_was_there_before_a_compaction_is_told_what_its_events_replaced() {
    let mut world = World::new(8);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(0));
    world.drain(&mut stream);
    world.put(&["a"]);
    world.put(&["a"]);
    world.compact(2);
    create(&mut world, &mut stream, start_at(2));
    let drained = ["w1 @3 created", "w0 @2 2:+a", "w1 @3 2:+?a 3:+a", "w0 @3 3:+a"];
    assert_eq!(show(&world.drain(&mut stream)), drained);
}

#[test]
fn the_id_of_a_compacted_watcher_stays_taken_until_it_is_cancelled() {
    let mut world = World::new(8);
    let mut stream = Stream::open(&mut world.hub);
    for _ in 0..4 {
        world.put(&["a"]);
    }
    world.compact(4);
    let behind = |request: &mut Create| (named(5)(request), start_at(3)(request)).0;
    create(&mut world, &mut stream, behind);
    let mut out = Vec::new();
    let drained = stream.drain(&world.hub, &world.log, Budget::default(), &mut out);
    assert_eq!(drained, Drained { more: false, release: true });
    assert_eq!((world.hub.groups(), stream.watchers(), world.hub.gauges().watchers()), (1, 0, 0));
    stream.release(&mut world.hub);
    assert_eq!(world.hub.groups(), 0);
    assert_eq!(create(&mut world, &mut stream, named(5)), None);
    assert!(stream.cancel(&mut world.hub, &world.log, 5));
    assert!(!stream.cancel(&mut world.hub, &world.log, 5));
    assert_eq!(create(&mut world, &mut stream, named(5)), Some(5));
}

#[test]
fn an_idle_watcher_is_not_cancelled_by_compaction() {
    let mut world = World::new(1);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(0));
    world.drain(&mut stream);
    for _ in 0..9 {
        world.put(&["b"]);
    }
    world.compact(10);
    world.compact(10);
    while !world.hub.sweep_step(1) {}
    world.put(&["a"]);
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @11 11:+a"]);
}

#[test]
fn a_burst_beyond_the_ring_does_not_cancel_a_watcher_that_was_idle() {
    let mut world = World::new(1);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(0));
    world.drain(&mut stream);
    for _ in 0..5 {
        world.put(&["b"]);
    }
    for _ in 0..3 {
        world.put(&["a"]);
    }
    world.compact(7);
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @9 7:+?a 8:+a 9:+a"]);
}

#[test]
fn compaction_that_overtakes_matching_loses_no_live_event() {
    let mut world = World::new(8);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(0));
    world.drain(&mut stream);
    for _ in 0..20 {
        world.append(&["a"]);
    }
    world.compact(21);
    while !world.log.trim_step(100, world.hub.published()).done {}
    let woken = world.publish_some(3, usize::MAX);
    assert_eq!(woken, [stream.id()]);
    while !world.log.trim_step(100, world.hub.published()).done {}
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @2 2:+a", "w0 @3 3:+a", "w0 @4 4:+a"]);
}

#[test]
fn filters_drop_events_and_a_response_left_empty_is_not_sent() {
    for ring in [1, 8] {
        let mut world = World::new(ring);
        let mut stream = Stream::open(&mut world.hub);
        create(&mut world, &mut stream, |request| {
            request.filters = Filters { no_put: true, no_delete: false };
            request.progress_notify = true;
        });
        world.drain(&mut stream);
        world.put(&["a"]);
        world.put(&["a"]);
        world.log.append(4, events(vec![del("a", 4), del("b", 4), crate::testing::put("a", 4)]));
        world.publish();
        assert_eq!(show(&world.drain(&mut stream)), ["w0 @4 4:-a"], "ring of {ring}");
        world.put(&["a"]);
        stream.tick_progress();
        assert_eq!(show(&world.drain(&mut stream)), [""; 0], "an event was sent in the interval");
        stream.tick_progress();
        assert_eq!(show(&world.drain(&mut stream)), ["w0 @5 progress"], "ring of {ring}");
    }
}

#[test]
fn the_flags_of_the_request_travel_with_its_events() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, |request| request.prev_kv = true);
    create(&mut world, &mut stream, |request| request.fragment = true);
    world.put(&["a"]);
    let drained = world.drain(&mut stream);
    assert_eq!((drained[2].prev_kv, drained[2].fragment), (true, false));
    assert_eq!((drained[3].prev_kv, drained[3].fragment), (false, true));
}

#[test]
fn nothing_follows_the_answer_to_a_cancel() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    for _ in 0..4 {
        world.put(&["a"]);
    }
    create(&mut world, &mut stream, start_at(1));
    create(&mut world, &mut stream, start_at(0));
    world.put(&["a"]);
    stream.cancel(&mut world.hub, &world.log, 0);
    stream.cancel(&mut world.hub, &world.log, 1);
    let drained = ["w0 @5 created", "w1 @5 created", "w0 @6 canceled", "w1 @6 canceled"];
    assert_eq!(show(&world.drain(&mut stream)), drained);
}

#[test]
fn progress_is_answered_behind_all_events_of_all_watchers() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(0));
    create(&mut world, &mut stream, start_at(1));
    world.put(&["a"]);
    stream.request_progress(&mut world.hub, &world.log);
    stream.request_progress(&mut world.hub, &world.log);
    let small = Budget { responses: 1, ..Budget::default() };
    let drained = show(&world.drain_within(&mut stream, small));
    assert_eq!(drained, ["w0 @1 created", "w1 @1 created", "w1 @2 2:+a", "w0 @2 2:+a", "w-1 @2 progress"]);
}

#[test]
fn progress_waits_for_the_newest_revision_and_is_woken_for_it() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(0));
    world.drain(&mut stream);
    world.append(&["b"]);
    world.append(&["b"]);
    stream.request_progress(&mut world.hub, &world.log);
    assert_eq!(show(&world.drain(&mut stream)), [""; 0]);
    assert_eq!(world.publish_some(1, usize::MAX), []);
    assert_eq!(world.publish_some(1, usize::MAX), [stream.id()]);
    assert_eq!(show(&world.drain(&mut stream)), ["w-1 @3 progress"]);
    assert_eq!(show(&world.drain(&mut stream)), [""; 0]);
}

#[test]
fn progress_without_watchers_is_not_answered_now_or_later() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    stream.request_progress(&mut world.hub, &world.log);
    create(&mut world, &mut stream, start_at(9));
    stream.request_progress(&mut world.hub, &world.log);
    stream.cancel(&mut world.hub, &world.log, 0);
    create(&mut world, &mut stream, start_at(0));
    let drained = ["w0 @1 created", "w0 @1 canceled", "w1 @1 created"];
    assert_eq!(show(&world.drain(&mut stream)), drained);
}

#[test]
fn cancelling_the_watcher_that_held_progress_back_frees_it() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(0));
    create(&mut world, &mut stream, start_at(100));
    stream.request_progress(&mut world.hub, &world.log);
    world.drain(&mut stream);
    stream.cancel(&mut world.hub, &world.log, 1);
    let drained = world.drain(&mut stream);
    assert_eq!(drained[1].watch_id, NO_WATCH);
    assert_eq!(show(&drained), ["w1 @1 canceled", "w-1 @1 progress"]);
}

#[test]
fn a_watcher_created_while_progress_waits_holds_it_back_until_its_start() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(0));
    world.append(&["b"]);
    stream.request_progress(&mut world.hub, &world.log);
    create(&mut world, &mut stream, start_at(4));
    world.drain(&mut stream);
    assert_eq!(world.put(&["b"]), []);
    assert_eq!(world.put(&["b"]), [stream.id()]);
    assert_eq!(show(&world.drain(&mut stream)), ["w-1 @4 progress"]);
}

#[test]
fn a_cancel_while_progress_waits_brings_it_forward() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(0));
    create(&mut world, &mut stream, start_at(100));
    world.append(&["b"]);
    stream.request_progress(&mut world.hub, &world.log);
    stream.cancel(&mut world.hub, &world.log, 1);
    world.drain(&mut stream);
    assert_eq!(world.publish(), [stream.id()]);
    assert_eq!(show(&world.drain(&mut stream)), ["w-1 @2 progress"]);
}

#[test]
fn ticks_report_watchers_that_want_it_and_sent_nothing() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, |request| request.progress_notify = true);
    create(&mut world, &mut stream, start_at(0));
    world.put(&["b"]);
    stream.tick_progress();
    stream.tick_progress();
    assert_eq!(show(&world.drain(&mut stream))[2..], ["w0 @2 progress"]);
    world.put(&["a"]);
    world.drain(&mut stream);
    stream.tick_progress();
    assert_eq!(show(&world.drain(&mut stream)), [""; 0]);
    stream.tick_progress();
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @3 progress"]);
}

#[test]
fn a_tick_while_events_wait_is_satisfied_by_the_events() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, |request| request.progress_notify = true);
    world.drain(&mut stream);
    world.put(&["a"]);
    stream.tick_progress();
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @2 2:+a"]);
}

#[test]
fn watchers_take_turns() {
    let mut world = World::new(100);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(0));
    create(&mut world, &mut stream, start_at(0));
    for _ in 0..3 {
        world.put(&["a"]);
    }
    let order: Vec<i64> = world.drain(&mut stream)[2..].iter().map(|response| response.watch_id).collect();
    assert_eq!(order, [0, 1, 0, 1, 0, 1]);
}

#[test]
fn a_drain_stops_at_its_budget_and_says_that_there_is_more() {
    let mut world = World::new(2);
    let mut stream = Stream::open(&mut world.hub);
    for _ in 0..40 {
        world.append(&["a", "b"]);
    }
    world.publish();
    create(&mut world, &mut stream, start_at(1));
    let wide = Budget::default();
    world.drain_within(&mut stream, Budget { responses: 1, examined: 2, ..wide });
    for (budget, expected) in [
        (Budget { responses: 1, ..wide }, 40),
        (Budget { events: 3, ..wide }, 3),
        (Budget { bytes: 33, ..wide }, 3),
        (Budget { examined: 6, ..wide }, 3),
    ] {
        let mut stream = Stream::open(&mut world.hub);
        create(&mut world, &mut stream, start_at(1));
        let mut out = Vec::new();
        let first = stream.drain(&world.hub, &world.log, Budget { responses: 1, ..wide }, &mut out);
        assert!(first.more && out.len() == 1);
        let second = stream.drain(&world.hub, &world.log, budget, &mut out);
        assert!(second.more, "{budget:?}");
        assert_eq!(out[1].events().count(), expected, "{budget:?}");
    }
}

#[test]
fn gauges_tell_slow_watchers_and_what_waits_for_them() {
    let mut world = World::new(4);
    let gauges = world.hub.gauges();
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(0));
    world.drain(&mut stream);
    for _ in 0..4 {
        world.put(&["a"]);
    }
    let one = Budget { responses: 1, ..Budget::default() };
    let _ = stream.drain(&world.hub, &world.log, one, &mut Vec::new());
    assert_eq!((gauges.slow_watchers(), gauges.pending_events()), (1, 3));
    world.drain(&mut stream);
    assert_eq!((gauges.slow_watchers(), gauges.pending_events()), (0, 0));
}

/// Watchers of one stream that a client creates in the tests below. What each costs must not grow
/// with their number: at a nanosecond for every pair, these take minutes.
const MANY: i64 = 300_000;

/// Many times what it takes on a busy machine, and much less than a cost that is quadratic.
#[expect(clippy::disallowed_methods, reason = "measures a time")]
fn in_time<T>(work: impl FnOnce() -> T) -> T {
    let began = std::time::Instant::now();
    let result = work();
    assert!(began.elapsed() < std::time::Duration::from_secs(15), "it took {:?}", began.elapsed());
    result
}

#[test]
fn creating_a_watcher_while_progress_waits_does_not_walk_all_others() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    create(&mut world, &mut stream, start_at(1000));
    stream.request_progress(&mut world.hub, &world.log);
    in_time(|| {
        for n in 1..MANY {
            assert_eq!(create(&mut world, &mut stream, start_at(0)), Some(n));
            stream.control.clear();
        }
    });
    assert_eq!(show(&world.drain(&mut stream)), [""; 0]);
    stream.cancel(&mut world.hub, &world.log, 0);
    assert_eq!(show(&world.drain(&mut stream)), ["w0 @1 canceled", "w-1 @1 progress"]);
    stream.close(&mut world.hub);
}

#[test]
fn cancelling_watchers_one_by_one_does_not_walk_all_others() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    for _ in 0..MANY {
        create(&mut world, &mut stream, |request| request.progress_notify = true);
        stream.control.clear();
    }
    // All of them have an event to deliver, and owe their progress.
    stream.tick_progress();
    world.put(&["a"]);
    while stream.ready_watchers() < MANY as usize {
        stream.take_notices();
    }
    in_time(|| {
        for id in 0..MANY {
            assert!(stream.cancel(&mut world.hub, &world.log, id));
            stream.control.clear();
        }
    });
    assert!(stream.ready.len() <= VACANT_MIN, "{} slots wait in vain", stream.ready.len());
    assert_eq!(world.drain(&mut stream), []);
    assert_eq!(world.hub.groups(), 0);
}

#[test]
fn an_event_for_very_many_watchers_is_delivered_at_a_cost_for_each() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    for _ in 0..MANY {
        create(&mut world, &mut stream, |request| request.progress_notify = true);
        stream.control.clear();
    }
    world.put(&["a"]);
    let drained = in_time(|| world.drain(&mut stream));
    assert_eq!(drained.len(), MANY as usize);
    stream.tick_progress();
    stream.tick_progress();
    let drained = in_time(|| world.drain(&mut stream));
    assert_eq!(drained.iter().filter(|response| response.progress).count(), MANY as usize);
    let gauges = world.hub.gauges();
    assert_eq!((gauges.slow_watchers(), gauges.pending_events()), (0, 0));
}

#[test]
fn slots_of_cancelled_watchers_are_used_again_and_never_twice() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    world.put(&["a"]);
    for round in 0..1000 {
        // It begins in the past, so it is in the ready queue when it is cancelled.
        let id = create(&mut world, &mut stream, start_at(1)).unwrap();
        if round % 3 > 0 {
            stream.cancel(&mut world.hub, &world.log, id);
        }
        stream.control.clear();
    }
    assert_eq!(stream.watchers(), 334);
    assert!(stream.watchers.len() <= 2 * 334 + VACANT_MIN + 1, "{} slots", stream.watchers.len());
    let drained = world.drain(&mut stream);
    assert_eq!(drained.len(), 334, "each is shown the event once");
    let mut slots: Vec<Slot> = stream.free.clone();
    slots.extend(stream.ids.values());
    slots.sort_unstable();
    assert_eq!(slots, (0..stream.watchers.len()).collect::<Vec<Slot>>(), "free or in use, not both");
}

#[test]
fn a_stream_is_closed_in_steps() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    for key in ["a", "b", "c", "d", "e"] {
        stream.create(&mut world.hub, &world.log, &prefix(key)).unwrap();
    }
    assert!(!stream.close_step(&mut world.hub, 2));
    let gauges = world.hub.gauges();
    assert_eq!((world.hub.groups(), gauges.watchers(), gauges.streams()), (3, 3, 1));
    world.put(&["a", "e"]);
    assert!(!stream.close_step(&mut world.hub, 2));
    assert!(stream.close_step(&mut world.hub, 2));
    assert_eq!((world.hub.groups(), gauges.watchers(), gauges.streams()), (0, 0, 0));
    assert!(stream.close_step(&mut world.hub, 2));
}

#[test]
fn what_watchers_take_is_counted_until_nothing_is_left_of_them() {
    let mut world = World::new(4);
    let mut stream = Stream::open(&mut world.hub);
    let (small, large) =
        (prefix("a"), Create { key: vec![b'a'; 10_000], range_end: b"b".into(), ..prefix("a") });
    assert!(large.bytes() >= small.bytes() + 2 * 9_999);
    stream.create(&mut world.hub, &world.log, &small);
    stream.create(&mut world.hub, &world.log, &large);
    assert_eq!(stream.bytes(), small.bytes() + large.bytes());
    // One that is refused takes nothing.
    assert_eq!(create(&mut world, &mut stream, start_at(-3)), None);
    assert_eq!(create(&mut world, &mut stream, named(1)), None);
    assert_eq!(stream.bytes(), small.bytes() + large.bytes());
    stream.cancel(&mut world.hub, &world.log, 1);
    assert_eq!(stream.bytes(), small.bytes());
    stream.cancel(&mut world.hub, &world.log, 0);
    assert_eq!(stream.bytes(), 0);
    // The id of one that compaction cancels is remembered.
    for _ in 0..5 {
        world.put(&["a"]);
    }
    world.compact(4);
    create(&mut world, &mut stream, start_at(2));
    world.drain(&mut stream);
    assert_eq!((stream.watchers(), stream.bytes()), (0, GHOST_BYTES));
}
