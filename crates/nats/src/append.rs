//! Append: one record as one message, and what its acknowledgement, or the lack of one, means.
//!
//! Only an answer of the server makes an outcome definite: after a timeout, a lost connection or
//! "no responders" it is unknown, because a server may have stored the message and failed to
//! answer.

use async_nats::jetstream;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use bytes::Bytes;
use vetch_cluster::{LogEvent, Ticket};
use vetch_journal::Position;

/// Codes by which JetStream says that there is no room: of the stream, the account, the server.
const FULL: [u64; 4] = [10_023, 10_002, 10_047, 10_028];
const STORE_FAILED: u64 = 10_077;

pub(crate) fn message(after: Position, record: Bytes) -> PublishMessage {
    PublishMessage::build().payload(record).expected_last_sequence(after.0)
}

/// What an answer means for the append.
pub(crate) fn outcome(ticket: Ticket, answer: Result<PublishAck, PublishError>) -> LogEvent {
    match answer {
        // Messages carry no id, so this cannot be; if it were, nothing would be known of this
        // record.
        Ok(ack) if ack.duplicate => {
            LogEvent::Unknown { ticket, why: "taken for a copy of another message".into() }
        }
        Ok(ack) => LogEvent::Appended { ticket, at: Position(ack.sequence) },
        Err(error) => failure(ticket, &error),
    }
}

fn failure(ticket: Ticket, error: &PublishError) -> LogEvent {
    let why = describe(error);
    match error.kind() {
        PublishErrorKind::WrongLastSequence => LogEvent::Refused { ticket, last: last_in(&why) },
        // Refused by this client: it was never sent.
        PublishErrorKind::MaxPayloadExceeded => LogEvent::Refused { ticket, last: None },
        _ if code(error).is_some_and(|code| FULL.contains(&code)) => LogEvent::Full { ticket },
        // The store failed; it is full if it says so.
        _ if code(error) == Some(STORE_FAILED) && why.contains("maximum") => LogEvent::Full { ticket },
        _ => LogEvent::Unknown { ticket, why },
    }
}

fn describe(error: &PublishError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn code(error: &PublishError) -> Option<u64> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<jetstream::Error>().map(|error| error.error_code().0)
}

/// The number at the end of "wrong last sequence: 17".
fn last_in(why: &str) -> Option<Position> {
    let number: String = why.rsplit("sequence: ").next()?.chars().take_while(char::is_ascii_digit).collect();
    number.parse().ok().map(Position)
}
