//! Verification of a backup: needs no server and no key.

use serde_json::json;
use vetch_backup::Location;
use vetch_backup::format::OWNER;
use vetch_backup::verify::{Report, verify};

use super::backup::range;
use super::output::{Format, size};
use super::progress::Ticker;
use super::{Failure, print_result};

/// Whether the path is, or should be, a backup.
pub(crate) fn is_backup(location: &Location) -> bool {
    location.directory().is_none_or(|path| path.join(OWNER).exists())
}

pub(crate) fn run(location: &Location, format: Format) -> Result<(), Failure> {
    let mut ticker = Ticker::new();
    let report = verify(&location.open()?, &mut |done, total| ticker.report("verifying", done, total))?;
    match format {
        Format::Json => print_result(&as_json(&report).to_string())?,
        _ => print_result(&shown(&report))?,
    }
    if report.damage.is_empty() {
        return Ok(());
    }
    let text = format!("{} of the backup's objects are damaged or missing", report.damage.len());
    Err(Failure { code: 1, text })
}

fn shown(report: &Report) -> String {
    let mut lines: Vec<String> = report.damage.iter().map(|damage| format!("DAMAGED: {damage}")).collect();
    lines.push(format!(
        "read {}: {} full backups, {} files, {} pieces of journal; {} objects that nothing needs",
        size(report.bytes),
        report.fulls,
        report.files,
        report.chunks,
        report.unneeded
    ));
    lines.extend(report.restorable.iter().map(|range| format!("can be restored: {range}")));
    lines.join("\n")
}

fn as_json(report: &Report) -> serde_json::Value {
    json!({
        "bytes": report.bytes,
        "fulls": report.fulls,
        "files": report.files,
        "chunks": report.chunks,
        "unneeded": report.unneeded,
        "damage": report.damage,
        "restorable": report.restorable.iter().map(range).collect::<Vec<_>>(),
    })
}
