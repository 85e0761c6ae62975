//! One call after another, for what has to be done before and after a measurement.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use prost::Message;
use vetch_api::pb;

use super::{Happened, Inbox, Method, Tag, Wire};

/// No measurement uses this tag.
const TAG: Tag = u64::MAX;
const LIMIT: Duration = Duration::from_secs(60);

/// Makes a call and waits for all of its answers.
pub(crate) fn call(wire: &mut dyn Wire, method: Method, request: &impl Message) -> Result<Vec<Vec<u8>>> {
    let deadline = Instant::now() + LIMIT;
    let mut inbox = Inbox::default();
    let mut answers = Vec::new();
    wire.open(0, TAG, method, &request.encode_to_vec(), true);
    loop {
        inbox.clear();
        wire.wait(deadline, &mut inbox);
        for (tag, _, happened) in inbox.iter().filter(|(tag, ..)| *tag == TAG) {
            debug_assert_eq!(tag, TAG);
            match happened {
                Happened::Message(message) => answers.push(message.to_vec()),
                Happened::End(None) => return Ok(answers),
                Happened::End(Some(failure)) => bail!("{}: {failure}", method.path()),
            }
        }
        if Instant::now() >= deadline {
            bail!("{}: no answer within {LIMIT:?}", method.path());
        }
    }
}

/// The one answer of a unary call.
pub(crate) fn ask<A: Message + Default>(
    wire: &mut dyn Wire,
    method: Method,
    request: &impl Message,
) -> Result<A> {
    let answers = call(wire, method, request)?;
    let answer = answers.first().context("an answer without a message")?;
    Ok(A::decode(answer.as_slice())?)
}

pub(crate) fn status(wire: &mut dyn Wire) -> Result<pb::StatusResponse> {
    ask(wire, Method::Status, &pb::StatusRequest {})
}

/// The revision of the store, asked for as kube-apiserver asks whether its store is well: even kine
/// understands that.
pub(crate) fn revision(wire: &mut dyn Wire) -> Result<i64> {
    let request = pb::RangeRequest { key: "/registry/health".into(), ..Default::default() };
    let answer: pb::RangeResponse = ask(wire, Method::Range, &request)?;
    Ok(answer.header.context("an answer without a header")?.revision)
}

/// How many keys there are in a range.
pub(crate) fn count(wire: &mut dyn Wire, key: &[u8], end: &[u8]) -> Result<i64> {
    let request = pb::RangeRequest {
        key: key.to_vec().into(),
        range_end: end.to_vec().into(),
        count_only: true,
        ..Default::default()
    };
    Ok(ask::<pb::RangeResponse>(wire, Method::Range, &request)?.count)
}
