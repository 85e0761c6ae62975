//! The classical search for a linearization, after Wing, Gong and Lowe: a second opinion that knows
//! nothing of revisions.
//!
//! Generic over what is linearized. Calls and returns stand in a linked list in the order of time;
//! an operation may be next if its call stands before the first return. Which operations have been
//! placed, together with the state that leads to, is remembered, so that no situation is looked at
//! twice. Operations of unknown outcome never return: they may be placed anywhere behind their
//! call, or nowhere, and are tried only where nothing else goes on.
//!
//! The search is exponential in the worst case. When its budget is used up it says so, and never
//! that a history is wrong.
//!
//! * `register`: one register with compare-and-set.
//! * `store`: a store of keys with revisions and leases, written a second time, without the
//!   specification.

mod list;
pub mod register;
pub mod store;

use std::collections::HashSet;
use std::hash::Hash;
use std::time::{Duration, Instant};

use list::List;

/// What operations do to a state. An operation here is a request with its answer.
pub trait Sequential {
    type State: Clone + Eq + Hash;
    type Operation;

    fn start(&self) -> Self::State;

    /// The states that may follow if the operation comes next; none if its answer is impossible
    /// then.
    fn step(&self, state: &Self::State, operation: &Self::Operation) -> Vec<Self::State>;
}

/// One operation with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<O> {
    pub called: u64,
    /// None: its outcome is unknown.
    pub returned: Option<u64>,
    pub operation: O,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// How often a state may be stepped.
    pub steps: u64,
    pub time: Duration,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { steps: 20_000_000, time: Duration::from_secs(60) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Linearizable,
    /// No order exists.
    Illegal(Furthest),
    /// The budget was used up.
    Unknown(Furthest),
}

/// The longest order that was found, and what could not follow it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Furthest {
    /// Indices of operations.
    pub order: Vec<usize>,
    /// Operations that could only have come next, and none of which can.
    pub stuck: Vec<usize>,
}

/// Looks for an order of the operations.
pub fn linearize<S: Sequential>(spec: &S, calls: &[Call<S::Operation>], budget: Budget) -> Verdict {
    Search::new(spec, calls, budget).run()
}

/// Where the search looks next.
#[derive(Debug, Clone, Copy)]
enum Cursor {
    /// At an entry of the list.
    Entry(usize),
    /// At an operation without return, called up to the given time.
    Pending { index: usize, limit: u64 },
}

/// An operation that was placed.
struct Frame<State> {
    cursor: Cursor,
    operation: usize,
    /// Which of its possible states was taken.
    choice: usize,
    before: State,
}

struct Search<'a, S: Sequential> {
    spec: &'a S,
    calls: &'a [Call<S::Operation>],
    budget: Budget,
    list: List,
    /// Operations without return, by their calls.
    pending: Vec<usize>,
    placed: Vec<u64>,
    state: S::State,
    stack: Vec<Frame<S::State>>,
    known: HashSet<(Vec<u64>, S::State)>,
    furthest: Furthest,
    /// How many operations with a return are placed, now and at most.
    depth: (usize, usize),
}

impl<'a, S: Sequential> Search<'a, S> {
    fn new(spec: &'a S, calls: &'a [Call<S::Operation>], budget: Budget) -> Search<'a, S> {
        let spans = calls.iter().map(|call| (call.called, call.returned));
        let mut pending: Vec<usize> =
            (0..calls.len()).filter(|&index| calls[index].returned.is_none()).collect();
        pending.sort_by_key(|&index| calls[index].called);
        Search {
            spec,
            calls,
            budget,
            list: List::new(spans),
            pending,
            placed: vec![0; calls.len().div_ceil(64)],
            state: spec.start(),
            stack: Vec::new(),
            known: HashSet::new(),
            furthest: Furthest::default(),
            depth: (0, 0),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "bounds the time of a search, not its result")]
    fn run(mut self) -> Verdict {
        let begin = Instant::now();
        let mut steps = 0;
        let (mut cursor, mut choice) = (self.list.first(), 0);
        self.note_furthest();
        while !self.list.is_empty() {
            steps += 1;
            let late = steps % 1024 == 0 && begin.elapsed() > self.budget.time;
            if steps > self.budget.steps || late {
                return Verdict::Unknown(self.furthest);
            }
            let next = match cursor {
                Cursor::Entry(entry) => match self.list.call(entry) {
                    Some(operation) => self.attempt(cursor, operation, choice),
                    None => {
                        (cursor, choice) = (Cursor::Pending { index: 0, limit: self.list.time(entry) }, 0);
                        continue;
                    }
                },
                Cursor::Pending { index, limit } => match self.pending.get(index) {
                    Some(&operation) if self.calls[operation].called <= limit => {
                        self.attempt(cursor, operation, choice)
                    }
                    _ => match self.take_back() {
                        Some(resumed) => {
                            (cursor, choice) = resumed;
                            continue;
                        }
                        None => return Verdict::Illegal(self.furthest),
                    },
                },
            };
            choice = 0;
            cursor = match (next, cursor) {
                (true, _) => self.list.first(),
                (false, Cursor::Entry(entry)) => self.list.after(entry),
                (false, Cursor::Pending { index, limit }) => Cursor::Pending { index: index + 1, limit },
            };
        }
        Verdict::Linearizable
    }

    /// Places the operation if that leads anywhere new. `choice` is the first of its states to try.
    fn attempt(&mut self, cursor: Cursor, operation: usize, choice: usize) -> bool {
        let (word, bit) = (operation / 64, 1 << (operation % 64));
        if self.placed[word] & bit != 0 {
            return false;
        }
        let call = &self.calls[operation];
        let states = self.spec.step(&self.state, &call.operation);
        for (choice, state) in states.into_iter().enumerate().skip(choice) {
            // A request that was not answered and changes nothing need not have happened.
            if call.returned.is_none() && state == self.state {
                continue;
            }
            self.placed[word] |= bit;
            if self.known.insert((self.placed.clone(), state.clone())) {
                let before = std::mem::replace(&mut self.state, state);
                self.stack.push(Frame { cursor, operation, choice, before });
                if let Cursor::Entry(entry) = cursor {
                    self.list.lift(entry);
                    self.depth.0 += 1;
                }
                self.note_furthest();
                return true;
            }
            self.placed[word] &= !bit;
        }
        false
    }

    /// Takes the last operation back, and says where to go on.
    fn take_back(&mut self) -> Option<(Cursor, usize)> {
        let frame = self.stack.pop()?;
        self.placed[frame.operation / 64] &= !(1 << (frame.operation % 64));
        self.state = frame.before;
        if let Cursor::Entry(entry) = frame.cursor {
            self.list.unlift(entry);
            self.depth.0 -= 1;
        }
        Some((frame.cursor, frame.choice + 1))
    }

    fn note_furthest(&mut self) {
        if self.depth.0 > self.depth.1 || self.depth.0 == 0 {
            self.depth.1 = self.depth.0;
            self.furthest.order = self.stack.iter().map(|frame| frame.operation).collect();
            self.furthest.stuck = self.list.callable();
        }
    }
}
