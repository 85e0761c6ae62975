//! A pool of worker processes that seeds are given to.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;

use super::Level;
use super::worker::Answer;

/// One worker, replaced when it dies.
struct Worker {
    child: Child,
    seeds: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// A worker that ended instead of answering.
#[derive(Debug, thiserror::Error)]
#[error("the process ended ({status}): {last_line}")]
struct Died {
    status: ExitStatus,
    last_line: String,
}

/// What every worker is started with.
pub(crate) struct Setup<'a> {
    pub(crate) level: Level,
    pub(crate) histories: &'a Path,
    pub(crate) bug: Option<&'a str>,
}

impl Worker {
    fn start(setup: &Setup<'_>) -> io::Result<Worker> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("worker").arg("--histories").arg(setup.histories);
        command.args(setup.level.arguments());
        command.args(setup.bug.map(|bug| ["--bug", bug]).into_iter().flatten());
        if setup.bug.is_some() {
            // A planted bug may well end in a panic; only that it does is of interest.
            command.stderr(Stdio::null());
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let missing = || io::Error::other("a worker without pipes");
        let seeds = child.stdin.take().ok_or_else(missing)?;
        let answers = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Worker { child, seeds, answers })
    }

    fn ask(&mut self, seed: u64) -> io::Result<Result<Answer, Died>> {
        let mut line = String::new();
        if writeln!(self.seeds, "{seed}").is_ok() {
            self.answers.read_line(&mut line)?;
        }
        match serde_json::from_str(&line) {
            Ok(answer) => Ok(Ok(answer)),
            Err(_) => {
                let status = self.child.wait()?;
                Ok(Err(Died { status, last_line: line.trim().to_owned() }))
            }
        }
    }
}

/// Gives seeds to `jobs` workers until there are none or `take` says stop. `take` gets every
/// answer, one at a time.
pub(crate) fn feed(
    setup: &Setup<'_>,
    jobs: usize,
    seeds: impl Iterator<Item = u64> + Send,
    take: impl FnMut(Answer) -> bool + Send,
) -> io::Result<()> {
    let (seeds, take) = (Mutex::new(Some(seeds)), Mutex::new(take));
    let next = || seeds.lock().expect("nothing panics under this lock").as_mut().and_then(Iterator::next);
    let serve = || -> io::Result<()> {
        let mut worker = Worker::start(setup)?;
        while let Some(seed) = next() {
            let answer = match worker.ask(seed)? {
                Ok(answer) => answer,
                Err(died) => {
                    worker = Worker::start(setup)?;
                    Answer { seed, violations: vec![died.to_string()], ..Answer::default() }
                }
            };
            if !(take.lock().expect("nothing panics under this lock"))(answer) {
                *seeds.lock().expect("nothing panics under this lock") = None;
            }
        }
        drop(worker.seeds);
        worker.child.wait().map(|_| ())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(serve)).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("a feeder does not panic"));
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}
