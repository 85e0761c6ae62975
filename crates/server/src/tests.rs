//! Checks of the server's sources.

use std::path::{Path, PathBuf};

/// Files that spawn tasks which serve no client, or that spawn for those which do: how often, and
/// why.
const OTHERS: [(&str, usize); 2] = [
    // `border::spawn` and `border::spawn_blocking` themselves.
    ("http2/src/border.rs", 2),
    // One task for each listener accepts connections. Without it no client would be served, so a
    // bug there ends the process.
    ("server/src/http/server.rs", 1),
];

/// A panic is contained only in a task that is marked as one that serves a client
/// (`vetch_http2::border`), so a panic in a task that is spawned in any other way would end the
/// process.
#[test]
fn what_serves_a_client_is_spawned_within_its_border() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a directory of crates");
    let mut found = Vec::new();
    for source in ["http2/src", "server/src"].iter().flat_map(|source| sources(&crates.join(source))) {
        let text = std::fs::read_to_string(&source).expect("a source");
        // What follows is not part of the server.
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let spawned = text.lines().filter(|line| spawns(line)).count();
        if spawned > 0 {
            let name = source.strip_prefix(crates).expect("within the crates");
            found.push((name.display().to_string(), spawned));
        }
    }
    found.sort();
    let others: Vec<_> = OTHERS.iter().map(|(name, spawned)| (name.to_string(), *spawned)).collect();
    assert_eq!(found, others, "spawn with vetch_http2::border, or say why not");
}

fn spawns(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["tokio::spawn", "task::spawn", "thread::spawn", ".spawn(", ".spawn_blocking("]
        .iter()
        .any(|call| code.contains(call))
}

/// All sources in a directory, but for tests and what simulates clients.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let is_test =
            ["tests", "tests.rs", "testing.rs", "simulation"].iter().any(|name| path.ends_with(name));
        match path.is_dir() {
            _ if is_test => {}
            true => found.extend(sources(&path)),
            false => found.push(path),
        }
    }
    found
}
