//! A session: the archive of one journal, from reading what is there to the chunks that follow.
//!
//! A chunk is named by its first entry, and a name is taken once. So a chunk whose arrival was not
//! confirmed is found again and gone on from, and of two servers that run on copies of one data
//! directory only one can have its way: the other finds something else under the name that comes
//! next, and stops writing.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use vetch_base::Seq;
use vetch_journal::{Disk, JournalError, RawPlace, RawReader, RawRecord, RealDisk};
use vetch_node::archive::Archive;
use vetch_node::retention::Durable;

use super::marks::Marks;
use crate::catalog::Timeline;
use crate::depot::{Depot, Put};
use crate::error::BackupError;
use crate::format::{self, Chunk, ChunkHeader, ChunkInfo, Full, Owner, chunk_name, decode, encode};
use crate::location::Location;
use crate::times;

/// A chunk is closed at about this size. A single larger record is still one.
const CHUNK_BYTES: usize = 8 << 20;

pub(super) struct Session {
    depot: Depot,
    disk: Arc<dyn Disk>,
    journal: String,
    place: RawPlace,
    /// The first entry of the chunks without a gap that lead to here.
    run_start: Seq,
    /// Chunks that no full backup lists yet.
    chunks: Vec<ChunkInfo>,
    newest_full: Option<Full>,
}

impl Session {
    /// Reads what is there, refuses the backups of another server, and finds out where to go on.
    pub(super) fn begin(archive: &Archive, location: &Location) -> Result<Session, BackupError> {
        let depot = location.open_to_write()?;
        claim(&depot, archive)?;
        // Nothing goes while it is not known what is needed.
        archive.retain_after(Seq::ZERO);
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let (dir, durable) = (archive.journal_dir(), archive.durable());
        let oldest = RawReader::oldest(disk.as_ref(), &dir)?.unwrap_or(Seq::FIRST);
        let first = RawReader::seek(Arc::clone(&disk), &dir, oldest)?.next_record(durable.seq)?;
        let first = first.ok_or_else(|| BackupError::Refused("the journal is empty".to_owned()))?;
        let journal = format!("{:016x}", first.journal_id);
        let timeline = Timeline::read(&depot, &journal)?;
        for damage in &timeline.damage {
            tracing::error!(damage, "the backup is damaged; what was written since is sent all the same");
        }
        let last = timeline.chunks.last().filter(|last| last.last_seq.next() >= oldest);
        let (place, run_start) = match last {
            Some(last) => {
                let place = continued(&depot, Arc::clone(&disk), archive, &journal, last)?;
                (place, timeline.runs().last().map_or(oldest, |run| run[0].first_seq))
            }
            None => (first.place, oldest),
        };
        if let Some(gap) = timeline.chunks.last().filter(|last| last.last_seq.next() < oldest) {
            tracing::warn!(
                from = gap.last_seq.next().get(),
                to = oldest.prev_or_zero().get(),
                "the backup has a gap: these journal entries were let go before they could be sent"
            );
        }
        archive.retain_after(place.seq.prev_or_zero());
        let newest_full = timeline.fulls.last().cloned();
        tell_metrics(archive, newest_full.as_ref());
        let listed: Vec<Seq> = timeline.fulls.iter().flat_map(|f| &f.chunks).map(|c| c.first_seq).collect();
        let mut chunks = timeline.chunks;
        chunks.retain(|chunk| !listed.contains(&chunk.first_seq));
        Ok(Session { depot, disk, journal, place, run_start, chunks, newest_full })
    }

    pub(super) fn journal(&self) -> &str {
        &self.journal
    }

    pub(super) fn chunks(&self) -> &[ChunkInfo] {
        &self.chunks
    }

    pub(super) fn newest_full(&self) -> Option<&Full> {
        self.newest_full.as_ref()
    }

    /// The last entry that is in the archive.
    pub(super) fn archived(&self) -> Seq {
        self.place.seq.prev_or_zero()
    }

    /// Whether the chunks lead nowhere for want of a full backup, or the last one is old.
    pub(super) fn is_full_due(&self, interval: Duration) -> bool {
        let Some(full) = &self.newest_full else { return true };
        let age = Duration::from_millis(times::now().saturating_sub(full.time));
        full.seq.next() < self.run_start || age >= interval
    }

    pub(super) fn full_taken(&mut self, full: &Full) {
        let listed: Vec<Seq> = full.chunks.iter().map(|chunk| chunk.first_seq).collect();
        self.chunks.retain(|chunk| !listed.contains(&chunk.first_seq));
        self.newest_full = Some(full.clone());
    }

    /// Ships everything that is durable now.
    pub(super) fn ship(&mut self, archive: &Archive, marks: &Marks) -> Result<(), BackupError> {
        let until = archive.durable();
        // The last entry that is sent has a mark, also if nothing follows for long.
        marks.note(until, times::now());
        while self.archived() < until.seq {
            let Some(chunk) = self.collect(archive, marks, until)? else { break };
            let sent = self.send(chunk)?;
            marks.forget(sent.last_seq);
            archive.retain_after(sent.last_seq);
            let metrics = archive.metrics();
            metrics.chunks.add(1);
            metrics.bytes.add(sent.size);
            if let Some(revision) = sent.revision {
                metrics.revision.set(revision);
            }
            self.chunks.push(sent);
        }
        Ok(())
    }

