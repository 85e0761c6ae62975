//! Running one line of the script with one server.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::line::{Line, Wanted};
use crate::server::{Kind, READY, free_port, peers};

/// What came of a line.
#[derive(Debug)]
pub(super) enum Outcome {
    Started,
    Waited,
    Ended { code: Option<i32>, said: String },
}

impl Outcome {
    pub(super) fn is(&self, wanted: &Wanted) -> bool {
        match (self, wanted) {
            (Outcome::Started, Wanted::Starts) | (Outcome::Waited, Wanted::Waits) => true,
            (Outcome::Ended { code, said }, Wanted::Ends { code: expected, words }) => {
                *code == Some(*expected) && said.contains(words.as_str())
            }
            _ => false,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Started => f.write_str("starts"),
            Outcome::Waited => f.write_str("waits"),
            Outcome::Ended { code, said } => {
                let lines = said.lines().filter(|line| !line.starts_with("  "));
                let end: Vec<&str> = lines.collect();
                let end = end[end.len().saturating_sub(4)..].join("\n         ");
                write!(f, "{code:?} {end}")
            }
        }
    }
}

/// How long a server may take to serve or to give up.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long one that is to do neither is watched.
const WAITING: Duration = Duration::from_secs(2);

pub(super) fn run(kind: Kind, line: &Line) -> Result<Outcome> {
    let scratch = tempfile::Builder::new().prefix("vetch-options-").tempdir()?;
    let places = Places::find(scratch.path())?;
    let mut command = Command::new(kind.binary()?);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ETCD_")) {
        command.env_remove(name);
    }
    for (name, value) in &line.variables {
        command.env(name, places.fill(value));
    }
    if let Some(yaml) = &line.file {
        let path = scratch.path().join("config.yaml");
        let yaml = match yaml.as_str() {
            "{sample}" => places.sample_file()?,
            yaml => yaml.replace("{usual}", &places.usual_file()),
        };
        fs::write(&path, places.fill(&yaml))?;
        command.arg(format!("--config-file={}", path.display()));
    }
    for flag in &line.flags {
        if flag == "{usual}" {
            command.args(places.usual_flags());
        } else {
            command.arg(places.fill(flag));
        }
    }
    let said = scratch.path().join("said");
    let output = fs::File::create(&said)?;
    command.current_dir(scratch.path()).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let limit = if *line.wanted(kind) == Wanted::Waits { WAITING } else { TIMEOUT };
    watch(command, &said, limit)
}

/// Runs the command until it ends, serves, or has had its time.
fn watch(mut command: Command, said: &Path, limit: Duration) -> Result<Outcome> {
    let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
    let begun = Instant::now();
    loop {
        let ended = child.try_wait()?;
        let text = String::from_utf8_lossy(&fs::read(said)?).replace("\\\"", "\"");
        if let Some(status) = ended {
            return Ok(Outcome::Ended { code: status.code(), said: text });
        }
        let outcome = match text.contains(READY) {
            true => Outcome::Started,
            false if begun.elapsed() > limit => Outcome::Waited,
            false => {
                sleep(Duration::from_millis(10));
                continue;
            }
        };
        child.kill()?;
        child.wait()?;
        return Ok(outcome);
    }
}

/// What the placeholders of a line stand for.
struct Places {
    dir: String,
    client: u16,
    peer: u16,
    more: u16,
}

impl Places {
    fn find(scratch: &Path) -> Result<Places> {
        let dir = scratch.join("dir");
        fs::create_dir(&dir)?;
        Ok(Places {
            dir: dir.display().to_string(),
            client: free_port()?,
            peer: free_port()?,
            more: free_port()?,
        })
    }

    fn fill(&self, text: &str) -> String {
        text.replace("{dir}", &self.dir)
            .replace("{client}", &self.client.to_string())
            .replace("{peer}", &self.peer.to_string())
            .replace("{more}", &self.more.to_string())
    }

    fn usual(&self) -> [(&'static str, String); 6] {
        let (client, peer) = (self.fill("http://127.0.0.1:{client}"), self.fill("http://127.0.0.1:{peer}"));
        [
            ("data-dir", self.fill("{dir}/data")),
            ("listen-client-urls", client.clone()),
            ("advertise-client-urls", client),
            ("listen-peer-urls", peer.clone()),
            ("initial-advertise-peer-urls", peer.clone()),
            ("initial-cluster", format!("default={peer}")),
        ]
    }

    fn usual_flags(&self) -> Vec<String> {
        self.usual().iter().map(|(name, value)| format!("--{name}={value}")).collect()
    }

    /// The sample that comes with etcd, with these places instead of the usual ones.
    fn sample_file(&self) -> Result<String> {
        let path = etcd_source()?.join("etcd.conf.yml.sample");
        let sample = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let usual = self.usual();
        let has_place = |line: &&str| {
            line.split_once(':').is_some_and(|(key, _)| usual.iter().any(|(name, _)| *name == key))
        };
        let replaced = sample.lines().filter(has_place).count();
        ensure!(replaced == usual.len(), "the sample names {replaced} of {} places", usual.len());
        let kept: Vec<&str> = sample.lines().filter(|line| !has_place(line)).collect();
        Ok(format!("{}\n{}\n", kept.join("\n"), self.usual_file()))
    }

    fn usual_file(&self) -> String {
        let lines = self.usual();
        lines.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<String>>().join("\n")
    }
}

/// Where Go keeps the module that etcd's binaries were built from.
fn etcd_source() -> Result<PathBuf> {
    let peers = peers()?;
    let module = peers.parent().context("the binaries are in a directory")?.join("module");
    let mut list = Command::new("go");
    list.args(["list", "-m", "-f", "{{.Dir}}", "go.etcd.io/etcd/v3"]).current_dir(&module);
    let output = list.output().context("running go, which scripts/peers.sh needed as well")?;
    ensure!(output.status.success(), "go list: {}", String::from_utf8_lossy(&output.stderr));
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
