//! Histories of failed seeds, as files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use vetch_sim::Report;

/// Writes the history of a failed seed.
pub(crate) fn store(report: &Report, into: &Path) -> io::Result<PathBuf> {
    std::fs::create_dir_all(into)?;
    let path = into.join(format!("seed-{}.jsonl", report.seed));
    let mut file = BufWriter::new(File::create(&path)?);
    report.history.save(&mut file)?;
    file.flush()?;
    Ok(path)
}
