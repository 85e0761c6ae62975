//! The status trial: `vetch status` and `vetch top` as operators and scripts call them, on servers
//! that are kept busy: plain, with TLS and users, beside an etcd, and in a terminal.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;
use vetch_api::pb;
use vetch_api::pb::watch_client::WatchClient;
use vetch_api::pb::watch_request::RequestUnion;

use crate::client::Client;
use crate::server::{Kind, Server, peers};
use crate::tls::pki::{Pki, client};

/// Call `vetch status` and `vetch top`.
#[derive(Args, Debug)]
pub(crate) struct Status {}

impl Status {
    pub(crate) async fn run(&self) -> Result<()> {
        let begun = Instant::now();
        let server = Server::start(Kind::Vetch)?;
        let load = Load::start(&server).await?;
        several_servers(&server)?;
        busiest_first(&server)?;
        slow_watcher(&server).await?;
        in_a_terminal(&server)?;
        ended(server, load).await?;
        users_and_tls()?;
        println!("status: everything as it should be; {:.1}s", begun.elapsed().as_secs_f64());
        Ok(())
    }
}

/// A command of the binary under trial.
fn vetch(words: &[&str]) -> Result<Output> {
    Ok(Command::new(Kind::Vetch.binary()?).args(words).stdin(Stdio::null()).output()?)
}

/// What it writes if it succeeds.
fn written(words: &[&str]) -> Result<String> {
    let output = vetch(words)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "vetch {words:?}: {} {errors}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

fn json(words: &[&str]) -> Result<Value> {
    Ok(serde_json::from_str(&written(words)?)?)
}

/// Writes like those of a control plane: leases most of all.
struct Load {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Result<()>>,
}

impl Load {
    async fn start(server: &Server) -> Result<Load> {
        let mut kv = Client::connect(&server.endpoint()).await?.kv;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            for round in 0u64.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                for (prefix, each) in
                    [("leases/kube-node-lease", 5), ("pods/default", 2), ("services/specs/default", 1)]
                {
                    for n in 0..each {
                        let key = format!("/registry/{prefix}/{}", (round + n) % 50);
                        let request = pb::PutRequest {
                            key: key.into(),
                            value: vec![7; 400].into(),
                            ..Default::default()
                        };
                        // The server ends while this runs, which is no failure.
                        if kv.put(request).await.is_err() {
                            return Ok(());
                        }
                    }
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        });
        Ok(Load { stop, task })
    }
}

/// A Vetch, an etcd and an endpoint without a server, in one call.
fn several_servers(server: &Server) -> Result<()> {
    let etcd = Server::start(Kind::Etcd)?;
    let both = format!("{},{}", server.endpoint(), etcd.endpoint());
    let found = json(&["status", "--endpoints", &both, "-w", "json"])?;
    let (ours, theirs) = (&found[0], &found[1]);
    ensure!(ours["is_healthy"] == true && theirs["is_healthy"] == true, "{found}");
    ensure!(ours["look"]["storage"]["revision"].as_i64() > Some(1), "{ours}");
    ensure!(ours["look"]["journal"]["appends"].as_u64() > Some(0), "{ours}");
    ensure!(ours["look"]["traffic"]["connections"].as_u64() > Some(1), "the load and this call: {ours}");
    ensure!(theirs["look"]["server"]["etcd_version"] == "3.7.1", "{theirs}");
    ensure!(theirs["look"]["storage"]["quota_bytes"].as_u64() > Some(0), "{theirs}");

    let text = written(&["status", "--endpoints", &both])?;
    for line in
        ["  healthy", "of 2.1 GB (0 %)", "leader, term", "watching    0 watchers", "version     etcd 3.7.1"]
    {
        ensure!(text.contains(line), "{line:?} is not in\n{text}");
    }
    println!("{text}\n");

    let one_dead = format!("{},127.0.0.1:1", server.endpoint());
    let output = vetch(&["status", "--endpoints", &one_dead])?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(output.status.code() == Some(1), "an endpoint without a server is a failure: {}", output.status);
    ensure!(text.contains("UNHEALTHY") && text.contains("cannot connect to 127.0.0.1:1"), "{text}");
    let output = vetch(&["top", "--once", "--endpoints", &etcd.endpoint()])?;
    ensure!(output.status.code() == Some(1), "an etcd has no top");
    Ok(())
}

