//! `vetch backup list`.

use clap::Args;
use serde_json::json;
use vetch_backup::catalog::{Catalog, Restorable, Timeline};
use vetch_backup::times;

use super::super::output::{Format, size};
use super::super::{Failure, print_result};
use super::Source;

#[derive(Args)]
pub(super) struct List {
    #[command(flatten)]
    source: Source,
    /// Output format: simple or json.
    #[arg(short = 'w', long, default_value = "simple")]
    write_out: String,
}

impl List {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let format = Format::simple_or_json(&self.write_out)?;
        let catalog = Catalog::read(&self.source.location()?.open()?)?;
        match format {
            Format::Json => print_result(&as_json(&catalog).to_string()),
            _ => print_result(&shown(&catalog)),
        }
    }
}

fn shown(catalog: &Catalog) -> String {
    let owner = &catalog.owner;
    let mut lines = vec![format!("member {} of cluster {}", owner.member_id, owner.cluster_id)];
    for timeline in &catalog.timelines {
        lines.push(format!("journal {}", timeline.journal));
        for full in &timeline.fulls {
            let bytes: u64 = full.files.iter().map(|file| file.size).sum();
            lines.push(format!(
                "  full backup of revision {:>12}  {}  {:>4} files  {}",
                full.revision,
                times::shown(full.time),
                full.files.len(),
                size(bytes)
            ));
        }
        lines.push(format!("  {}", chunks(timeline)));
    }
    lines.extend(catalog.damage().map(|damage| format!("DAMAGED: {damage}")));
    let ranges = catalog.restorable();
    if ranges.is_empty() {
        lines.push("nothing can be restored: there is no full backup yet".to_owned());
    }
    lines.extend(ranges.iter().map(|range| format!("can be restored: {range}")));
    lines.join("\n")
}

fn chunks(timeline: &Timeline) -> String {
    let bytes: u64 = timeline.chunks.iter().map(|chunk| chunk.size).sum();
    let gaps = timeline.runs().len().saturating_sub(1);
    let gaps = if gaps == 0 { String::new() } else { format!(", with {gaps} gaps") };
    format!("{} pieces of journal, {}{gaps}", timeline.chunks.len(), size(bytes))
}

fn as_json(catalog: &Catalog) -> serde_json::Value {
    let journals: Vec<_> = (catalog.timelines.iter())
        .map(|timeline| {
            let fulls: Vec<_> = (timeline.fulls.iter())
                .map(|full| {
                    let bytes: u64 = full.files.iter().map(|file| file.size).sum();
                    json!({"revision": full.revision, "seq": full.seq.get(), "time": full.time, "bytes": bytes})
                })
                .collect();
            json!({"journal": timeline.journal, "fulls": fulls, "chunks": timeline.chunks.len()})
        })
        .collect();
    let ranges: Vec<_> = catalog.restorable().iter().map(range).collect();
    json!({
        "cluster_id": catalog.owner.cluster_id,
        "member_id": catalog.owner.member_id,
        "journals": journals,
        "restorable": ranges,
        "damage": catalog.damage().collect::<Vec<_>>(),
    })
}

/// A range as JSON; times in milliseconds since 1970.
pub(crate) fn range(range: &Restorable) -> serde_json::Value {
    json!({
        "journal": range.journal,
        "first_revision": range.first,
        "last_revision": range.last,
        "first_time": range.times.map(|(first, _)| first),
        "last_time": range.times.map(|(_, last)| last),
    })
}
