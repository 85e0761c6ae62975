//! Destinations of log lines.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::journald::Journal;
use super::rotate::{Rotated, Rotation};
use super::{LogError, append_to};

/// All outputs. Cloning shares the files.
#[derive(Debug, Clone)]
pub(super) struct Outputs(Arc<Mutex<Vec<Output>>>);

#[derive(Debug)]
enum Output {
    Stderr,
    Stdout,
    Journal(Journal),
    File(File),
    Rotated(Rotated),
}

impl Outputs {
    /// By default, standard error.
    pub(super) fn open(names: &[String], rotation: Option<Rotation>) -> Result<Outputs, LogError> {
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > 1 && names.contains(&"default") {
            return Err(LogError::DefaultAmongOthers);
        }
        if names.len() > 1 && names.contains(&"systemd/journal") {
            return Err(LogError::JournalAmongOthers);
        }
        if names.is_empty() {
            names.push("default");
        }
        let mut outputs = Vec::new();
        for name in names {
            let failed = |error| LogError::Open { path: name.to_string(), error };
            outputs.push(match (name, &rotation) {
                ("default" | "stderr", _) => Output::Stderr,
                ("stdout", _) => Output::Stdout,
                ("systemd/journal", _) => Output::Journal(Journal::open().map_err(LogError::Journal)?),
                (path, Some(rotation)) => {
                    Output::Rotated(Rotated::open(Path::new(path), rotation.clone()).map_err(failed)?)
                }
                (path, None) => Output::File(append_to(Path::new(path)).map_err(failed)?),
            });
        }
        Ok(Outputs(Arc::new(Mutex::new(outputs))))
    }
}

/// One line on its way to all outputs.
#[derive(Debug)]
pub(super) struct Writer {
    outputs: Outputs,
    level: Level,
}

impl<'a> MakeWriter<'a> for Outputs {
    type Writer = Writer;

    fn make_writer(&'a self) -> Writer {
        Writer { outputs: self.clone(), level: Level::INFO }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Writer {
        Writer { outputs: self.clone(), level: *metadata.level() }
    }
}

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        for output in self.outputs.0.lock().iter_mut() {
            match output {
                Output::Stderr => io::stderr().write_all(line)?,
                Output::Stdout => io::stdout().write_all(line)?,
                // A line that the journal refuses must not be lost.
                Output::Journal(journal) => {
                    journal.send(line, self.level).or_else(|_| io::stderr().write_all(line))?;
                }
                Output::File(file) => file.write_all(line)?,
                Output::Rotated(file) => file.write_all(line)?,
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
