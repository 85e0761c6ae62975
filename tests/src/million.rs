//! The million-keys trial: load, list by stream, restart, list again; times and memory side by
//! side.
//!
//! It takes minutes and gigabytes, so it is run by hand, on a release build.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use vetch_api::pb;

use crate::client::Client;
use crate::server::{Kind, Options, Server};

/// Load very many keys, list them, restart, list again; print times and memory.
#[derive(Args, Debug)]
pub(crate) struct Million {
    /// Servers to measure, one after the other.
    #[arg(long, value_delimiter = ',', default_value = "etcd,vetch")]
    servers: Vec<Kind>,
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    #[arg(long, default_value_t = 1_024)]
    value_bytes: usize,
    #[arg(long, default_value_t = 256)]
    writers: usize,
}

struct Figures {
    rows: Vec<(&'static str, String)>,
}

impl Million {
    pub(crate) async fn run(&self) -> Result<()> {
        println!("million: {} keys of {} bytes, {} writers", self.keys, self.value_bytes, self.writers);
        let mut columns = Vec::new();
        for kind in &self.servers {
            columns.push((kind.name(), self.measure(*kind).await?));
        }
        print!("{:<28}", "");
        for (name, _) in &columns {
            print!("{name:>14}");
        }
        println!();
        for row in 0..columns[0].1.rows.len() {
            print!("{:<28}", columns[0].1.rows[row].0);
            for (_, figures) in &columns {
                print!("{:>14}", figures.rows[row].1);
            }
            println!();
        }
        Ok(())
    }

    async fn measure(&self, kind: Kind) -> Result<Figures> {
        let flags = vec!["--quota-backend-bytes=8589934592".to_owned()];
        let mut server = Server::start_with(kind, Options { flags, data_dir: None })?;
        let mut rows = Vec::new();
        let begun = Instant::now();
        load(&server, self.keys, self.value_bytes, self.writers).await?;
        let loading = begun.elapsed().as_secs_f64();
        rows.push(("load", format!("{loading:.1} s")));
        rows.push(("load rate", format!("{:.0} /s", self.keys as f64 / loading)));
        rows.push(("CPU per put", format!("{:.0} us", server.cpu_seconds()? * 1e6 / self.keys as f64)));
        rows.push(("resident after load", mib(server.resident()?)));
        rows.push(("disk after load", mib(server.disk_use())));
        let client = Client::connect(&server.endpoint()).await?;
        let (first, seconds) = self.list(&client).await?;
        rows.push(("list: first message", format!("{:.0} ms", first * 1e3)));
        rows.push(("list: all", format!("{seconds:.2} s")));
        rows.push(("resident after list", mib(server.resident()?)));
        let stopping = Instant::now();
        server.terminate()?;
        rows.push(("stop", format!("{:.1} s", stopping.elapsed().as_secs_f64())));
        let start = server.run()?;
        rows.push(("start", format!("{:.1} s", start.as_secs_f64())));
        rows.push(("resident after start", mib(server.resident()?)));
        let client = Client::connect(&server.endpoint()).await?;
        let (_, seconds) = self.list(&client).await?;
        rows.push(("list after start", format!("{seconds:.2} s")));
        server.kill()?;
        let start = server.run()?;
        rows.push(("start after kill -9", format!("{:.1} s", start.as_secs_f64())));
        rows.push(("disk at the end", mib(server.disk_use())));
        println!("  {} done", kind.name());
        Ok(Figures { rows })
    }

    /// Lists everything by stream; answers the time to the first message and to the last.
    async fn list(&self, client: &Client) -> Result<(f64, f64)> {
        let begun = Instant::now();
        let request = pb::RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() };
        let mut stream = client.kv.clone().range_stream(request).await?.into_inner();
        let mut first = None;
        let (mut listed, mut count) = (0, 0);
        while let Some(chunk) = stream.message().await? {
            first.get_or_insert_with(|| begun.elapsed().as_secs_f64());
            let part = chunk.range_response.unwrap_or_default();
            listed += part.kvs.len();
            count = part.count.max(count);
        }
        ensure!(listed == self.keys, "{listed} keys were listed of {}", self.keys);
        ensure!(count == self.keys as i64, "the count is {count}");
        Ok((first.unwrap_or_default(), begun.elapsed().as_secs_f64()))
    }
}

/// Puts `keys` keys of `value_bytes` bytes by so many writers at once.
pub(crate) async fn load(server: &Server, keys: usize, value_bytes: usize, writers: usize) -> Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(Client::connect(&server.endpoint()).await?);
    }
    for writer in 0..writers {
        let mut kv = clients[writer % clients.len()].kv.clone();
        let next = next.clone();
        tasks.spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= keys {
                    return Ok::<(), tonic::Status>(());
                }
                let key = format!("/registry/pods/namespace-{:03}/pod-{index:07}", index % 500);
                let mut value = vec![b'v'; value_bytes];
                value[..8.min(value_bytes)]
                    .copy_from_slice(&(index as u64).to_be_bytes()[..8.min(value_bytes)]);
                kv.put(pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() }).await?;
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result??;
    }
    Ok(())
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
