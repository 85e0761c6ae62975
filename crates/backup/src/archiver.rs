//! The archiver: a thread beside a running node that ships the durable journal every few seconds,
//! and now and then a full backup.
//!
//! ```text
//!   node --durable--> marks (10 a second)
//!     |                  v
//!     '--segments--> session: chunk, chunk, chunk ...        --> store
//!     '--checkpoint, held--> full: files, then the document  --> store, on a thread of its own
//! ```
//!
//! Whatever fails is tried again, for ever, later and later up to a quarter of a minute; the node
//! keeps its journal meanwhile, up to its limit. Bounded: one chunk in memory, marks thinned out
//! beyond a few thousand, requests as the node allows.

mod full;
mod marks;
mod session;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use vetch_node::archive::Archive;
use vetch_node::retention::{BackedUp, BackupFailed, BackupRequest};

use crate::error::BackupError;
use crate::location::Location;
use crate::times;
use full::FullRun;
use marks::Marks;
use session::Session;

/// How often it is looked whether there is something to do.
const TICK: Duration = Duration::from_millis(50);
/// How soon, and how late at most, something that failed is tried again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(15);
/// A full backup that failed, or found nothing new, is tried again after this.
const FULL_RETRY: Duration = Duration::from_secs(30);
/// Requests that may wait for a full backup.
const WAITING_MAX: usize = 16;

/// What to do, where and how often.
#[derive(Debug, Clone)]
pub struct Settings {
    pub location: Location,
    /// Between two chunks of journal: what may be lost with the disk.
    pub interval: Duration,
    /// Between two full backups.
    pub full_interval: Duration,
    /// How far back every point can be restored. None: for ever.
    pub retention: Option<Duration>,
}

/// The running archiver.
pub struct Archiver {
    stop: Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Archiver {
    pub fn start(archive: Archive, settings: Settings) -> std::io::Result<Archiver> {
        let (stop, stopped) = bounded(1);
        let marks = Arc::new(Marks::default());
        let requests = archive.requests();
        let worker = Worker {
            archive: archive.clone(),
            settings,
            marks: Arc::clone(&marks),
            requests,
            session: None,
            full: None,
            waiting: Vec::new(),
            not_before: Instant::now(),
            full_not_before: Instant::now(),
            retry: FIRST_RETRY,
            shipped: Instant::now(),
        };
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        // Ends with the node; nothing depends on when.
        named("vetch-marks").spawn(move || marks.run(&archive))?;
        let thread = named("vetch-backup").spawn(move || worker.run(&stopped))?;
        Ok(Archiver { stop, thread })
    }

    /// Call after the node has ended. Ships what is left within `timeout` and returns false if that
    /// was too short. The next start ships the rest.
    pub fn finish(self, timeout: Duration) -> bool {
        // A thread that has ended by itself is as good.
        let _ = self.stop.send(());
        let deadline = Instant::now() + timeout;
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.thread.is_finished()
    }
}

struct Worker {
    archive: Archive,
    settings: Settings,
    marks: Arc<Marks>,
    requests: Receiver<BackupRequest>,
    /// `None`: the store has not been reached yet, or its content has to be read again.
    session: Option<Session>,
    full: Option<FullRun>,
    /// Requests that wait for a full backup.
    waiting: Vec<BackupRequest>,
    not_before: Instant,
    full_not_before: Instant,
    retry: Duration,
    shipped: Instant,
}

impl Worker {
    fn run(mut self, stopped: &Receiver<()>) {
        tracing::info!(location = %self.settings.location, "backups are made");
        loop {
            let request = select! {
                recv(self.requests) -> request => request.ok(),
                recv(stopped) -> _ => break,
                default(TICK) => None,
            };
            match request {
                Some(request) => self.answer(request),
                None => self.look(),
            }
            self.look_after_full();
            self.measure();
        }
        let left = self.ship();
        if let Err(error) = left {
            tracing::error!(%error, "the last writes are not in the backup; the next start sends them");
        }
    }

