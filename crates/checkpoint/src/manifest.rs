//! The manifest: what a checkpoint consists of, and everything in it that is not a version of a
//! key.
//!
//! A fixed header, tagged sections, and a checksum over all of it. A section that this version does
//! not know is skipped, unless its "must understand" bit says that the state would be wrong without
//! it.
//!
//! A manifest of version 2 is one of version 1, encrypted.

use bytes::{Buf, BufMut};
use vetch_base::{Epoch, Seq};
use vetch_encryption::{ENVELOPE_HEADER_LEN, EncryptionKeys, EnvelopeHeader, KeyError, KeyId, Purpose};
use vetch_journal::Tip;
use vetch_store::Mark;
use vetch_store::auth::{self, AuthState};
use vetch_store::command::{alarm_number, alarm_of_number};
use vetch_store::load::{SavedLease, Unversioned};
use vetch_store::request::Alarm;

use super::data_file::{FileEncryption, WrittenFile};
use super::pinned_tombstones::PinnedTombstones;

const MAGIC: &[u8; 8] = b"VETCHMAN";
const VERSION: u32 = 1;
const ENCRYPTED_VERSION: u32 = 2;
/// In the clear before an encrypted manifest: magic, version, number, envelope header.
const ENVELOPE_LEN: usize = 24 + ENVELOPE_HEADER_LEN;
/// The fixed part before the first section.
const FIXED_LEN: usize = 104;
/// Every encryptor encrypts one manifest, so one counter is enough.
const COUNTER: u64 = 0;
/// No count comes near this.
const COUNT_MAX: i64 = 1 << 62;
const CRC_LEN: usize = 4;

const FILES: u16 = 1;
const LEASES: u16 = 2;
const ALARMS: u16 = 3;
/// Only if there are users and roles, or authentication was ever on.
const AUTH: u16 = 4;
/// Only if there are encrypted files.
const ENCRYPTION: u16 = 5;
/// Only of a server on a shared journal: where in it the tip was made.
const POSITION: u16 = 6;
const MUST_UNDERSTAND: u16 = 1;

/// A data file as a checkpoint uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataFile {
    pub(super) written: WrittenFile,
    /// It holds the records of the revisions above `first`, up to and including `last`.
    pub(super) first: i64,
    pub(super) last: i64,
    /// Bytes of records that are still retained.
    pub(super) live: u64,
    /// The compaction that was carried out in full when its records were last filtered; see
    /// `tombstone_gc`.
    pub(super) clean_at: i64,
    /// Tombstones that must stay although they are not readable. In memory only; loading counts
    /// them again.
    pub(super) pinned_tombstones: PinnedTombstones,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) number: u64,
    pub(super) tip: Tip,
    /// The position of the record that made the tip, in a shared journal; 0 in a local one.
    pub(super) position: u64,
    pub(super) mark: Mark,
    /// Above the id of every data file made so far.
    pub(super) next_id: u64,
    pub(super) files: Vec<DataFile>,
    pub(super) unversioned: Unversioned,
}

/// Why bytes are not a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadManifest {
    Damaged {
        offset: u64,
        reason: &'static str,
    },
    NotSupported(String),
    /// The bytes are as they were written, but the key that decrypts them was not given.
    Key(KeyError),
}

impl Manifest {
    /// The bytes of the manifest, encrypted if there is a current key, and that key.
    pub(super) fn encode(&self, keys: &EncryptionKeys) -> (Vec<u8>, Option<KeyId>) {
        let mut out = self.encode_plain();
        let encryptor = keys.encryptor(Purpose::Manifest, &[self.number]);
        if let Some(encryptor) = &encryptor {
            let tag = encryptor.encrypt(COUNTER, &[self.number], &mut out);
            out.extend_from_slice(&tag);
            out.splice(..0, envelope(self.number, encryptor.header()));
        }
        out.put_u32_le(crc32c::crc32c(&out));
        (out, encryptor.map(|encryptor| encryptor.header().key))
    }

