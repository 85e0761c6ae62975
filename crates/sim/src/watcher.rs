//! Simulated clients of the watch service: streams of several watchers, read quickly, slowly or not
//! at all.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use vetch_check::{Ending, WatchMessage};
use vetch_model::{Keys, Watch};
use vetch_node::Node;
use vetch_node::event::NodeEvent;
use vetch_node::watch::{NO_WATCH, Response, WatchSession};

use crate::coverage::Rare;
use crate::env::{Env, Phase};
use crate::recorder::Place;
use crate::show::Show;
use crate::time::{MILLI, SECOND};
use crate::trace::say;
use crate::translate;
use crate::workload::Generator;

/// Watchers that one stream has at most.
const MOST: usize = 5;

/// A stream's memory, which survives the server.
pub(crate) type Memory = Rc<RefCell<Stream>>;

pub(crate) struct Stream {
    client: u32,
    generator: Generator,
    watchers: Vec<Watcher>,
    /// Creates that have not been answered, by index.
    unanswered: VecDeque<usize>,
    next_id: i64,
    /// It watches everything from the beginning, and goes on whatever happens.
    observer: bool,
}

struct Watcher {
    request: Watch,
    place: Place,
    id: Option<i64>,
    /// The lowest revision that it may get next; 0 while it does not know where it began.
    next: i64,
    live: bool,
    /// Cancelled by this client, and not yet answered.
    leaving: bool,
    resumed: bool,
}

impl Stream {
    pub(crate) fn new(client: u32, generator: Generator, observer: bool) -> Stream {
        Stream { client, generator, watchers: Vec::new(), unanswered: VecDeque::new(), next_id: 1, observer }
    }

    /// Whether every watcher got everything up to `revision`.
    pub(crate) fn is_settled(&self, revision: i64) -> bool {
        self.watchers.iter().all(|watcher| !watcher.live || watcher.next > revision)
    }

    fn open(&mut self, env: &Env, session: &mut WatchSession, request: Watch, resumed: bool) {
        // Half of the ids are chosen here, far from those the server chooses.
        let asked = if self.generator.rng().percent(50) { 1000 + self.next_id } else { 0 };
        self.next_id += 1;
        say!(
            env.trace,
            "stream {} watches {} from {}",
            self.client,
            Show(&request.keys),
            request.start_revision
        );
        let place = env.recorder.borrow_mut().watch(self.client, env.now(), request.clone());
        if env.plan.in_cluster {
            // A server of a cluster begins a watch where it is, which may be behind the others.
            env.recorder.borrow_mut().began_anywhere(place);
        }
        session.create(&translate::watch(&request, asked));
        let next = request.start_revision;
        self.unanswered.push_back(self.watchers.len());
        self.watchers.push(Watcher { request, place, id: None, next, live: true, leaving: false, resumed });
    }

    /// The watchers of the last stream, resumed behind their last events.
    fn reopen(&mut self, env: &Env, session: &mut WatchSession) {
        self.unanswered.clear();
        let old = std::mem::take(&mut self.watchers);
        for watcher in old.into_iter().filter(|watcher| watcher.live && !watcher.leaving) {
            let request = Watch { start_revision: watcher.next, ..watcher.request };
            self.open(env, session, request, watcher.next > 0);
        }
        if self.watchers.is_empty() && self.observer {
            self.open(env, session, everything(1), false);
        }
    }
}

fn everything(start_revision: i64) -> Watch {
    Watch {
        keys: Keys::all(),
        start_revision,
        progress_notify: true,
        no_put: false,
        no_delete: false,
        prev_kv: true,
        fragment: false,
    }
}

