//! Key files, and what encrypted bytes withstand.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use expect_test::expect;

use crate::key_ring::Problem;
use crate::{
    ENVELOPE_HEADER_LEN, EncryptionKeys, EnvelopeHeader, KeyError, KeyId, KeyRing, KeyRingError, Purpose,
    TAG_LEN, generate_key, read_key_file,
};

/// Made for this test and used for nothing else: the bytes 0 to 31, and 32 to 63.
const FIRST: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SECOND: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pv8=";

fn id(name: &str) -> KeyId {
    KeyId::new(name).unwrap()
}

fn keys(text: &str) -> EncryptionKeys {
    EncryptionKeys::repeatable_for_tests(KeyRing::parse(text).unwrap())
}

fn problem(text: &str) -> Problem {
    KeyRing::parse(text).unwrap_err()
}

#[test]
fn the_first_key_encrypts_and_all_of_them_decrypt() {
    let ring = KeyRing::parse(&format!("# comment\n\n new {SECOND} \nold {FIRST}\n")).unwrap();
    assert_eq!(ring.ids().collect::<Vec<_>>(), [id("new"), id("old")]);
    assert_eq!(ring.current().unwrap().id(), id("new"));
    let off = KeyRing::parse(&format!("plain\nold {FIRST}\n")).unwrap();
    assert!(off.current().is_none() && off.find(id("old")).is_some());
    assert!(KeyRing::parse("plain\n").unwrap().current().is_none());
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
    let many: String =
        (0..=crate::KEYS_MAX).map(|n| generate_key(id(&format!("k{n}"))).to_string()).collect();
    assert_eq!(problem(&many), Problem::TooMany);
}

#[test]
fn a_key_file_is_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys");
    assert!(matches!(read_key_file(&path), Err(KeyRingError::Io { .. })));
    assert!(matches!(read_key_file(dir.path()), Err(KeyRingError::NotAFile(_))));
    fs::write(&path, &**generate_key(id("k1"))).unwrap();
    for (mode, is_fine) in [(0o600, true), (0o400, true), (0o640, true), (0o660, false), (0o644, false)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(read_key_file(&path).is_ok(), is_fine, "{mode:o}");
    }
    let refused = read_key_file(&path).unwrap_err().to_string();
    assert!(refused.contains("mode 644") && refused.contains("chmod 600"), "{refused}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "#".repeat(20_000)).unwrap();
    assert!(matches!(read_key_file(&path), Err(KeyRingError::TooLong(_))));
}

#[test]
fn no_key_is_ever_shown() {
    let line = generate_key(id("k1"));
    let secret = line.split(' ').nth(1).unwrap().trim();
    let keys = EncryptionKeys::new(KeyRing::parse(&line).unwrap());
    let encryptor = keys.encryptor(Purpose::DataFile, &[]).unwrap();
    let shown = format!("{keys:?} {:?} {encryptor:?}", keys.ring());
    assert!(shown.contains("k1") && !shown.contains(&secret[..6]), "{shown}");
    // A line that is refused is not repeated either.
    let refused = problem(&format!("k1 {secret} {secret}")).to_string();
    assert!(!refused.contains(secret), "{refused}");
}

#[test]
fn every_salt_is_another() {
    let keys = EncryptionKeys::new(KeyRing::parse(&generate_key(id("k"))).unwrap());
    let salt = || keys.encryptor(Purpose::Manifest, &[1]).unwrap().header().salt;
    assert_ne!(salt(), salt());
}

