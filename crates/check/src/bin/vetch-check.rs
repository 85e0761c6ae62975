//! Judges stored histories: `vetch-check FILE.jsonl...`
//!
//! Exits with 0 if all of them are right, 1 if one is not, 2 if one cannot be read.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufReader, Write};
use std::process::ExitCode;

use vetch_check::{History, StoredError, check};

const HELP: &str = "\
Judges recorded histories of clients of a key-value store with etcd's API.

Usage: vetch-check FILE.jsonl...

Each file holds one history, one JSON object a line: operations, watches, hashes, the end.
Prints what was judged, or everything that cannot have happened.

Exit status: 0 all right, 1 something is wrong with a history, 2 a file cannot be read.";

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() || files.iter().any(|file| file == "--help" || file == "-h") {
        say(HELP);
        return if files.is_empty() { ExitCode::from(2) } else { ExitCode::SUCCESS };
    }
    let mut wrong = false;
    for file in files {
        match load(&file) {
            Ok(history) => wrong |= !judge(&file, &history),
            Err(error) => {
                say(format_args!("{file}: {error}"));
                return ExitCode::from(2);
            }
        }
    }
    if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn say(line: impl Display) {
    // A reader that has gone away is no reason to fail.
    writeln!(std::io::stdout().lock(), "{line}").ok();
}

fn load(file: &str) -> Result<History, StoredError> {
    History::load(BufReader::new(File::open(file)?))
}

fn judge(file: &str, history: &History) -> bool {
    match check(history) {
        Ok(report) => {
            say(format_args!("{file}: right\n{report}"));
            true
        }
        Err(violations) => {
            say(format_args!("{file}: {} violations", violations.len()));
            for violation in violations {
                say(violation);
            }
            false
        }
    }
}
