//! The committed corpus, without libFuzzer.

use std::path::Path;

use super::TARGETS;

#[test]
fn the_corpus_passes() {
    for (name, run) in TARGETS {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let files: Vec<_> =
            std::fs::read_dir(&dir).expect("a corpus").map(|file| file.expect("readable")).collect();
        assert!(!files.is_empty(), "{}", dir.display());
        files.iter().for_each(|file| run(&std::fs::read(file.path()).expect("readable")));
    }
}
