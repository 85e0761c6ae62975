//! Keys of encryption at rest, for the runs that have any: they change while the server runs, and
//! old ones go in the end.

use vetch_encryption::{EncryptionKeys, KeyRing};
use vetch_node::{EncryptionStatus, KeyStillNeeded, Node};

/// Made for this simulation and used for nothing else.
const FIRST: &str = "a AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SECOND: &str = "b ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pv8=";

/// Every ring opens everything; they differ in what they encrypt with.
const RINGS: [&[&str]; 3] = [&[FIRST, SECOND], &[SECOND, FIRST], &["plain", FIRST, SECOND]];
pub(crate) const COUNT: u64 = RINGS.len() as u64;

fn ring(lines: &[&str]) -> KeyRing {
    KeyRing::parse(&lines.join("\n")).expect("a sound ring")
}

/// The keys of a run, which encrypts the same bytes the same way every time.
pub(crate) fn draw(which: u64) -> EncryptionKeys {
    EncryptionKeys::repeatable_for_tests(ring(RINGS[which as usize]))
}

pub(crate) fn change(node: &Node, which: u64) -> Result<(), KeyStillNeeded> {
    node.replace_keys(ring(RINGS[which as usize]))
}

/// Whether every file is encrypted as new ones are.
pub(crate) fn is_settled(status: &EncryptionStatus) -> bool {
    let is_used = |id| status.current == Some(id);
    let is_encrypted = status.current.is_none() || status.plain == 0;
    is_encrypted && status.keys.iter().all(|(id, files)| is_used(*id) || *files == 0)
}

/// Takes away every key that nothing needs any more.
pub(crate) fn remove_old(node: &Node) -> Result<(), KeyStillNeeded> {
    let current = node.encryption_status().current.map(|id| id.to_string());
    let kept = [FIRST, SECOND]
        .into_iter()
        .find(|line| current.as_ref().is_some_and(|id| line.starts_with(id.as_str())));
    node.replace_keys(ring(&[kept.unwrap_or("plain")]))
}