/// Watches until the node ends or everything has settled.
pub(crate) async fn run(env: Rc<Env>, node: Node, memory: Memory) {
    let mut session = node.watch();
    memory.borrow_mut().reopen(&env, &mut session);
    let mut asked = 0;
    loop {
        let mut think = memory.borrow_mut().generator.rng().skewed(10_000, 200 * MILLI);
        if let Phase::Settle(revision) = env.phase.get() {
            think = 300 * MILLI;
            if env.now() >= asked + think {
                asked = env.now();
                session.request_progress();
            }
            leave_future(&env, &mut session, &memory, revision);
            if memory.borrow().is_settled(revision) {
                return;
            }
        }
        let anew = match env.clock.timeout(think, session.next()).await {
            Some(Ok(responses)) => {
                for response in responses {
                    take(&env, &memory, &response);
                }
                dawdle(&env, &memory).await;
                false
            }
            Some(Err(_)) => return,
            None => env.phase.get() == Phase::Load && act(&env, &mut session, &memory),
        };
        if anew {
            session = node.watch();
            memory.borrow_mut().reopen(&env, &mut session);
        }
        follow_up(&env, &mut session, &memory);
    }
}

/// A slow reader is slow here.
async fn dawdle(env: &Rc<Env>, memory: &Memory) {
    let pause = {
        let mut stream = memory.borrow_mut();
        let observer = stream.observer;
        let rng = stream.generator.rng();
        if env.phase.get() != Phase::Load || observer || !rng.percent(15) {
            return;
        }
        rng.skewed(MILLI, 5 * SECOND)
    };
    env.clock.sleep(pause).await;
}

/// Something a client does while it waits. True if it gives up the whole stream and begins another.
fn act(env: &Env, session: &mut WatchSession, memory: &Memory) -> bool {
    let stream = &mut *memory.borrow_mut();
    let live = stream.watchers.iter().filter(|watcher| watcher.live).count();
    match stream.generator.rng().below(10) {
        0..=2 if live < MOST && !stream.observer => {
            let request = stream.generator.watch(&env.plan, &env.knowledge.borrow());
            stream.open(env, session, request, false);
        }
        3 if !stream.observer => {
            let which = stream.generator.rng().below(stream.watchers.len().max(1));
            if let Some(watcher) = stream.watchers.get_mut(which) {
                leave(env, session, watcher);
            }
        }
        4 | 5 => session.request_progress(),
        6 => return stream.generator.rng().percent(if stream.observer { 3 } else { 30 }),
        _ => {}
    }
    false
}

fn leave(env: &Env, session: &mut WatchSession, watcher: &mut Watcher) {
    if let (Some(id), true, false) = (watcher.id, watcher.live, watcher.leaving) {
        say!(env.trace, "cancels watch {id}");
        watcher.leaving = true;
        session.cancel(id);
    }
}

/// Watchers of what will never come are ended before the rest can settle.
fn leave_future(env: &Env, session: &mut WatchSession, memory: &Memory, revision: i64) {
    for watcher in &mut memory.borrow_mut().watchers {
        if watcher.request.start_revision > revision {
            leave(env, session, watcher);
        }
    }
}

/// The observer goes on behind a compaction that overtook it.
fn follow_up(env: &Env, session: &mut WatchSession, memory: &Memory) {
    let stream = &mut *memory.borrow_mut();
    if !stream.observer || stream.watchers.iter().any(|watcher| watcher.live) {
        return;
    }
    let next = stream.watchers.last().map_or(1, |watcher| watcher.next);
    stream.open(env, session, everything(next), false);
}

fn take(env: &Env, memory: &Memory, response: &Response<NodeEvent>) {
    let stream = &mut *memory.borrow_mut();
    say!(
        env.trace,
        "stream {} gets: watch {} at {}{}{}{}, {:?}",
        stream.client,
        response.watch_id,
        response.header_revision,
        if response.created { " created" } else { "" },
        if response.canceled { " canceled" } else { "" },
        if response.progress { " progress" } else { "" },
        response.revisions.iter().map(|revision| (revision.rev, revision.len())).collect::<Vec<_>>()
    );
    if response.created {
        return created(env, stream, response);
    }
    if response.watch_id == NO_WATCH {
        env.hit(Rare::WatchProgress);
        for watcher in stream.watchers.iter_mut().filter(|watcher| watcher.live && watcher.id.is_some()) {
            progress(env, watcher, response.header_revision);
        }
    } else {
        let found =
            stream.watchers.iter_mut().find(|watcher| watcher.live && watcher.id == Some(response.watch_id));
        match found {
            Some(watcher) => receive(env, watcher, response),
            None => env.violation(format!("a response to no watcher: {}", response.watch_id)),
        }
    }
    if stream.observer {
        let next = stream.watchers.last().map_or(0, |watcher| watcher.next);
        env.knowledge.borrow_mut().observed = next - 1;
    }
}

