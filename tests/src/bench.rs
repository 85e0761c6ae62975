//! A trial of the load generator itself: are its counts the server's, are errors errors, and does a
//! stall show?

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use rustix::process::Signal;
use serde_json::Value;

use crate::client::Client;
use crate::server::{Kind, Server};

/// The load generator against both servers: counts, errors, and the latency of a stall.
#[derive(Args, Debug)]
pub(crate) struct Bench {}

const STALL: Duration = Duration::from_millis(300);

impl Bench {
    pub(crate) async fn run(&self) -> Result<()> {
        for kind in [Kind::Etcd, Kind::Vetch] {
            for client in ["lean", "tonic"] {
                counts(kind, client).await.with_context(|| format!("counts, {}, {client}", kind.name()))?;
            }
            stall(kind).await.with_context(|| format!("stall, {}", kind.name()))?;
        }
        for client in ["lean", "tonic"] {
            killed(client).await.with_context(|| format!("kill, {client}"))?;
        }
        refusals()?;
        println!("bench: counts agree, errors are errors, a stall shows");
        Ok(())
    }
}

fn generator(server: &Server, client: &str, words: &[&str]) -> Result<Command> {
    let mut command = Command::new(Kind::Vetch.binary()?);
    command.arg("bench").args(words);
    command.args(["--endpoints", &server.endpoint(), "--client", client, "--quiet", "--json", "-"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    Ok(command)
}

fn report(command: &mut Command) -> Result<(bool, Value)> {
    let output = command.spawn()?.wait_with_output()?;
    let report = serde_json::from_slice(&output.stdout).context("the report is no JSON")?;
    Ok((output.status.success(), report))
}

/// The sum of a field over all classes of the only measurement.
fn sum(report: &Value, field: &str) -> u64 {
    let classes = report["points"][0]["classes"].as_array();
    classes.into_iter().flatten().filter_map(|class| class[field].as_u64()).sum()
}

/// What was acknowledged is what the server has counted.
async fn counts(kind: Kind, client: &str) -> Result<()> {
    let server = Server::start(kind)?;
    let outside = Client::connect(&server.endpoint()).await?;
    for (workload, loaded) in [("cas", 200), ("churn", 0)] {
        let before = outside.revision().await?;
        let words =
            [workload, "--clients", "16", "--keys", "200", "--duration", "500ms", "--warmup", "100ms"];
        let (fine, report) = report(&mut generator(&server, client, &words)?)?;
        let written = u64::try_from(outside.revision().await? - before)?;
        let acknowledged = sum(&report, "acknowledged");
        ensure!(fine && sum(&report, "errors") == 0, "{workload}: errors: {report}");
        ensure!(acknowledged > 0, "{workload}: nothing was acknowledged");
        ensure!(
            acknowledged + loaded == written,
            "{workload}: {acknowledged} + {loaded} were acknowledged, {written} written"
        );
        let named = report["client"].as_str().unwrap_or("");
        ensure!(named.starts_with(client), "the report names the client {named:?}");
    }
    Ok(())
}

/// A server that stands still for a while delays everything that was due meanwhile, and all of it
/// counts.
async fn stall(kind: Kind) -> Result<()> {
    let server = Server::start(kind)?;
    let outside = Client::connect(&server.endpoint()).await?;
    // So few under way that most of what is due during the stall cannot even be sent: it counts all
    // the same.
    let words = [
        "put",
        "--rate",
        "500",
        "--in-flight",
        "8",
        "--keys",
        "100",
        "--duration",
        "1s",
        "--warmup",
        "300ms",
    ];
    let running = generator(&server, "lean", &words)?.spawn()?;
    under_way(&outside).await?;
    sleep(Duration::from_millis(600));
    server.signal(Signal::STOP)?;
    sleep(STALL);
    server.signal(Signal::CONT)?;
    let output = running.wait_with_output()?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let latency = &report["points"][0]["classes"][0]["latency"];
    let micros = |name: &str| latency[name].as_f64().unwrap_or(0.0);
    let wanted = STALL.as_secs_f64() * 1e6;
    ensure!(micros("p999") > 0.85 * wanted, "p99.9 hides the stall: {latency}");
    // Three in ten were due during the stall, one of them in its first third: it waited for two
    // thirds and more. A generator that counts from when it could send would have eight that
    // waited.
    ensure!(
        micros("p90") > 0.5 * wanted,
        "most of those that were due during the stall are missing: {latency}"
    );
    ensure!(micros("count") >= 495.0, "not all that was due was measured: {latency}");
    Ok(())
}

/// What is under way when the server dies is no success.
async fn killed(client: &str) -> Result<()> {
    let mut server = Server::start(Kind::Vetch)?;
    let outside = Client::connect(&server.endpoint()).await?;
    let before = outside.revision().await?;
    let words = ["put", "--clients", "32", "--keys", "100", "--duration", "1200ms", "--warmup", "100ms"];
    let running = generator(&server, client, &words)?.spawn()?;
    under_way(&outside).await?;
    sleep(Duration::from_millis(300));
    server.kill()?;
    let output = running.wait_with_output()?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(!output.status.success(), "a run with errors counts as a success");
    let (acknowledged, failed) =
        (sum(&report, "acknowledged"), sum(&report, "errors") + sum(&report, "unanswered"));
    ensure!(failed >= 32, "32 requests were under way and {failed} failed");
    server.run()?;
    let written = u64::try_from(Client::connect(&server.endpoint()).await?.revision().await? - before)?;
    ensure!(
        acknowledged > 0 && acknowledged <= written,
        "{acknowledged} were acknowledged and {written} written"
    );
    ensure!(written <= acknowledged + failed, "{written} were written of {acknowledged} and {failed}");
    Ok(())
}

/// Waits until writes arrive: on a busy machine a program takes its time to begin.
async fn under_way(outside: &Client) -> Result<()> {
    let before = outside.revision().await?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while outside.revision().await? == before {
        ensure!(Instant::now() < deadline, "the load generator writes nothing");
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// What cannot be done is refused, with a word about what can.
fn refusals() -> Result<()> {
    let cases: [(&[&str], &str); 3] = [
        (&["put", "--endpoints", "https://127.0.0.1:1"], "--client tonic"),
        (&["put", "--user", "root:secret"], "--client tonic"),
        (&["restart", "--endpoints", "http://127.0.0.1:1"], "--server"),
    ];
    for (words, advice) in cases {
        let output = Command::new(Kind::Vetch.binary()?).arg("bench").args(words).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && text.contains(advice), "{words:?}: {text}");
    }
    Ok(())
}
