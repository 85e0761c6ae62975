//! How long clients had to wait, over one run or many.

use std::time::Duration;

#[derive(Default)]
pub(super) struct Times {
    /// From the loss of the leader to the first write that another server acknowledged.
    pub(super) failovers: Vec<Duration>,
    /// The same, when the journal lost its leader as well.
    pub(super) with_journal: Vec<Duration>,
    /// From the loss of the journal's leader to the fifth write after it.
    pub(super) journal: Vec<Duration>,
    /// From the first write after the journal had no quorum until a watch at another server was
    /// told of it.
    pub(super) heard: Vec<Duration>,
}

impl Times {
    pub(super) fn add(&mut self, other: Times) {
        self.failovers.extend(other.failovers);
        self.with_journal.extend(other.with_journal);
        self.journal.extend(other.journal);
        self.heard.extend(other.heard);
    }

    pub(super) fn lines(mut self) -> Vec<String> {
        let named = [
            ("from the loss of the leader to a write by another one", &mut self.failovers),
            ("the same, and the journal's leader was lost as well", &mut self.with_journal),
            ("from the loss of the journal's leader to the fifth write", &mut self.journal),
            ("from the first write after a loss of quorum to a watch at any server", &mut self.heard),
        ];
        named.into_iter().filter_map(|(name, times)| line(name, times)).collect()
    }
}

fn line(name: &str, times: &mut [Duration]) -> Option<String> {
    times.sort_unstable();
    let (median, most) = (times.get(times.len().saturating_sub(1) / 2)?, times.last()?);
    let (count, median, most) = (times.len(), median.as_millis(), most.as_millis());
    Some(format!("  {name}, of {count}: p50 {median} ms, max {most} ms"))
}
