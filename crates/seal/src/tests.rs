//! Key files, and what sealed bytes withstand.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use expect_test::expect;

use crate::ring::Problem;
use crate::{HEAD_LEN, Head, KeyError, KeyId, Keys, Purpose, Ring, RingError, TAG_LEN, generate, read};

/// Made for this test and used for nothing else: the bytes 0 to 31, and 32 to 63.
const FIRST: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SECOND: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pv8=";

fn id(name: &str) -> KeyId {
    KeyId::new(name).unwrap()
}

fn keys(text: &str) -> Keys {
    Keys::repeatable_for_tests(Ring::parse(text).unwrap())
}

fn problem(text: &str) -> Problem {
    Ring::parse(text).unwrap_err()
}

#[test]
fn the_first_key_seals_and_all_of_them_open() {
    let ring = Ring::parse(&format!("# comment\n\n new {SECOND} \nold {FIRST}\n")).unwrap();
    assert_eq!(ring.ids().collect::<Vec<_>>(), [id("new"), id("old")]);
    assert_eq!(ring.current().unwrap().id(), id("new"));
    let off = Ring::parse(&format!("plain\nold {FIRST}\n")).unwrap();
    assert!(off.current().is_none() && off.find(id("old")).is_some());
    assert!(Ring::parse("plain\n").unwrap().current().is_none());
}

