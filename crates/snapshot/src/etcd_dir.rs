//! The data directory of an etcd that is not running: its database, and the end of its log.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use vetch_checkpoint::identity::Identity;

use crate::file::{SnapshotError, SnapshotFile};
use crate::import::{self, Meta};
use crate::replay::may_change;
use crate::wal::{self, Entry, Tail};

/// Whether a path looks like the data directory of an etcd.
pub fn is_etcd(data_dir: &Path) -> bool {
    let member = data_dir.join("member");
    member.join("snap").is_dir() || member.join("wal").is_dir()
}

pub(crate) struct EtcdDir {
    path: PathBuf,
    pub(crate) file: SnapshotFile,
    pub(crate) meta: Meta,
    tail: Tail,
    /// Ids of the members that may vote.
    voters: BTreeSet<u64>,
    /// Keeps an etcd from being started on the directory meanwhile.
    _lock: File,
}

impl EtcdDir {
    pub(crate) fn open(data_dir: &Path, wal_dir: Option<&Path>) -> Result<EtcdDir, SnapshotError> {
        let snap = data_dir.join("member").join("snap");
        let db = snap.join("db");
        let lock = lock(data_dir, &db)?;
        let wal = wal_dir.map_or_else(|| data_dir.join("member").join("wal"), Path::to_path_buf);
        let mut file = SnapshotFile::open(&db)?;
        let mut meta = Meta::read(&file)?;
        let mut tail = wal::read_tail(&wal, meta.consistent_index)?;
        if tail.base > meta.consistent_index {
            // Killed between being sent a database and putting it into its place. etcd does that at
            // its next start.
            let sent = snap.join(format!("{:016x}.snap.db", tail.base));
            let end = meta.consistent_index;
            file = SnapshotFile::open(&sent).map_err(|error| behind(&wal, tail.base, end, error))?;
            meta = Meta::read(&file)?;
            let base = tail.base;
            tail = wal::read_tail(&wal, meta.consistent_index)?;
            if meta.consistent_index < base {
                let error = format!("{} ends at entry {}", sent.display(), meta.consistent_index);
                return Err(behind(&wal, base, end, error));
            }
        }
        let voters = import::voters(&file)?;
        Ok(EtcdDir { path: data_dir.to_path_buf(), file, meta, tail, voters, _lock: lock })
    }

    /// Who the etcd was.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let metadata = self.tail.metadata.as_ref()?;
        Some(Identity { cluster_id: metadata.cluster_id, member_id: metadata.node_id })
    }

    /// Chooses, of several members of one cluster, the one that knows most.
    ///
    /// Every majority has what the cluster committed in a log. The member of a majority whose log
    /// ends last would be elected: it has all of it, and its further entries may be committed too,
    /// since no client got an error for them. Fewer members prove only what their commit index
    /// covers.
    pub(crate) fn choose(mut members: Vec<EtcdDir>) -> Result<Chosen, SnapshotError> {
        let ids: BTreeSet<Option<u64>> = members.iter().map(|dir| Some(dir.identity()?.member_id)).collect();
        let clusters: BTreeSet<Option<u64>> =
            members.iter().map(|dir| Some(dir.identity()?.cluster_id)).collect();
        if ids.len() < members.len() || clusters.len() > 1 {
            return Err(SnapshotError::Refused(
                "the directories have to be those of different members of the same cluster".into(),
            ));
        }
        let known = members.iter().map(EtcdDir::known_committed).max().unwrap_or(0);
        let best = (0..members.len()).max_by_key(|&at| members[at].tail.last).expect("at least one is given");
        let mut dir = members.swap_remove(best);
        let voting = ids.iter().flatten().filter(|id| dir.voters.contains(id)).count();
        let is_majority = voting * 2 > dir.voters.len() || dir.voters.len() <= 1;
        let entries = std::mem::take(&mut dir.tail.entries);
        let committed = match is_majority {
            true => dir.all_committed(&entries, known),
            false => known,
        };
        let (committed, uncommitted) = entries.into_iter().partition(|entry| entry.index <= committed);
        Ok(Chosen { dir, committed, uncommitted })
    }

    /// Up to where this member knew that entries were committed. Entries in the database were, even
    /// if the log does not say so.
    fn known_committed(&self) -> u64 {
        self.tail.commit.max(self.meta.consistent_index)
    }

    /// Up to where a majority proves entries committed: all, up to a change of membership.
    fn all_committed(&self, entries: &[Entry], known: u64) -> u64 {
        let change = entries.iter().find(|entry| entry.index > known && entry.is_membership());
        let end = entries.last().map_or(known, |entry| entry.index);
        change.map_or(end, |entry| entry.index).max(known)
    }
}

/// A member's directory, and what of its log is to be applied to its database.
pub(crate) struct Chosen {
    pub(crate) dir: EtcdDir,
    pub(crate) committed: Vec<Entry>,
    uncommitted: Vec<Entry>,
}

impl Chosen {
    /// Refuses to leave out writes that may have been acknowledged to clients.
    pub(crate) fn check_uncommitted(&self) -> Result<(), SnapshotError> {
        let missing = self.uncommitted.iter().filter(|entry| may_change(entry)).count();
        if missing == 0 {
            return Ok(());
        }
        Err(SnapshotError::Refused(format!(
            "the log of {} ends with {missing} entries of which it is not known whether the cluster of {} members committed \
             them. Give the data directories of other members as well (--other-member), so that there is a majority of \
             them; or leave the entries out (--leave-undecided), as etcd does with --force-new-cluster",
            self.dir.path.display(),
            self.dir.voters.len(),
        )))
    }
}

