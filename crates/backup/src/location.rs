//! Where a backup is: a directory, or a prefix in a bucket of an S3-compatible store.
//!
//! What opens a bucket (keys, region, address) comes from the usual AWS_* variables or from a file
//! of such lines, never from the location itself, which is shown and logged.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};

use crate::depot::Depot;
use crate::error::BackupError;

/// Timeouts of a request to an object store. How long requests are retried follows below.
const TIMEOUTS: [(ClientConfigKey, &str); 2] =
    [(ClientConfigKey::ConnectTimeout, "5 seconds"), (ClientConfigKey::Timeout, "60 seconds")];
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
const RETRIES: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    place: Place,
    /// Lines of AWS_*=value.
    credentials: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Directory(PathBuf),
    Bucket { bucket: String, prefix: String },
}

impl Location {
    /// A path, `file:///path`, or `s3://bucket/prefix`.
    pub fn parse(text: &str, credentials: Option<&Path>) -> Result<Location, BackupError> {
        let refused =
            |reason: &str| BackupError::Location { location: text.to_owned(), reason: reason.to_owned() };
        let place = if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() || bucket.contains('@') || bucket.contains('?') {
                return Err(refused("it must be s3://bucket or s3://bucket/prefix, without keys in it"));
            }
            Place::Bucket { bucket: bucket.to_owned(), prefix: prefix.trim_matches('/').to_owned() }
        } else if let Some(path) = text.strip_prefix("file://") {
            if !path.starts_with('/') {
                return Err(refused("it must be file:///an/absolute/path"));
            }
            Place::Directory(PathBuf::from(path))
        } else if text.contains("://") {
            return Err(refused("only directories and s3:// are known"));
        } else if text.is_empty() {
            return Err(refused("it is empty"));
        } else {
            Place::Directory(PathBuf::from(text))
        };
        Ok(Location { place, credentials: credentials.map(Path::to_path_buf) })
    }

    /// The directory that it is, if it is one.
    pub fn directory(&self) -> Option<&Path> {
        match &self.place {
            Place::Directory(path) => Some(path),
            Place::Bucket { .. } => None,
        }
    }

    /// Opens it to be read. A directory must exist.
    pub fn open(&self) -> Result<Depot, BackupError> {
        if self.directory().is_some_and(|path| !path.is_dir()) {
            return Err(self.failed("there is no such directory".to_owned()));
        }
        Depot::new(self.to_string(), self.store()?)
    }

    /// Opens it to be written. A directory is made, for this user alone.
    pub fn open_to_write(&self) -> Result<Depot, BackupError> {
        if let Place::Directory(path) = &self.place {
            use std::os::unix::fs::DirBuilderExt;
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(BackupError::io("creating", path))?;
        }
        self.open()
    }

    fn store(&self) -> Result<Arc<dyn ObjectStore>, BackupError> {
        let failed = |error: object_store::Error| self.failed(error.to_string());
        match &self.place {
            Place::Directory(path) => {
                let store = LocalFileSystem::new_with_prefix(path).map_err(failed)?;
                Ok(Arc::new(store.with_fsync(true)))
            }
            Place::Bucket { bucket, prefix } => {
                let mut builder = AmazonS3Builder::from_env();
                for (key, value) in TIMEOUTS {
                    builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
                }
                for (key, value) in self.settings()? {
                    builder = builder.with_config(key, value);
                }
                let store = builder.with_bucket_name(bucket).with_retry(retries()).build().map_err(failed)?;
                Ok(Arc::new(PrefixStore::new(store, prefix.as_str())))
            }
        }
    }

    /// What the file of credentials says. Its values are never shown.
    fn settings(&self) -> Result<Vec<(AmazonS3ConfigKey, String)>, BackupError> {
        let Some(path) = &self.credentials else { return Ok(Vec::new()) };
        let text = std::fs::read_to_string(path).map_err(BackupError::io("reading", path))?;
        let mut settings = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = format!("{} line {}", path.display(), number + 1);
            let (name, value) =
                line.split_once('=').ok_or_else(|| self.failed(format!("{at} is not NAME=value")))?;
            let name = name.trim().to_ascii_lowercase();
            let key = AmazonS3ConfigKey::from_str(&name)
                .map_err(|_| self.failed(format!("{at}: {name} is not a setting known here")))?;
            settings.push((key, value.trim().trim_matches('"').to_owned()));
        }
        Ok(settings)
    }

    fn failed(&self, reason: String) -> BackupError {
        BackupError::Location { location: self.to_string(), reason }
    }
}

fn retries() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Directory(path) => write!(f, "{}", path.display()),
            Place::Bucket { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Place::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_locations_are_distinguished() {
        let parsed = |text: &str| Location::parse(text, None).map(|location| location.to_string()).ok();
        assert_eq!(parsed("/var/backup").as_deref(), Some("/var/backup"));
        assert_eq!(parsed("file:///var/backup").as_deref(), Some("/var/backup"));
        assert_eq!(parsed("s3://bucket/some/prefix/").as_deref(), Some("s3://bucket/some/prefix"));
        assert_eq!(parsed("s3://bucket").as_deref(), Some("s3://bucket"));
        for refused in
            ["", "s3://", "s3:///prefix", "s3://key:secret@bucket/x", "gs://bucket", "file://relative"]
        {
            assert_eq!(parsed(refused), None, "{refused}");
        }
    }

    #[test]
    fn a_bad_line_of_credentials_is_named_without_what_it_says() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# keys\nAWS_ACCESS_KEY_ID=id\nsecret-without-a-name\n").unwrap();
        let location = Location::parse("s3://bucket", Some(file.path())).unwrap();
        let error = location.settings().unwrap_err().to_string();
        assert!(error.contains("line 3") && !error.contains("secret"), "{error}");
    }
}