#[test]
fn a_doubtful_key_file_is_refused_by_line() {
    assert_eq!(problem("# nothing\n"), Problem::Empty);
    assert_eq!(problem(FIRST), Problem::Line(1));
    assert_eq!(problem(&format!("\na {FIRST} b")), Problem::Line(2));
    assert_eq!(problem(&format!("a/b {FIRST}")), Problem::Name(1));
    assert_eq!(problem(&format!("a2345678901234567 {FIRST}")), Problem::Name(1));
    assert_eq!(problem(&format!("plain {FIRST}")), Problem::Name(1));
    assert_eq!(problem("a AAEC-"), Problem::Base64(1));
    assert_eq!(problem("a AAECAwQF"), Problem::Length { line: 1, len: 6 });
    assert_eq!(problem("a AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), Problem::Weak(1));
    // "correct horse battery staple 123", which is text.
    assert_eq!(problem("a Y29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZSAxMjM="), Problem::Weak(1));
    assert_eq!(problem(&format!("a {FIRST}\na {SECOND}")), Problem::SameName { line: 2, id: id("a") });
    assert_eq!(
        problem(&format!("a {FIRST}\nb {FIRST}")),
        Problem::SameKey { line: 2, id: id("b"), other: id("a") }
    );
    assert_eq!(problem(&format!("a {FIRST}\nplain")), Problem::PlainLater(2));
    let many: String = (0..=crate::MAX_KEYS).map(|n| generate(id(&format!("k{n}"))).to_string()).collect();
    assert_eq!(problem(&many), Problem::TooMany);
}

#[test]
fn a_key_file_is_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys");
    assert!(matches!(read(&path), Err(RingError::Io { .. })));
    assert!(matches!(read(dir.path()), Err(RingError::NotAFile(_))));
    fs::write(&path, &**generate(id("k1"))).unwrap();
    for (mode, is_fine) in [(0o600, true), (0o400, true), (0o640, true), (0o660, false), (0o644, false)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(read(&path).is_ok(), is_fine, "{mode:o}");
    }
    let refused = read(&path).unwrap_err().to_string();
    assert!(refused.contains("mode 644") && refused.contains("chmod 600"), "{refused}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "#".repeat(20_000)).unwrap();
    assert!(matches!(read(&path), Err(RingError::TooLong(_))));
}

#[test]
fn no_key_is_ever_shown() {
    let line = generate(id("k1"));
    let secret = line.split(' ').nth(1).unwrap().trim();
    let keys = Keys::new(Ring::parse(&line).unwrap());
    let sealer = keys.sealer(Purpose::DataFile, &[]).unwrap();
    let shown = format!("{keys:?} {:?} {sealer:?}", keys.ring());
    assert!(shown.contains("k1") && !shown.contains(&secret[..6]), "{shown}");
    // A line that is refused is not repeated either.
    let refused = problem(&format!("k1 {secret} {secret}")).to_string();
    assert!(!refused.contains(secret), "{refused}");
}

#[test]
fn every_salt_is_another() {
    let keys = Keys::new(Ring::parse(&generate(id("k"))).unwrap());
    let salt = || keys.sealer(Purpose::Manifest, &[1]).unwrap().head().salt;
    assert_ne!(salt(), salt());
}

#[test]
fn sealed_bytes_open_only_where_they_belong() {
    let keys = keys(&format!("k {FIRST}"));
    let sealer = keys.sealer(Purpose::JournalRecord, &[1]).unwrap();
    let mut sealed = b"attack at dawn".to_vec();
    let tag = sealer.seal(7, &[1, 2], &mut sealed);
    sealed.extend_from_slice(&tag);
    assert_eq!(sealed.len(), 14 + TAG_LEN);
    let open = |purpose, head: &Head, number, bound: &[u64], bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        keys.opener(purpose, head).unwrap().open(number, bound, &mut bytes).map(<[u8]>::to_vec)
    };
    let head = sealer.head();
    assert_eq!(open(Purpose::JournalRecord, head, 7, &[1, 2], &sealed).unwrap(), b"attack at dawn");
    assert!(open(Purpose::DataFile, head, 7, &[1, 2], &sealed).is_err(), "purpose");
    assert!(open(Purpose::JournalRecord, head, 8, &[1, 2], &sealed).is_err(), "number");
    assert!(open(Purpose::JournalRecord, head, 7, &[1, 3], &sealed).is_err(), "place");
    assert!(open(Purpose::JournalRecord, head, 7, &[1, 2], &sealed[1..]).is_err(), "length");
    assert!(open(Purpose::JournalRecord, head, 7, &[1, 2], &[]).is_err(), "nothing");
    let other = keys.sealer(Purpose::JournalRecord, &[2]).unwrap();
    assert!(open(Purpose::JournalRecord, other.head(), 7, &[1, 2], &sealed).is_err(), "salt");
    for bit in 0..sealed.len() * 8 {
        let mut flipped = sealed.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(open(Purpose::JournalRecord, head, 7, &[1, 2], &flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn a_missing_and_a_wrong_key_are_told_apart_by_name() {
    let head = *keys(&format!("k {FIRST}")).sealer(Purpose::Manifest, &[]).unwrap().head();
    let refused = |keys: &Keys| keys.opener(Purpose::Manifest, &head).unwrap_err();
    assert_eq!(refused(&Keys::none()), KeyError::NoKeys { id: id("k") });
    let (other, wrong) = (keys(&format!("a {FIRST}\nb {SECOND}")), keys(&format!("k {SECOND}")));
    assert_eq!(refused(&other), KeyError::Missing { id: id("k"), given: "a, b".into() });
    assert_eq!(refused(&wrong), KeyError::Wrong { id: id("k") });
}

#[test]
fn a_ring_is_replaced_under_those_who_use_it() {
    let keys = keys(&format!("a {FIRST}"));
    let user = keys.clone();
    keys.replace(Ring::parse(&format!("b {SECOND}\na {FIRST}")).unwrap());
    assert_eq!(user.current(), Some(id("b")));
    keys.replace(Ring::parse(&format!("plain\nb {SECOND}")).unwrap());
    assert!(user.sealer(Purpose::Manifest, &[]).is_none());
}

#[test]
fn a_head_reads_back_and_only_names_are_names() {
    let head = *keys(&format!("k-1 {FIRST}")).sealer(Purpose::Manifest, &[]).unwrap().head();
    assert_eq!(Head::parse(&head.encode()), Some(head));
    assert_eq!(Head::parse(&[0; HEAD_LEN]), None);
    let mut holed = head.encode();
    holed[1] = 0;
    assert_eq!(Head::parse(&holed), None, "a name has no holes");
}

/// The bytes, frozen: a change here makes old files unreadable.
#[test]
fn derived_keys_and_check_values_are_these() {
    let keys = keys(&format!("k {FIRST}"));
    let sealed = |purpose| {
        let sealer = keys.sealer(purpose, &[1, 2]).unwrap();
        let mut bytes = b"bytes".to_vec();
        let tag = sealer.seal(3, &[4], &mut bytes);
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("{} {} {} {}", sealer.head().key, hex(&sealer.head().check), hex(&bytes), hex(&tag))
    };
    expect!["k f1cc40b563139fb1e0bdcce8ccdcbdb5 e75ae29360 042b9151c40de9983439a8680f133dff"]
        .assert_eq(&sealed(Purpose::JournalRecord));
    expect!["k f1cc40b563139fb1e0bdcce8ccdcbdb5 1ad19a7327 a2f637a8ae93eb55a4fb6a81cf11ef36"]
        .assert_eq(&sealed(Purpose::DataFile));
    expect!["k f1cc40b563139fb1e0bdcce8ccdcbdb5 5d1bc10c74 79319ec3245e73a2b184e29e51051ac4"]
        .assert_eq(&sealed(Purpose::Manifest));
}
