//! Recovery of journals changed at random.

use proptest::prelude::*;
use vetch_journal::{JournalError, MemDisk};

use crate::support::{append, fresh, genesis, noise, recover};

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn recovery_of_a_mangled_journal_never_panics_and_never_invents(
        edits in proptest::collection::vec((0..6usize, any::<proptest::sample::Index>(), any::<u8>(), 1..700usize), 1..4)
    ) {
        let disk = MemDisk::new();
        let mut journal = fresh(&disk);
        for n in 0..4 {
            append(&mut journal, &[noise(n, 600), vec![0; 700]]).expect("no faults");
        }
        drop(journal);
        let (whole, _, _) = recover(&disk, genesis()).expect("intact");
        let files: Vec<_> = disk.files().into_keys().filter(|path| path.extension() == Some("journal".as_ref())).collect();
        for (file, at, byte, len) in edits {
            let path = &files[file % files.len()];
            let mut content = disk.content(path).expect("it exists");
            let from = at.index(content.len());
            let to = (from + len).min(content.len());
            content[from..to].fill(byte);
            disk.overwrite(path, &content);
        }
        match recover(&disk, genesis()) {
            Ok((found, _, _)) => prop_assert!(whole.starts_with(&found)),
            Err(JournalError::Corrupt(_) | JournalError::NotSupported { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}
