//! A recorded conversation: one JSON object a line, plain or compressed with gzip.
//!
//! `t` is the time in seconds, `s` the call, `m` the method, `d` the direction: `>` a message of
//! the client, `<` one of the server, `err` the end of a call. `a` has what matters of the message;
//! of values, only the length.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flate2::read::MultiGzDecoder;
use hashbrown::HashMap;
use serde_json::Value;

const LINES_MAX: usize = 20_000_000;

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) at: f64,
    pub(super) call: u64,
    pub(super) action: Action,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Txn(Txn),
    Range { key: String, end: String, limit: i64, revision: i64, count_only: bool, stream: bool },
    Grant { ttl: i64, recorded: i64 },
    Watch { key: String, end: String, start: i64, previous: bool, progress: bool },
    Progress,
    EndWatch,
    Status,
}

#[derive(Clone, Debug)]
pub(super) struct Txn {
    pub(super) key: String,
    /// Length of the value and the recorded lease; none for a delete.
    pub(super) put: Option<(usize, i64)>,
    pub(super) has_else: bool,
    /// It expects the key not to be there.
    pub(super) creates: bool,
    /// What it came to, and the recorded revision.
    pub(super) succeeded: bool,
    pub(super) revision: i64,
}

/// Everything that clients sent between two moments, in order.
pub(super) fn read(path: &Path, from: f64, to: f64) -> Result<Vec<Step>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let compressed = path.extension().is_some_and(|extension| extension == "gz");
    let reader: Box<dyn Read> = if compressed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut steps = Vec::new();
    // Where a call waits for its answer, to learn what it came to.
    let mut open: HashMap<u64, usize, foldhash::fast::FixedState> = HashMap::default();
    for (number, line) in BufReader::new(reader).lines().enumerate() {
        ensure!(number < LINES_MAX, "more than {LINES_MAX} lines");
        let line = line.with_context(|| format!("line {} of {}", number + 1, path.display()))?;
        let record: Value = serde_json::from_str(&line).with_context(|| format!("line {}", number + 1))?;
        let at = record["t"].as_f64().with_context(|| format!("line {} has no time", number + 1))?;
        if at < from || at > to {
            continue;
        }
        let call = record["s"].as_u64().unwrap_or(0);
        let (method, arguments) = (record["m"].as_str().unwrap_or(""), &record["a"]);
        match record["d"].as_str() {
            Some(">") => {
                let action = asked(method, arguments)
                    .with_context(|| format!("line {}: {method} is not understood", number + 1))?;
                open.insert(call, steps.len());
                steps.push(Step { at, call, action });
            }
            Some("<") => {
                if let Some(step) = open.get(&call) {
                    learn(&mut steps[*step].action, arguments);
                }
            }
            Some("err") if method == "Watch/Watch" => steps.push(Step { at, call, action: Action::EndWatch }),
            _ => {}
        }
    }
    ensure!(!steps.is_empty(), "{} has no requests between {from} s and {to} s", path.display());
    Ok(steps)
}

fn asked(method: &str, a: &Value) -> Option<Action> {
    let text = |name: &str| a[name].as_str().unwrap_or("").to_owned();
    let number = |name: &str| a[name].as_i64().unwrap_or(0);
    Some(match method {
        "KV/Txn" => Action::Txn(transaction(a)?),
        "KV/Range" | "KV/RangeStream" => Action::Range {
            key: text("key"),
            end: text("end"),
            limit: number("limit"),
            revision: number("rev"),
            count_only: a["count_only"].as_bool().unwrap_or(false),
            stream: method == "KV/RangeStream",
        },
        "Lease/LeaseGrant" => Action::Grant { ttl: number("ttl"), recorded: 0 },
        "Watch/Watch" if a.get("create").is_some() => Action::Watch {
            key: text("create"),
            end: text("end"),
            start: number("start"),
            previous: a["prevkv"].as_bool().unwrap_or(false),
            progress: a["progress"].as_bool().unwrap_or(false),
        },
        "Watch/Watch" if a.get("progressreq").is_some() => Action::Progress,
        "Maintenance/Status" => Action::Status,
        _ => return None,
    })
}

fn transaction(a: &Value) -> Option<Txn> {
    let then = &a["then"][0];
    let compare = a["cmp"].as_str()?;
    let (key, put) = match (then["put"].as_str(), then["del"].as_str()) {
        (Some(key), _) => {
            let length = usize::try_from(then["vlen"].as_u64()?).ok()?;
            (key, Some((length, then["lease"].as_i64().unwrap_or(0))))
        }
        (None, Some(key)) => (key, None),
        (None, None) => return None,
    };
    let creates = ["mod_revision:0", "version:0"].iter().any(|end| compare.ends_with(end))
        || !compare.contains("revision:");
    let has_else = a["else"].as_array().is_some_and(|ops| !ops.is_empty());
    Some(Txn { key: key.to_owned(), put, has_else, creates, succeeded: true, revision: 0 })
}

fn learn(action: &mut Action, answer: &Value) {
    match action {
        Action::Txn(txn) => {
            txn.succeeded = answer["ok"].as_bool().unwrap_or(true);
            txn.revision = answer["rev"].as_i64().unwrap_or(0);
        }
        Action::Grant { recorded, .. } => *recorded = answer["id"].as_i64().unwrap_or(0),
        _ => {}
    }
}