#[test]
fn encrypted_bytes_decrypt_only_where_they_belong() {
    let keys = keys(&format!("k {FIRST}"));
    let encryptor = keys.encryptor(Purpose::JournalRecord, &[1]).unwrap();
    let mut encrypted = b"attack at dawn".to_vec();
    let tag = encryptor.encrypt(7, &[1, 2], &mut encrypted);
    encrypted.extend_from_slice(&tag);
    assert_eq!(encrypted.len(), 14 + TAG_LEN);
    let open = |purpose, header: &EnvelopeHeader, number, bound: &[u64], bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        keys.decryptor(purpose, header).unwrap().decrypt(number, bound, &mut bytes).map(<[u8]>::to_vec)
    };
    let header = encryptor.header();
    assert_eq!(open(Purpose::JournalRecord, header, 7, &[1, 2], &encrypted).unwrap(), b"attack at dawn");
    assert!(open(Purpose::DataFile, header, 7, &[1, 2], &encrypted).is_err(), "purpose");
    assert!(open(Purpose::JournalRecord, header, 8, &[1, 2], &encrypted).is_err(), "number");
    assert!(open(Purpose::JournalRecord, header, 7, &[1, 3], &encrypted).is_err(), "place");
    assert!(open(Purpose::JournalRecord, header, 7, &[1, 2], &encrypted[1..]).is_err(), "length");
    assert!(open(Purpose::JournalRecord, header, 7, &[1, 2], &[]).is_err(), "nothing");
    let other = keys.encryptor(Purpose::JournalRecord, &[2]).unwrap();
    assert!(open(Purpose::JournalRecord, other.header(), 7, &[1, 2], &encrypted).is_err(), "salt");
    for bit in 0..encrypted.len() * 8 {
        let mut flipped = encrypted.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(open(Purpose::JournalRecord, header, 7, &[1, 2], &flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn a_missing_and_a_wrong_key_are_distinguished_by_name() {
    let header = *keys(&format!("k {FIRST}")).encryptor(Purpose::Manifest, &[]).unwrap().header();
    let refused = |keys: &EncryptionKeys| keys.decryptor(Purpose::Manifest, &header).unwrap_err();
    assert_eq!(refused(&EncryptionKeys::none()), KeyError::NoKeys { id: id("k") });
    let (other, wrong) = (keys(&format!("a {FIRST}\nb {SECOND}")), keys(&format!("k {SECOND}")));
    assert_eq!(refused(&other), KeyError::Missing { id: id("k"), given: "a, b".into() });
    assert_eq!(refused(&wrong), KeyError::Wrong { id: id("k") });
}

#[test]
fn a_ring_is_replaced_under_those_who_use_it() {
    let keys = keys(&format!("a {FIRST}"));
    let user = keys.clone();
    keys.replace(KeyRing::parse(&format!("b {SECOND}\na {FIRST}")).unwrap());
    assert_eq!(user.current(), Some(id("b")));
    keys.replace(KeyRing::parse(&format!("plain\nb {SECOND}")).unwrap());
    assert!(user.encryptor(Purpose::Manifest, &[]).is_none());
}

#[test]
fn a_head_reads_back_and_only_names_are_names() {
    let header = *keys(&format!("k-1 {FIRST}")).encryptor(Purpose::Manifest, &[]).unwrap().header();
    assert_eq!(EnvelopeHeader::parse(&header.encode()), Some(header));
    assert_eq!(EnvelopeHeader::parse(&[0; ENVELOPE_HEADER_LEN]), None);
    let mut holed = header.encode();
    holed[1] = 0;
    assert_eq!(EnvelopeHeader::parse(&holed), None, "a name has no holes");
}

/// The bytes, frozen: a change here makes old files unreadable.
#[test]
fn derived_keys_and_check_values_are_these() {
    let keys = keys(&format!("k {FIRST}"));
    let encrypted = |purpose| {
        let encryptor = keys.encryptor(purpose, &[1, 2]).unwrap();
        let mut bytes = b"bytes".to_vec();
        let tag = encryptor.encrypt(3, &[4], &mut bytes);
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("{} {} {} {}", encryptor.header().key, hex(&encryptor.header().check), hex(&bytes), hex(&tag))
    };
    expect!["k f1cc40b563139fb1e0bdcce8ccdcbdb5 e75ae29360 042b9151c40de9983439a8680f133dff"]
        .assert_eq(&encrypted(Purpose::JournalRecord));
    expect!["k f1cc40b563139fb1e0bdcce8ccdcbdb5 1ad19a7327 a2f637a8ae93eb55a4fb6a81cf11ef36"]
        .assert_eq(&encrypted(Purpose::DataFile));
    expect!["k f1cc40b563139fb1e0bdcce8ccdcbdb5 5d1bc10c74 79319ec3245e73a2b184e29e51051ac4"]
        .assert_eq(&encrypted(Purpose::Manifest));
}
