//! What lies in a backup.
//!
//! ```text
//! vetch-backup.json                       whose backup this is
//! <journal>/full/<seq>.json               a full backup: a checkpoint by its files
//! <journal>/files/<hash>.<name>           a file of a checkpoint, as it was on disk
//! <journal>/journal/<seq>                 journal records as they were on disk, from entry <seq> on
//! ```
//!
//! `<journal>` is the id of the journal, which a data directory gets when it is made: what is
//! restored goes on in a journal of its own. Numbers in names have 16 hex digits. Every object is
//! written once; which of two writers was first decides the store.

mod chunk;
mod documents;

use vetch_base::Seq;

pub use chunk::{CHUNK_FORMAT, Chunk, ChunkHeader, Mark, header_len};
pub use documents::{ChunkInfo, FileInfo, Full, Owner, decode, encode};

/// Format of documents.
pub const FORMAT: u64 = 1;
/// The object that makes a place a backup.
pub const OWNER: &str = "vetch-backup.json";

pub fn full_name(journal: &str, seq: Seq) -> String {
    format!("{journal}/full/{:016x}.json", seq.get())
}

pub fn chunk_name(journal: &str, first_seq: Seq) -> String {
    format!("{journal}/journal/{:016x}", first_seq.get())
}

pub fn file_name(journal: &str, hash: &str, name: &str) -> String {
    format!("{journal}/files/{hash}.{name}")
}

/// What an object is, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    Owner,
    Full { journal: String, seq: Seq },
    Chunk { journal: String, first_seq: Seq },
    File { journal: String },
}

impl Name {
    /// None: not one of ours.
    pub fn parse(name: &str) -> Option<Name> {
        if name == OWNER {
            return Some(Name::Owner);
        }
        let mut parts = name.split('/');
        let (journal, kind, rest) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || number(journal).is_none() {
            return None;
        }
        let journal = journal.to_owned();
        match kind {
            "full" => Some(Name::Full { journal, seq: Seq::new(number(rest.strip_suffix(".json")?)?) }),
            "journal" => Some(Name::Chunk { journal, first_seq: Seq::new(number(rest)?) }),
            "files" => Some(Name::File { journal }),
            _ => None,
        }
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    is_number.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests;
