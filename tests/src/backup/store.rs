//! Where a trial's backups go.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::TempDir;

use super::gateway::{BUCKET, Gateway};

pub(super) struct Store {
    pub(super) scratch: TempDir,
    pub(super) gateway: Option<Gateway>,
}

impl Store {
    pub(super) fn directory() -> Result<Store> {
        Ok(Store { scratch: scratch()?, gateway: None })
    }

    pub(super) fn bucket() -> Result<Store> {
        let scratch = scratch()?;
        let gateway = Some(Gateway::start(scratch.path())?);
        Ok(Store { scratch, gateway })
    }

    pub(super) fn name(&self) -> &'static str {
        if self.gateway.is_some() { "bucket" } else { "directory" }
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(super) fn location(&self) -> String {
        match &self.gateway {
            Some(_) => format!("s3://{BUCKET}/cluster/one"),
            None => self.at("backup").display().to_string(),
        }
    }

    /// The objects as files, to be damaged.
    pub(super) fn objects(&self) -> Result<Vec<PathBuf>> {
        let dir = self.gateway.as_ref().map_or(self.at("backup"), Gateway::objects);
        let mut found = Vec::new();
        walk(&dir, &mut found)?;
        found.sort();
        Ok(found)
    }

    /// What commands and the server need to open it.
    pub(super) fn credentials(&self) -> Result<Option<PathBuf>> {
        self.gateway.as_ref().map(Gateway::credentials).transpose()
    }

    /// Flags that make a server back up to here, quickly.
    pub(super) fn flags(&self) -> Result<Vec<String>> {
        let mut flags = vec![
            "--backup-location".to_owned(),
            self.location(),
            "--backup-interval=100ms".to_owned(),
            "--backup-full-interval=1s".to_owned(),
            "--backup-retention=0".to_owned(),
            "--journal-segment-bytes=262144".to_owned(),
            "--checkpoint-bytes=131072".to_owned(),
            // Without this every burst would end as soon as the first checkpoint is behind it.
            "--checkpoint-interval=2s".to_owned(),
        ];
        if let Some(path) = self.credentials()? {
            flags.extend(["--backup-credentials-file".to_owned(), path.display().to_string()]);
        }
        Ok(flags)
    }
}

fn scratch() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("vetch-backup-").tempdir()?)
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        // The gateway keeps unfinished uploads beside the objects.
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !is_hidden {
            walk(&path, found)?;
        } else if path.is_file() {
            found.push(path);
        }
    }
    Ok(())
}