fn created(env: &Env, stream: &mut Stream, response: &Response<NodeEvent>) {
    let Some(index) = stream.unanswered.pop_front() else {
        return env.violation("a watcher was created without a request".to_owned());
    };
    let watcher = &mut stream.watchers[index];
    if response.canceled {
        env.violation(format!("a well-formed watch was refused: {}", response.cancel_reason));
        watcher.live = false;
        return;
    }
    watcher.id = Some(response.watch_id);
    if watcher.next == 0 {
        watcher.next = response.header_revision + 1;
    }
    let at = env.recorder.borrow_mut().stamp(env.now());
    let message = WatchMessage::Created { revision: response.header_revision, at };
    env.recorder.borrow_mut().message(watcher.place, message);
}

fn receive(env: &Env, watcher: &mut Watcher, response: &Response<NodeEvent>) {
    if response.canceled {
        watcher.live = false;
        let ending = if response.compact_revision != 0 {
            env.hit(Rare::WatchCompacted);
            watcher.next = response.compact_revision;
            Ending::Compacted { compact_revision: response.compact_revision }
        } else if watcher.leaving {
            Ending::Cancelled { reason: response.cancel_reason.to_string() }
        } else {
            Ending::Dropped { reason: response.cancel_reason.to_string() }
        };
        env.recorder.borrow_mut().end(watcher.place, ending);
        return;
    }
    if response.progress {
        env.hit(Rare::WatchPeriodic);
        return progress(env, watcher, response.header_revision);
    }
    let events = response.events().map(|event| translate::event(event, response.prev_kv)).collect();
    if let Some(last) = response.revisions.last() {
        watcher.next = watcher.next.max(last.rev + 1);
        cover(env, watcher, response);
    }
    let at = env.recorder.borrow_mut().stamp(env.now());
    let message = WatchMessage::Events { revision: response.header_revision, events, at };
    env.recorder.borrow_mut().message(watcher.place, message);
}

fn cover(env: &Env, watcher: &Watcher, response: &Response<NodeEvent>) {
    if response.revisions.last().is_some_and(|last| last.rev < response.header_revision) {
        env.hit(Rare::WatchLagged);
    }
    let began = env.recorder.borrow().created_at(watcher.place);
    match watcher.request.start_revision {
        0 => {}
        start if watcher.resumed && start > 0 => env.hit(Rare::WatchResumed),
        start if start > began => env.hit(Rare::WatchFromFuture),
        _ => env.hit(Rare::WatchFromPast),
    }
}

fn progress(env: &Env, watcher: &mut Watcher, revision: i64) {
    watcher.next = watcher.next.max(revision + 1);
    let at = env.recorder.borrow_mut().stamp(env.now());
    env.recorder.borrow_mut().message(watcher.place, WatchMessage::Progress { revision, at });
}

/// Watches everything from `start` until `revision` has been shown. The watch's place, once it has.
pub(crate) async fn show_all(env: Rc<Env>, node: Node, start: i64, revision: i64) -> Option<Place> {
    let generator = Generator::new(vetch_testkit::random::Rng::new(0), 0);
    let memory = Rc::new(RefCell::new(Stream::new(98, generator, false)));
    let mut session = node.watch();
    memory.borrow_mut().open(&env, &mut session, everything(start), false);
    while !memory.borrow().is_settled(revision) {
        session.request_progress();
        for response in session.next().await.ok()? {
            take(&env, &memory, &response);
        }
    }
    let place = memory.borrow().watchers.first()?.place;
    Some(place)
}
