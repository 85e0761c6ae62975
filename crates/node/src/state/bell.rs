//! Bell: wakes the housekeeping thread.

use crossbeam_channel::Sender;

/// Wakes the housekeeping thread: there is a compaction, a full segment, a due checkpoint.
pub(crate) struct HousekeepingBell(Sender<()>);

impl HousekeepingBell {
    pub(crate) fn new(sender: Sender<()>) -> HousekeepingBell {
        HousekeepingBell(sender)
    }

    pub(crate) fn ring(&self) {
        // Full: it has been woken already. Closed: the node has stopped.
        let _ = self.0.try_send(());
    }
}
