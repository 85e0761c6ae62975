//! Export: a snapshot made while it is sent.
//!
//! The size of the file and the place of its root stand at its beginning, so it is laid out once
//! without being written; that reads lengths only. After that it is produced as it is asked for,
//! and each version is let go of as soon as it has been written.

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use vetch_bolt::{Layout, Measure, Sink, Writer};
use vetch_node::Snapshot;
use vetch_node::store::Record;

use crate::contents::{self, Step};
use crate::member::Member;

/// A snapshot being handed out.
pub struct Export {
    steps: std::vec::IntoIter<Step>,
    versions: std::vec::IntoIter<Record>,
    in_versions: bool,
    /// None once everything has been written.
    writer: Option<Writer<Buffer>>,
    layout: Layout,
    /// Written and not yet handed out.
    ready: BytesMut,
    hash: Sha256,
    handed_out: u64,
}

/// Pages on their way out.
#[derive(Default)]
struct Buffer(BytesMut);

impl Sink for Buffer {
    fn write(&mut self, pages: &[u8]) -> std::io::Result<()> {
        self.0.extend_from_slice(pages);
        Ok(())
    }
}

const NO_IO: &str = "memory takes what is written to it";

impl Export {
    /// Lays the file out, which takes a while for millions of versions: not for a thread that
    /// serves requests.
    pub fn new(state: Snapshot, member: &Member) -> Export {
        let steps = contents::steps(&state, member);
        let mut measure = Writer::new(Measure);
        for step in &steps {
            match step {
                Step::Bucket(name) => measure.bucket(name).expect(NO_IO),
                Step::Put(key, value) => measure.put(key, value).expect(NO_IO),
                Step::Versions => {
                    for version in &state.versions {
                        let (key, value) = contents::version_pair(version);
                        measure.put(&key, &value).expect(NO_IO);
                    }
                }
            }
        }
        let (_, layout) = measure.finish().expect(NO_IO);
        Export {
            steps: steps.into_iter(),
            versions: state.versions.into_iter(),
            in_versions: false,
            writer: Some(Writer::new(Buffer::default())),
            layout,
            ready: BytesMut::from(layout.front().as_slice()),
            hash: Sha256::new(),
            handed_out: 0,
        }
    }

    /// Bytes of the file, the hash behind it not counted.
    pub fn bytes(&self) -> u64 {
        self.layout.bytes()
    }

    /// Bytes of the file that have not been handed out yet.
    pub fn remaining(&self) -> u64 {
        self.bytes() - self.handed_out
    }

    /// The next `len` bytes of the file, or what is left of it; None at the end.
    pub fn next(&mut self, len: usize) -> Option<Bytes> {
        while self.ready.len() < len && self.writer.is_some() {
            self.write_on();
        }
        if self.ready.is_empty() {
            assert!(self.remaining() == 0, "the file is as long as it was laid out");
            return None;
        }
        let piece = self.ready.split_to(len.min(self.ready.len())).freeze();
        self.hash.update(&piece);
        self.handed_out += piece.len() as u64;
        Some(piece)
    }

    /// The hash of everything handed out, which follows the last piece.
    pub fn digest(self) -> Bytes {
        Bytes::copy_from_slice(&self.hash.finalize())
    }

    /// Writes one more key, or the end.
    fn write_on(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        if self.in_versions {
            match self.versions.next() {
                Some(version) => {
                    let (key, value) = contents::version_pair(&version);
                    writer.put(&key, &value).expect(NO_IO);
                }
                None => self.in_versions = false,
            }
        } else {
            match self.steps.next() {
                Some(Step::Bucket(name)) => writer.bucket(name).expect(NO_IO),
                Some(Step::Put(key, value)) => writer.put(&key, &value).expect(NO_IO),
                Some(Step::Versions) => self.in_versions = true,
                None => return self.end(),
            }
        }
        let written = &mut writer.sink_mut().0;
        self.ready.extend_from_slice(written);
        written.clear();
    }

    fn end(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        let (rest, layout) = writer.finish().expect(NO_IO);
        assert!(layout == self.layout, "the same state is laid out the same way twice");
        self.ready.extend_from_slice(&rest.0);
    }
}
