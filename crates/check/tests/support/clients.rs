//! Random clients of the server.

use vetch_check::{Finish, Hashed, History, Leased, Listed, Listing, Operation, Outcome, Watched};
use vetch_model::{
    Answer, Compare, CompareResult, CompareTarget, Delete, Keys, Op, Put, Range, Request, Txn, Watch,
};

use super::server::{SECOND, Server, Watcher};
use vetch_testkit::random::Rng;

const MILLI: u64 = 1_000_000;
const CLIENTS: u32 = 6;
const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f/1", "f/2", "f/3"];
const LEASES: [i64; 5] = [11, 12, 13, 14, 15];

/// A request on its way: it takes effect at `acts`, if it does, and its outcome is known at
/// `returned`.
struct Flight {
    operation: Operation,
    acts: Option<u64>,
    known: bool,
    done: bool,
}

/// Records about `operations` requests.
pub(crate) fn record(seed: u64, operations: usize) -> History {
    record_with(seed, operations, 2, 12)
}

/// The same; of 20 answers `lost` are lost, and there are up to `watching` watchers.
pub(crate) fn record_with(seed: u64, operations: usize, lost: u64, watching: usize) -> History {
    let mut rng = Rng::new(seed);
    let mut server = Server::default();
    let mut history = History::default();
    let mut flights: Vec<Flight> = Vec::new();
    let mut watchers: Vec<Watcher> = Vec::new();
    let mut free = [0u64; CLIENTS as usize];
    let mut now = 1;
    let mut sent = 0;
    while sent < operations || !flights.is_empty() {
        now += 1 + rng.below(MILLI * 8);
        server.tick(now);
        for flight in &mut flights {
            act(flight, &mut server, now);
        }
        let (over, left) = flights.into_iter().partition(|flight| flight.done);
        flights = left;
        history.operations.extend(over.into_iter().map(|flight: Flight| flight.operation));
        let client = rng.below(u64::from(CLIENTS)) as u32;
        if sent < operations && free[client as usize] <= now {
            let flight = send(&mut rng, &server, client, sent, now, lost);
            free[client as usize] = flight.operation.returned + 1;
            flights.push(flight);
            sent += 1;
        }
        beside(&mut rng, &mut server, &mut history, &mut watchers, now, watching);
    }
    finish(&mut rng, &mut server, &mut history, watchers, now);
    history
}

/// Lets the request take effect and sets its outcome when their times have come.
fn act(flight: &mut Flight, server: &mut Server, now: u64) {
    if flight.acts.is_some_and(|acts| acts <= now) {
        flight.acts = None;
        let outcome = server.handle(&flight.operation.request, now);
        if flight.known {
            flight.operation.outcome = match outcome {
                Ok((revision, answer)) => Outcome::Answered { revision, answer },
                Err(refusal) => Outcome::Refused(refusal),
            };
            flight.operation.returned = flight.operation.returned.max(now);
        }
    }
    flight.done = flight.acts.is_none() && flight.operation.returned <= now;
}

fn send(rng: &mut Rng, server: &Server, client: u32, number: usize, now: u64, lost: u64) -> Flight {
    let request = request(rng, server, number);
    let returned = now + 1 + rng.below(40 * MILLI);
    let (outcome, acts, known) = match rng.below(20) {
        0 => (Outcome::NotDone, None, false),
        // It may take effect long after its client has given up.
        draw if draw <= lost => {
            (Outcome::Unknown, Some(now + rng.below(200 * MILLI)).filter(|_| draw % 2 == 0), false)
        }
        _ => (Outcome::Unknown, Some(now + rng.below(returned - now)), true),
    };
    let operation = Operation { client, called: now, returned, request, outcome };
    Flight { operation, acts, known, done: false }
}

fn request(rng: &mut Rng, server: &Server, number: usize) -> Request {
    let revision = server.model.revision();
    match rng.below(24) {
        0..=6 => Request::Put(put(rng, number)),
        7 | 8 => Request::Delete(Delete { keys: keys(rng), prev_kv: rng.one_in(2) }),
        9..=13 => Request::Range(range(rng, revision)),
        14..=17 => Request::Txn(txn(rng, server, number)),
        18 => Request::LeaseGrant { id: *rng.pick(&LEASES), ttl: rng.between(1, 2) },
        19 => Request::LeaseRevoke { id: *rng.pick(&LEASES) },
        20 => Request::LeaseKeepAlive { id: *rng.pick(&LEASES) },
        21 if rng.one_in(2) => Request::Compact { revision: rng.between(1, revision + 2) },
        _ => Request::Range(Range::new(Keys::all())),
    }
}

fn put(rng: &mut Rng, number: usize) -> Put {
    let mut put = Put::new(*rng.pick(&KEYS), format!("v{number}"));
    put.prev_kv = rng.one_in(2);
    if rng.one_in(3) {
        put.lease = *rng.pick(&LEASES);
    } else if rng.one_in(8) {
        put.ignore_lease = true;
    } else if rng.one_in(8) {
        put.ignore_value = true;
        put.value.clear();
    }
    put
}

fn keys(rng: &mut Rng) -> Keys {
    match rng.below(8) {
        0 => Keys::between("f/", "f0"),
        1 => Keys::between("b", "d"),
        _ => Keys::single(*rng.pick(&KEYS)),
    }
}

fn range(rng: &mut Rng, revision: i64) -> Range {
    let mut range = Range::new(keys(rng));
    if rng.one_in(3) {
        range.revision = rng.between((revision - 12).max(1), revision + 1);
    }
    range.serializable = rng.one_in(4);
    range.keys_only = rng.one_in(6);
    range.limit = rng.between(-2, 2).max(0);
    range
}