    /// Without the checksum.
    fn encode_plain(&self) -> Vec<u8> {
        let leases = &self.unversioned.leases;
        let mut out = Vec::with_capacity(FIXED_LEN + self.files.len() * 112 + leases.len() * 24 + 64);
        out.put_slice(MAGIC);
        out.put_u32_le(VERSION);
        let has_auth = *self.unversioned.auth != AuthState::default();
        let has_encrypted = self.files.iter().any(|file| file.written.encryption.is_some());
        let has_position = self.position > 0;
        out.put_u32_le(3 + u32::from(has_auth) + u32::from(has_encrypted) + u32::from(has_position));
        out.put_u64_le(self.number);
        out.put_u64_le(self.tip.epoch.get());
        out.put_u64_le(self.tip.seq.get());
        out.put_slice(&self.tip.hash);
        out.put_i64_le(self.tip.next_rev);
        out.put_i64_le(self.mark.revision);
        out.put_i64_le(self.mark.compact_revision);
        out.put_u64_le(self.next_id);
        section(&mut out, FILES, |out| self.files.iter().for_each(|file| put_file(out, file)));
        section(&mut out, LEASES, |out| {
            for lease in leases.iter() {
                out.put_i64_le(lease.id);
                out.put_i64_le(lease.ttl);
                out.put_i64_le(lease.remaining);
            }
        });
        section(&mut out, ALARMS, |out| {
            for alarm in &self.unversioned.alarms {
                out.put_u64_le(alarm.member);
                out.put_u64_le(u64::from(alarm_number(alarm.kind)));
            }
        });
        if has_auth {
            section(&mut out, AUTH, |out| auth::encode_state(&self.unversioned.auth, out));
        }
        if has_encrypted {
            section(&mut out, ENCRYPTION, |out| {
                self.files.iter().for_each(|file| put_encryption(out, &file.written))
            });
        }
        if has_position {
            section(&mut out, POSITION, |out| out.put_u64_le(self.position));
        }
        out
    }

    /// The manifest in these bytes, and the key it was encrypted with.
    pub(super) fn decode(
        bytes: &[u8],
        keys: &EncryptionKeys,
    ) -> Result<(Manifest, Option<KeyId>), BadManifest> {
        let damaged = |offset: usize, reason| BadManifest::Damaged { offset: offset as u64, reason };
        if bytes.len() < FIXED_LEN + CRC_LEN {
            return Err(damaged(bytes.len(), "too short for a manifest"));
        }
        let (body, mut crc) = bytes.split_at(bytes.len() - CRC_LEN);
        if crc32c::crc32c(body) != crc.get_u32_le() {
            return Err(damaged(0, "checksum does not match"));
        }
        if body[..8] != *MAGIC {
            return Err(damaged(0, "not a manifest"));
        }
        match (&body[8..12]).get_u32_le() {
            VERSION => Manifest::decode_plain(body).map(|manifest| (manifest, None)),
            ENCRYPTED_VERSION => {
                let (opened, key) = decrypt(body, keys)?;
                let manifest = Manifest::decode_plain(&opened).map_err(|bad| bad.shifted_by(ENVELOPE_LEN))?;
                Ok((manifest, Some(key)))
            }
            version => Err(BadManifest::NotSupported(format!("manifest version {version}"))),
        }
    }

    /// `bytes` without a checksum, of version 1.
    fn decode_plain(bytes: &[u8]) -> Result<Manifest, BadManifest> {
        let damaged = |offset: usize, reason| BadManifest::Damaged { offset: offset as u64, reason };
        if bytes.len() < FIXED_LEN || bytes[..8] != *MAGIC || (&bytes[8..12]).get_u32_le() != VERSION {
            return Err(damaged(0, "not a manifest"));
        }
        let mut rest = &bytes[12..];
        let sections = rest.get_u32_le();
        let number = rest.get_u64_le();
        let mut tip = Tip {
            epoch: Epoch::new(rest.get_u64_le()),
            seq: Seq::new(rest.get_u64_le()),
            hash: [0; 32],
            next_rev: 0,
        };
        rest.copy_to_slice(&mut tip.hash);
        tip.next_rev = rest.get_i64_le();
        let mark = Mark { revision: rest.get_i64_le(), compact_revision: rest.get_i64_le() };
        let next_id = rest.get_u64_le();
        let (files, unversioned) = (Vec::new(), Unversioned::default());
        let mut manifest = Manifest { number, tip, position: 0, mark, next_id, files, unversioned };
        for _ in 0..sections {
            let at = bytes.len() - rest.len();
            manifest.take_section(&mut rest, at)?;
        }
        if !rest.is_empty() {
            return Err(damaged(bytes.len() - rest.len(), "bytes behind the last section"));
        }
        manifest.check().map_err(|reason| damaged(FIXED_LEN, reason))?;
        Ok(manifest)
    }

