//! The journal: records, entries and their effects.

use serde_json::json;
use vetch_node::journal::{Entry, Payload, Sight, survey};
use vetch_node::store::describe::{Described, describe};

use super::super::Failure;
use super::filter::Filter;
use super::show::{Out, effect_json, effect_text, record_json, record_text, report_damage};
use super::{DataDir, state};

/// The place of an entry.
struct EntryLocation {
    file: String,
    offset: u64,
    len: usize,
}

/// A visitor of entries and their effects.
type EntryVisitor<'a> = dyn FnMut(&Entry, &EntryLocation, &[Described], &mut Out) + 'a;

pub(super) fn records(view: &DataDir, out: &mut Out) -> Result<(), Failure> {
    let dir = view.journal();
    survey(view.disk.as_ref(), &dir, &view.keys, &mut |sight| match sight {
        Sight::Record(record) => {
            let key = record.key.map(|key| key.to_string());
            let text = format!(
                "{} byte {:>9} {:>8} bytes, entries {} to {}{}",
                record.file,
                record.offset,
                record.extent,
                record.first_seq,
                record.first_seq.plus(u64::from(record.entries)).prev_or_zero(),
                key.as_ref().map_or(String::new(), |key| format!(", encrypted with {key}"))
            );
            out.line(&text, || {
                json!({"type": "record", "file": record.file, "offset": record.offset, "bytes": record.extent,
                    "first_seq": record.first_seq.get(), "entries": record.entries, "payload": record.payload, "key": key,
                    "journal": format!("{:016x}", record.journal_id)})
            });
        }
        other => report_damage(&dir, other, out),
    })?;
    Ok(())
}

pub(super) fn entries(view: &DataDir, filter: &Filter, out: &mut Out) -> Result<(), Failure> {
    each(view, out, &mut |entry, location, effects, out| {
        let wanted: Vec<&Described> = effects.iter().filter(|effect| filter.takes_effect(effect)).collect();
        if wanted.is_empty() && (!effects.is_empty() || !filter.prefix.is_empty()) {
            return;
        }
        show(entry, location, &wanted, filter.values, out);
    })
}

/// The changes of one revision, and the values before.
pub(super) fn revision(view: &DataDir, revision: i64, out: &mut Out) -> Result<(), Failure> {
    let mut is_found = false;
    each(view, out, &mut |entry, location, effects, out| {
        let wanted: Vec<&Described> =
            effects.iter().filter(|effect| effect.revision == Some(revision)).collect();
        if !wanted.is_empty() {
            is_found = true;
            show(entry, location, &wanted, true, out);
        }
    })?;
    let versions = state::versions_at(view, revision)?;
    for (record, before) in &versions {
        let text = format!("in the newest checkpoint: {}", record_text(record, true));
        out.line(&text, || json!({"type": "version", "record": record_json(record, true)}));
        if let Some(before) = before {
            let text =
                format!("  it replaced revision {}: {}", before.mod_revision(), record_text(before, true));
            out.line(&text, || json!({"type": "replaced", "record": record_json(before, true)}));
        }
    }
    if !is_found && versions.is_empty() {
        let text = format!(
            "revision {revision} was not found: it is not in the journal, and no checkpoint has a version of it"
        );
        out.line(&text, || json!({"type": "unknown", "revision": revision}));
    }
    Ok(())
}

fn show(entry: &Entry, location: &EntryLocation, effects: &[&Described], values: bool, out: &mut Out) {
    let text = format!(
        "entry {} epoch {} {:?} from revision {}: {} byte {}, {} bytes",
        entry.seq, entry.epoch, entry.kind, entry.base_rev, location.file, location.offset, location.len
    );
    let lines: Vec<String> = effects.iter().map(|effect| effect_text(effect, values)).collect();
    let text = std::iter::once(text).chain(lines).collect::<Vec<_>>().join("\n");
    out.line(&text, || {
        json!({"type": "entry", "seq": entry.seq.get(), "epoch": entry.epoch.get(), "kind": format!("{:?}", entry.kind),
            "base_revision": entry.base_rev, "file": location.file, "offset": location.offset, "bytes": location.len,
            "effects": effects.iter().map(|effect| effect_json(effect, values)).collect::<Vec<_>>()})
    });
}

/// Shows every entry with its effects to `visit`, and damage to `out`.
fn each(view: &DataDir, out: &mut Out, visit: &mut EntryVisitor<'_>) -> Result<(), Failure> {
    let dir = view.journal();
    survey(view.disk.as_ref(), &dir, &view.keys, &mut |sight| match sight {
        Sight::Entry { file, offset, len, entry } => {
            let mut effects = Vec::new();
            let mut base = entry.base_rev;
            for part in &entry.parts {
                let Payload::Inline(payload) = &part.payload else { continue };
                match describe(payload, base, part.count) {
                    Ok(described) => effects.extend(described),
                    Err(error) => out.damage(&file, Some(offset), &format!("entry {}: {error}", entry.seq)),
                }
                base += i64::from(part.count);
            }
            visit(&entry, &EntryLocation { file, offset, len }, &effects, out);
        }
        other => report_damage(&dir, other, out),
    })?;
    Ok(())
}