    /// Does what is due.
    fn look(&mut self) {
        let now = Instant::now();
        let is_due = self.session.is_none() || now - self.shipped >= self.settings.interval;
        if now < self.not_before || !is_due {
            return;
        }
        if let Err(error) = self.ship() {
            self.not_before = Instant::now() + self.retry;
            self.retry = (self.retry * 2).min(LAST_RETRY);
            self.report_failure(&error);
        } else {
            self.retry = FIRST_RETRY;
        }
    }

    fn report_failure(&self, error: &BackupError) {
        self.archive.metrics().failures.add(1);
        let behind = self.archive.metrics().lag.get();
        tracing::error!(%error, entries_behind = behind, again_in = ?self.retry, "the backup failed");
    }

    /// Ships everything that is durable now, however often it was tried before.
    fn ship(&mut self) -> Result<(), BackupError> {
        self.shipped = Instant::now();
        if self.archive.retention_dropped() {
            self.session = None;
        }
        let mut session = match self.session.take() {
            Some(session) => session,
            None => Session::begin(&self.archive, &self.settings.location)?,
        };
        session.ship(&self.archive, &self.marks)?;
        self.session = Some(session);
        Ok(())
    }

    fn answer(&mut self, request: BackupRequest) {
        match self.ship() {
            Ok(()) if request.full && self.waiting.len() == WAITING_MAX => {
                let text = "too many requests wait for a full backup already; try again when it is done";
                self.reply(request, Err(BackupFailed(text.to_owned())));
            }
            Ok(()) if request.full => {
                self.full_not_before = Instant::now();
                self.waiting.push(request);
            }
            Ok(()) => self.reply(request, Ok(())),
            Err(error) => {
                self.report_failure(&error);
                self.reply(request, Err(BackupFailed(error.to_string())));
            }
        }
    }

    fn reply(&self, request: BackupRequest, outcome: Result<(), BackupFailed>) {
        let backed_up = || BackedUp {
            location: self.settings.location.to_string(),
            revision: self.archive.metrics().revision.get(),
            full_revision: self.archive.metrics().full_revision.get(),
        };
        // The caller may have gone.
        let _ = request.reply.send(outcome.map(|()| backed_up()));
    }

    /// Begins a full backup if one is due, and takes note of one that has ended.
    fn look_after_full(&mut self) {
        if let Some(run) = self.full.take_if(|run| run.is_finished()) {
            self.take_full(run);
        }
        let Some(session) = &self.session else { return };
        let is_wanted = !self.waiting.is_empty() || session.is_full_due(self.settings.full_interval);
        if self.full.is_some() || !is_wanted || Instant::now() < self.full_not_before {
            return;
        }
        match FullRun::start(&self.archive, &self.settings, session) {
            Ok(run) => self.full = Some(run),
            Err(error) => tracing::error!(%error, "no thread for a full backup"),
        }
    }

    fn take_full(&mut self, run: FullRun) {
        let outcome = run.join();
        match &outcome {
            Ok(Some(full)) => {
                if let Some(session) = &mut self.session {
                    session.full_taken(full);
                }
                tracing::info!(revision = full.revision, files = full.files.len(), "full backup taken");
            }
            Ok(None) => self.full_not_before = Instant::now() + FULL_RETRY,
            Err(error) => {
                self.full_not_before = Instant::now() + FULL_RETRY;
                self.archive.metrics().failures.add(1);
                tracing::error!(%error, "the full backup failed; it will be tried again");
            }
        }
        let outcome = outcome.map(|_| ()).map_err(|error| BackupFailed(error.to_string()));
        for request in std::mem::take(&mut self.waiting) {
            self.reply(request, outcome.clone());
        }
    }

    fn measure(&self) {
        let metrics = self.archive.metrics();
        let archived = self.session.as_ref().map(Session::archived);
        if let Some(archived) = archived {
            let lag = self.archive.durable().seq.since(archived);
            metrics.lag.set(i64::try_from(lag).unwrap_or(i64::MAX));
            if lag == 0 {
                metrics.time.set(i64::try_from(times::now()).unwrap_or(i64::MAX));
            }
        }
    }
}
