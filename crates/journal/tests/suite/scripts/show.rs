//! Entries, records and reports as lines of text.

use std::fmt::Write;

use vetch_encryption::EncryptionKeys;
use vetch_journal::{Entry, Kind, MemDisk, Payload, Pending, RecoveryReport, Sight, Tip, survey};

use crate::support::dir;

/// Longer payloads are shown by their length.
const TEXT_MAX: usize = 24;

pub(crate) fn entry(entry: &Entry) -> String {
    let what = match entry.kind {
        Kind::Writes => payload(entry),
        kind => format!("{kind:?}"),
    };
    format!("{}/{} from revision {}: {what}", entry.epoch, entry.seq, entry.base_rev)
}

fn payload(entry: &Entry) -> String {
    let parts = entry.parts.iter().map(|part| match &part.payload {
        Payload::Inline(bytes) if bytes.len() <= TEXT_MAX => format!("{:?}", String::from_utf8_lossy(bytes)),
        Payload::Inline(bytes) => format!("{} bytes", bytes.len()),
        Payload::Ref(_) => "reference".to_owned(),
    });
    parts.collect::<Vec<_>>().join(", ")
}

pub(crate) fn tip(tip: &Tip) -> String {
    format!("entry {} of epoch {}, next revision {}", tip.seq, tip.epoch, tip.next_rev)
}

pub(crate) fn report(report: &RecoveryReport) -> String {
    let mut out = format!(
        "recovered {} entries in {} segments: {}\n",
        report.entries,
        report.segments,
        tip(&report.tip)
    );
    if let Some(cut) = &report.cut {
        let _ = writeln!(out, "cut {} bytes at {} byte {}: {}", cut.bytes, cut.file, cut.offset, cut.reason);
    }
    out
}

/// What is on the disk, by segment, record and entry.
pub(crate) fn journal(disk: &MemDisk, keys: &EncryptionKeys) -> String {
    let mut out = String::new();
    let result = survey(disk, &dir(), keys, &mut |sight| {
        let _ = match sight {
            Sight::Segment { name, len, .. } => writeln!(out, "{name}: {len} bytes"),
            Sight::Record(record) => {
                let key = record.key.map_or_else(String::new, |key| format!(", key {key}"));
                writeln!(out, "  byte {}: record of {} entries{key}", record.offset, record.entries)
            }
            Sight::Entry { entry: found, .. } => writeln!(out, "    {}", entry(&found)),
            Sight::Damage(damage) => writeln!(out, "  byte {}: DAMAGE: {}", damage.offset, damage.reason),
            Sight::Encrypted { offset, source, .. } => writeln!(out, "  byte {offset}: {source}"),
            Sight::Torn(cut) => writeln!(out, "  byte {}: torn: {}", cut.offset, cut.reason),
        };
    });
    if let Err(error) = result {
        let _ = writeln!(out, "{error}");
    }
    out
}

pub(crate) fn pending(pending: &Pending) -> String {
    let name = |path: &std::path::Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match pending {
        Pending::Sector { file, sector } => format!("sector {sector} of {}", name(file)),
        Pending::Length { file, len } => format!("length {len} of {}", name(file)),
        Pending::Create { path } => format!("create {}", name(path)),
        Pending::Rename { from, to } => format!("rename {} to {}", name(from), name(to)),
        Pending::Remove { path } => format!("remove {}", name(path)),
    }
}