    fn take_section(&mut self, rest: &mut &[u8], at: usize) -> Result<(), BadManifest> {
        let damaged = |reason| BadManifest::Damaged { offset: at as u64, reason };
        if rest.len() < 8 {
            return Err(damaged("a section is cut short"));
        }
        let (tag, flags, len) = (rest.get_u16_le(), rest.get_u16_le(), rest.get_u32_le() as usize);
        let (body, after) = rest.split_at_checked(len).ok_or(damaged("a section is cut short"))?;
        *rest = after;
        match tag {
            FILES => self.files = take_all(body, 56, take_file).ok_or(damaged("bad list of files"))?,
            LEASES => {
                let leases = take_all(body, 24, take_lease).ok_or(damaged("bad list of leases"))?;
                self.unversioned.leases = leases.into();
            }
            ALARMS => {
                self.unversioned.alarms =
                    take_all(body, 16, take_alarm).ok_or(damaged("bad list of alarms"))?;
            }
            AUTH => {
                let auth = auth::decode_state(body).ok_or(damaged("bad list of users and roles"))?;
                self.unversioned.auth = auth.into();
            }
            ENCRYPTION => {
                let encrypted =
                    take_all(body, 56, take_encryption).ok_or(damaged("bad list of encrypted files"))?;
                self.assign_encryption(encrypted)
                    .ok_or(damaged("the encryption of a file that is not there"))?;
            }
            POSITION => {
                let position = body.try_into().map(u64::from_le_bytes);
                self.position = position.map_err(|_| damaged("a position that is no number"))?;
            }
            _ if flags & MUST_UNDERSTAND == 0 => {}
            tag => return Err(BadManifest::NotSupported(format!("manifest section {tag}"))),
        }
        Ok(())
    }

    fn assign_encryption(&mut self, encrypted: Vec<(u64, FileEncryption)>) -> Option<()> {
        for (id, encryption) in encrypted {
            self.files.iter_mut().find(|file| file.written.id == id)?.written.encryption = Some(encryption);
        }
        Some(())
    }

    /// The invariants that a checksum does not prove. Counters are far from overflow.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let compactions = Mark::START.compact_revision..=self.mark.revision;
        if !(1..COUNT_MAX).contains(&self.mark.revision) || !compactions.contains(&self.mark.compact_revision)
        {
            return Err("impossible revisions");
        }
        if [self.tip.epoch.get(), self.tip.seq.get(), self.next_id]
            .iter()
            .any(|&count| count >= COUNT_MAX as u64)
        {
            return Err("impossible numbers");
        }
        if self.tip.next_rev != self.mark.revision + 1 {
            return Err("the tip is not the one of this state");
        }
        let mut covered = 0;
        for file in &self.files {
            if file.first != covered || file.last <= file.first {
                return Err("the files do not partition the revisions");
            }
            covered = file.last;
        }
        if !self.files.is_empty() && covered != self.mark.revision {
            return Err("the files end before the checkpoint does");
        }
        if self.files.iter().any(|file| file.written.id >= self.next_id) {
            return Err("a file has an id that was not given out");
        }
        Ok(())
    }
}

impl BadManifest {
    /// The same error, with the offset moved by `bytes`.
    fn shifted_by(self, bytes: usize) -> BadManifest {
        match self {
            BadManifest::Damaged { offset, reason } => {
                BadManifest::Damaged { offset: offset + bytes as u64, reason }
            }
            other => other,
        }
    }
}

/// The bytes before an encrypted manifest.
fn envelope(number: u64, header: &EnvelopeHeader) -> Vec<u8> {
    let mut out = Vec::with_capacity(ENVELOPE_LEN);
    out.put_slice(MAGIC);
    out.put_u32_le(ENCRYPTED_VERSION);
    out.put_u32_le(0);
    out.put_u64_le(number);
    out.put_slice(&header.encode());
    out
}

