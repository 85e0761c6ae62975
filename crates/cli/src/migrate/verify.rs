//! Comparison of both sides: etcd's own hash over all history, at the same revision.

use std::time::{Duration, Instant};

use bytes::Bytes;
use vetch_api::mvccpb::KeyValue;
use vetch_node::Node;
use vetch_node::error::NodeError;
use vetch_node::store::request::{KeyRange, RangeRequest};
use vetch_node::store::{Record, validate};

use super::error::MigrateError;
use super::source::Source;

/// Keys in one page of a comparison by keys.
const PAGE: i64 = 1000;

/// A comparison that came out equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verified {
    pub(super) revision: i64,
    /// None if all keys were compared instead.
    pub(super) hash: Option<u32>,
    pub(super) took: Duration,
}

impl Verified {
    pub(super) fn text(&self) -> String {
        match self.hash {
            Some(hash) => format!("HashKV {hash} on both sides"),
            None => "every key the same on both sides".into(),
        }
    }
}

/// Compares at `revision`, which the node has. History begins where it does in the etcd, whose
/// compactions are followed.
pub(super) async fn verify(source: &Source, node: &Node, revision: i64) -> Result<Verified, MigrateError> {
    let begun = Instant::now();
    let theirs = source.hash_kv(revision).await?;
    if theirs.compact_revision > node.status().compact_revision {
        node.compact(theirs.compact_revision, false).await?;
    }
    let ours = node.hash_kv(revision).await?;
    let is_same = (ours.hash, ours.compact_revision) == (theirs.hash, theirs.compact_revision);
    // At a compacted revision, both answer with the hash that they kept from then, if they did, and
    // their compaction before may differ.
    if !is_same && node.status().compact_revision == revision {
        compare_keys(source, node, revision).await?;
        return Ok(Verified { revision, hash: None, took: begun.elapsed() });
    }
    if !is_same {
        return Err(MigrateError::CopyAgain(format!(
            "the copy differs at revision {revision}: HashKV {} (compacted at {}) here, {} ({}) there",
            ours.hash, ours.compact_revision, theirs.hash, theirs.compact_revision
        )));
    }
    Ok(Verified { revision, hash: Some(ours.hash), took: begun.elapsed() })
}

/// All keys as they are at a revision, page by page.
async fn compare_keys(source: &Source, node: &Node, revision: i64) -> Result<(), MigrateError> {
    let mut key = vec![0];
    loop {
        let theirs = source.page(&key, revision, PAGE).await?;
        let range = KeyRange::new(key.clone(), Bytes::from_static(&[0]));
        let request = RangeRequest { revision, limit: PAGE, ..RangeRequest::new(range) };
        let ours = node.range(validate::range(request).map_err(NodeError::from)?).await?;
        let is_same = theirs.kvs.len() == ours.kvs.len()
            && theirs.more == ours.more
            && theirs.kvs.iter().zip(&ours.kvs).all(|(theirs, ours)| is_equal(theirs, ours));
        if !is_same {
            let from = String::from_utf8_lossy(&key).into_owned();
            let text = format!("the copy differs at revision {revision}, among the keys from {from:?} on");
            return Err(MigrateError::CopyAgain(text));
        }
        match theirs.kvs.last() {
            Some(last) if theirs.more => key = [&last.key[..], &[0]].concat(),
            _ => return Ok(()),
        }
    }
}

fn is_equal(theirs: &KeyValue, ours: &Record) -> bool {
    let numbers = (ours.create_revision(), ours.mod_revision(), ours.version(), ours.lease());
    (&theirs.key[..], &theirs.value[..]) == (ours.key(), &*ours.value())
        && (theirs.create_revision, theirs.mod_revision, theirs.version, theirs.lease) == numbers
}
