//! Responses, events, journal entries and state as text.

use std::fmt::Write as _;

use vetch_store::describe::{What, describe};
use vetch_store::request::*;
use vetch_store::{Evaluated, Record, Store};

/// `key=value @revision.position version V created C lease L`, or `key deleted @revision.position`.
pub(super) fn record(record: &Record) -> String {
    let key = text(record.key());
    let at = format!("@{}.{}", record.mod_revision(), record.sub());
    if record.is_tombstone() {
        return format!("{key} deleted {at}");
    }
    let mut out = format!("{key}={} {at} version {}", text(&record.value()), record.version());
    if record.create_revision() != record.mod_revision() {
        write!(out, " created {}", record.create_revision()).expect("a string takes everything");
    }
    if record.lease() != 0 {
        write!(out, " lease {}", record.lease()).expect("a string takes everything");
    }
    out
}

pub(super) fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// What a request answered, changed and wrote down.
pub(super) fn evaluated(evaluated: &Evaluated, journal: &[u8], base: i64) -> String {
    let mut out = String::new();
    response(&evaluated.response, &mut out);
    for event in &evaluated.events {
        let was = event.prev.as_ref().map_or(String::new(), |prev| format!(", was {}", record(prev)));
        line(&mut out, 0, format_args!("event {}{was}", record(&event.kv)));
    }
    let units = u32::from(!evaluated.events.is_empty());
    for described in describe(journal, base, units).expect("the journal can be described") {
        let at = described.revision.map_or(String::new(), |revision| format!("@{revision} "));
        line(&mut out, 0, format_args!("journal {at}{}", what(&described.what)));
    }
    out
}

fn what(what: &What) -> String {
    match what {
        What::Put(put) => format!("put {}", record(put)),
        What::Delete { key } => format!("delete {}", text(key)),
        What::DeleteRange { key, range_end } => format!("delete range {} {}", text(key), text(range_end)),
        What::LeaseGrant { id, ttl } => format!("grant lease {id} for {ttl} s"),
        What::LeaseRevoke { id } => format!("revoke lease {id}"),
        What::LeaseRemaining { id, seconds } => format!("lease {id} has {seconds} s left"),
        What::Compact { revision } => format!("compact {revision}"),
        What::Alarm { alarm, is_on } => {
            format!("alarm {:?} of {} {}", alarm.kind, alarm.member, if *is_on { "on" } else { "off" })
        }
        What::Auth => "users and roles".to_owned(),
    }
}

/// The bytes of a journal entry.
pub(super) fn bytes(journal: &[u8], out: &mut String) {
    for chunk in journal.chunks(32) {
        let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        line(out, 0, format_args!("bytes {}", hex.join(" ")));
    }
}

fn response(response: &WriteResponse, out: &mut String) {
    match response {
        WriteResponse::Put(put) => put_response(put, 0, out),
        WriteResponse::DeleteRange(delete) => delete_response(delete, 0, out),
        WriteResponse::Txn(txn) => txn_response(txn, 0, out),
        WriteResponse::LeaseGrant { revision, id, ttl, grant } => {
            line(out, 0, format_args!("lease {id} ttl {ttl} grant {grant} revision {revision}"));
        }
        WriteResponse::LeaseRevoke { revision, id } => {
            line(out, 0, format_args!("lease {id} revoked revision {revision}"));
        }
        WriteResponse::LeaseRemaining { leases } => {
            let known: Vec<i64> = leases.iter().map(|lease| lease.id).collect();
            line(out, 0, format_args!("leases {known:?}"));
        }
        WriteResponse::Alarm { revision, changed } => {
            line(out, 0, format_args!("alarms changed {} revision {revision}", changed.len()));
        }
        WriteResponse::Compact { revision }
        | WriteResponse::Auth { revision }
        | WriteResponse::Foreign { revision } => line(out, 0, format_args!("revision {revision}")),
    }
}

fn put_response(put: &PutResponse, depth: usize, out: &mut String) {
    line(out, depth, format_args!("put revision {}", put.revision));
    prev_kv(&put.prev_kv, depth, out);
}

fn delete_response(delete: &DeleteRangeResponse, depth: usize, out: &mut String) {
    line(out, depth, format_args!("deleted {} revision {}", delete.deleted, delete.revision));
    prev_kv(&delete.prev_kvs, depth, out);
}

fn prev_kv<'r>(records: impl IntoIterator<Item = &'r Record>, depth: usize, out: &mut String) {
    records.into_iter().for_each(|prev| line(out, depth, format_args!("prev_kv {}", record(prev))));
}

pub(super) fn range_response(range: &RangeResponse, depth: usize, out: &mut String) {
    let more = if range.more { " more" } else { "" };
    line(out, depth, format_args!("count {}{more} revision {}", range.count, range.revision));
    range.kvs.iter().for_each(|kv| line(out, depth, format_args!("kv {}", record(kv))));
}

pub(super) fn txn_response(txn: &TxnResponse, depth: usize, out: &mut String) {
    let outcome = if txn.succeeded { "succeeded" } else { "failed" };
    line(out, depth, format_args!("txn {outcome} revision {}", txn.revision));
    for response in &txn.responses {
        match response {
            ResponseOp::Range(range) => range_response(range, depth + 1, out),
            ResponseOp::Put(put) => put_response(put, depth + 1, out),
            ResponseOp::DeleteRange(delete) => delete_response(delete, depth + 1, out),
            ResponseOp::Txn(nested) => txn_response(nested, depth + 1, out),
        }
    }
}

/// Everything at head that is not a version of a key, and how far readers see.
pub(crate) fn state(store: &Store) -> String {
    let mut out = String::new();
    let (head, visible) = (store.head(), store.visible());
    let marks = format!("head {} compacted {}", head.revision, head.compact_revision);
    line(&mut out, 0, format_args!("{marks}, visible {}", visible.revision));
    for (id, lease) in store.leases().iter() {
        let keys: Vec<String> = store.lease_keys(id).into_iter().map(text).collect();
        let left =
            if lease.is_checkpointed() { format!(" left {}", lease.remaining()) } else { String::new() };
        line(&mut out, 0, format_args!("lease {id} ttl {}{left} keys [{}]", lease.ttl(), keys.join(" ")));
    }
    for alarm in store.alarms() {
        line(&mut out, 0, format_args!("alarm {:?} of {}", alarm.kind, alarm.member));
    }
    let auth = store.auth();
    let users: Vec<String> = auth
        .user_names()
        .map(|name| {
            let user = auth.user(name).expect("it is listed");
            let roles: Vec<&str> = user.roles.iter().map(String::as_str).collect();
            format!("{name}:{}", roles.join("+"))
        })
        .collect();
    let roles: Vec<&str> = auth.role_names().collect();
    if auth.revision() > 1 {
        let on = if auth.enabled() { "on" } else { "off" };
        let lists = format!("users [{}] roles [{}]", users.join(" "), roles.join(" "));
        line(&mut out, 0, format_args!("auth {on} revision {} {lists}", auth.revision()));
    }
    out
}

pub(super) fn line(out: &mut String, depth: usize, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{:width$}{text}", "", width = 2 * depth).expect("a string takes everything");
}
