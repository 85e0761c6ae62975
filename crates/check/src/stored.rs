//! Histories in files: one JSON object a line, so that a run that was judged wrong can be kept and
//! judged again.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::history::{
    Access, AccessChange, Alarmed, Finish, Hashed, History, Leased, Listed, Operation, Watched,
};

/// One line of a stored history.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Operation(Operation),
    Watch(Watched),
    Hash(Hashed),
    Lease(Leased),
    Listed(Listed),
    Alarmed(Alarmed),
    AccessChange(AccessChange),
    Access(Access),
    Finish(Finish),
}

#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    #[error("line {line}: {source}")]
    Line { line: usize, source: serde_json::Error },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl History {
    pub fn save(&self, mut to: impl Write) -> io::Result<()> {
        let operations = self.operations.iter().cloned().map(Line::Operation);
        let watches = self.watches.iter().cloned().map(Line::Watch);
        let hashes = self.hashes.iter().copied().map(Line::Hash);
        let leased = self.leased.iter().cloned().map(Line::Lease);
        let listed = self.listed.iter().cloned().map(Line::Listed);
        let alarmed = self.alarmed.iter().copied().map(Line::Alarmed);
        let changes = self.access_changes.iter().cloned().map(Line::AccessChange);
        let accesses = self.accesses.iter().cloned().map(Line::Access);
        let finish = self.finish.map(Line::Finish);
        let lines = operations.chain(watches).chain(hashes).chain(leased);
        for line in lines.chain(listed).chain(alarmed).chain(changes).chain(accesses).chain(finish) {
            serde_json::to_writer(&mut to, &line)?;
            to.write_all(b"\n")?;
        }
        to.flush()
    }

    /// Empty lines are skipped.
    pub fn load(from: impl BufRead) -> Result<History, StoredError> {
        let mut history = History::default();
        for (index, line) in from.lines().enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let parsed = serde_json::from_str(&line);
            match parsed.map_err(|source| StoredError::Line { line: index + 1, source })? {
                Line::Operation(operation) => history.operations.push(operation),
                Line::Watch(watch) => history.watches.push(watch),
                Line::Hash(hash) => history.hashes.push(hash),
                Line::Lease(leased) => history.leased.push(leased),
                Line::Listed(listed) => history.listed.push(listed),
                Line::Alarmed(alarmed) => history.alarmed.push(alarmed),
                Line::AccessChange(change) => history.access_changes.push(change),
                Line::Access(access) => history.accesses.push(access),
                Line::Finish(finish) => history.finish = Some(finish),
            }
        }
        Ok(history)
    }
}
