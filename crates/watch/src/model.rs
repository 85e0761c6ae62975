//! Model test: random histories, of which the specification says what each watcher must be shown.
//!
//! Checked on every response: created first; events ordered, unique, whole revisions, exactly those
//! the watcher asked for; nothing after a cancel; live or catch-up shape; no progress ahead of
//! events, below a start revision or backwards; what lay before an event missing only at the floor,
//! and there always for a watcher that begins there. Checked on wakes: a stream that was not woken
//! has nothing to say. Checked on cancels by compaction: the watcher really was behind. Checked at
//! rest: everything was delivered, every owed cancel and every answer to a progress request
//! arrived.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use vetch_model::{Delete, Keys, Op, Put, Request, Txn, Watch};

use crate::testing::{Ev, World};
use crate::{Budget, Create, Filters, NO_WATCH, Response, Revision, Stream};

const KEYS: [&str; 6] = ["a", "a1", "a2", "b", "b1", "c"];

#[derive(Debug, Clone)]
enum Step {
    /// Changes of one revision: key index and whether it is deleted, if it is there.
    Append(Vec<(usize, bool)>),
    /// So many revisions at once, with so much work.
    Publish(usize, usize),
    /// Moves the floor this far from the newest revision.
    Compact(i64),
    Trim,
    Sweep,
    /// Stream, start revision relative to now (or "now"), explicit id, shape of the range, filter.
    Create {
        stream: usize,
        start: Option<i64>,
        id: i64,
        range: usize,
        filter: usize,
        notify: bool,
    },
    Cancel {
        stream: usize,
        id: i64,
    },
    Progress(usize),
    Tick(usize),
    Drain {
        stream: usize,
        budget: usize,
    },
    Release(usize),
}

