//! Encryption keys while the server runs: the key file is read again when it changes, and on
//! SIGHUP.
//!
//! A malformed file, or one without a key that is still needed, is logged, and the present keys
//! stay in use.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use vetch_node::Node;

/// Interval at which the file is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// What a change of the file changes.
type FileStamp = Option<(u64, u64, i64, i64)>;

pub(crate) async fn watch_file(node: Node, path: PathBuf) {
    let mut hang_up = match signal(SignalKind::hangup()) {
        Ok(hang_up) => hang_up,
        Err(error) => return tracing::error!(%error, "cannot watch for changes of the encryption key file"),
    };
    // Read once more at first: the file may have changed between the start and here.
    let mut seen = None;
    loop {
        let is_asked = tokio::select! {
            _ = hang_up.recv() => true,
            () = tokio::time::sleep(CHECK_INTERVAL) => false,
        };
        let now = file_stamp(&path);
        if is_asked || now != seen {
            seen = now;
            reload(&node, &path);
        }
    }
}

/// A missing file has no state; reading it reports that.
fn file_stamp(path: &Path) -> FileStamp {
    let about = fs::metadata(path).ok()?;
    Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}

fn reload(node: &Node, path: &Path) {
    let file = path.display();
    let ring = match vetch_encryption::read_key_file(path) {
        Ok(ring) => ring,
        Err(error) => {
            return tracing::error!(%error, "the encryption key file cannot be used; keeping the current keys");
        }
    };
    match node.replace_keys(ring) {
        Err(error) => {
            tracing::error!(%file, %error, "the encryption key file cannot be used; keeping the current keys");
        }
        Ok(()) => log_keys_in_use(node, path),
    }
}

/// Logs the keys in use.
pub(crate) fn log_keys_in_use(node: &Node, path: &Path) {
    let status = node.encryption_status();
    let current =
        status.current.map_or_else(|| "none: new data is not encrypted".to_owned(), |id| id.to_string());
    let keys: Vec<String> = status.keys.iter().map(|(id, _)| id.to_string()).collect();
    tracing::info!(file = %path.display(), current, keys = keys.join(","), "encryption keys in use");
}
