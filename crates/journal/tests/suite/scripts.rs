//! Behaviour as text: scripts in `testdata/scripts`, each a test. A script that fails prints the
//! difference; run the test with `UPDATE_GOLDENFILES=1` to write what it gives now, and review
//! that.

mod run;
mod show;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use run::Script;

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/scripts")
}

/// One test for each script.
macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(#[test]
        fn $name() {
            goldenscript::run(&mut Script::default(), scripts().join(stringify!($name))).expect("a script runs");
        })*
    };
}

scripts![
    append,
    batches,
    begin_anew,
    bitrot,
    crash_in_a_cut,
    crash_in_a_write,
    cut,
    cut_segments,
    encryption,
    failed_sync,
    foreign_records,
    key_change,
    killed,
    no_space,
    recovery,
    replicate,
    segments,
    torn_records,
    torn_tail,
    trim,
];

#[test]
fn every_script_is_run() {
    let files = std::fs::read_dir(scripts()).expect("the scripts are there");
    let files: BTreeSet<String> = files
        .map(|file| file.expect("a readable entry").file_name().into_string().expect("names are text"))
        .collect();
    assert_eq!(files, NAMES.iter().map(|name| (*name).to_owned()).collect());
}
