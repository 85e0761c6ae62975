//! How long a million keys take. Run in a release build: `cargo test --release -- --ignored speed`.

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use vetch_checkpoint::{Capture, CheckpointConfig, load};
use vetch_encryption::EncryptionKeys;
use vetch_journal::{RealDisk, Tip};
use vetch_store::load::Unversioned;
use vetch_store::record::Fields;
use vetch_store::{Mark, Record};

#[test]
#[ignore = "takes gigabytes and is about time"]
fn a_million_records_of_a_kilobyte() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let began = Instant::now();
        let loaded = load(
            Arc::new(RealDisk),
            dir.path(),
            CheckpointConfig::default(),
            2,
            &EncryptionKeys::none(),
            &mut |_, _| {},
        )
        .unwrap();
        (loaded, began.elapsed())
    };
    let (loaded, _) = open();
    let mut checkpointer = loaded.checkpointer;
    let value = vec![b'v'; 1024];
    // Eight files, as after a few checkpoints; keys come in no order.
    let records: Vec<Record> = (0..1_000_000u64)
        .map(|n| {
            let key = format!("/registry/pods/namespace/{:012}", n * 7_919_317 % 1_000_003);
            let revision = n as i64 + 2;
            Record::new(Fields {
                key: key.as_bytes(),
                value: &value,
                create_revision: revision,
                mod_revision: revision,
                version: 1,
                lease: 0,
                sub: 0,
            })
        })
        .collect();
    for dirty in records.chunks(125_000) {
        let began = Instant::now();
        let revision = dirty.last().unwrap().mod_revision();
        let capture = Capture {
            mark: Mark { revision, compact_revision: -1 },
            swept: None,
            tip: Tip::genesis(revision + 1),
            position: 0,
            unversioned: Unversioned::default(),
            dirty: dirty.to_vec(),
        };
        let report = checkpointer.run(capture, &|records| vec![true; records.len()]).unwrap();
        println!("run: {:?} {} bytes, {} files", began.elapsed(), report.written_bytes, report.files);
    }
    for _ in 0..3 {
        let (loaded, took) = open();
        assert_eq!(loaded.store.stats().keys, 1_000_000);
        println!("load: {took:?}, {} files, {} bytes", loaded.report.files, loaded.report.bytes);
    }
}