/// The plaintext of `body`, and its key.
fn decrypt(body: &[u8], keys: &EncryptionKeys) -> Result<(Vec<u8>, KeyId), BadManifest> {
    let damaged = |offset, reason| BadManifest::Damaged { offset, reason };
    let (mut front, ciphertext) =
        body.split_at_checked(ENVELOPE_LEN).ok_or(damaged(8, "too short for a manifest"))?;
    front.advance(16);
    let number = front.get_u64_le();
    let header =
        front.first_chunk().and_then(EnvelopeHeader::parse).ok_or(damaged(24, "it does not name its key"))?;
    if body[..ENVELOPE_LEN] != envelope(number, &header) {
        return Err(damaged(12, "bytes that must be zero are not"));
    }
    let decryptor = keys.decryptor(Purpose::Manifest, &header).map_err(BadManifest::Key)?;
    let mut piece = ciphertext.to_vec();
    let plaintext = decryptor.decrypt(COUNTER, &[number], &mut piece);
    let plaintext =
        plaintext.map_err(|_| damaged(ENVELOPE_LEN as u64, "it was altered, or belongs to another place"))?;
    Ok((plaintext.to_vec(), header.key))
}

fn section(out: &mut Vec<u8>, tag: u16, body: impl FnOnce(&mut Vec<u8>)) {
    out.put_u16_le(tag);
    out.put_u16_le(MUST_UNDERSTAND);
    let at = out.len();
    out.put_u32_le(0);
    body(out);
    let len = u32::try_from(out.len() - at - 4).expect("a section is far below 4 GiB");
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

fn put_file(out: &mut Vec<u8>, file: &DataFile) {
    out.put_u64_le(file.written.id);
    out.put_i64_le(file.first);
    out.put_i64_le(file.last);
    out.put_u64_le(file.written.size);
    out.put_u64_le(file.live);
    out.put_i64_le(file.clean_at);
    out.put_u32_le(file.written.footer_crc);
    out.put_u32_le(0);
}

fn put_encryption(out: &mut Vec<u8>, file: &WrittenFile) {
    let Some(encryption) = &file.encryption else { return };
    out.put_u64_le(file.id);
    out.put_slice(encryption.key.bytes());
    out.put_slice(&encryption.check);
    out.put_slice(&encryption.tag);
}

/// Items of `len` bytes each, as many as there are.
fn take_all<T>(body: &[u8], len: usize, take: impl Fn(&[u8]) -> Option<T>) -> Option<Vec<T>> {
    let items = body.chunks_exact(len);
    if !items.remainder().is_empty() {
        return None;
    }
    items.map(take).collect()
}

fn take_file(mut item: &[u8]) -> Option<DataFile> {
    let id = item.get_u64_le();
    let (first, last) = (item.get_i64_le(), item.get_i64_le());
    let (size, live, clean_at) = (item.get_u64_le(), item.get_u64_le(), item.get_i64_le());
    let footer_crc = item.get_u32_le();
    let written = WrittenFile { id, size, footer_crc, encryption: None };
    (item.get_u32_le() == 0).then_some(DataFile {
        written,
        first,
        last,
        live,
        clean_at,
        pinned_tombstones: PinnedTombstones::default(),
    })
}

fn take_encryption(mut item: &[u8]) -> Option<(u64, FileEncryption)> {
    let id = item.get_u64_le();
    let (mut key, mut check, mut tag) = ([0; KeyId::LEN], [0; 16], [0; 16]);
    for field in [&mut key, &mut check, &mut tag] {
        item.copy_to_slice(field);
    }
    Some((id, FileEncryption { key: KeyId::from_bytes(key)?, check, tag }))
}

fn take_lease(mut item: &[u8]) -> Option<SavedLease> {
    Some(SavedLease { id: item.get_i64_le(), ttl: item.get_i64_le(), remaining: item.get_i64_le() })
}

fn take_alarm(mut item: &[u8]) -> Option<Alarm> {
    let member = item.get_u64_le();
    let kind = alarm_of_number(u8::try_from(item.get_u64_le()).ok()?)?;
    Some(Alarm { member, kind })
}
