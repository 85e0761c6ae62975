//! A data directory and a key file that outlive servers, and what is asked of both.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use vetch_api::pb;

use crate::client::Client;
use crate::server::{Kind, Options, Server};

/// What is put into every key and value, to be looked for in files.
pub(super) const MARKER: &str = "needle-in-the-haystack";

/// Small files and frequent checkpoints, so that keys are got rid of within seconds.
const SMALL: [&str; 3] =
    ["--journal-segment-bytes=65536", "--checkpoint-bytes=32768", "--checkpoint-interval=1s"];

pub(super) struct EncryptedDirectory {
    dir: TempDir,
}

impl EncryptedDirectory {
    pub(super) fn new() -> Result<EncryptedDirectory> {
        Ok(EncryptedDirectory { dir: tempfile::Builder::new().prefix("vetch-encryption-").tempdir()? })
    }

    pub(super) fn keys(&self) -> PathBuf {
        self.dir.path().join("keys")
    }

    pub(super) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Runs `vetch keygen` on the key file.
    pub(super) fn keygen(&self) -> Result<()> {
        let output = Command::new(Kind::Vetch.binary()?).arg("keygen").arg(self.keys()).output()?;
        ensure!(output.status.success(), "keygen: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// The key file's lines that are keys.
    pub(super) fn lines(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.keys())?;
        Ok(text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect())
    }

    /// Replaces the key file as a whole.
    pub(super) fn write_keys(&self, lines: &[String]) -> Result<()> {
        let new = self.dir.path().join("keys.new");
        fs::write(&new, lines.join("\n") + "\n")?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
        Ok(fs::rename(new, self.keys())?)
    }

    pub(super) fn start(&self, is_encrypted: bool) -> Result<Server> {
        let mut flags: Vec<String> = SMALL.map(str::to_owned).to_vec();
        if is_encrypted {
            flags.push(format!("--encryption-key-file={}", self.keys().display()));
        }
        Server::start_with(Kind::Vetch, Options { flags, data_dir: Some(self.data()) })
    }

    /// Starts and must not get far: with exit code 1, and all of these words in the log.
    pub(super) fn refuses(&self, is_encrypted: bool, words: &[&str]) -> Result<()> {
        let text = match self.start(is_encrypted) {
            Ok(_) => bail!("it started, and should have said {words:?}"),
            Err(error) => format!("{error:#}"),
        };
        ensure!(text.contains("exit status: 1"), "another exit code: {text}");
        for word in words {
            ensure!(text.contains(word), "{word:?} is not among: {text}");
        }
        println!(
            "  refused: {}",
            text.lines().rev().find(|line| line.contains(words[0])).unwrap_or_default()
        );
        Ok(())
    }

    /// Whether everything in the data directory, which no server uses now, can be read with the key
    /// file as it is.
    pub(super) fn is_readable(&self) -> Result<bool> {
        let mut verify = Command::new(Kind::Vetch.binary()?);
        verify.arg("verify").arg(self.data()).arg("--encryption-key-file").arg(self.keys());
        Ok(verify.output()?.status.success())
    }

    /// The files of the data directory that hold the marker.
    pub(super) fn found_in(&self) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        search(&self.data(), &mut found)?;
        Ok(found)
    }
}

fn search(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            search(&path, found)?;
        } else if let Ok(content) = fs::read(&path) {
            // A file that has just gone has nothing to hide.
            if content.windows(MARKER.len()).any(|piece| piece == MARKER.as_bytes()) {
                found.push(path);
            }
        }
    }
    Ok(())
}

/// The key of a number, with the marker in it.
pub(super) fn key(number: usize) -> String {
    format!("/registry/{MARKER}/{number:06}")
}

pub(super) async fn put(client: &Client, number: usize, value: &str) -> Result<()> {
    let value = format!("{MARKER}:{value}:{number}");
    let request = pb::PutRequest { key: key(number).into(), value: value.into(), ..Default::default() };
    client.kv.clone().put(request).await?;
    Ok(())
}

/// The values of all keys.
pub(super) async fn all(client: &Client) -> Result<BTreeMap<String, String>> {
    let request = pb::RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() };
    let answer = client.kv.clone().range(request).await?.into_inner();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(answer.kvs.iter().map(|kv| (text(&kv.key), text(&kv.value))).collect())
}

/// How many files need each key, by `/metrics`.
pub(super) fn files(server: &Server) -> Result<BTreeMap<String, u64>> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    let mut files = BTreeMap::new();
    for line in page.lines() {
        let Some(rest) = line.strip_prefix("vetch_encryption_files{key=\"") else { continue };
        let (key, count) = rest.split_once("\"} ").with_context(|| format!("odd line {line:?}"))?;
        files.insert(key.to_owned(), count.trim().parse()?);
    }
    Ok(files)
}

/// Waits until `done` is satisfied with the counts.
pub(super) async fn wait_files(
    server: &Server,
    what: &str,
    done: impl Fn(&BTreeMap<String, u64>) -> bool,
) -> Result<Duration> {
    let begun = Instant::now();
    loop {
        let now = files(server)?;
        if done(&now) {
            return Ok(begun.elapsed());
        }
        ensure!(
            begun.elapsed() < Duration::from_secs(90),
            "{what} did not come; files by key: {now:?}\n{}",
            server.log_tail()?
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until the log of this life has these words.
pub(super) async fn wait_log(server: &Server, words: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !server.log_of_this_life()?.contains(words) {
        ensure!(Instant::now() < deadline, "{words:?} was not logged:\n{}", server.log_tail()?);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
