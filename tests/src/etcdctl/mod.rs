//! The etcdctl trial: one conversation in etcdctl's words with each of two servers, and their
//! outputs compared.
//!
//! The conversation is `tests/etcdctl.script`. Output means standard output, standard error and the
//! exit code.

mod normal;
mod script;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use script::{Run, Step};
use tempfile::TempDir;

use crate::server::{Kind, Options, Server, peers};

/// Compare two servers in etcdctl's words.
#[derive(Args, Debug)]
pub(crate) struct Etcdctl {
    #[arg(long, default_value = "etcd")]
    left: Kind,
    #[arg(long, default_value = "vetch")]
    right: Kind,
    /// Another script than the one that belongs to the trial.
    #[arg(long)]
    script: Option<PathBuf>,
    /// Also run `etcdctl check perf` on the server under trial, which takes a minute.
    #[arg(long)]
    check_perf: bool,
}

/// What a command printed, ready for comparison.
#[derive(PartialEq)]
struct Outcome {
    line: usize,
    command: String,
    output: String,
    deviates: bool,
}

impl Etcdctl {
    pub(crate) fn run(&self) -> Result<()> {
        let text = match &self.script {
            Some(path) => fs::read_to_string(path)?,
            None => include_str!("../../etcdctl.script").to_owned(),
        };
        let steps = script::parse(&text)?;
        println!("etcdctl: {} steps on {} and {}", steps.len(), self.left.name(), self.right.name());
        let begun = Instant::now();
        fresh(self.left)?;
        fresh(self.right)?;
        let (left, right) = std::thread::scope(|scope| {
            let left = scope.spawn(|| converse(self.left, &steps));
            let right = scope.spawn(|| converse(self.right, &steps));
            (left.join().expect("the left side panicked"), right.join().expect("the right side panicked"))
        });
        let (left, right) = (left?, right?);
        let mut differences = 0;
        for (ours, theirs) in left.iter().zip(&right) {
            // A deviation that is gone should go from the documents as well.
            let deviates = ours.deviates && self.left != self.right;
            if (ours.output == theirs.output) == deviates {
                differences += 1;
                println!("DIFFERENCE at line {}: etcdctl {}", ours.line, ours.command);
                println!(
                    "--- {}\n{}\n--- {}\n{}\n",
                    self.left.name(),
                    ours.output,
                    self.right.name(),
                    theirs.output
                );
            }
        }
        if self.check_perf {
            check_perf(self.right)?;
        }
        println!(
            "etcdctl: {} outputs, {differences} differ; {:.1}s",
            left.len(),
            begun.elapsed().as_secs_f64()
        );
        ensure!(differences == 0, "{differences} outputs differ");
        Ok(())
    }
}

/// One server and the commands that are running against it.
struct Conversation {
    server: Server,
    scratch: TempDir,
    background: BTreeMap<String, Background>,
    names: BTreeMap<String, String>,
}

struct Background {
    child: Child,
    /// Kept open, because some commands end with their input.
    _input: ChildStdin,
    output: PathBuf,
    run_line: usize,
    command: String,
}

fn converse(kind: Kind, steps: &[Step]) -> Result<Vec<Outcome>> {
    let flags = vec!["--watch-progress-notify-interval=200ms".to_owned()];
    let server = Server::start_with(kind, Options { flags, data_dir: None })?;
    let mut conversation = Conversation {
        server,
        scratch: tempfile::tempdir()?,
        background: BTreeMap::new(),
        names: BTreeMap::new(),
    };
    let mut outcomes = Vec::new();
    for step in steps {
        match step {
            Step::Run(run) => outcomes.push(conversation.run(run)?),
            Step::Start(name, run) => conversation.start(name, run)?,
            Step::Until(name, count) => outcomes.extend(conversation.until(name, *count)?),
            Step::Stop(name) => outcomes.push(conversation.stop(name)?),
            Step::Settle => sleep(Duration::from_millis(400)),
        }
    }
    Ok(outcomes)
}

impl Conversation {
    fn command(&self, run: &Run) -> Result<Command> {
        let mut command = Command::new(peers()?.join("etcdctl"));
        command.arg("--endpoints").arg(self.server.endpoint().replace("http://", ""));
        // A broken server must not hold the trial up for long.
        command.arg("--command-timeout=10s").env_remove("ETCDCTL_API");
        for word in &run.words {
            command.arg(self.expand(word));
        }
        Ok(command)
    }

    fn expand(&self, word: &str) -> String {
        let mut word = word.to_owned();
        for (name, value) in &self.names {
            word = word.replace(&format!("${name}"), value);
        }
        word
    }