fn create() -> impl Strategy<Value = Step> {
    (0..2_usize, prop::option::of(-8..4_i64), 0..4_i64, 0..6_usize, 0..6_usize, any::<bool>()).prop_map(
        |(stream, start, id, range, filter, notify)| Step::Create {
            stream,
            start,
            id,
            range,
            filter,
            notify,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let stream = || 0..2_usize;
    prop_oneof![
        6 => prop::collection::vec((0..KEYS.len(), any::<bool>()), 1..4).prop_map(Step::Append),
        5 => (1..4_usize, prop::sample::select(vec![1, 2, 3, 5, 1000]))
            .prop_map(|(max, work)| Step::Publish(max, work)),
        1 => (0..5_i64).prop_map(Step::Compact),
        1 => Just(Step::Trim),
        1 => Just(Step::Sweep),
        3 => create(),
        1 => (stream(), 0..5_i64).prop_map(|(stream, id)| Step::Cancel { stream, id }),
        1 => stream().prop_map(Step::Progress),
        1 => stream().prop_map(Step::Tick),
        6 => (stream(), 0..5_usize).prop_map(|(stream, budget)| Step::Drain { stream, budget }),
        1 => stream().prop_map(Step::Release),
    ]
}

fn range_of(shape: usize) -> (&'static [u8], &'static [u8]) {
    [
        (b"a" as &[u8], b"" as &[u8]),
        (b"a", b"b"),
        (b"a1", b"c"),
        (b"b", b"\0"),
        (b"", b"\0"),
        (b"b1", b"b1\0"),
    ][shape]
}

fn budget_of(shape: usize) -> Budget {
    let wide = Budget { responses: 100, events: 100, bytes: 10_000, examined: 100 };
    [
        wide,
        Budget { responses: 1, ..wide },
        Budget { events: 1, ..wide },
        Budget { bytes: 1, ..wide },
        Budget { examined: 1, ..wide },
    ][shape]
}

/// What the oracle knows about one watcher.
#[derive(Debug)]
struct Expect {
    watch: Watch,
    start: i64,
    /// No progress below this: the start that was asked for, and the moment of creation.
    progress_from: i64,
    /// Started below the floor: must be cancelled, must get nothing.
    doomed: bool,
    /// The floor when it was created.
    born: i64,
    created: bool,
    delivered: Vec<Ev>,
    /// Revision up to which everything was handed out when its stream last came to rest.
    synced_to: Option<i64>,
    progress: i64,
}

impl Expect {
    /// Everything this watcher must get up to `to`.
    fn wanted(&self, history: &vetch_model::Model, to: i64) -> Vec<Ev> {
        history.watched(&self.watch, self.start, to).iter().map(shown).collect()
    }
}

fn shown(event: &vetch_model::Event) -> Ev {
    Ev { key: event.kv.key.clone(), rev: event.kv.mod_revision, delete: event.deleted, previous: true }
}

/// An empty key means the smallest one.
fn watch_of(request: &Create) -> Watch {
    let key = if request.key.is_empty() { vec![0] } else { request.key.clone() };
    Watch {
        keys: Keys::between(key, request.range_end.clone()),
        start_revision: request.start_revision,
        progress_notify: request.progress_notify,
        no_put: request.filters.no_put,
        no_delete: request.filters.no_delete,
        prev_kv: false,
        fragment: false,
    }
}

/// One stream with its expectations.
struct Side {
    stream: Stream<Ev>,
    live: BTreeMap<i64, Expect>,
    /// Cancelled by compaction; the client has not cancelled them.
    ghosts: Vec<i64>,
    /// Ids whose cancel was asked for and not answered yet, in order.
    cancelling: Vec<i64>,
    refused: usize,
    /// Must be drained: it was woken, got a request, or its last drain left more.
    awake: bool,
    /// A drain has dropped watchers since it last said something.
    dropped: bool,
    /// A progress request waits since the log ended here.
    progress: Option<i64>,
}

struct Model {
    world: World,
    history: vetch_model::Model,
    sides: Vec<Side>,
}

impl Model {
    fn new(ring: usize) -> Self {
        let mut world = World::new(ring);
        let sides = (0..2)
            .map(|_| Side {
                stream: Stream::open(&mut world.hub),
                live: BTreeMap::new(),
                ghosts: Vec::new(),
                cancelling: Vec::new(),
                refused: 0,
                awake: false,
                dropped: false,
                progress: None,
            })
            .collect();
        Model { world, history: vetch_model::Model::new(), sides }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Append(list) => self.append(list),
            Step::Publish(max, work) => self.publish(*max, *work),
            Step::Compact(back) => {
                let floor = self.world.log.last() - back;
                if floor > self.world.log.floor() {
                    self.world.compact(floor);
                }
            }
            Step::Trim => {
                let matched = self.world.hub.published();
                drop(self.world.log.trim_step(4, matched));
                if let Some(Revision { rev, events }) = self.world.log.heavy_floor(matched) {
                    drop(self.world.log.lighten(Revision { rev, events: events.without_previous() }));
                }
            }
            Step::Sweep => drop(self.world.hub.sweep_step(1)),
            Step::Create { stream, start, id, range, filter, notify } => {
                let (key, range_end) = range_of(*range);
                let request = Create {
                    key: key.into(),
                    range_end: range_end.into(),
                    start_revision: start.map_or(0, |start| (self.world.log.last() + start).max(1)),
                    watch_id: *id,
                    progress_notify: *notify,
                    filters: Filters { no_put: *filter == 1, no_delete: *filter == 2 },
                    ..Create::default()
                };
                self.create(*stream, &request);
            }
            Step::Cancel { stream, id } => self.cancel(*stream, *id),
            Step::Progress(stream) => {
                let side = &mut self.sides[*stream];
                side.stream.request_progress(&mut self.world.hub, &self.world.log);
                side.awake = true;
                if !side.live.is_empty() {
                    side.progress = Some(self.world.log.last());
                }
            }
            Step::Tick(stream) => {
                self.sides[*stream].stream.tick_progress();
                self.sides[*stream].awake = true;
            }
            Step::Drain { stream, budget } => self.drain(*stream, budget_of(*budget)),
            Step::Release(stream) => self.sides[*stream].stream.release(&mut self.world.hub),
        }
    }

    fn append(&mut self, list: &[(usize, bool)]) {
        let before = self.history.revision();
        let dump = self.history.dump(before);
        let mut there: BTreeSet<&[u8]> = dump.iter().map(|kv| kv.key.as_slice()).collect();
        let mut txn = Txn::default();
        for (index, delete) in list {
            let key = KEYS[*index];
            txn.success.push(if *delete && there.remove(key.as_bytes()) {
                Op::Delete(Delete { keys: Keys::single(key), prev_kv: false })
            } else {
                there.insert(key.as_bytes());
                Op::Put(Put::new(key, ""))
            });
        }
        let (revision, _) = self.history.evaluate(&Request::Txn(txn)).expect("nothing to refuse");
        let events: Vec<Ev> = self.history.changes(revision, revision).iter().map(shown).collect();
        assert_eq!((events.len(), revision), (list.len(), before + 1), "every change is an event");
        self.world.log.append(revision, events.into());
    }

    fn publish(&mut self, max: usize, work: usize) {
        let wake = self.world.publish_some(max, work);
        for side in &mut self.sides {
            side.awake |= wake.contains(&side.stream.id());
        }
    }

    fn create(&mut self, at: usize, request: &Create) {
        let side = &mut self.sides[at];
        let wanted = request.watch_id;
        let taken = wanted != 0 && (side.live.contains_key(&wanted) || side.ghosts.contains(&wanted));
        let id = side.stream.create(&mut self.world.hub, &self.world.log, request);
        assert_eq!(id.is_none(), taken);
        side.awake = true;
        let Some(id) = id else {
            side.refused += 1;
            return;
        };
        assert!(!side.live.contains_key(&id) && !side.ghosts.contains(&id), "id {id} is in use");
        let now = self.world.log.last();
        let start = if request.start_revision == 0 { now + 1 } else { request.start_revision };
        let expect = Expect {
            watch: watch_of(request),
            start,
            progress_from: request.start_revision.max(now),
            doomed: start < self.world.log.floor(),
            born: self.world.log.floor(),
            created: false,
            delivered: Vec::new(),
            synced_to: (start > self.world.hub.published()).then_some(self.world.hub.published()),
            progress: 0,
        };
        side.live.insert(id, expect);
    }

    fn cancel(&mut self, at: usize, id: i64) {
        let side = &mut self.sides[at];
        let ghost = side.ghosts.iter().position(|ghost| *ghost == id);
        let known = side.live.contains_key(&id) || ghost.is_some();
        assert_eq!(side.stream.cancel(&mut self.world.hub, &self.world.log, id), known);
        side.awake = true;
        if let Some(ghost) = ghost {
            side.ghosts.remove(ghost);
        }
        if known {
            side.live.remove(&id);
            side.cancelling.push(id);
            if side.live.is_empty() {
                side.progress = None;
            }
        }
    }

    fn drain(&mut self, at: usize, budget: Budget) {
        let mut out = Vec::new();
        let side = &mut self.sides[at];
        let drained = side.stream.drain(&self.world.hub, &self.world.log, budget, &mut out);
        // A progress request may have waited for a watcher that compaction ended. Its alarm stays
        // where it was and rings before long, since compaction reaches only what is going to be
        // published; a drain before the alarm returns the progress early. So does
        // one before an alarm that the hub's next step rings.
        let is_progress = |response: &Response<Ev>| response.progress && response.watch_id == NO_WATCH;
        let is_late = side.dropped || self.world.hub.has_alarm();
        let is_early = is_late && out.iter().all(is_progress);
        assert!(side.awake || out.is_empty() || is_early, "a stream that was not woken says {out:?}");
        side.dropped = drained.release || side.dropped && out.is_empty();
        assert!(side.awake || !drained.more, "a stream that was not woken has more to say");
        side.awake = drained.more;
        assert!(out.len() <= budget.responses, "{} responses", out.len());
        for response in &out {
            self.check(at, response);
        }
        if !drained.more {
            self.check_rest(at);
        }
    }

    fn check(&mut self, at: usize, response: &Response<Ev>) {
        if response.created {
            self.check_created(at, response);
        } else if response.canceled {
            self.check_canceled(at, response);
        } else if response.progress {
            self.check_progress(at, response);
        } else {
            self.check_events(at, response);
        }
    }

    fn check_created(&mut self, at: usize, response: &Response<Ev>) {
        let side = &mut self.sides[at];
        assert!(response.revisions.is_empty() && response.compact_revision == 0);
        if response.canceled {
            assert_eq!(response.watch_id, NO_WATCH);
            side.refused = side.refused.checked_sub(1).expect("an unexpected refusal");
            return;
        }
        // A watcher may have been cancelled, and its id used again, before its creation was
        // drained.
        if let Some(expect) = side.live.get_mut(&response.watch_id)
            && !side.cancelling.contains(&response.watch_id)
        {
            assert!(!expect.created, "created twice");
            expect.created = true;
        }
    }

    fn check_canceled(&mut self, at: usize, response: &Response<Ev>) {
        let floor = self.world.log.floor();
        let side = &mut self.sides[at];
        if response.compact_revision == 0 {
            let place = side.cancelling.iter().position(|id| *id == response.watch_id);
            side.cancelling.remove(place.expect("an unexpected cancel"));
            return;
        }
        assert_eq!((response.compact_revision, response.header_revision), (floor, 0));
        let expect = side.live.remove(&response.watch_id).expect("only live watchers are overtaken");
        assert!(expect.created, "cancelled before it was created");
        side.ghosts.push(response.watch_id);
        if side.live.is_empty() {
            side.progress = None;
        }
        if expect.doomed {
            assert!(expect.delivered.is_empty());
            return;
        }
        // Something lay between the revision at which it was last known to be synced and the floor:
        // a match (before filters), or history it had not looked at since it was created.
        let needed = match expect.synced_to {
            None => true,
            Some(synced) => !self.history.events(&expect.watch.keys, synced + 1, floor - 1).is_empty(),
        };
        assert!(expect.start < floor, "cancelled at floor {floor} before its start {}", expect.start);
        assert!(needed, "cancelled at floor {floor} without need: {expect:?}");
    }

    fn check_progress(&mut self, at: usize, response: &Response<Ev>) {
        let revision = response.header_revision;
        assert_eq!(revision, self.world.hub.published());
        let side = &mut self.sides[at];
        if response.watch_id == NO_WATCH {
            let asked = side.progress.take().expect("unexpected progress");
            assert!(revision >= asked, "progress at {revision}, asked at {asked}");
            assert!(!side.live.is_empty());
        }
        for (id, expect) in &mut side.live {
            if response.watch_id == NO_WATCH || response.watch_id == *id {
                assert!(expect.created, "progress before creation");
                assert!(revision >= expect.progress, "progress went back");
                assert!(revision >= expect.progress_from, "progress below the start revision");
                assert_eq!(
                    expect.delivered,
                    expect.wanted(&self.history, revision),
                    "progress ahead of events"
                );
                expect.progress = revision;
            }
        }
    }

    fn check_events(&mut self, at: usize, response: &Response<Ev>) {
        let (published, floor) = (self.world.hub.published(), self.world.log.floor());
        let side = &mut self.sides[at];
        let expect = side.live.get_mut(&response.watch_id).expect("events of a watcher that is gone");
        assert!(expect.created && !expect.doomed, "events before creation or below the floor");
        let last = response.revisions.last().expect("a response without events").rev;
        assert!(response.header_revision <= published && response.header_revision >= last);
        if response.revisions.len() > 1 {
            assert_eq!(response.header_revision, published);
        }
        for revision in &response.revisions {
            let before = expect.delivered.last().map_or(expect.start - 1, |event| event.rev);
            assert!(revision.rev > before, "revision {} after {before}", revision.rev);
            for event in revision.events() {
                let may_lack = event.rev == floor;
                let must_lack = event.rev == expect.born;
                assert!(if event.previous { !must_lack } else { may_lack }, "{event:?} at floor {floor}");
                expect.delivered.push(Ev { previous: true, ..event.clone() });
            }
        }
        // Nothing missing, nothing doubled, nothing foreign, no revision cut in two.
        assert_eq!(expect.delivered, expect.wanted(&self.history, last));
        assert!(last > expect.progress, "an event at {last} behind progress at {}", expect.progress);
    }

    /// A stream that says it has no more has delivered everything that is published.
    fn check_rest(&mut self, at: usize) {
        let published = self.world.hub.published();
        let side = &mut self.sides[at];
        assert!(side.cancelling.is_empty() && side.refused == 0, "an answer is missing");
        for expect in side.live.values_mut() {
            assert!(expect.created, "a creation was not announced");
            assert!(!expect.doomed, "a cancel is missing");
            assert_eq!(expect.delivered, expect.wanted(&self.history, published));
            expect.synced_to = expect.synced_to.max(Some(published));
        }
        let reached = side.live.values().all(|expect| expect.progress_from <= published);
        if let Some(asked) = side.progress {
            assert!(!reached || asked > published, "a progress request was not answered");
        }
    }

    /// Publishes and drains until nothing moves, following wakes only.
    fn finish(mut self) {
        while self.world.hub.published() < self.world.log.last() || self.world.hub.has_alarm() {
            self.publish(2, 7);
        }
        for at in 0..self.sides.len() {
            while self.sides[at].awake {
                self.drain(at, budget_of(at));
            }
            self.check_rest(at);
            let hub = &mut self.world.hub;
            self.sides[at].stream.close(hub);
        }
        let gauges = self.world.hub.gauges();
        assert_eq!((self.world.hub.groups(), gauges.watchers(), gauges.streams()), (0, 0, 0));
        assert_eq!((gauges.slow_watchers(), gauges.pending_events()), (0, 0));
    }
}

/// Many short histories find more than few long ones. PROPTEST_CASES scales this for a longer
/// search.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: 8 * usual.cases, max_shrink_iters: 20_000, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_watcher_gets_exactly_what_the_oracle_says(
        ring in 1..4_usize,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut model = Model::new(ring);
        for step in &steps {
            model.apply(step);
        }
        model.finish();
    }
}
