//! The contract of `vetch_cluster::Log`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use vetch_cluster::{Log, LogEvent, Page, Ticket};
use vetch_journal::Position;

use super::{LogCase, LogEngine};

/// How long a log may take for anything; busy machines are slow.
const TIMEOUT: Duration = Duration::from_secs(20);

pub fn cases() -> Vec<LogCase> {
    vec![
        ("positions begin with 1 and have no gaps", positions),
        ("records are read back byte by byte, from anywhere", read_back),
        ("many records come in order, without holes", many),
        ("an append behind another position than the last is refused", refused),
        ("appends in flight are stored in the order in which they were started", in_flight),
        ("a refused append in flight fails those behind it", cascade),
        ("new records are pushed to a reader without another read", pushed),
        ("two servers never share a position", two_servers),
        ("a reader sees a trim, and positions go on", trim),
        ("the largest record is taken, and a larger one is refused", largest),
    ]
}

fn record(number: u64) -> Bytes {
    Bytes::from(format!("record {number} {}", "x".repeat((number % 50) as usize)))
}

/// The outcomes of these appends, in the order in which they were started.
fn outcomes(log: &mut dyn Log, tickets: &[u64]) -> Vec<LogEvent> {
    let mut found: Vec<Option<LogEvent>> = vec![None; tickets.len()];
    let begun = Instant::now();
    while found.iter().any(Option::is_none) {
        assert!(begun.elapsed() < TIMEOUT, "no outcome for {TIMEOUT:?}: {found:?}");
        let Some(event) = log.next(Duration::from_millis(50)) else { continue };
        let ticket = match &event {
            LogEvent::Appended { ticket, .. }
            | LogEvent::Refused { ticket, .. }
            | LogEvent::Full { ticket } => *ticket,
            LogEvent::Unknown { ticket, why } => panic!("{ticket:?} is unknown without a fault: {why}"),
            _ => continue,
        };
        let at = tickets.iter().position(|one| *one == ticket.0).expect("an own ticket");
        assert!(found[at].replace(event).is_none(), "two outcomes of one append");
    }
    found.into_iter().flatten().collect()
}

fn append(log: &mut dyn Log, ticket: u64, after: u64, record: Bytes) -> LogEvent {
    log.append(Ticket(ticket), Position(after), record);
    outcomes(log, &[ticket]).remove(0)
}

fn appended(ticket: u64, at: u64) -> LogEvent {
    LogEvent::Appended { ticket: Ticket(ticket), at: Position(at) }
}

fn fill(log: &mut dyn Log, count: u64) {
    for number in 1..=count {
        assert_eq!(append(log, number, number - 1, record(number)), appended(number, number));
    }
}

fn page(log: &mut dyn Log) -> Option<Page> {
    match log.next(Duration::from_millis(50)) {
        Some(LogEvent::Records(page)) => Some(page),
        Some(LogEvent::ReadFailed { why }) => panic!("a read failed without a fault: {why}"),
        _ => None,
    }
}

/// Reads until the end is at `upto` or behind it.
fn read(log: &mut dyn Log, after: u64, upto: u64) -> (Vec<(Position, Bytes)>, Position) {
    log.read(Position(after));
    let begun = Instant::now();
    let mut records = Vec::new();
    loop {
        assert!(begun.elapsed() < TIMEOUT, "position {upto} was not read for {TIMEOUT:?}");
        let Some(page) = page(log) else { continue };
        records.extend(page.records);
        if page.end.is_some_and(|end| end.0 >= upto) {
            return (records, page.first);
        }
        if page.end.is_some() {
            // The reader lags: read again.
            records.clear();
            log.read(Position(after));
        }
    }
}

fn check(records: &[(Position, Bytes)], from: u64) {
    for (at, (position, bytes)) in records.iter().enumerate() {
        assert_eq!(position.0, from + at as u64);
        assert_eq!(*bytes, record(position.0));
    }
}

fn positions(engine: &mut dyn LogEngine) {
    let mut log = engine.open();
    assert_eq!(read(&mut *log, 0, 0), (vec![], Position(1)));
    fill(&mut *log, 10);
}

fn read_back(engine: &mut dyn LogEngine) {
    let mut log = engine.open();
    fill(&mut *log, 10);
    for after in 0..10 {
        let (records, first) = read(&mut *log, after, 10);
        assert_eq!((records.len() as u64, first), (10 - after, Position(1)));
        check(&records, after + 1);
    }
    assert_eq!(read(&mut *log, 10, 10).0, []);
    let (records, _) = read(&mut *engine.open(), 4, 10);
    check(&records, 5);
}

