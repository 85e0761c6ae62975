//! Judges stored histories: `vetch-check [--search] FILE.jsonl...`
//!
//! Exits with 0 if all of them are right, 1 if one is not, 2 if one cannot be read.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufReader, Write};
use std::process::ExitCode;

use vetch_check::wgl::store::linearize_history;
use vetch_check::wgl::{Budget, Verdict};
use vetch_check::{History, StoredError, check};

const HELP: &str = "\
Judges recorded histories of clients of a key-value store with etcd's API.

Usage: vetch-check [--search] FILE.jsonl...

Each file holds one history, one JSON object a line: operations, watches, hashes, the end.
Prints what was judged, or everything that cannot have happened.

  --search  also asks for a second opinion: the classical search for a linearization, which does not
            know that revisions give the order away. For histories of some thousand operations.

Exit status: 0 all right, 1 something is wrong with a history, 2 a file cannot be read.";

fn main() -> ExitCode {
    let (options, files): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    let search = options.iter().any(|option| option == "--search");
    let help = options.iter().any(|option| option == "--help" || option == "-h");
    if help || files.is_empty() || options.len() > usize::from(search) {
        say(HELP);
        return if help { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    let mut wrong = false;
    for file in files {
        match load(&file) {
            Ok(history) => {
                wrong |= !judge(&file, &history);
                wrong |= search && !second_opinion(&file, &history);
            }
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

/// No verdict is none against the history, but is said.
fn second_opinion(file: &str, history: &History) -> bool {
    let (believed, verdict, furthest) = match linearize_history(history, Budget::default()) {
        Verdict::Linearizable => {
            say(format_args!("{file}: linearizable"));
            return true;
        }
        Verdict::Illegal(furthest) => (false, "not linearizable", furthest),
        Verdict::Unknown(furthest) => (true, "the search took too long", furthest),
    };
    let length = furthest.order.len();
    say(format_args!("{file}: {verdict}; after {length} operations one of these would have to follow:"));
    for operation in furthest.stuck.iter().filter_map(|&index| history.operations.get(index)) {
        say(format_args!("{operation:?}"));
    }
    believed
}
