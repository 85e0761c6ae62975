//! Heads that were decoded already.
//!
//! Clients send the same few headers over and over, after the first time as the same few bytes. As
//! long as the table that they refer to has not changed, the same bytes are the same head.

use std::sync::Arc;

use crate::head::Head;

/// Heads kept, and bytes of a block that is worth it.
const MOST: usize = 16;
const LONGEST: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Heads {
    /// The state of the table that all of them belong to.
    changes: u64,
    known: Vec<(Box<[u8]>, Arc<Head>)>,
}

impl Heads {
    pub(super) fn get(&mut self, block: &[u8], changes: u64) -> Option<Arc<Head>> {
        if self.changes != changes {
            self.known.clear();
            self.changes = changes;
            return None;
        }
        let (_, head) = self.known.iter().find(|(known, _)| **known == *block)?;
        Some(Arc::clone(head))
    }

    /// Keeps a head whose block has left the table as it was.
    pub(super) fn put(&mut self, block: &[u8], changes: u64, head: &Arc<Head>) {
        if block.len() > LONGEST || self.changes != changes {
            return;
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.push((block.into(), Arc::clone(head)));
    }
}
