//! Visible: what readers may see beside the store's versions, all of which is durable, and how
//! many long reads run.

use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::watch;
use vetch_base::Seq;
use vetch_journal::Tip;
use vetch_store::Store;
use vetch_store::request::Alarm;
use vetch_sync::RwLock;

use super::durable_auth::DurableAuth;
use super::reads::Reads;

pub(crate) struct Visible {
    /// The store's visible revision, readable without its lock.
    revision: AtomicI64,
    /// Sequence number of the newest durable entry.
    seq: watch::Sender<Seq>,
    auth: DurableAuth,
    alarms: RwLock<Vec<Alarm>>,
    reads: Reads,
}

impl Visible {
    /// Everything that was recovered is visible.
    pub(crate) fn new(store: &Store, tip: &Tip) -> Visible {
        Visible {
            revision: AtomicI64::new(store.head().revision),
            seq: watch::Sender::new(tip.seq),
            auth: DurableAuth::new(store.auth().clone()),
            alarms: RwLock::new(store.alarms().collect()),
            reads: Reads::new(),
        }
    }

    pub(crate) fn reads(&self) -> &Reads {
        &self.reads
    }

    pub(crate) fn revision(&self) -> i64 {
        self.revision.load(Ordering::Acquire)
    }

    pub(crate) fn set_revision(&self, revision: i64) {
        let before = self.revision.swap(revision, Ordering::AcqRel);
        assert!(before <= revision, "what was visible stays visible");
    }

    pub(crate) fn seq(&self) -> Seq {
        *self.seq.borrow()
    }

    pub(crate) fn set_seq(&self, seq: Seq) {
        let before = self.seq.send_replace(seq);
        assert!(before <= seq, "entries become durable in the order of the journal");
    }

    pub(crate) fn subscribe_seq(&self) -> watch::Receiver<Seq> {
        self.seq.subscribe()
    }

    pub(crate) fn auth(&self) -> &DurableAuth {
        &self.auth
    }

    pub(crate) fn alarms(&self) -> Vec<Alarm> {
        self.alarms.read().clone()
    }

    pub(crate) fn set_alarms(&self, alarms: Vec<Alarm>) {
        *self.alarms.write() = alarms;
    }
}
