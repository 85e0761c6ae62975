//! `vetch verify` of a data directory: every checksum, the chain of the journal, and checkpoints
//! against the journal.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use vetch_node::journal::{Disk, RealDisk};
use vetch_offline::verify::{Problem, Verified, verify};

use super::inspect::check_dir;
use super::output::Format;
use super::{Failure, keys, print_result};

/// Verifies `data_dir` and prints the result; fails if there is damage.
pub(super) fn run(data_dir: &Path, format: Format, key_file: Option<&Path>) -> Result<(), Failure> {
    check_dir(data_dir)?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let found = verify(&disk, data_dir, &keys(key_file)?, threads);
    match format {
        Format::Json => print_result(&as_json(&found).to_string())?,
        _ => print_result(&shown(&found))?,
    }
    if found.problems.is_empty() {
        return Ok(());
    }
    let text = format!("{} problems in {}", found.problems.len(), data_dir.display());
    Err(Failure { code: 1, text })
}

fn shown(found: &Verified) -> String {
    let place =
        |problem: &Problem| problem.offset.map_or(String::new(), |offset| format!(" at byte {offset}"));
    let mut lines: Vec<String> = Vec::new();
    lines.extend(found.problems.iter().map(|p| format!("DAMAGE {}{}: {}", p.file, place(p), p.reason)));
    lines.extend(found.notes.iter().map(|note| format!("note: {note}")));
    lines.push(format!(
        "journal: {} segments, {} records, {} entries; checkpoints: {} with {} data files, {} compared with the journal{}",
        found.segments,
        found.records,
        found.entries,
        found.checkpoints,
        found.data_files,
        found.compared,
        found.revision.map_or(String::new(), |revision| format!("; revision {revision}"))
    ));
    if found.problems.is_empty() {
        lines.push("everything is as it was written".to_owned());
    }
    lines.join("\n")
}

fn as_json(found: &Verified) -> serde_json::Value {
    let problem = |p: &Problem| json!({"file": p.file, "offset": p.offset, "reason": p.reason});
    json!({
        "ok": found.problems.is_empty(),
        "problems": found.problems.iter().map(problem).collect::<Vec<_>>(),
        "notes": found.notes,
        "segments": found.segments,
        "records": found.records,
        "entries": found.entries,
        "checkpoints": found.checkpoints,
        "data_files": found.data_files,
        "compared": found.compared,
        "revision": found.revision,
    })
}
