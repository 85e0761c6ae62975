//! What has to be there before a measurement begins: keys, the revisions of keys, leases.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use prost::Message;
use prost::bytes::Bytes;
use vetch_api::pb;

use super::put::Put;
use super::{Keys, Values};
use crate::args::Objects;
use crate::drive::{Asked, Pace, Plan, Work, drive};
use crate::failure::WrongAnswer;
use crate::measure::monitor::Counters;
use crate::measure::tally::{Tally, Window, Yield};
use crate::scan;
use crate::session::Session;
use crate::wire::{Method, Wire, blocking};

const CLIENTS: usize = 256;
const CONNECTIONS: usize = 4;
/// Nothing takes longer.
const LIMIT: Duration = Duration::from_secs(1800);
const PAGE: i64 = 10_000;

/// The keys of a workload, written unless they are there.
pub(crate) fn keys(session: &Session<'_>, objects: &Objects) -> Result<Keys> {
    ensure!(objects.keys > 0 && objects.keys <= 100_000_000, "between one key and a hundred million");
    let keys = Keys::new(&session.common.prefix, objects.keys);
    if !objects.loaded {
        fill(session, &keys, Values::new(objects.value_size, session.common.seed), objects.create)?;
    }
    let mut wire = session.wire(1)?;
    let (first, end) = keys.all();
    let count = blocking::count(wire.as_mut(), &first, &end)?;
    if count != objects.keys as i64 {
        bail!(
            "there are {count} keys below {:?} instead of {}: choose another --prefix",
            session.common.prefix,
            objects.keys
        );
    }
    Ok(keys)
}

/// Writes every key once.
pub(crate) fn fill(session: &Session<'_>, keys: &Keys, values: Values, create: bool) -> Result<()> {
    session.say(&format!("writing {} keys", keys.count));
    let work = Put::new(keys.clone(), values, 0, 1);
    let mut work = if create { work.creating() } else { work };
    let requests = work.once();
    run(session, &mut work, requests).map(drop)
}

/// Drives a work that has to succeed, as fast as it goes.
pub(crate) fn run(session: &Session<'_>, work: &mut dyn Work, requests: u64) -> Result<Tally> {
    session.pin_client()?;
    let now = Instant::now();
    let plan = Plan {
        pace: Pace::Closed,
        slots: CLIENTS,
        window: Window { start: now, end: now + LIMIT },
        requests: Some(requests),
        stop: session.stop.clone(),
        counters: Arc::new(Counters::default()),
    };
    let mut wire = session.wire(CONNECTIONS)?;
    let tally = drive(&plan, wire.as_mut(), work);
    ensure!(!session.stop.is_raised(), "interrupted before anything was measured");
    if let Some((text, count)) = tally.errors.iter().next() {
        bail!("preparing failed: {count} x {text}");
    }
    ensure!(tally.acknowledged() == requests, "only {} of {requests} were done", tally.acknowledged());
    Ok(tally)
}

/// At which revision each key was changed last.
pub(crate) fn revisions(wire: &mut dyn Wire, keys: &Keys) -> Result<Arc<Vec<i64>>> {
    let mut revisions = Vec::with_capacity(keys.count);
    let (mut key, range_end) = keys.all();
    while revisions.len() < keys.count {
        let request =
            pb::RangeRequest { key, range_end: range_end.clone(), limit: PAGE, ..Default::default() };
        let page: pb::RangeResponse = blocking::ask(wire, Method::Range, &request)?;
        revisions.extend(page.kvs.iter().map(|kv| kv.mod_revision));
        let last = page.kvs.last().context("fewer keys than were written")?;
        key = [&last.key[..], b"\0"].concat().into();
    }
    ensure!(revisions.len() == keys.count, "{} keys instead of {}", revisions.len(), keys.count);
    Ok(Arc::new(revisions))
}

/// A lease, and when it ends unless it is renewed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) id: i64,
    pub(crate) ends: Instant,
}

/// Grants leases.
pub(crate) fn leases(session: &Session<'_>, count: usize, ttl: i64) -> Result<Vec<Granted>> {
    session.say(&format!("granting {count} leases"));
    let mut work = Grant { ttl, granted: Vec::with_capacity(count) };
    run(session, &mut work, count as u64)?;
    Ok(work.granted)
}

struct Grant {
    ttl: i64,
    granted: Vec<Granted>,
}

impl Work for Grant {
    fn classes(&self) -> &'static [&'static str] {
        &["grant"]
    }

    fn next(&mut self, _slot: usize, message: &mut Vec<u8>) -> Asked {
        pb::LeaseGrantRequest { ttl: self.ttl, id: 0 }.encode(message).expect("a vector grows");
        Asked { method: Method::LeaseGrant, class: 0 }
    }

    fn message(&mut self, _slot: usize, message: &[u8]) -> Result<Yield, WrongAnswer> {
        let id = scan::number(message, 2)? as i64;
        let ttl = scan::number(message, 3)?;
        if id == 0 || ttl == 0 {
            return Err(WrongAnswer::IncompleteLease);
        }
        self.granted.push(Granted { id, ends: Instant::now() + Duration::from_secs(ttl) });
        Ok(Yield::default())
    }
}

/// Deletes everything below the prefix.
pub(crate) fn clean(session: &Session<'_>) -> Result<()> {
    let key = Bytes::from(session.common.prefix.clone().into_bytes());
    let range_end = super::after(&key);
    let mut wire = session.wire(1)?;
    let request = pb::DeleteRangeRequest { key, range_end, ..Default::default() };
    let answer: pb::DeleteRangeResponse = blocking::ask(wire.as_mut(), Method::DeleteRange, &request)?;
    session.say(&format!("deleted {} keys", answer.deleted));
    Ok(())
}
