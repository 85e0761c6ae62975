//! Records, commands and events as lines of text.

use bytes::Bytes;
use vetch_cluster::{
    Command, LogIndex, Record, ReplicaEvent, ReplicaId, candidate_of, is_seed, transfer_target,
};
use vetch_journal::{Entry, Kind, Payload, Tip};

pub(crate) fn record(bytes: &Bytes) -> String {
    match Record::decode(bytes) {
        Ok(record) => {
            let entries: Vec<String> = record.entries().iter().map(|(entry, _)| show_entry(entry)).collect();
            entries.join(" + ")
        }
        Err(error) => format!("no record: {error}"),
    }
}

pub(crate) fn command(command: &Command) -> String {
    match command {
        Command::Append { ticket, after, record: bytes } => {
            format!("append #{} behind @{}: {}", ticket.0, after.0, record(bytes))
        }
        Command::Read { after } => format!("read behind @{}", after.0),
    }
}

pub(crate) fn event(event: &ReplicaEvent) -> String {
    match event {
        ReplicaEvent::Applied { at, entry, .. } => format!("applied @{}: {}", at.0, show_entry(entry)),
        ReplicaEvent::Committed { ticket, at, tip } => {
            format!("committed #{} @{}: {}", ticket.0, at.0, show_tip(tip))
        }
        ReplicaEvent::Dropped { ticket } => format!("dropped #{}", ticket.0),
        ReplicaEvent::ReadIndex { reads, index: at } => {
            let reads: Vec<String> = reads.iter().map(|read| read.0.to_string()).collect();
            format!("reads {} may be answered at {}", reads.join(", "), index(at))
        }
        ReplicaEvent::ReadIndexLost { reads } => {
            let reads: Vec<String> = reads.iter().map(|read| read.0.to_string()).collect();
            format!("reads {} get no index here", reads.join(", "))
        }
        ReplicaEvent::Leading { epoch, tip } => format!("leads epoch {epoch}: {}", show_tip(tip)),
        ReplicaEvent::LeadershipTransferred => "leadership transferred".to_owned(),
        ReplicaEvent::Following { epoch, leader } => format!("follows {} in epoch {epoch}", replica(*leader)),
        ReplicaEvent::Ignored { at, why } => format!("ignored @{}: {why:?}", at.0),
        ReplicaEvent::Suspect { read, end } => {
            format!("suspect: read to @{}, but the log ends @{}", read.0, end.0)
        }
        ReplicaEvent::Full => "the log is full".to_owned(),
        ReplicaEvent::Behind { first } => format!("behind: the log begins @{}", first.0),
        ReplicaEvent::Halted(divergence) => format!("HALTED: {divergence}"),
    }
}

pub(crate) fn index(index: &LogIndex) -> String {
    format!("@{} {}", index.position.0, show_tip(&index.tip))
}

fn show_tip(tip: &Tip) -> String {
    format!("entry {} of epoch {}, next revision {}", tip.seq, tip.epoch, tip.next_rev)
}

fn replica(id: ReplicaId) -> String {
    format!("{}.{}", id.member, id.incarnation)
}

fn show_entry(entry: &Entry) -> String {
    let what = match entry.kind {
        Kind::NewEpoch if is_seed(entry) => "seed".to_owned(),
        Kind::NewEpoch => candidate_of(entry).map_or_else(
            || "new epoch without a candidate".to_owned(),
            |id| format!("new epoch for {}", replica(id)),
        ),
        Kind::Barrier => transfer_target(entry)
            .map_or_else(|| "barrier".to_owned(), |to| format!("barrier that transfers to {}", replica(to))),
        kind => format!("{kind:?} {:?}", String::from_utf8_lossy(&payload(entry))),
    };
    format!("{}/{} {what}", entry.epoch, entry.seq)
}

fn payload(entry: &Entry) -> Vec<u8> {
    let parts = entry.parts.iter().filter_map(|part| match &part.payload {
        Payload::Inline(bytes) => Some(bytes.to_vec()),
        Payload::Ref(_) => None,
    });
    parts.flatten().collect()
}