fn busiest_first(server: &Server) -> Result<()> {
    let endpoint = server.endpoint();
    let view = json(&["top", "--once", "--interval", "2s", "-w", "json", "--endpoints", &endpoint])?;
    let prefixes: Vec<&str> = view["prefixes"]
        .as_array()
        .context("no prefixes")?
        .iter()
        .filter_map(|p| p["prefix"].as_str())
        .collect();
    let expected = ["/registry/leases", "/registry/pods", "/registry/services/specs"];
    ensure!(prefixes == expected, "{prefixes:?}");
    let share = view["prefixes"][0]["share"].as_f64().context("no share")?;
    ensure!((55.0..70.0).contains(&share), "five of eight writes are leases: {share}");
    let put = view["methods"].as_array().context("no methods")?.iter().find(|m| m["method"] == "Put");
    ensure!(
        put.is_some_and(|put| put["calls"].as_f64() > Some(1.0) && put["p99"].as_f64() > Some(0.0)),
        "{view}"
    );

    let text = written(&["top", "--once", "--interval", "1s", "--endpoints", &endpoint])?;
    for part in ["WRITES/S", "/registry/leases", "requests", "sync p50", "RPC", "Put"] {
        ensure!(text.contains(part), "{part:?} is not in\n{text}");
    }
    println!("{text}\n");
    let both = format!("{endpoint},{endpoint}");
    ensure!(vetch(&["top", "--once", "--endpoints", &both])?.status.code() == Some(128), "top shows one");
    ensure!(vetch(&["top", "--endpoints", &endpoint])?.status.code() == Some(128), "there is no terminal");
    Ok(())
}

/// A client that opens a watch and never reads it is named, with its address and what it watches.
async fn slow_watcher(server: &Server) -> Result<()> {
    let channel = tonic::transport::Endpoint::from_shared(server.endpoint())?.connect().await?;
    let create = pb::WatchCreateRequest {
        key: "/registry/".into(),
        range_end: "/registry0".into(),
        start_revision: 1,
        ..Default::default()
    };
    let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let requests = futures_util::StreamExt::chain(
        tokio_stream::once(request),
        futures_util::stream::pending::<pb::WatchRequest>(),
    );
    let unread = WatchClient::new(channel).watch(requests).await?.into_inner();
    let endpoint = server.endpoint();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let view = json(&["top", "--once", "--interval", "1s", "-w", "json", "--endpoints", &endpoint])?;
        let slow = &view["slowest"][0];
        if view["slow_streams"] == 1 && slow["key"] == "/registry/" && slow["range_end"] == "/registry0" {
            let client = slow["client"].as_str().unwrap_or_default();
            ensure!(
                client.starts_with("127.0.0.1:") && slow["revisions_behind"].as_i64() > Some(0),
                "{slow}"
            );
            break;
        }
        ensure!(Instant::now() < deadline, "the client that does not read is not named: {view}");
    }
    let page = crate::gateway::http::send(server.port, "GET", "/metrics", "", None).await?.body;
    let lag =
        page.lines().find_map(|line| line.strip_prefix("vetch_watch_lag_seconds ")).context("no lag")?;
    ensure!(lag.parse::<f64>()? >= 1.0 && page.contains("vetch_slow_watch_streams 1\n"), "lag {lag}");
    ensure!(
        page.contains(r#"vetch_prefix_puts_total{prefix="/registry/leases"}"#),
        "no prefixes on the page"
    );
    drop(unread);
    Ok(())
}

