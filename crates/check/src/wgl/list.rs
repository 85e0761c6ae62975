//! Calls and returns in the order of time, from which an operation can be taken out and put back in
//! O(1).

use super::Cursor;

#[derive(Debug, Clone, Copy)]
struct Entry {
    time: u64,
    operation: usize,
    /// The entry of the return, for a call.
    matching: Option<usize>,
    prev: usize,
    next: usize,
}

/// The entry 0 stands before the first and behind the last.
#[derive(Debug)]
pub(super) struct List {
    entries: Vec<Entry>,
}

impl List {
    /// Of the operations that return. At one time calls come before returns: what touches overlaps.
    pub(super) fn new(spans: impl Iterator<Item = (u64, Option<u64>)>) -> List {
        let mut events: Vec<(u64, bool, usize)> = Vec::new();
        for (operation, (called, returned)) in spans.enumerate() {
            if let Some(returned) = returned {
                events.push((called, false, operation));
                events.push((returned, true, operation));
            }
        }
        events.sort_unstable();
        let count = events.len();
        let mut entries =
            vec![Entry { time: 0, operation: usize::MAX, matching: None, prev: count, next: 1 }];
        let mut calls = std::collections::HashMap::new();
        for (index, (time, is_return, operation)) in events.into_iter().enumerate() {
            let place = index + 1;
            entries.push(Entry { time, operation, matching: None, prev: index, next: place + 1 });
            if is_return {
                let call: usize = calls[&operation];
                entries[call].matching = Some(place);
            } else {
                calls.insert(operation, place);
            }
        }
        entries[count].next = 0;
        List { entries }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries[0].next == 0
    }

    pub(super) fn first(&self) -> Cursor {
        Cursor::Entry(self.entries[0].next)
    }

    pub(super) fn after(&self, entry: usize) -> Cursor {
        Cursor::Entry(self.entries[entry].next)
    }

    pub(super) fn time(&self, entry: usize) -> u64 {
        self.entries[entry].time
    }

    /// The operation called at this entry; None if it is a return.
    pub(super) fn call(&self, entry: usize) -> Option<usize> {
        self.entries[entry].matching.map(|_| self.entries[entry].operation)
    }

    /// The operations called before the first return.
    pub(super) fn callable(&self) -> Vec<usize> {
        let mut operations = Vec::new();
        let mut entry = self.entries[0].next;
        while let Some(operation) = self.call(entry) {
            operations.push(operation);
            entry = self.entries[entry].next;
        }
        operations
    }

    pub(super) fn lift(&mut self, call: usize) {
        self.unlink(call);
        self.unlink(self.entries[call].matching.expect("only calls are lifted"));
    }

    pub(super) fn unlift(&mut self, call: usize) {
        self.relink(self.entries[call].matching.expect("only calls are lifted"));
        self.relink(call);
    }

    fn unlink(&mut self, entry: usize) {
        let Entry { prev, next, .. } = self.entries[entry];
        self.entries[prev].next = next;
        self.entries[next].prev = prev;
    }

    fn relink(&mut self, entry: usize) {
        let Entry { prev, next, .. } = self.entries[entry];
        self.entries[prev].next = entry;
        self.entries[next].prev = entry;
    }
}