    /// The next records of one segment, as many as fit a chunk.
    fn collect(
        &self,
        archive: &Archive,
        marks: &Marks,
        until: Durable,
    ) -> Result<Option<Chunk>, BackupError> {
        let mut reader = RawReader::resume(Arc::clone(&self.disk), &archive.journal_dir(), self.place);
        let Some(first) = reader.next_record(until.seq)? else { return Ok(None) };
        let RawRecord { place, segment_len, mut last_seq, bytes, .. } = first;
        let mut records = BytesMut::from(bytes);
        while records.len() < CHUNK_BYTES
            && let Some(next) = reader.next_record(until.seq)?
            && next.place.segment == place.segment
        {
            records.extend_from_slice(&next.bytes);
            last_seq = next.last_seq;
        }
        let marks = marks.upto(last_seq);
        let known = marks.last().filter(|mark| mark.seq == last_seq).map(|mark| mark.revision);
        let revision = if last_seq == until.seq { Some(until.revision) } else { known };
        let header = ChunkHeader {
            journal: self.journal.clone(),
            first_seq: place.seq,
            last_seq,
            revision,
            segment: place.segment,
            segment_len,
            offset: place.offset,
            marks,
        };
        Ok(Some(Chunk { header, records: records.freeze() }))
    }

    /// Puts a chunk where it belongs. If there is one that begins as this one does, that is gone on
    /// from.
    fn send(&mut self, chunk: Chunk) -> Result<ChunkInfo, BackupError> {
        let name = chunk_name(&self.journal, chunk.header.first_seq);
        let encoded = chunk.encode();
        let size = encoded.len() as u64;
        let (kept, size) = match self.depot.put_new(&name, encoded)? {
            Put::Created => (chunk, size),
            Put::Exists => {
                let bytes = self.depot.get(&name)?;
                let theirs = Chunk::decode(&name, &bytes)?;
                if theirs.header.segment != chunk.header.segment
                    || !chunk.records.starts_with(&theirs.records)
                {
                    return Err(foreign(&self.depot, &name));
                }
                (theirs, bytes.len() as u64)
            }
        };
        let ChunkHeader { segment, offset, last_seq, .. } = kept.header;
        self.place = RawPlace { segment, offset: offset + kept.records.len() as u64, seq: last_seq.next() };
        Ok(ChunkInfo::new(&kept.header, size))
    }
}

/// One location, one server.
fn claim(depot: &Depot, archive: &Archive) -> Result<(), BackupError> {
    let identity = archive.identity();
    let ours = Owner {
        format: format::FORMAT,
        cluster_id: format!("{:x}", identity.cluster_id),
        member_id: format!("{:x}", identity.member_id),
    };
    if depot.put_new(format::OWNER, encode(&ours))? == Put::Created {
        return Ok(());
    }
    let theirs: Owner = decode(format::OWNER, &depot.get(format::OWNER)?)?;
    if theirs == ours {
        return Ok(());
    }
    Err(BackupError::Foreign(format!(
        "{} is the backup of member {} of cluster {}; this is member {} of cluster {}. Give every server a location of \
         its own",
        depot.location(),
        theirs.member_id,
        theirs.cluster_id,
        ours.member_id,
        ours.cluster_id
    )))
}

/// Where the journal goes on behind the last chunk, which must be a piece of it.
fn continued(
    depot: &Depot,
    disk: Arc<dyn Disk>,
    archive: &Archive,
    journal: &str,
    last: &ChunkInfo,
) -> Result<RawPlace, BackupError> {
    let name = chunk_name(journal, last.first_seq);
    if archive.durable().seq < last.last_seq {
        return Err(foreign(depot, &name));
    }
    let Chunk { header, records } = Chunk::decode(&name, &depot.get(&name)?)?;
    let dir = archive.journal_dir();
    let place = RawPlace { segment: header.segment, offset: header.offset, seq: header.first_seq };
    match same_records(RawReader::resume(Arc::clone(&disk), &dir, place), records, header.last_seq) {
        Ok(Some(place)) => Ok(place),
        Ok(None) | Err(JournalError::Corrupt(_)) => Err(foreign(depot, &name)),
        // The segment has been trimmed since.
        Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(RawReader::seek(disk, &dir, header.last_seq.next())?.place())
        }
        Err(error) => Err(error.into()),
    }
}

/// The place behind `records`, if the journal has exactly these.
fn same_records(
    mut reader: RawReader,
    mut records: Bytes,
    last_seq: Seq,
) -> Result<Option<RawPlace>, JournalError> {
    while let Some(record) = reader.next_record(last_seq)? {
        if !records.starts_with(&record.bytes) {
            return Ok(None);
        }
        records.advance(record.bytes.len());
    }
    Ok(Some(reader.place()).filter(|_| records.is_empty()))
}

fn foreign(depot: &Depot, name: &str) -> BackupError {
    BackupError::Foreign(format!(
        "{name} in {} is not a piece of this server's journal, although it has the same id: another server runs on a copy \
         of this data directory, or this directory has lost writes that the backup has. Nothing was overwritten. Stop the \
         other server, or restore from the backup, or give this one another --backup-location",
        depot.location()
    ))
}

fn tell_metrics(archive: &Archive, full: Option<&Full>) {
    let metrics = archive.metrics();
    if let Some(full) = full {
        metrics.full_revision.set(full.revision);
        metrics.full_time.set(i64::try_from(full.time).unwrap_or(i64::MAX));
    }
}