/// The live view on a pseudo-terminal: another screen while it lasts, refreshed, ended by a key.
fn in_a_terminal(server: &Server) -> Result<()> {
    let command =
        format!("{} top --interval 500ms --endpoints {}", Kind::Vetch.binary()?.display(), server.endpoint());
    let mut terminal = Command::new("script")
        .args(["-qefc", &command, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("script(1) of util-linux makes the terminal")?;
    std::thread::sleep(Duration::from_secs(4));
    ensure!(terminal.try_wait()?.is_none(), "it runs until it is stopped");
    terminal.stdin.take().context("its keyboard")?.write_all(b"q")?;
    let output = terminal.wait_with_output()?;
    let screen = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}: {screen}", output.status);
    for part in ["\x1b[?1049h", "/registry/leases", "WRITES/S", "\x1b[?1049l"] {
        ensure!(screen.contains(part), "{part:?} is not on the screen: {screen:?}");
    }
    let drawn = screen.matches("\x1b[H").count();
    ensure!(drawn >= 3, "drawn {drawn} times in four seconds");
    Ok(())
}

async fn ended(mut server: Server, load: Load) -> Result<()> {
    let endpoint = server.endpoint();
    load.stop.store(true, Ordering::Relaxed);
    load.task.await??;
    server.terminate()?;
    let output = vetch(&["status", "--endpoints", &endpoint])?;
    ensure!(output.status.code() == Some(1), "a server that is gone is unhealthy");
    Ok(())
}

/// Certificates on both sides, and users: only root gets an answer.
fn users_and_tls() -> Result<()> {
    let pki = Pki::new()?;
    pki.issue("client", client("client"))?;
    let flags = ["--cert-file", "server.crt", "--key-file", "server.key", "--trusted-ca-file", "ca.crt"];
    let flags = flags.map(|word| if word.starts_with("--") { word.to_owned() } else { pki.text(word) });
    let server = Server::start_secure(Kind::Vetch, flags.to_vec())?;
    let (endpoint, cacert) = (server.endpoint(), pki.text("ca.crt"));
    let (cert, key) = (pki.text("client.crt"), pki.text("client.key"));
    let tls = ["--endpoints", &endpoint, "--cacert", &cacert, "--cert", &cert, "--key", &key];
    for words in [
        &["user", "add", "root:secret"][..],
        &["user", "grant-role", "root", "root"],
        &["user", "add", "alice:pw"],
        &["put", "/registry/secrets/default/token", "x"],
        &["auth", "enable"],
    ] {
        let done = Command::new(peers()?.join("etcdctl")).args(tls).args(words).output()?;
        ensure!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let with = |words: &[&'static str], user: &[&'static str]| {
        let all: Vec<&str> = words.iter().chain(&tls).chain(user).copied().collect();
        vetch(&all)
    };
    for command in [&["status"][..], &["top", "--once", "--interval", "500ms"]] {
        for (user, allowed) in
            [(&["--user", "root:secret"][..], true), (&["--user", "alice:pw"], false), (&[], false)]
        {
            let output = with(command, user)?;
            let text = String::from_utf8_lossy(&output.stdout);
            ensure!(output.status.success() == allowed, "{command:?} {user:?}: {} {text}", output.status);
        }
    }
    let output = vetch(&["status", "--endpoints", &endpoint, "--cacert", &cacert, "--user", "root:secret"])?;
    ensure!(!output.status.success(), "a client without a certificate was let in");
    let page = Command::new("curl")
        .args(["-sS", "--cacert", &cacert, "--cert", &cert, "--key", &key, &format!("{endpoint}/metrics")])
        .output()?;
    let page = String::from_utf8(page.stdout)?;
    if !page.contains("vetch_leases ") || page.contains("secrets") {
        bail!("with users, the page must not tell which keys there are:\n{page}");
    }
    Ok(())
}
