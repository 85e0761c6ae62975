//! Requests and answers in a form that people can read in a trace.

use std::fmt::{Display, Formatter, Result, Write};

use vetch_check::Outcome;
use vetch_model::{
    Answer, Compare, CompareTarget, KeyValue, Keys, Op, OpAnswer, Put, Range, Ranged, Request, Txn, TxnAnswer,
};

/// Bytes of a value that are shown.
const SHOWN: usize = 12;

/// Shows something shortly.
pub(crate) struct Show<'a, T>(pub(crate) &'a T);

struct Bytes<'a>(&'a [u8]);

impl Display for Bytes<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let shown = &self.0[..self.0.len().min(SHOWN)];
        write!(f, "{}", shown.escape_ascii())?;
        if self.0.len() > SHOWN { write!(f, "..({})", self.0.len()) } else { Ok(()) }
    }
}

fn list<T>(f: &mut Formatter<'_>, items: &[T]) -> Result
where
    for<'a> Show<'a, T>: Display,
{
    f.write_char('[')?;
    for (n, item) in items.iter().enumerate() {
        let comma = if n == 0 { "" } else { ", " };
        write!(f, "{comma}{}", Show(item))?;
    }
    f.write_char(']')
}

impl Display for Show<'_, Keys> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0.range_end.as_slice() {
            [] => write!(f, "{}", Bytes(&self.0.key)),
            end => write!(f, "{}..{}", Bytes(&self.0.key), Bytes(end)),
        }
    }
}

impl Display for Show<'_, Put> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Put { key, value, lease, prev_kv, ignore_value, ignore_lease } = self.0;
        write!(f, "put {} = {}", Bytes(key), Bytes(value))?;
        if *lease != 0 {
            write!(f, " lease {lease}")?;
        }
        for (set, name) in [(prev_kv, "prev"), (ignore_value, "same value"), (ignore_lease, "same lease")] {
            if *set {
                write!(f, " {name}")?;
            }
        }
        Ok(())
    }
}

impl Display for Show<'_, Range> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let range = self.0;
        write!(f, "range {}", Show(&range.keys))?;
        let numbers = [
            (range.revision, "at"),
            (range.limit, "limit"),
            (range.min_mod_revision, "mod >="),
            (range.max_mod_revision, "mod <="),
            (range.min_create_revision, "create >="),
            (range.max_create_revision, "create <="),
        ];
        for (number, name) in numbers.iter().filter(|(number, _)| *number != 0) {
            write!(f, " {name} {number}")?;
        }
        if range.sort_order != vetch_model::SortOrder::None {
            write!(f, " {:?} by {:?}", range.sort_order, range.sort_target)?;
        }
        let flags = [
            (range.serializable, "serializable"),
            (range.keys_only, "keys only"),
            (range.count_only, "count only"),
        ];
        for (_, name) in flags.iter().filter(|(set, _)| *set) {
            write!(f, " {name}")?;
        }
        Ok(())
    }
}

impl Display for Show<'_, Compare> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {:?} ", Show(&self.0.keys), self.0.result)?;
        match &self.0.target {
            CompareTarget::Value(value) => write!(f, "Value({})", Bytes(value)),
            other => write!(f, "{other:?}"),
        }
    }
}

impl Display for Show<'_, Op> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            Op::Range(range) => write!(f, "{}", Show(range)),
            Op::Put(put) => write!(f, "{}", Show(put)),
            Op::Delete(delete) => write!(f, "delete {}", Show(&delete.keys)),
            Op::Txn(txn) => write!(f, "{}", Show(txn)),
            Op::Empty => write!(f, "nothing"),
        }
    }
}

impl Display for Show<'_, Txn> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "txn if ")?;
        list(f, &self.0.compare)?;
        write!(f, " then ")?;
        list(f, &self.0.success)?;
        write!(f, " else ")?;
        list(f, &self.0.failure)
    }
}

impl Display for Show<'_, Request> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            Request::Range(range) => write!(f, "{}", Show(range)),
            Request::Put(put) => write!(f, "{}", Show(put)),
            Request::Delete(delete) => {
                let prev = if delete.prev_kv { " prev" } else { "" };
                write!(f, "delete {}{prev}", Show(&delete.keys))
            }
            Request::Txn(txn) => write!(f, "{}", Show(txn)),
            Request::Compact { revision } => write!(f, "compact {revision}"),
            Request::LeaseGrant { id, ttl } => write!(f, "grant {id} for {ttl} s"),
            Request::LeaseRevoke { id } => write!(f, "revoke {id}"),
            Request::LeaseKeepAlive { id } => write!(f, "keep alive {id}"),
        }
    }
}

impl Display for Show<'_, KeyValue> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let KeyValue { key, value, create_revision, mod_revision, version, lease } = self.0;
        write!(f, "{} = {} ({create_revision}/{mod_revision}/{version}", Bytes(key), Bytes(value))?;
        if *lease != 0 { write!(f, " lease {lease})") } else { write!(f, ")") }
    }
}

impl Display for Show<'_, Ranged> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        list(f, &self.0.kvs)?;
        write!(f, " of {}{}", self.0.count, if self.0.more { ", more" } else { "" })
    }
}

impl Display for Show<'_, Option<KeyValue>> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.0.as_ref().map_or(Ok(()), |kv| write!(f, " before: {}", Show(kv)))
    }
}

impl Display for Show<'_, OpAnswer> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            OpAnswer::Range(ranged) => write!(f, "{}", Show(ranged)),
            OpAnswer::Put { prev_kv } => write!(f, "put{}", Show(prev_kv)),
            OpAnswer::Delete(deleted) => write!(f, "deleted {}", deleted.deleted),
            OpAnswer::Txn(txn) => write!(f, "{}", Show(txn)),
        }
    }
}

impl Display for Show<'_, TxnAnswer> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} ", if self.0.succeeded { "then" } else { "else" })?;
        list(f, &self.0.responses)
    }
}

impl Display for Show<'_, Outcome> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Outcome::Answered { revision, answer } = self.0 else { return write!(f, "{:?}", self.0) };
        write!(f, "at {revision}: ")?;
        match answer {
            Answer::Range(ranged) => write!(f, "{}", Show(ranged)),
            Answer::Put { prev_kv } => write!(f, "put{}", Show(prev_kv)),
            Answer::Delete(deleted) => write!(f, "deleted {}", deleted.deleted),
            Answer::Txn(txn) => write!(f, "{}", Show(txn)),
            other => write!(f, "{other:?}"),
        }
    }
}