    fn run(&mut self, run: &Run) -> Result<Outcome> {
        let output_path = self.scratch.path().join("foreground");
        let output = File::create(&output_path)?;
        let mut child =
            self.command(run)?.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).spawn()?;
        let mut input = child.stdin.take().context("no stdin")?;
        // A command that fails early may be gone before it has read anything.
        drop(input.write_all(run.input.as_bytes()));
        drop(input);
        let status = child.wait()?;
        let text = String::from_utf8_lossy(&fs::read(&output_path)?).into_owned();
        if let Some(name) = &run.remember {
            let id =
                normal::first_id(&text).with_context(|| format!("line {}: no id in {text:?}", run.line))?;
            self.names.insert(name.clone(), id);
        }
        let output = format!("{}\nexit {:?}", normal::normal(&text, run.columns.as_deref()), status.code());
        Ok(Outcome { line: run.line, command: run.words.join(" "), output, deviates: run.deviates })
    }

    fn start(&mut self, name: &str, run: &Run) -> Result<()> {
        let path = self.scratch.path().join(name);
        let output = File::create(&path)?;
        let mut child =
            self.command(run)?.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).spawn()?;
        let mut input = child.stdin.take().context("no stdin")?;
        input.write_all(run.input.as_bytes())?;
        let (run_line, command) = (run.line, run.words.join(" "));
        self.background
            .insert(name.to_owned(), Background { child, _input: input, output: path, run_line, command });
        // The command must have reached the server before the next one runs.
        sleep(Duration::from_millis(300));
        Ok(())
    }

    /// Too few lines are an outcome, too: the other side shows whether they should have come.
    fn until(&mut self, name: &str, count: usize) -> Result<Option<Outcome>> {
        let background = self.background.get(name).with_context(|| format!("{name} is not running"))?;
        let deadline = Instant::now() + Duration::from_secs(8);
        loop {
            let lines = fs::read_to_string(&background.output).unwrap_or_default().lines().count();
            if lines >= count {
                return Ok(None);
            }
            if Instant::now() > deadline {
                let output = format!("only {lines} lines of {count} came");
                let command = format!("until {name} {count}");
                return Ok(Some(Outcome { line: background.run_line, command, output, deviates: false }));
            }
            sleep(Duration::from_millis(10));
        }
    }

    fn stop(&mut self, name: &str) -> Result<Outcome> {
        let mut background =
            self.background.remove(name).with_context(|| format!("{name} is not running"))?;
        if background.child.try_wait()?.is_none() {
            let pid = Pid::from_raw(i32::try_from(background.child.id())?).context("pid 0")?;
            kill_process(pid, Signal::INT)?;
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while background.child.try_wait()?.is_none() && Instant::now() < deadline {
            sleep(Duration::from_millis(5));
        }
        if background.child.try_wait()?.is_none() {
            background.child.kill()?;
        }
        let status = background.child.wait()?;
        let text = String::from_utf8_lossy(&fs::read(&background.output)?).into_owned();
        let output = format!("{}\nexit {:?}", normal::normal(&text, None), status.code());
        Ok(Outcome { line: background.run_line, command: background.command, output, deviates: false })
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        for background in self.background.values_mut() {
            drop(background.child.kill());
            drop(background.child.wait());
        }
    }
}

/// The status of a server to which nothing was written, in every form. etcdctl divides by the size.
fn fresh(kind: Kind) -> Result<()> {
    let server = Server::start(kind)?;
    for format in ["simple", "table", "json", "fields", "protobuf"] {
        let output = Command::new(peers()?.join("etcdctl"))
            .args(["--endpoints", &server.endpoint(), "endpoint", "status", "-w", format])
            .env_remove("ETCDCTL_API")
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        // This command has no such form, and says so.
        let is_refused = format == "protobuf" && said.contains("protobuf");
        ensure!(
            output.status.success() || is_refused,
            "endpoint status -w {format} on a fresh {}:\n{said}",
            kind.name()
        );
        if format == "json" {
            let status: serde_json::Value = serde_json::from_slice(&output.stdout)?;
            for name in ["dbSize", "dbSizeInUse"] {
                let size = status[0]["Status"][name].as_i64().unwrap_or(0);
                ensure!(size > 0, "a fresh {} has {name} {size}", kind.name());
            }
        }
    }
    Ok(())
}

/// etcd's own idea of whether a server is fast enough.
fn check_perf(kind: Kind) -> Result<()> {
    let server = Server::start(kind)?;
    let output = Command::new(peers()?.join("etcdctl"))
        .args(["--endpoints", &server.endpoint(), "check", "perf", "--load=s"])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The first verdict may stand on the progress bar's last line.
    let verdict = |line| ["PASS", "FAIL"].iter().find_map(|word| Some(&line[str::find(line, word)?..]));
    let verdict: Vec<&str> = text.split(['\n', '\r']).filter_map(verdict).collect();
    println!("check perf on {}: {}", kind.name(), verdict.join("; "));
    ensure!(output.status.success() && verdict.len() >= 4, "check perf did not pass:\n{text}");
    Ok(())
}
