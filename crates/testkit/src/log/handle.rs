//! Handle: one server's connection to the model log, for the suite.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use vetch_cluster::{Log, LogError, LogEvent, Ticket};
use vetch_journal::Position;

use crate::log::model::{ModelLog, Outcome};

/// Bytes of the largest record.
const MAX_RECORD: usize = 64 << 10;

/// A connection to a model log that others are connected to as well.
pub struct ModelHandle {
    log: Arc<Mutex<ModelLog>>,
    events: VecDeque<LogEvent>,
    /// Up to where records were delivered, once `read` was called.
    delivered: Option<Position>,
}

impl ModelHandle {
    pub fn new(log: Arc<Mutex<ModelLog>>) -> ModelHandle {
        ModelHandle { log, events: VecDeque::new(), delivered: None }
    }

    fn page(&mut self) {
        let Some(delivered) = self.delivered else { return };
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let mut page = log.read(delivered, 16, 0);
        if let Some((last, _)) = page.records.last() {
            self.delivered = Some(*last);
            page.end = page.end.filter(|end| end == last);
            self.events.push_back(LogEvent::Records(page));
        }
    }
}

impl Log for ModelHandle {
    fn append(&mut self, ticket: Ticket, after: Position, record: Bytes) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if record.len() > MAX_RECORD {
            self.events.push_back(LogEvent::Refused { ticket, last: None });
            return;
        }
        self.events.push_back(match log.append(after, record) {
            Outcome::Stored(at) => LogEvent::Appended { ticket, at },
            Outcome::Refused { last } => LogEvent::Refused { ticket, last: Some(last) },
            Outcome::Full => LogEvent::Full { ticket },
        });
    }

    fn read(&mut self, after: Position) {
        self.delivered = Some(after);
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let page = log.read(after, 16, 0);
        drop(log);
        if let Some((last, _)) = page.records.last() {
            self.delivered = Some(*last);
        }
        self.events.push_back(LogEvent::Records(page));
    }

    fn next(&mut self, _: Duration) -> Option<LogEvent> {
        if self.events.is_empty() {
            self.page();
        }
        self.events.pop_front()
    }

    fn trim(&mut self, floor: Position) -> Result<(), LogError> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).trim(floor);
        Ok(())
    }

    fn max_record(&self) -> usize {
        MAX_RECORD
    }
}
