//! `vetch snapshot save`: fetches a snapshot over the API, from a Vetch or an etcd.
//!
//! The file gets its name only when all of it is on disk and its hash is right.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use sha2::{Digest, Sha256};
use vetch_api::pb::SnapshotRequest;
use vetch_api::pb::maintenance_client::MaintenanceClient;

use super::super::client::{ClientArgs, refused};
use super::super::progress::Ticker;
use super::super::{Failure, print_result};

/// Length of the hash behind a snapshot.
const HASH: usize = 32;

#[derive(Args)]
pub(super) struct Save {
    /// The file to write.
    filename: PathBuf,
    #[command(flatten)]
    client: ClientArgs,
}

impl Save {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let part = PathBuf::from(format!("{}.part", self.filename.display()));
        let saved = runtime.block_on(self.fetch(&part));
        let version = saved.inspect_err(|_| {
            // The partial file is useless, and the first error matters more than one of its
            // removal.
            let _ = fs::remove_file(&part);
        })?;
        fs::rename(&part, &self.filename)?;
        let dir = self.filename.parent().filter(|dir| !dir.as_os_str().is_empty());
        File::open(dir.unwrap_or(Path::new(".")))?.sync_all()?;
        let shown = if version.is_empty() { String::new() } else { format!("\nServer version {version}") };
        print_result(&format!("Snapshot saved at {}{shown}", self.filename.display()))
    }

    async fn fetch(&self, part: &Path) -> Result<String, Failure> {
        let [endpoint] = &self.client.endpoints()[..] else {
            return Err(Failure::bad_arguments(
                "snapshot must be requested to one selected node, not multiple",
            ));
        };
        let session = self.client.connect(endpoint).await?;
        let mut client = MaintenanceClient::new(session.channel());
        let request = session.request(SnapshotRequest {});
        let mut stream = client.snapshot(request).await.map_err(refused)?.into_inner();
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(part)?;
        let mut sink = Sink { file, hash: Sha256::new(), held: Vec::new(), written: 0 };
        let mut ticker = Ticker::new();
        let mut version = String::new();
        while let Some(message) = stream.message().await.map_err(refused)? {
            sink.take(&message.blob)?;
            ticker.report("saving", sink.written, sink.written + message.remaining_bytes);
            version = message.version;
        }
        sink.finish()?;
        Ok(version)
    }
}

/// The file being written. The last bytes are held back, because they are the hash of all others.
struct Sink {
    file: File,
    hash: Sha256,
    held: Vec<u8>,
    written: u64,
}

impl Sink {
    fn take(&mut self, piece: &[u8]) -> Result<(), Failure> {
        self.file.write_all(piece)?;
        self.written += piece.len() as u64;
        self.held.extend_from_slice(piece);
        let known = self.held.len().saturating_sub(HASH);
        self.hash.update(&self.held[..known]);
        self.held.drain(..known);
        Ok(())
    }

    fn finish(self) -> Result<(), Failure> {
        let is_right = self.held.len() == HASH && self.hash.finalize()[..] == self.held[..];
        if !is_right {
            let text = "the snapshot is incomplete: its hash does not match. Nothing was saved; try again";
            return Err(Failure { code: 1, text: text.into() });
        }
        Ok(self.file.sync_all()?)
    }
}
