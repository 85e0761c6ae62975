//! A journal that begins anew behind a checkpoint of another member; `local::begin` has the steps
//! and what a start makes of one that was interrupted.

use std::io;
use std::sync::Arc;

use vetch_base::Seq;

use super::LocalJournal;
use crate::contract::JournalError;
use crate::entry::Tip;
use crate::local::begin::{self, Begin, State};

impl LocalJournal {
    /// Says, durably, that a checkpoint at `tip` is about to be installed to which this journal
    /// does not lead. If the next start is from that checkpoint, the journal begins anew there; if
    /// it is from another one, or if anything is appended before, nothing has happened.
    pub fn announce_begin(&mut self, tip: Tip) -> Result<(), JournalError> {
        self.check_poison()?;
        self.complete_begin()?;
        self.say(State::Announced, tip)
    }

    /// Gives up everything that the journal has and begins anew behind `tip`, at which a checkpoint
    /// was installed after it was announced. What is `committed` is in that checkpoint. The same
    /// call may be made again after an error that may be retried.
    pub fn begin_at(&mut self, tip: Tip, committed: Seq) -> Result<(), JournalError> {
        self.check_poison()?;
        assert!(tip.seq >= committed, "a committed entry is never given up");
        if self.begin != Some(State::Decided) {
            // What may fail for want of space comes first, and no removal may come later.
            self.maintenance.remove_retired()?;
            let spare = self.maintenance.take(0)?;
            self.maintenance.put_back(spare);
            self.say(State::Decided, tip)?;
            self.give_up(tip)?;
        }
        assert!(self.tip == tip, "it has begun behind another checkpoint");
        self.complete_begin()
    }

    fn give_up(&mut self, tip: Tip) -> Result<(), JournalError> {
        self.published.begun(tip.seq);
        self.segments.clear();
        self.active = None;
        self.tip = tip;
        let gone = begin::remove_segments(self.disk.as_ref(), &self.dir);
        gone.map_err(|error| self.poison("removing the segments of a journal that begins anew", &error))
    }

    /// Before anything is appended: what was only announced is not going to happen, and what was
    /// decided is done first.
    pub(super) fn complete_begin(&mut self) -> Result<(), JournalError> {
        match self.begin {
            None => return Ok(()),
            Some(State::Announced) => {}
            Some(State::Decided) => {
                if self.segments.is_empty() {
                    let spare = self.maintenance.take(0)?;
                    self.activate(spare)?;
                }
            }
        }
        let forgotten = Begin::forget(self.disk.as_ref(), &self.dir);
        forgotten.map_err(|error| self.poison("beginning anew", &error))?;
        self.begin = None;
        Ok(())
    }

    fn say(&mut self, state: State, tip: Tip) -> Result<(), JournalError> {
        // Whether or not it can be read at a start: until it is gone nothing may be appended.
        self.begin = Some(State::Announced);
        match Begin::new(state, tip).write(self.disk.as_ref(), &self.dir) {
            Ok(()) => {
                self.begin = Some(state);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                let (dir, source) = (self.dir.clone(), Arc::new(error));
                Err(JournalError::NoSpace { dir, needed: Begin::LEN as u64, source })
            }
            Err(error) => Err(self.poison("saying where the journal begins anew", &error)),
        }
    }
}
