//! Handle: the model log as one server's connection to it, for the suite.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use vetch_fence::{Log, LogError, News, Ticket};
use vetch_journal::Position;

use crate::model::{ModelLog, Outcome};

/// Bytes of the largest record.
const MAX_RECORD: usize = 64 << 10;

/// A connection to a model log that others are connected to as well.
pub struct ModelHandle {
    log: Arc<Mutex<ModelLog>>,
    news: VecDeque<News>,
    /// Up to where records were told, once somebody reads.
    told: Option<Position>,
}

impl ModelHandle {
    pub fn new(log: Arc<Mutex<ModelLog>>) -> ModelHandle {
        ModelHandle { log, news: VecDeque::new(), told: None }
    }

    fn page(&mut self) {
        let Some(told) = self.told else { return };
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let mut page = log.read(told, 16, 0);
        if let Some((last, _)) = page.records.last() {
            self.told = Some(*last);
            page.end = page.end.filter(|end| end == last);
            self.news.push_back(News::Records(page));
        }
    }
}

impl Log for ModelHandle {
    fn append(&mut self, ticket: Ticket, after: Position, record: Bytes) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if record.len() > MAX_RECORD {
            self.news.push_back(News::Refused { ticket, last: None });
            return;
        }
        self.news.push_back(match log.append(after, record) {
            Outcome::Stored(at) => News::Appended { ticket, at },
            Outcome::Refused { last } => News::Refused { ticket, last: Some(last) },
            Outcome::Full => News::Full { ticket },
        });
    }

    fn read(&mut self, after: Position) {
        self.told = Some(after);
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let page = log.read(after, 16, 0);
        drop(log);
        if let Some((last, _)) = page.records.last() {
            self.told = Some(*last);
        }
        self.news.push_back(News::Records(page));
    }

    fn next(&mut self, _: Duration) -> Option<News> {
        if self.news.is_empty() {
            self.page();
        }
        self.news.pop_front()
    }

    fn trim(&mut self, floor: Position) -> Result<(), LogError> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).trim(floor);
        Ok(())
    }

    fn max_record(&self) -> usize {
        MAX_RECORD
    }
}
