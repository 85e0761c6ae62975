//! What a process has used, from /proc.

use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Usage {
    /// User and system time of all threads.
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_bytes: u64,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> Result<Usage> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
            .with_context(|| format!("there is no process {pid} to look at"))?;
        // The name of the program is in parentheses and may hold anything.
        let (_, rest) = stat.rsplit_once(") ").context("an odd /proc/PID/stat")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let field = |index: usize| -> Result<u64> {
            fields.get(index).context("a short /proc/PID/stat")?.parse().context("an odd /proc/PID/stat")
        };
        let ticks = field(11)? + field(12)?;
        let pages = field(21)?;
        Ok(Usage {
            cpu_seconds: ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
            resident_bytes: pages * rustix::param::page_size() as u64,
        })
    }

    /// Of all of them together.
    pub(crate) fn of_all(pids: &[u32]) -> Result<Usage> {
        let mut sum = Usage::default();
        for &pid in pids {
            let one = Usage::of(pid)?;
            sum.cpu_seconds += one.cpu_seconds;
            sum.resident_bytes += one.resident_bytes;
        }
        Ok(sum)
    }

    pub(crate) fn of_this_process() -> Usage {
        Usage::of(std::process::id()).unwrap_or_default()
    }
}
