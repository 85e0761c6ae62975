//! The manifest: what a checkpoint consists of, and everything in it that is not a version of a key.
//!
//! A fixed head, tagged sections, and a checksum over all of it. A section that this version does not know is
//! skipped, unless its "must understand" bit says that the state would be wrong without it.

use bytes::{Buf, BufMut};
use vetch_journal::Tip;
use vetch_store::Mark;
use vetch_store::auth::{self, AuthState};
use vetch_store::command::{alarm_number, alarm_of_number};
use vetch_store::load::{SavedLease, Unversioned};
use vetch_store::request::Alarm;

use super::data_file::Written;
use super::graves::Pins;

const MAGIC: &[u8; 8] = b"VETCHMAN";
const VERSION: u32 = 1;
/// The fixed head before the first section.
const HEAD_LEN: usize = 104;
/// Nothing that is counted gets anywhere near this.
const COUNT_END: i64 = 1 << 62;
const CRC_LEN: usize = 4;

const FILES: u16 = 1;
const LEASES: u16 = 2;
const ALARMS: u16 = 3;
/// Only in a manifest with something to say about users and roles.
const AUTH: u16 = 4;
const MUST_UNDERSTAND: u16 = 1;

/// A data file as a checkpoint uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataFile {
    pub(super) written: Written,
    /// It holds the records of the revisions above `first`, up to and including `last`.
    pub(super) first: i64,
    pub(super) last: i64,
    /// Bytes of records that are still retained.
    pub(super) live: u64,
    /// The compaction that had been carried out in full when its records were last filtered; see `graves`.
    pub(super) clean_at: i64,
    /// Tombstones that must stay although nobody can read them. Known in memory only, found again by loading.
    pub(super) pins: Pins,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) number: u64,
    pub(super) tip: Tip,
    pub(super) mark: Mark,
    /// Above the id of every data file made so far.
    pub(super) next_id: u64,
    pub(super) files: Vec<DataFile>,
    pub(super) unversioned: Unversioned,
}

/// Why bytes are not a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadManifest {
    Damaged { offset: u64, reason: &'static str },
    NotSupported(String),
}

impl Manifest {
    pub(super) fn encode(&self) -> Vec<u8> {
        let leases = &self.unversioned.leases;
        let mut out = Vec::with_capacity(HEAD_LEN + self.files.len() * 56 + leases.len() * 24 + 64);
        out.put_slice(MAGIC);
        out.put_u32_le(VERSION);
        let has_auth = self.unversioned.auth != AuthState::default();
        out.put_u32_le(3 + u32::from(has_auth));
        out.put_u64_le(self.number);
        out.put_u64_le(self.tip.epoch);
        out.put_u64_le(self.tip.seq);
        out.put_slice(&self.tip.hash);
        out.put_i64_le(self.tip.next_rev);
        out.put_i64_le(self.mark.revision);
        out.put_i64_le(self.mark.compact_revision);
        out.put_u64_le(self.next_id);
        section(&mut out, FILES, |out| self.files.iter().for_each(|file| put_file(out, file)));
        section(&mut out, LEASES, |out| {
            for lease in leases {
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
        out.put_u32_le(crc32c::crc32c(&out));
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Manifest, BadManifest> {
        let damaged = |offset: usize, reason| BadManifest::Damaged { offset: offset as u64, reason };
        if bytes.len() < HEAD_LEN + CRC_LEN {
            return Err(damaged(bytes.len(), "too short for a manifest"));
        }
        let (mut rest, mut crc) = bytes.split_at(bytes.len() - CRC_LEN);
        if crc32c::crc32c(rest) != crc.get_u32_le() {
            return Err(damaged(0, "checksum does not match"));
        }
        if rest[..8] != *MAGIC {
            return Err(damaged(0, "not a manifest"));
        }
        rest.advance(8);
        let version = rest.get_u32_le();
        if version != VERSION {
            return Err(BadManifest::NotSupported(format!("manifest version {version}")));
        }
        let sections = rest.get_u32_le();
        let number = rest.get_u64_le();
        let mut tip = Tip { epoch: rest.get_u64_le(), seq: rest.get_u64_le(), hash: [0; 32], next_rev: 0 };
        rest.copy_to_slice(&mut tip.hash);
        tip.next_rev = rest.get_i64_le();
        let mark = Mark { revision: rest.get_i64_le(), compact_revision: rest.get_i64_le() };
        let next_id = rest.get_u64_le();
        let mut manifest =
            Manifest { number, tip, mark, next_id, files: Vec::new(), unversioned: Unversioned::default() };
        for _ in 0..sections {
            let at = bytes.len() - CRC_LEN - rest.len();
            manifest.take_section(&mut rest, at)?;
        }
        if !rest.is_empty() {
            return Err(damaged(bytes.len() - CRC_LEN - rest.len(), "bytes behind the last section"));
        }
        manifest.check().map_err(|reason| damaged(HEAD_LEN, reason))?;
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
                self.unversioned.leases =
                    take_all(body, 24, take_lease).ok_or(damaged("bad list of leases"))?;
            }
            ALARMS => {
                self.unversioned.alarms =
                    take_all(body, 16, take_alarm).ok_or(damaged("bad list of alarms"))?;
            }
            AUTH => {
                self.unversioned.auth =
                    auth::decode_state(body).ok_or(damaged("bad list of users and roles"))?;
            }
            _ if flags & MUST_UNDERSTAND == 0 => {}
            tag => return Err(BadManifest::NotSupported(format!("manifest section {tag}"))),
        }
        Ok(())
    }

    /// What is left to be wrong behind a good checksum. Counters can be added to afterwards without a thought.
    fn check(&self) -> Result<(), &'static str> {
        let compactions = Mark::START.compact_revision..=self.mark.revision;
        if !(1..COUNT_END).contains(&self.mark.revision) || !compactions.contains(&self.mark.compact_revision)
        {
            return Err("impossible revisions");
        }
        if [self.tip.epoch, self.tip.seq, self.next_id].iter().any(|&count| count >= COUNT_END as u64) {
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
    let written = Written { id, size, footer_crc };
    (item.get_u32_le() == 0).then_some(DataFile {
        written,
        first,
        last,
        live,
        clean_at,
        pins: Pins::default(),
    })
}

fn take_lease(mut item: &[u8]) -> Option<SavedLease> {
    Some(SavedLease { id: item.get_i64_le(), ttl: item.get_i64_le(), remaining: item.get_i64_le() })
}

fn take_alarm(mut item: &[u8]) -> Option<Alarm> {
    let member = item.get_u64_le();
    let kind = alarm_of_number(u8::try_from(item.get_u64_le()).ok()?)?;
    Some(Alarm { member, kind })
}
