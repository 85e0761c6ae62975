//! Depot: the few operations on the store of a backup, one after another.
//!
//! Underneath is an asynchronous store; a depot drives it on the calling thread and belongs to that
//! thread alone. Objects appear whole or not at all. Memory is bounded: a large file travels in
//! pieces.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path as Name;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use tokio::runtime::Runtime;

use crate::error::BackupError;

/// A larger file is sent in pieces of this size.
const PIECE: usize = 8 << 20;
/// Requests for beginnings of objects at a time.
const PEEKS: usize = 16;
/// No document is anywhere near this, and no chunk larger than a few of them.
const MAX_OBJECT: u64 = 4 << 30;

pub struct Depot {
    location: String,
    store: Arc<dyn ObjectStore>,
    runtime: Runtime,
}

/// An object by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    pub size: u64,
    /// When it was written, in milliseconds since 1970, by the clock of the store.
    pub modified: u64,
}

/// Whether an object was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    Created,
    /// There is an object of that name; nothing was changed.
    Exists,
}

impl Depot {
    pub(crate) fn new(location: String, store: Arc<dyn ObjectStore>) -> Result<Depot, BackupError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| BackupError::Location {
            location: location.clone(),
            reason: format!("no runtime: {error}"),
        })?;
        Ok(Depot { location, store, runtime })
    }

    pub fn location(&self) -> &str {
        &self.location
    }

    /// Makes an object, unless there is one of that name.
    pub fn put_new(&self, name: &str, content: Vec<u8>) -> Result<Put, BackupError> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let path = Name::from(name);
        let put = self.store.put_opts(&path, PutPayload::from(content), options);
        match self.runtime.block_on(put) {
            Ok(_) => Ok(Put::Created),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(Put::Exists),
            Err(error) => Err(failed("writing", name, &error)),
        }
    }

    /// Copies a file to an object. Replaces an object of that name, which can only be the same file
    /// in part: the names of files identify their content. Returns the hash of what was sent.
    pub fn put_file(&self, name: &str, path: &Path) -> Result<blake3::Hash, BackupError> {
        let mut file = File::open(path).map_err(BackupError::io("opening", path))?;
        let mut hash = blake3::Hasher::new();
        let first = read_piece(&mut file, path, &mut hash)?;
        let object = Name::from(name);
        if first.len() < PIECE {
            let put = self.store.put(&object, PutPayload::from(first));
            self.runtime.block_on(put).map_err(|error| failed("writing", name, &error))?;
            return Ok(hash.finalize());
        }
        let upload = self.store.put_multipart(&object);
        let mut upload = self.runtime.block_on(upload).map_err(|error| failed("writing", name, &error))?;
        let mut piece = first;
        let mut send = || -> Result<(), BackupError> {
            while !piece.is_empty() {
                let part = upload.put_part(PutPayload::from(std::mem::take(&mut piece)));
                self.runtime.block_on(part).map_err(|error| failed("writing", name, &error))?;
                piece = read_piece(&mut file, path, &mut hash)?;
            }
            self.runtime.block_on(upload.complete()).map_err(|error| failed("completing", name, &error))?;
            Ok(())
        };
        let sent = send();
        if sent.is_err() {
            // The error is worth more than a second one; what is left is never seen as an object.
            let _ = self.runtime.block_on(upload.abort());
        }
        sent.map(|()| hash.finalize())
    }

    /// All of an object, which must fit memory.
    pub fn get(&self, name: &str) -> Result<Bytes, BackupError> {
        self.runtime.block_on(async {
            let found = self.store.get(&Name::from(name)).await.map_err(|error| unread(name, &error))?;
            if found.meta.size > MAX_OBJECT {
                return Err(BackupError::damaged(name, "it is impossibly large"));
            }
            found.bytes().await.map_err(|error| unread(name, &error))
        })
    }

    /// The first bytes of each object, as many as there are up to `len`, in the same order. One
    /// that is empty, missing or cannot be read does not keep the others back.
    pub fn peek(&self, names: &[String], len: u64) -> Vec<Result<Bytes, BackupError>> {
        let peeks = stream::iter(names).map(|name| async move {
            let options = GetOptions { range: Some(GetRange::Bounded(0..len)), ..GetOptions::default() };
            let found = self
                .store
                .get_opts(&Name::from(name.as_str()), options)
                .await
                .map_err(|error| unread(name, &error))?;
            found.bytes().await.map_err(|error| unread(name, &error))
        });
        self.runtime.block_on(peeks.buffered(PEEKS).collect())
    }

    /// Hands an object out piece by piece and returns its size and hash.
    pub fn read(
        &self,
        name: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), BackupError>,
    ) -> Result<(u64, blake3::Hash), BackupError> {
        self.runtime.block_on(async {
            let found = self.store.get(&Name::from(name)).await.map_err(|error| unread(name, &error))?;
            let mut pieces = found.into_stream();
            let (mut size, mut hash) = (0, blake3::Hasher::new());
            while let Some(piece) = pieces.try_next().await.map_err(|error| unread(name, &error))? {
                size += piece.len() as u64;
                hash.update(&piece);
                take(&piece)?;
            }
            Ok((size, hash.finalize()))
        })
    }

    /// Copies an object to a new file and returns its size and hash. The file is not synced.
    pub fn fetch(&self, name: &str, path: &Path) -> Result<(u64, blake3::Hash), BackupError> {
        let mut file = File::create_new(path).map_err(BackupError::io("creating", path))?;
        self.read(name, |piece| file.write_all(piece).map_err(BackupError::io("writing", path)))
    }

    /// Everything whose name begins with `prefix`, a directory or nothing, in order of name.
    pub fn list(&self, prefix: Option<&str>) -> Result<Vec<Listed>, BackupError> {
        let prefix = prefix.map(Name::from);
        let listed = self.store.list(prefix.as_ref()).map_ok(|meta| Listed {
            name: meta.location.to_string(),
            size: meta.size,
            modified: u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or(0),
        });
        let mut listed: Vec<Listed> = self
            .runtime
            .block_on(listed.try_collect())
            .map_err(|error| failed("listing", &self.location, &error))?;
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listed)
    }

    /// Removes an object; one that is gone already is no failure.
    pub fn remove(&self, name: &str) -> Result<(), BackupError> {
        match self.runtime.block_on(self.store.delete(&Name::from(name))) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("removing", name, &error)),
        }
    }
}

/// As much as fits a piece; less only at the end of the file.
fn read_piece(file: &mut File, path: &Path, hash: &mut blake3::Hasher) -> Result<Vec<u8>, BackupError> {
    let mut piece = Vec::new();
    file.take(PIECE as u64).read_to_end(&mut piece).map_err(BackupError::io("reading", path))?;
    hash.update(&piece);
    Ok(piece)
}

fn failed(op: &'static str, name: &str, error: &object_store::Error) -> BackupError {
    BackupError::Store { op, object: name.to_owned(), reason: error.to_string() }
}

fn unread(name: &str, error: &object_store::Error) -> BackupError {
    match error {
        object_store::Error::NotFound { .. } => BackupError::Missing(name.to_owned()),
        other => failed("reading", name, other),
    }
}
