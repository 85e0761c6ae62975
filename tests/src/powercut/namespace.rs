//! A mount namespace for one trial.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Set in the process that runs in a namespace of its own.
const OWN: &str = "VETCH_OWN_MOUNT_NAMESPACE";

/// Namespaces of others that there are at once, and how often the oldest is replaced.
const OTHERS: usize = 4;
const CHANGE: Duration = Duration::from_millis(250);

pub(super) fn is_own() -> bool {
    std::env::var_os(OWN).is_some()
}

/// Runs this very program with the same arguments in a mount namespace of its own. Meanwhile other
/// namespaces come and go, each with a copy of what is mounted out here.
pub(super) fn run_in_own() -> Result<()> {
    let missing = "unshare is missing; this trial needs it";
    let mut trial = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--"])
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(OWN, "1")
        .spawn()
        .context(missing)?;
    let mut others = Others(Vec::new());
    let status = loop {
        if let Some(status) = trial.try_wait()? {
            break status;
        }
        others.change().context(missing)?;
        sleep(CHANGE);
    };
    ensure!(status.success(), "the trial ended with {status}; what is wrong is said above");
    Ok(())
}

/// Processes in mount namespaces of their own, the oldest first.
struct Others(Vec<Child>);

impl Others {
    fn change(&mut self) -> Result<()> {
        if self.0.len() == OTHERS {
            end(&mut self.0.remove(0));
        }
        let other =
            Command::new("unshare").args(["--mount", "--", "sleep", "60"]).stdin(Stdio::null()).spawn()?;
        self.0.push(other);
        Ok(())
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(end);
    }
}

fn end(other: &mut Child) {
    // It may have ended by itself.
    let _ = other.kill();
    let _ = other.wait();
}
