//! Loading of checkpoints from mutated files: refused, or a store that answers, and that the next
//! checkpoint keeps.

use std::path::Path;
use std::sync::Arc;

use vetch_checkpoint::{Capture, CheckpointConfig, Loaded, load};
use vetch_journal::MemDisk;
use vetch_store::hash::HashRun;
use vetch_store::range::RangeRun;
use vetch_store::request::{Event, KeyRange, RangeRequest};
use vetch_store::{Record, Store};
use vetch_testkit::valid::Valid;

use crate::{image, repair};

pub const DIR: &str = "/checkpoint";

/// Small blocks and eager merges.
pub const CONFIG: CheckpointConfig = CheckpointConfig {
    rewrite_bytes: 4 << 10,
    rewrite_floor: 1 << 10,
    small_file: 64,
    max_files: 6,
    block_bytes: 100,
};

/// Even numbers are data files, odd ones manifests.
fn name(number: u8) -> String {
    format!("{:016x}.{}", number / 2, if number.is_multiple_of(2) { "data" } else { "manifest" })
}

pub fn run(data: &[u8]) {
    let (flags, mut files) = image::parse(data);
    if flags.checksums() {
        let mut known = Vec::new();
        for (number, content) in files.iter_mut().filter(|(number, _)| number.is_multiple_of(2)) {
            let id = u64::from(*number / 2);
            known.extend(repair::data_file(content, id).map(|crc| (id, content.len(), crc)));
        }
        for (number, content) in files.iter_mut().filter(|(number, _)| !number.is_multiple_of(2)) {
            repair::manifest(content, u64::from(*number / 2), &known);
        }
    }
    let files = files.into_iter().map(|(number, content)| (name(number), content));
    judge(&image::disk(Path::new(DIR), files));
}

fn open(disk: &MemDisk) -> Option<Loaded> {
    load(Arc::new(disk.clone()), Path::new(DIR), CONFIG, 0, &image::keys(false), &mut |_, _| {}).ok()
}

fn judge(disk: &MemDisk) {
    let Some(mut loaded) = open(disk) else { return };
    let before = answers(&loaded.store);
    let history: Vec<(i64, Event)> = loaded.history.into_events().collect();
    assert!(history.is_sorted_by_key(|(revision, event)| (*revision, event.kv.sub())), "history is in order");
    assert!(history.iter().all(|(revision, event)| *revision == event.kv.mod_revision()));
    let capture = Capture::at_head(&loaded.store, loaded.tip, Vec::new());
    let store = &loaded.store;
    let retained = |records: &[Record]| records.iter().map(|record| store.retains(record)).collect();
    loaded.checkpointer.run(capture, &retained).expect("the disk does not fail");
    let again = open(disk).expect("just written");
    assert_eq!(answers(&again.store), before, "the next checkpoint holds the same");
    assert!(again.history.into_events().eq(history), "and the same history");
}

/// Everything alive now, and a hash over all of it.
fn answers(store: &Store) -> (Vec<Record>, u32, vetch_store::load::Unversioned) {
    let mut run = RangeRun::new(RangeRequest::new(KeyRange::new("\0", "\0")).valid(), store.visible())
        .expect("the newest revision can be read");
    while !run.step(store, 3, usize::MAX).expect("nothing compacts") {}
    let count = run.count(store).expect("nothing compacts");
    let found = run.finish(count);
    assert_eq!(found.kvs.len() as i64, count);
    let mut hash = HashRun::new(store.visible().revision, store.visible());
    while hash.step(store, 3) != Some(true) {}
    (found.kvs, hash.finish(), store.unversioned())
}
