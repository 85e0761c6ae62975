//! Files that may be replaced at any time, by hand or by a tool that swaps a symbolic link.
//!
//! Contents are compared, not dates or inodes: that is right for every way of replacing a file.
//! What was read last and worked stays in use until something else works; each new content that
//! does not is told once.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::TlsError;

/// Makes something of the contents of some files, or says what is wrong with them.
type Parse<T> = fn(&[(PathBuf, Vec<u8>)]) -> Result<T, TlsError>;

/// A value read from one file or several.
pub(super) struct Kept<T> {
    paths: Vec<PathBuf>,
    parse: Parse<T>,
    /// What was read last, whether it worked or not.
    seen: Contents,
    value: Arc<T>,
    works: bool,
}

/// What a look at the files found.
#[derive(Debug)]
pub(super) enum Look {
    Same,
    Replaced,
    /// The new contents cannot be used; the old ones still are.
    Refused(TlsError),
}

/// A file that cannot be read counts as contents of its own.
type Contents = Vec<Result<Vec<u8>, io::ErrorKind>>;

/// Files that belong together are not always replaced together; this often is looked again at once.
const LOOKS: usize = 3;

impl<T> Kept<T> {
    /// Reads for the first time; now everything has to be right.
    pub(super) fn open(paths: Vec<PathBuf>, parse: Parse<T>) -> Result<Kept<T>, TlsError> {
        let (seen, value) = read(&paths, parse);
        Ok(Kept { value: Arc::new(value?), paths, parse, seen, works: true })
    }

    pub(super) fn value(&self) -> Arc<T> {
        self.value.clone()
    }

    /// Is what lies in the files now what is in use?
    pub(super) fn works(&self) -> bool {
        self.works
    }

    pub(super) fn paths(&self) -> String {
        let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        paths.join(", ")
    }

    pub(super) fn look(&mut self) -> Look {
        let mut look = Look::Same;
        for _ in 0..LOOKS {
            if contents(&self.paths).0 == self.seen {
                break;
            }
            let (seen, value) = read(&self.paths, self.parse);
            self.seen = seen;
            self.works = value.is_ok();
            look = match value {
                Ok(value) => {
                    self.value = Arc::new(value);
                    Look::Replaced
                }
                Err(error) => Look::Refused(error),
            };
        }
        look
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
