//! Client and server on a processor each, so that neither is measured through the other.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// `--pin CLIENT,SERVER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) client: usize,
    pub(crate) server: usize,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PinError {
    #[error("{0:?} is not CLIENT,SERVER: two numbers of processors, such as 0,1")]
    Malformed(String),
    #[error("client and server need a processor each")]
    Same,
}

impl std::str::FromStr for Pin {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Pin, PinError> {
        let wrong = || PinError::Malformed(text.to_owned());
        let (client, server) = text.split_once(',').ok_or_else(wrong)?;
        let client = client.trim().parse().map_err(|_| wrong())?;
        let server = server.trim().parse().map_err(|_| wrong())?;
        if client == server {
            return Err(PinError::Same);
        }
        Ok(Pin { client, server })
    }
}

impl std::fmt::Display for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "client on processor {}, server on processor {}", self.client, self.server)
    }
}

/// The calling thread, and those that it starts from now on, run on this processor only.
pub(crate) fn this_thread(processor: usize) -> Result<()> {
    set(None, processor)
}

/// All threads of a process.
pub(crate) fn process(pid: u32, processor: usize) -> Result<()> {
    let tasks =
        fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("no process {pid} to pin"))?;
    for task in tasks {
        let name = task?.file_name();
        let id = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        match set(Some(id.context("an odd name of a thread")?), processor) {
            // Threads come and go.
            Err(error) if error.downcast_ref() == Some(&rustix::io::Errno::SRCH) => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

fn set(thread: Option<Pid>, processor: usize) -> Result<()> {
    let allowed = sched_getaffinity(None).context("asking for the processors")?;
    let mut only = CpuSet::new();
    anyhow::ensure!(processor < CpuSet::MAX_CPU, "there is no processor {processor}");
    only.set(processor);
    let outcome = sched_setaffinity(thread, &only);
    outcome
        .map_err(anyhow::Error::new)
        .with_context(|| format!("pinning to processor {processor} ({} are allowed here)", allowed.count()))
}