fn many(engine: &mut dyn LogEngine) {
    let mut log = engine.open();
    for hundred in 0..6 {
        let numbers: Vec<u64> = (hundred * 100 + 1..=hundred * 100 + 100).collect();
        numbers.iter().for_each(|number| log.append(Ticket(*number), Position(number - 1), record(*number)));
        outcomes(&mut *log, &numbers);
    }
    let (records, _) = read(&mut *log, 0, 600);
    assert_eq!(records.len(), 600);
    check(&records, 1);
}

fn refused(engine: &mut dyn LogEngine) {
    let mut log = engine.open();
    fill(&mut *log, 3);
    for after in [0, 2, 4, 100] {
        let event = append(&mut *log, 50 + after, after, record(9));
        assert!(
            matches!(event, LogEvent::Refused { last: None | Some(Position(3)), .. }),
            "after {after}: {event:?}"
        );
    }
    assert_eq!(append(&mut *log, 4, 3, record(4)), appended(4, 4));
    check(&read(&mut *log, 0, 4).0, 1);
}

fn in_flight(engine: &mut dyn LogEngine) {
    let mut log = engine.open();
    let numbers: Vec<u64> = (1..=64).collect();
    numbers.iter().for_each(|number| log.append(Ticket(*number), Position(number - 1), record(*number)));
    let expected: Vec<LogEvent> = numbers.iter().map(|number| appended(*number, *number)).collect();
    assert_eq!(outcomes(&mut *log, &numbers), expected);
    check(&read(&mut *log, 0, 64).0, 1);
}

fn cascade(engine: &mut dyn LogEngine) {
    let mut log = engine.open();
    fill(&mut *log, 3);
    (4..=8).for_each(|number| log.append(Ticket(number), Position(number), record(number)));
    let answers = outcomes(&mut *log, &[4, 5, 6, 7, 8]);
    assert!(answers.iter().all(|event| matches!(event, LogEvent::Refused { .. })), "{answers:?}");
    assert_eq!(append(&mut *log, 9, 3, record(4)), appended(9, 4));
}

fn pushed(engine: &mut dyn LogEngine) {
    let (mut writer, mut reader) = (engine.open(), engine.open());
    fill(&mut *writer, 1);
    read(&mut *reader, 0, 1);
    for number in 2..=20 {
        assert_eq!(append(&mut *writer, number, number - 1, record(number)), appended(number, number));
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < TIMEOUT, "{number} was not pushed");
            let Some(page) = page(&mut *reader) else { continue };
            assert_eq!(page.records, [(Position(number), record(number))]);
            break;
        }
    }
}

fn two_servers(engine: &mut dyn LogEngine) {
    let (mut one, mut other) = (engine.open(), engine.open());
    let mut stored = Vec::new();
    for round in 0..20 {
        one.append(Ticket(round), Position(round), Bytes::from(format!("one {round}")));
        other.append(Ticket(round), Position(round), Bytes::from(format!("other {round}")));
        let answers = [outcomes(&mut *one, &[round]).remove(0), outcomes(&mut *other, &[round]).remove(0)];
        let won: Vec<usize> = (0..2).filter(|at| answers[*at] == appended(round, round + 1)).collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        assert!(matches!(answers[1 - won[0]], LogEvent::Refused { .. }));
        stored.push(Bytes::from(format!("{} {round}", ["one", "other"][won[0]])));
    }
    let records: Vec<Bytes> = read(&mut *one, 0, 20).0.into_iter().map(|(_, record)| record).collect();
    assert_eq!(records, stored);
}

fn trim(engine: &mut dyn LogEngine) {
    let mut log = engine.open();
    fill(&mut *log, 10);
    log.trim(Position(7)).expect("trims");
    let (records, first) = read(&mut *log, 0, 10);
    assert_eq!((records.len(), first), (4, Position(7)));
    check(&records, 7);
    log.trim(Position(3)).expect("nothing is left to trim there");
    assert_eq!(append(&mut *log, 11, 10, record(11)), appended(11, 11));
    let (records, first) = read(&mut *engine.open(), 8, 11);
    assert_eq!(first, Position(7));
    check(&records, 9);
}

fn largest(engine: &mut dyn LogEngine) {
    let mut log = engine.open();
    let max = log.max_record();
    assert_eq!(append(&mut *log, 1, 0, Bytes::from(vec![7; max])), appended(1, 1));
    assert!(matches!(append(&mut *log, 2, 1, Bytes::from(vec![7; max + 4096])), LogEvent::Refused { .. }));
    assert_eq!(append(&mut *log, 3, 1, record(2)), appended(3, 2));
    assert_eq!(read(&mut *log, 0, 2).0[0].1.len(), max);
}
