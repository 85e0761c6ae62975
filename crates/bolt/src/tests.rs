//! What is written is read back, whatever its shape; what is damaged is refused and never panics.

use proptest::prelude::*;

use crate::{BoltError, Db, Measure, PAGE_SIZE, ReadAt, Writer};

type Content = Vec<(Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>)>;

fn build(content: &Content) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    fill(content, &mut writer);
    let (body, layout) = writer.finish().unwrap();
    let mut measuring = Writer::new(Measure);
    fill(content, &mut measuring);
    assert_eq!(measuring.finish().unwrap().1, layout, "measuring finds the same layout");
    let file = [layout.front(), body].concat();
    assert_eq!(file.len() as u64, layout.bytes());
    file
}

fn fill<S: crate::Sink>(content: &Content, writer: &mut Writer<S>) {
    for (name, entries) in content {
        writer.bucket(name).unwrap();
        entries.iter().for_each(|(key, value)| writer.put(key, value).unwrap());
    }
}

fn read<R: ReadAt>(db: &Db<R>) -> Result<Content, BoltError> {
    let mut content = Vec::new();
    let mut buckets = db.buckets();
    while let Some(entry) = buckets.next()? {
        let bucket = entry.bucket()?;
        let mut found = Vec::new();
        let mut entries = db.entries(&bucket);
        while let Some(entry) = entries.next()? {
            found.push((entry.key.to_vec(), entry.value.to_vec()));
        }
        content.push((entry.key.to_vec(), found));
    }
    Ok(content)
}

fn read_bytes(file: &[u8]) -> Result<Content, BoltError> {
    read(&Db::open(file, file.len() as u64)?)
}

fn numbered(count: u64, value: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..count).map(|n| (n.to_be_bytes().to_vec(), value.to_vec())).collect()
}

#[test]
fn empty_small_and_large_buckets_come_back() {
    let content = vec![
        (b"empty".to_vec(), vec![]),
        (b"inline".to_vec(), numbered(3, b"v")),
        (b"large".to_vec(), numbered(100_000, b"some value")),
        (b"overflow".to_vec(), numbered(5, &vec![7; 3 * PAGE_SIZE])),
        (b"page".to_vec(), numbered(40, b"0123456789")),
    ];
    let file = build(&content);
    assert_eq!(read_bytes(&file).unwrap(), content);
    let db = Db::open(&file[..], file.len() as u64).unwrap();
    assert!(db.bucket(b"none").unwrap().is_none());
    assert!(db.bucket(b"inline").unwrap().is_some());
}

#[test]
fn a_file_without_buckets_is_a_file() {
    let file = build(&Vec::new());
    assert_eq!(read_bytes(&file).unwrap(), Vec::new());
}

#[test]
fn one_intact_meta_page_is_enough() {
    let content = vec![(b"b".to_vec(), numbered(3, b"v"))];
    for broken in [0, PAGE_SIZE] {
        let mut file = build(&content);
        file[broken + 30] ^= 1;
        assert_eq!(read_bytes(&file).unwrap(), content);
    }
    let mut file = build(&content);
    file[30] ^= 1;
    file[PAGE_SIZE + 30] ^= 1;
    assert!(read_bytes(&file).unwrap_err().to_string().contains("checksum"));
}

#[test]
fn what_is_cut_short_is_refused() {
    let file = build(&vec![(b"b".to_vec(), numbered(1000, b"v"))]);
    let error = read_bytes(&file[..file.len() - PAGE_SIZE]).unwrap_err();
    assert!(error.to_string().contains("cut short"), "{error}");
    assert!(read_bytes(&file[..100]).is_err());
    assert!(read_bytes(&[]).is_err());
}

/// A page that names itself as its only child must end the walk.
#[test]
fn a_loop_ends() {
    let mut file = build(&vec![(b"b".to_vec(), numbered(20_000, b"v"))]);
    let is_branch = |id: &usize| file[id * PAGE_SIZE + 8] == 1 && *id > 1;
    let branch = (2..file.len() / PAGE_SIZE).find(is_branch).unwrap();
    let child_at = branch * PAGE_SIZE + 16 + 8;
    file[child_at..child_at + 8].copy_from_slice(&(branch as u64).to_le_bytes());
    let error = read_bytes(&file).unwrap_err();
    assert!(error.to_string().contains("too deep"), "{error}");
}

/// Offsets are bounds-checked however absurd they are.
#[test]
fn any_changed_byte_of_a_page_is_survived() {
    let content = vec![
        (b"b".to_vec(), numbered(200, b"v")),
        (b"i".to_vec(), numbered(2, b"v")),
        (b"o".to_vec(), numbered(2, &vec![7; PAGE_SIZE])),
    ];
    let file = build(&content);
    for at in (2 * PAGE_SIZE..file.len()).filter(|at| at % PAGE_SIZE < 600) {
        for value in [0, 0x7f, 0xff] {
            let mut bad = file.clone();
            bad[at] = value;
            // Most changes are refused; one inside a key or a value cannot be told from another key
            // or value.
            let _ = read_bytes(&bad);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_written_is_read_back(
        sizes in prop::collection::vec((1usize..40, prop_oneof![0usize..50, 900usize..1100, 0usize..9000]), 0..300),
        split in 0usize..300,
    ) {
        let mut entries: Vec<(Vec<u8>, Vec<u8>)> = (sizes.iter().enumerate())
            .map(|(n, &(key, value))| {
                let name = [&(n as u32).to_be_bytes()[..], &vec![1; key]].concat();
                (name, vec![n as u8; value])
            })
            .collect();
        let rest = entries.split_off(split.min(entries.len()));
        let content = vec![(b"one".to_vec(), entries), (b"two".to_vec(), rest)];
        let file = build(&content);
        prop_assert_eq!(read_bytes(&file).unwrap(), content);
    }
}