fn txn(rng: &mut Rng, server: &Server, number: usize) -> Txn {
    let key = *rng.pick(&KEYS);
    let current = server.model.get(key.as_bytes(), server.model.revision()).map_or(0, |kv| kv.mod_revision);
    let expected = if rng.one_in(3) { current + 1 } else { current };
    let compare = Compare {
        keys: Keys::single(key),
        result: CompareResult::Equal,
        target: CompareTarget::Mod(expected),
    };
    let other = KEYS.iter().find(|&&other| other != key).expect("there are several");
    let success = match rng.below(4) {
        0 => vec![Op::Delete(Delete { keys: Keys::single(key), prev_kv: true })],
        1 => vec![
            Op::Put(Put::new(key, format!("t{number}"))),
            Op::Put(Put::new(*other, format!("u{number}"))),
        ],
        2 => vec![Op::Range(Range::new(Keys::single(*other)))],
        _ => vec![Op::Put(put_at(rng, key, number))],
    };
    Txn { compare: vec![compare], success, failure: vec![Op::Range(Range::new(Keys::single(key)))] }
}

fn put_at(rng: &mut Rng, key: &str, number: usize) -> Put {
    let mut put = Put::new(key, format!("w{number}"));
    put.lease = if rng.one_in(4) { *rng.pick(&LEASES) } else { 0 };
    put
}

/// Restarts, watchers and hashes.
fn beside(
    rng: &mut Rng,
    server: &mut Server,
    history: &mut History,
    watchers: &mut Vec<Watcher>,
    now: u64,
    watching: usize,
) {
    if rng.one_in(150) {
        server.restart(now);
    }
    if rng.one_in(40) && watchers.len() < watching {
        watchers.push(Watcher::create(watch(rng, server), server, now));
    }
    for watcher in watchers.iter_mut() {
        if rng.one_in(3) {
            watcher.tell(server, rng, now);
        }
    }
    if rng.one_in(60) {
        history.hashes.push(hash(server, now));
    }
    // Of its own, so that whether leases are looked at changes nothing else.
    let mut looks = Rng::new(now);
    if looks.one_in(20) {
        history.leased.push(leased(server, *looks.pick(&LEASES), now));
    }
    if looks.one_in(20) {
        history.listed.push(list(&mut looks, server, now));
    }
    super::access::beside(&mut looks, server, history, now);
}

fn list(rng: &mut Rng, server: &Server, now: u64) -> Listed {
    let listing = match rng.below(4) {
        0 => Listing::Leases { ids: server.model.leases().keys().copied().collect() },
        1 => Listing::Alarms { alarms: server.alarms.iter().copied().collect() },
        2 => Listing::Members { ids: vec![1] },
        _ => Listing::Status { db_size: 20, db_size_in_use: 10, leader: 1, term: server.term },
    };
    let revision = Some(server.model.revision()).filter(|_| !matches!(listing, Listing::Members { .. }));
    Listed { called: now, returned: now, revision, linearizable: true, listing }
}

fn leased(server: &Server, id: i64, now: u64) -> Leased {
    let keys = server.model.lease_keys(id).into_iter().map(<[u8]>::to_vec).collect();
    Leased { called: now, returned: now, id, revision: server.model.revision(), keys }
}

fn watch(rng: &mut Rng, server: &Server) -> Watched {
    let revision = server.model.revision();
    let start_revision = match rng.below(4) {
        0 => 0,
        1 => revision + rng.between(1, 6),
        _ => rng.between((revision - 8).max(1), revision),
    };
    let keys = if rng.one_in(2) { Keys::all() } else { keys(rng) };
    let request = Watch {
        keys,
        start_revision,
        progress_notify: true,
        no_put: rng.one_in(8),
        no_delete: rng.one_in(8),
        prev_kv: rng.one_in(2),
        fragment: false,
    };
    Watched::new(100 + rng.below(4) as u32, request)
}

fn hash(server: &Server, now: u64) -> Hashed {
    let (revision, compact_revision) = (server.model.revision(), server.model.compact_revision());
    let hash = server.model.hash_kv(revision, compact_revision);
    Hashed { called: now, returned: now, revision, compact_revision, hash }
}

/// Ends everything, and reads it all once more.
fn finish(rng: &mut Rng, server: &mut Server, history: &mut History, watchers: Vec<Watcher>, now: u64) {
    let now = now + 5 * SECOND;
    server.tick(now);
    let request = Request::Range(Range::new(Keys::all()));
    let (revision, answer): (i64, Answer) = server.handle(&request, now).expect("it is always answered");
    history.operations.push(Operation::answered(99, (now, now + 1), request, revision, answer));
    let start_revision = server.model.compact_revision().max(1);
    let request = Watch {
        keys: Keys::all(),
        start_revision,
        progress_notify: true,
        no_put: false,
        no_delete: false,
        prev_kv: true,
        fragment: false,
    };
    let mut last = Watcher::create(Watched::new(99, request), server, now);
    last.finish(server, rng, now + 2);
    history.watches.extend(watchers.into_iter().map(|watcher| watcher.watched));
    history.finish = Some(Finish { range: history.operations.len() - 1, watch: history.watches.len() });
    history.watches.push(last.watched);
    history.operations.sort_by_key(|operation| operation.called);
    let range = history.operations.iter().position(|operation| operation.client == 99).expect("just added");
    history.finish = history.finish.map(|finish| Finish { range, ..finish });
}
