//! The summary: files, what they cover, and their keys.

use std::collections::BTreeMap;

use serde_json::json;
use vetch_base::Seq;
use vetch_checkpoint::identity::{self, IdentityError};
use vetch_checkpoint::listing;
use vetch_node::journal::{Sight, survey};

use super::super::Failure;
use super::super::output::size;
use super::show::{self, Out};
use super::{DataDir, state};

#[derive(Default)]
struct Segment {
    first_seq: Seq,
    len: u64,
    used: u64,
    records: u64,
    entries: u64,
    last_seq: Seq,
    key: Option<String>,
}

pub(super) fn run(view: &DataDir, out: &mut Out) -> Result<(), Failure> {
    let member = view.data_dir.join("member");
    match identity::load(view.disk.as_ref(), &member) {
        Ok(None) => out.line("no member yet: the directory was never started", || json!({"type": "identity"})),
        Ok(Some(found)) => out.line(&format!("member {:x} of cluster {:x}", found.member_id, found.cluster_id), || {
            json!({"type": "identity", "member": format!("{:x}", found.member_id), "cluster": format!("{:x}", found.cluster_id)})
        }),
        Err(IdentityError::Damaged { path, reason }) => {
            out.damage(&path.display().to_string(), None, &reason.to_string());
        }
        Err(IdentityError::Io { path, source, .. }) => {
            out.damage(&path.display().to_string(), None, &source.to_string());
        }
    }
    segments(view, out)?;
    checkpoints(view, out)
}

fn segments(view: &DataDir, out: &mut Out) -> Result<(), Failure> {
    let dir = view.journal();
    let mut segments: BTreeMap<String, Segment> = BTreeMap::new();
    let mut damages = Vec::new();
    survey(view.disk.as_ref(), &dir, &view.keys, &mut |sight| match sight {
        Sight::Segment { name, first_seq, len } => {
            segments.insert(name, Segment { first_seq, len, ..Segment::default() });
        }
        Sight::Record(record) => {
            let segment = segments.entry(record.file).or_default();
            segment.records += 1;
            segment.entries += u64::from(record.entries);
            segment.used = record.offset + record.extent;
            segment.last_seq = record.first_seq.plus(u64::from(record.entries)).prev_or_zero();
            segment.key = record.key.map(|key| key.to_string());
        }
        Sight::Entry { .. } => {}
        other => damages.push(other),
    })?;
    for (name, segment) in segments {
        let key = segment.key.as_deref().map_or(String::new(), |key| format!(", encrypted with {key}"));
        let text = format!(
            "journal {name}: entries {} to {}, {} records, {} of {} used{key}",
            segment.first_seq,
            segment.last_seq,
            segment.records,
            size(segment.used),
            size(segment.len)
        );
        out.line(&text, || {
            json!({"type": "segment", "file": name, "first_seq": segment.first_seq.get(), "last_seq": segment.last_seq.get(),
                "records": segment.records, "entries": segment.entries, "used": segment.used, "bytes": segment.len,
                "key": segment.key})
        });
    }
    damages.into_iter().for_each(|sight| show::report_damage(&dir, sight, out));
    Ok(())
}

fn checkpoints(view: &DataDir, out: &mut Out) -> Result<(), Failure> {
    let listing = listing::list(view.disk.as_ref(), &view.checkpoint(), &view.keys)?;
    for (number, read) in listing.checkpoints {
        let checkpoint = match read {
            Ok(checkpoint) => checkpoint,
            Err(error) => {
                state::report_unreadable(view, number, &error, out);
                continue;
            }
        };
        let (mark, key) = (checkpoint.mark, checkpoint.key.map(|key| key.to_string()));
        let encrypted = key.as_deref().map_or(String::new(), |key| format!(", encrypted with {key}"));
        let text = format!(
            "checkpoint {number}: revision {}, compacted at {}, up to entry {}, {} files{encrypted}",
            mark.revision,
            mark.compact_revision,
            checkpoint.tip.seq,
            checkpoint.files.len()
        );
        out.line(&text, || {
            json!({"type": "checkpoint", "number": number, "revision": mark.revision,
                "compact_revision": mark.compact_revision, "seq": checkpoint.tip.seq.get(), "key": key})
        });
        for file in &checkpoint.files {
            let name =
                file.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            let key = file.key.map(|key| key.to_string());
            let encrypted = key.as_deref().map_or(String::new(), |key| format!(", encrypted with {key}"));
            let text = format!(
                "  {name}: revisions {} to {}, {}, {} of it alive{encrypted}",
                file.first + 1,
                file.last,
                size(file.size),
                size(file.live)
            );
            out.line(&text, || {
                json!({"type": "data", "file": name, "first": file.first + 1, "last": file.last, "bytes": file.size,
                    "live": file.live, "key": key, "checkpoint": number})
            });
        }
        for damage in checkpoint.damage(view.disk.as_ref(), &view.checkpoint(), &view.keys) {
            state::report_unreadable(view, number, &damage, out);
        }
    }
    for name in listing.unreferenced {
        out.line(&format!("{name}: no checkpoint needs it"), || json!({"type": "unneeded", "file": name}));
    }
    Ok(())
}
