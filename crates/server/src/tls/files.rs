//! Files that may be replaced at any time, by hand or by a tool that swaps a symbolic link.
//!
//! Contents are compared, not dates or inodes: that is right for every way of replacing a file. The
//! last usable contents stay in use until newer ones are usable; each unusable content is reported
//! once.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::TlsError;

/// Makes a value from the contents of files, or says what is wrong with them.
type Parse<T> = fn(&[(PathBuf, Vec<u8>)]) -> Result<T, TlsError>;

/// A value read from one file or several.
pub(super) struct Reloadable<T> {
    paths: Vec<PathBuf>,
    parse: Parse<T>,
    /// The last contents read, usable or not.
    seen: Contents,
    value: Arc<T>,
    is_current: bool,
}

/// The result of a check of the files.
#[derive(Debug)]
pub(super) enum Reload {
    Unchanged,
    Replaced,
    /// The new contents are not usable; the old ones stay in use.
    Rejected(TlsError),
}

/// A file that cannot be read counts as contents of its own.
type Contents = Vec<Result<Vec<u8>, io::ErrorKind>>;

/// Files that belong together are not always replaced together; so often the check is repeated at
/// once.
const RELOAD_ATTEMPTS: usize = 3;

impl<T> Reloadable<T> {
    /// The first read; everything has to be valid.
    pub(super) fn open(paths: Vec<PathBuf>, parse: Parse<T>) -> Result<Reloadable<T>, TlsError> {
        let (seen, value) = read(&paths, parse);
        Ok(Reloadable { value: Arc::new(value?), paths, parse, seen, is_current: true })
    }

    pub(super) fn value(&self) -> Arc<T> {
        self.value.clone()
    }

    /// Whether the present contents are in use.
    pub(super) fn is_current(&self) -> bool {
        self.is_current
    }

    pub(super) fn paths(&self) -> String {
        let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        paths.join(", ")
    }

    pub(super) fn reload(&mut self) -> Reload {
        let mut outcome = Reload::Unchanged;
        for _ in 0..RELOAD_ATTEMPTS {
            if contents(&self.paths).0 == self.seen {
                break;
            }
            let (seen, value) = read(&self.paths, self.parse);
            self.seen = seen;
            self.is_current = value.is_ok();
            outcome = match value {
                Ok(value) => {
                    self.value = Arc::new(value);
                    Reload::Replaced
                }
                Err(error) => Reload::Rejected(error),
            };
        }
        outcome
    }
}

fn read<T>(paths: &[PathBuf], parse: Parse<T>) -> (Contents, Result<T, TlsError>) {
    let (seen, failure) = contents(paths);
    if let Some(failure) = failure {
        return (seen, Err(failure));
    }
    let readable: Vec<(PathBuf, Vec<u8>)> =
        paths.iter().cloned().zip(seen.iter().flatten().cloned()).collect();
    let value = parse(&readable);
    (seen, value)
}

fn contents(paths: &[PathBuf]) -> (Contents, Option<TlsError>) {
    let mut failure = None;
    let mut found = Vec::new();
    for path in paths {
        found.push(fs::read(path).map_err(|error| {
            let kind = error.kind();
            failure.get_or_insert(TlsError::Read { path: path.clone(), error });
            kind
        }));
    }
    (found, failure)
}

#[cfg(test)]
mod tests;
