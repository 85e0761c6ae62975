//! The newest checkpoint that can be read: versions of keys, and their sizes.

use std::collections::BTreeMap;

use serde_json::json;
use vetch_checkpoint::listing::{self, Checkpoint, Unreadable};
use vetch_node::journal::{Payload, Sight, survey};
use vetch_node::store::Record;
use vetch_node::store::describe::{What, describe};

use super::super::Failure;
use super::super::output::size;
use super::DataDir;
use super::filter::Filter;
use super::show::{Out, record_json, record_text, report_damage, shown};

/// The newest checkpoint that can be read; damage of newer ones is reported.
fn newest(view: &DataDir, out: &mut Out) -> Result<Option<Checkpoint>, Failure> {
    let listing = listing::list(view.disk.as_ref(), &view.checkpoint(), &view.keys)?;
    for (number, read) in listing.checkpoints {
        match read {
            Ok(checkpoint) => return Ok(Some(checkpoint)),
            Err(error) => report_unreadable(view, number, &error, out),
        }
    }
    Ok(None)
}

pub(super) fn report_unreadable(view: &DataDir, number: u64, error: &Unreadable, out: &mut Out) {
    match error {
        Unreadable::Damaged(damage) => {
            out.damage(&damage.file.display().to_string(), Some(damage.offset), &damage.reason);
        }
        Unreadable::Refused(error) => {
            let path = view.checkpoint().join(format!("{number:016x}.manifest"));
            out.damage(&path.display().to_string(), None, &error.to_string());
        }
    }
}

pub(super) fn versions(view: &DataDir, filter: &Filter, out: &mut Out) -> Result<(), Failure> {
    let Some(checkpoint) = newest(view, out)? else { return Ok(()) };
    let read = checkpoint.records(view.disk.as_ref(), &view.checkpoint(), &view.keys, &mut |record, file| {
        // Keys are in order, so none after the prefix matches.
        if record.key() > filter.prefix.as_slice() && !record.key().starts_with(&filter.prefix) {
            return false;
        }
        if filter.takes(record.key(), record.mod_revision()) {
            let text = format!("{:>10}  {}", record.mod_revision(), record_text(record, filter.values));
            let file = file.path.file_name().map(|name| name.to_string_lossy().into_owned());
            out.line(
                &text,
                || json!({"type": "version", "file": file, "record": record_json(record, filter.values)}),
            );
        }
        true
    });
    if let Err(error) = read {
        report_unreadable(view, checkpoint.number, &error, out);
    }
    Ok(())
}

/// The versions of this revision, each with the one before it.
pub(super) fn versions_at(view: &DataDir, revision: i64) -> Result<Vec<(Record, Option<Record>)>, Failure> {
    let mut silent = Out::new("simple")?;
    let Some(checkpoint) = newest(view, &mut silent)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let mut before: Option<Record> = None;
    let read = checkpoint.records(view.disk.as_ref(), &view.checkpoint(), &view.keys, &mut |record, _| {
        if record.mod_revision() == revision {
            let same = before.take().filter(|before| before.key() == record.key() && !before.is_tombstone());
            found.push((record.clone(), same));
        }
        before = Some(record.clone());
        true
    });
    // Other commands report damage; this one shows what was found.
    drop(read);
    Ok(found)
}

#[derive(Default)]
struct PrefixTotals {
    versions: u64,
    keys: u64,
    bytes: u64,
    largest: u64,
    journal_bytes: u64,
    journal_writes: u64,
}

/// The first parts of a key.
fn prefix_of(key: &[u8], depth: usize) -> Vec<u8> {
    let ends = key.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
    ends.take(depth).last().map_or_else(Vec::new, |end| key[..end].to_vec())
}

/// More prefixes than this are counted together, so that memory stays bounded whatever the keys
/// are.
const PREFIXES_MAX: usize = 10_000;

fn sums<'a>(
    table: &'a mut BTreeMap<Vec<u8>, PrefixTotals>,
    key: &[u8],
    depth: usize,
) -> &'a mut PrefixTotals {
    let mut prefix = prefix_of(key, depth);
    if table.len() >= PREFIXES_MAX && !table.contains_key(&prefix) {
        prefix = b"(others)".to_vec();
    }
    table.entry(prefix).or_default()
}

