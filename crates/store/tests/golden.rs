//! Behaviour as text: see [`script`]. A script that fails prints the difference; run the test with
//! `UPDATE_GOLDENFILES=1` to write what it gives now, and review that.

mod script;
mod spec;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use script::{Script, state};
use vetch_store::Store;

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/scripts")
}

/// One test for each script.
macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(#[test]
        fn $name() {
            goldenscript::run(&mut Script::new(), scripts().join(stringify!($name))).expect("a script runs");
        })*
    };
}

scripts![
    auth,
    compaction,
    deletes,
    hash,
    hash_compacted,
    hash_put_again,
    head_and_visible,
    journal_bytes,
    leases,
    limits,
    prev_kv,
    puts,
    quota,
    ranges,
    replay,
    streams,
    txns,
    txns_nested,
];

#[test]
fn every_script_is_run() {
    let files = std::fs::read_dir(scripts()).expect("the scripts are there");
    let files: BTreeSet<String> = files
        .map(|file| file.expect("a readable entry").file_name().into_string().expect("names are text"))
        .collect();
    assert_eq!(files, NAMES.iter().map(|name| (*name).to_owned()).collect());
}

/// Bytes written by an earlier version are still understood, whatever is written today.
#[test]
fn frozen_journal_bytes_replay() {
    let script = std::fs::read_to_string(scripts().join("journal_bytes")).expect("the script is there");
    let byte = |hex: &str| u8::from_str_radix(hex, 16).expect("two hex digits");
    let lines = script.lines().filter_map(|line| line.strip_prefix("bytes "));
    let bytes: Vec<u8> = lines.flat_map(|line| line.split_whitespace().map(byte)).collect();
    assert!(bytes.len() > 500, "the script shows the bytes of its entries");
    let mut store = Store::default();
    store.replay(&bytes).expect("frozen bytes");
    store.publish(store.head());
    let state = state(&store);
    assert!(script.contains(&format!("---\n{state}")), "after the bytes of the script:\n{state}");
    let auth = store.auth();
    assert_eq!(auth.user("root").expect("it is listed").password, "$2a$04$new");
}

/// A delete of very many keys is written down as its range; 255 keys are still named one by one.
#[test]
fn journal_bytes_of_a_large_delete_are_frozen() {
    for (keys, expected) in [(255, None), (256, Some(b"\x01\x0d\0\0\0\x02\x08\0\0\0\x02\0\0\0k/k0"))] {
        let puts: String = (0..keys).map(|number| format!("(put k/{number} v)\n")).collect();
        let mut script = Script::new();
        goldenscript::generate(&mut script, &format!("{puts}del k/ k0\n---\n")).expect("a script runs");
        let bytes = script.last_entry();
        match expected {
            Some(expected) => assert_eq!(bytes, expected),
            None => assert_eq!(bytes[..11], *b"\x01\x88\x09\0\0\x01\x03\0\0\0k"),
        }
    }
}