/// A database that is older than the beginning of the log.
fn behind(wal: &Path, base: u64, end: u64, error: impl std::fmt::Display) -> SnapshotError {
    SnapshotError::Refused(format!(
        "the log in {} goes on behind entry {base}, the database ends at entry {end}, and what was sent in between is not \
         there: {error}. Use a snapshot, or the directory of another member",
        wal.display(),
    ))
}

fn lock(data_dir: &Path, db: &Path) -> Result<File, SnapshotError> {
    if !db.is_file() {
        return Err(SnapshotError::Refused(format!(
            "{} is neither a snapshot nor the data directory of an etcd: {} does not exist",
            data_dir.display(),
            db.display()
        )));
    }
    let lock = File::open(db).map_err(SnapshotError::io("opening", db))?;
    flock(&lock, FlockOperation::NonBlockingLockShared).map_err(|_| {
        SnapshotError::Refused(format!(
            "an etcd is running on {}: stop it first, or take a snapshot of it and restore that",
            data_dir.display()
        ))
    })?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::tests::LogFile;

    /// A directory with the database of an etcd 3.7.1 and a log.
    fn directory(log: LogFile) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let member = dir.path().join("member");
        std::fs::create_dir_all(member.join("snap")).unwrap();
        std::fs::create_dir_all(member.join("wal")).unwrap();
        std::fs::write(member.join("snap").join("db"), database()).unwrap();
        std::fs::write(member.join("wal").join(format!("{:016x}-{:016x}.wal", 0, 0)), log.padded()).unwrap();
        dir
    }

    fn database() -> Vec<u8> {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/etcd-3.7.1.snapshot");
        let file = std::fs::read(fixture).unwrap();
        file[..file.len() - 32].to_vec()
    }

    /// Where the database is.
    fn index() -> u64 {
        let dir = directory(LogFile::new(1).entries(1..=99));
        EtcdDir::open(dir.path(), None).unwrap().meta.consistent_index
    }

    fn opened(log: LogFile) -> EtcdDir {
        EtcdDir::open(directory(log).path(), None).unwrap()
    }

    fn indexes(entries: &[Entry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.index).collect()
    }

    #[test]
    fn one_voter_decides_alone() {
        let index = index();
        let chosen = EtcdDir::choose(vec![opened(LogFile::new(1).entries(1..=index + 2))]).unwrap();
        assert_eq!(indexes(&chosen.committed), [index + 1, index + 2]);
        chosen.check_uncommitted().unwrap();
    }

    #[test]
    fn a_change_of_members_ends_what_is_known() {
        let index = index();
        let log = LogFile::new(1).entries(1..=index + 1).membership(index + 2).entries(index + 3..=index + 4);
        let chosen = EtcdDir::choose(vec![opened(log)]).unwrap();
        assert_eq!(indexes(&chosen.committed), [index + 1, index + 2]);
        let refusal = chosen.check_uncommitted().unwrap_err().to_string();
        assert!(refusal.contains("2 entries") && refusal.contains("--other-member"), "{refusal}");
    }

    /// The directory of one of three voters.
    fn of_three(log: LogFile) -> EtcdDir {
        EtcdDir { voters: BTreeSet::from([1, 2, 3]), ..opened(log) }
    }

    #[test]
    fn of_several_members_a_majority_decides() {
        let index = index();
        let log = |node, upto| LogFile::new(node).entries(1..=upto);
        let choose = |members| EtcdDir::choose(members).unwrap();
        // One knows what it has written down.
        let alone = choose(vec![of_three(log(1, index + 3).commit(index + 1))]);
        assert_eq!(
            (indexes(&alone.committed), indexes(&alone.uncommitted)),
            (vec![index + 1], vec![index + 2, index + 3])
        );
        // Of two, the one that has more is believed.
        let both = choose(vec![of_three(log(1, index + 1)), of_three(log(2, index + 3))]);
        assert_eq!(both.dir.identity().unwrap().member_id, 2);
        assert_eq!(indexes(&both.committed), [index + 1, index + 2, index + 3]);
        // A later leader's log counts more than a longer one.
        let later = LogFile::new(2).entries(1..=index).later_entry(index + 1);
        let both = choose(vec![of_three(log(1, index + 3)), of_three(later)]);
        assert_eq!((both.dir.identity().unwrap().member_id, indexes(&both.committed)), (2, vec![index + 1]));
        // Strangers do not make a majority.
        let strangers = choose(vec![of_three(log(1, index + 1)), of_three(log(9, index))]);
        assert_eq!(indexes(&strangers.uncommitted), [index + 1]);
        let twice = EtcdDir::choose(vec![of_three(log(1, index)), of_three(log(1, index))]);
        assert!(twice.err().unwrap().to_string().contains("different members"));
    }

    #[test]
    fn a_database_that_was_sent_is_looked_for() {
        let index = index();
        let log = || LogFile::new(1).entries(1..=index).snapshot(index + 9).commit(index + 9);
        let dir = directory(log());
        let refused = || EtcdDir::open(dir.path(), None).err().unwrap().to_string();
        assert!(refused().contains("opening"), "{}", refused());
        let sent = dir.path().join("member").join("snap").join(format!("{:016x}.snap.db", index + 9));
        std::fs::write(sent, database()).unwrap();
        assert!(refused().contains(&format!("ends at entry {index}")), "{}", refused());
    }
}
