//! What the machine itself can do, so that a server's figures can be put beside it: no durable
//! store answers faster than the disk syncs, and no client is answered faster than loopback echoes.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

use crate::measure::Stop;
use crate::measure::tally::{histogram, record};
use crate::report::{Figure, Latency, Point, Report};

#[derive(Args, Clone, Debug)]
pub(crate) struct Machine {
    /// A directory on the disk that servers will write to.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub(crate) dir: PathBuf,
    /// Time of each measurement.
    #[arg(long, default_value = "3s", value_parser = crate::args::duration)]
    pub(crate) duration: Duration,
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

const BLOCK: usize = 4096;
/// A file of this size is written before, and then from its beginning again and again.
const FILE: u64 = 64 << 20;
const ECHO: usize = 128;

pub(crate) fn run(options: &Machine, stop: &Stop) -> Result<Report> {
    let mut figures = Vec::new();
    for (name, written_before) in [("growing file", false), ("blocks that were written before", true)] {
        let (rate, latency) = syncs(options, stop, written_before)?;
        figures.push(Figure::higher(&format!("fdatasync of 4 KiB appends, {name}"), rate, "/s"));
        figures.push(Figure::lower(&format!("fdatasync of 4 KiB appends, {name}, p50"), latency.p50, "us"));
        figures.push(Figure::lower(&format!("fdatasync of 4 KiB appends, {name}, p99"), latency.p99, "us"));
    }
    let (rate, latency) = echoes(options, stop)?;
    figures.push(Figure::higher("echo of 128 bytes over loopback, one at a time", rate, "/s"));
    figures.push(Figure::lower("echo of 128 bytes over loopback, p50", latency.p50, "us"));
    figures.push(Figure::lower("echo of 128 bytes over loopback, p99", latency.p99, "us"));
    let (mut user, mut model) = (String::new(), String::new());
    let _ = File::open("/proc/version").and_then(|mut file| file.read_to_string(&mut user));
    let _ = File::open("/proc/cpuinfo").and_then(|mut file| file.read_to_string(&mut model));
    let model = model
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("")
        .trim_start_matches([' ', '\t', ':']);
    Ok(Report {
        workload: "machine".to_owned(),
        command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
        endpoints: vec![options.dir.display().to_string()],
        server_version: user.split_whitespace().take(3).collect::<Vec<_>>().join(" "),
        client: "none".to_owned(),
        pinned: format!("nothing pinned; {model}"),
        processors: crate::measure::processors(),
        points: vec![Point {
            label: "machine".to_owned(),
            seconds: options.duration.as_secs_f64(),
            figures,
            ..Point::default()
        }],
        interrupted: stop.is_raised(),
    })
}

fn syncs(options: &Machine, stop: &Stop, written_before: bool) -> Result<(f64, Latency)> {
    let scratch = tempfile::Builder::new().prefix("vetch-bench-").tempdir_in(&options.dir)?;
    let path = scratch.path().join("appends");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
    if written_before {
        let zeros = vec![0; 1 << 20];
        for piece in 0..FILE >> 20 {
            file.write_all_at(&zeros, piece << 20)?;
        }
        file.sync_all()?;
    }
    let block = [7; BLOCK];
    let mut latency = histogram();
    let (begun, mut offset, mut count) = (Instant::now(), 0, 0);
    while begun.elapsed() < options.duration && !stop.is_raised() {
        let before = Instant::now();
        file.write_all_at(&block, offset)?;
        file.sync_data().context("fdatasync")?;
        record(&mut latency, before.elapsed());
        count += 1;
        offset = (offset + BLOCK as u64) % FILE;
    }
    Ok((f64::from(count) / begun.elapsed().as_secs_f64(), Latency::of(&latency)))
}

fn echoes(options: &Machine, stop: &Stop) -> Result<(f64, Latency)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        let mut bytes = [0; ECHO];
        loop {
            match socket.read_exact(&mut bytes) {
                Ok(()) => socket.write_all(&bytes)?,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    });
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    let mut bytes = [1; ECHO];
    let mut latency = histogram();
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < options.duration && !stop.is_raised() {
        let before = Instant::now();
        socket.write_all(&bytes)?;
        socket.read_exact(&mut bytes)?;
        record(&mut latency, before.elapsed());
        count += 1;
    }
    let rate = f64::from(count) / begun.elapsed().as_secs_f64();
    drop(socket);
    server.join().map_err(|_| anyhow::anyhow!("the echo panicked"))??;
    Ok((rate, Latency::of(&latency)))
}