pub(super) fn stats(view: &DataDir, depth: usize, out: &mut Out) -> Result<(), Failure> {
    let mut table: BTreeMap<Vec<u8>, PrefixTotals> = BTreeMap::new();
    if let Some(checkpoint) = newest(view, out)? {
        let (mark, unversioned) = (checkpoint.mark, &checkpoint.unversioned);
        let text = format!(
            "checkpoint {}: revision {}, compacted at {}, {} leases, {} users, {} roles, {} alarms",
            checkpoint.number,
            mark.revision,
            mark.compact_revision,
            unversioned.leases.len(),
            unversioned.auth.users.len(),
            unversioned.auth.roles.len(),
            unversioned.alarms.len()
        );
        out.line(&text, || {
            json!({"type": "checkpoint", "number": checkpoint.number, "revision": mark.revision,
                "compact_revision": mark.compact_revision, "leases": unversioned.leases.len(),
                "users": unversioned.auth.users.len(), "roles": unversioned.auth.roles.len(),
                "alarms": unversioned.alarms.len()})
        });
        let mut last: Vec<u8> = Vec::new();
        let read =
            checkpoint.records(view.disk.as_ref(), &view.checkpoint(), &view.keys, &mut |record, _| {
                let sums = sums(&mut table, record.key(), depth);
                sums.versions += 1;
                sums.keys += u64::from(last != record.key());
                sums.bytes += record.saved_len() as u64;
                sums.largest = sums.largest.max(record.saved_len() as u64);
                last = record.key().to_vec();
                true
            });
        if let Err(error) = read {
            report_unreadable(view, checkpoint.number, &error, out);
        }
    }
    journal(view, depth, &mut table, out)?;
    let mut rows: Vec<(Vec<u8>, PrefixTotals)> = table.into_iter().collect();
    rows.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.bytes + sums.journal_bytes));
    for (prefix, sums) in rows {
        let text = format!(
            "{:<40} {:>9} in {} versions of {} keys, largest {}; journal {} in {} writes",
            shown(&prefix),
            size(sums.bytes),
            sums.versions,
            sums.keys,
            size(sums.largest),
            size(sums.journal_bytes),
            sums.journal_writes
        );
        out.line(&text, || {
            json!({"type": "prefix", "prefix": shown(&prefix), "bytes": sums.bytes, "versions": sums.versions,
                "keys": sums.keys, "largest": sums.largest, "journal_bytes": sums.journal_bytes,
                "journal_writes": sums.journal_writes})
        });
    }
    Ok(())
}

fn journal(
    view: &DataDir,
    depth: usize,
    table: &mut BTreeMap<Vec<u8>, PrefixTotals>,
    out: &mut Out,
) -> Result<(), Failure> {
    let dir = view.journal();
    survey(view.disk.as_ref(), &dir, &view.keys, &mut |sight| match sight {
        Sight::Entry { entry, .. } => {
            for part in &entry.parts {
                let Payload::Inline(payload) = &part.payload else { continue };
                for described in describe(payload, entry.base_rev, part.count).unwrap_or_default() {
                    let (key, bytes) = match &described.what {
                        What::Put(record) => (record.key(), record.wire_len()),
                        What::Delete { key } => (key.as_ref(), key.len()),
                        _ => continue,
                    };
                    let sums = sums(table, key, depth);
                    sums.journal_bytes += bytes as u64;
                    sums.journal_writes += 1;
                }
            }
        }
        other => report_damage(&dir, other, out),
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::prefix_of;

    #[test]
    fn prefixes_are_whole_parts() {
        let prefix = |key: &str, depth| String::from_utf8(prefix_of(key.as_bytes(), depth)).unwrap();
        assert_eq!(prefix("/registry/pods/default/a", 2), "/registry/pods/");
        assert_eq!(prefix("/registry/pods/default/a", 1), "/registry/");
        assert_eq!(prefix("plain", 2), "");
        assert_eq!(prefix("a/b", 9), "a/");
    }
}
