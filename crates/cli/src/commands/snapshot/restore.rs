//! `vetch snapshot restore`.

use std::path::PathBuf;

use clap::Args;
use vetch_checkpoint::identity::Identity;
use vetch_server::identity;
use vetch_snapshot::restore::{Options, Progress, REVISION_BUMP, Restored, restore_encrypted};

use super::super::progress::Ticker;
use super::super::{Failure, keys, print_message};

#[derive(Args)]
pub(super) struct RestoreCommand {
    /// A snapshot, or the data directory of an etcd that is not running.
    source: PathBuf,
    /// The data directory to make; '${name}.vetch' if not given. Must not exist, or be empty.
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Not supported: the journal is made in the data directory, and can be moved from there.
    #[arg(long)]
    wal_dir: Option<PathBuf>,
    /// Name of the member.
    #[arg(long, default_value = "default")]
    name: String,
    /// The members of the cluster as name=url; one member only.
    #[arg(long)]
    initial_cluster: Option<String>,
    /// Together with the peer URLs it decides the IDs of cluster and member.
    #[arg(long)]
    initial_cluster_token: Option<String>,
    /// Peer URLs of the member. If neither these nor the token nor the members are given, the first
    /// start decides the IDs, or they are taken from the etcd data directory.
    #[arg(long, value_delimiter = ',')]
    initial_advertise_peer_urls: Vec<String>,
    /// Accept a snapshot without a hash, or with a wrong one.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    skip_hash_check: bool,
    /// Accepted and without effect: no memory is mapped.
    #[arg(long)]
    initial_memory_map_size: Option<u64>,
    /// How far to move the revision ahead, so that no revision that a client has seen is used
    /// again. On by default for a snapshot (1000000000), off for a data directory.
    #[arg(long)]
    bump_revision: Option<u64>,
    /// Mark everything before as compacted, so that clients list again. Needs --bump-revision.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    mark_compacted: Option<bool>,
    /// Keep the revisions of the snapshot. Only for clients that saw none later than the
    /// snapshot's.
    #[arg(long, conflicts_with_all = ["bump_revision", "mark_compacted"])]
    no_bump: bool,
    /// The write-ahead log of the source, if it is not in its data directory.
    #[arg(long)]
    source_wal_dir: Option<PathBuf>,
    /// Encrypt the data directory with the first key of this file. The snapshot itself is never
    /// encrypted.
    #[arg(long)]
    encryption_key_file: Option<PathBuf>,
    /// The data directory of another member of the same cluster; repeat it for each. With a
    /// majority of the members it is known what the cluster committed.
    #[arg(long)]
    other_member: Vec<PathBuf>,
    /// Leave out the end of the source's log if it is not known whether the cluster committed it,
    /// as etcd does with --force-new-cluster. Clients may have got acknowledgements for it.
    #[arg(long)]
    leave_undecided: bool,
}

impl RestoreCommand {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let data_dir = self.data_dir.clone().unwrap_or_else(|| format!("{}.vetch", self.name).into());
        if self.wal_dir.as_ref().is_some_and(|dir| *dir != data_dir.join("member").join("wal")) {
            let text = "--wal-dir: the journal is made in the data directory; restore without this flag, move \
                        member/journal to where it should be and put a link in its place";
            return Err(Failure::bad_arguments(text));
        }
        let options = Options {
            source: self.source.clone(),
            source_wal: self.source_wal_dir.clone(),
            other_members: self.other_member.clone(),
            leave_undecided: self.leave_undecided,
            data_dir,
            skip_hash_check: self.skip_hash_check,
            bump: self.bump()?,
            identity: self.identity()?,
        };
        let mut ticker = Ticker::new();
        let keys = keys(self.encryption_key_file.as_deref())?;
        let restored = restore_encrypted(&options, &keys, &mut |progress| match progress {
            Progress::Hashing { done, total } => ticker.report("checking the hash", done, total),
            Progress::Importing { done, total } => ticker.report("restoring", done, total),
            Progress::Replaying { done, total } => ticker.report("applying the log", done, total),
        })?;
        print_message(&report(&options, &restored));
        Ok(())
    }

    /// None: the kind of source decides.
    fn bump(&self) -> Result<Option<u64>, Failure> {
        let bump = if self.no_bump { Some(0) } else { self.bump_revision };
        let is_bumped = bump.unwrap_or(REVISION_BUMP) > 0;
        // With --mark-compacted alone, the default of --bump-revision applies to any source.
        let bump = if self.mark_compacted == Some(true) { bump.or(Some(REVISION_BUMP)) } else { bump };
        match self.mark_compacted {
            Some(marked) if marked != is_bumped => Err(Failure::bad_arguments(
                "--mark-compacted goes with --bump-revision: give both, or neither with --no-bump",
            )),
            _ => Ok(bump),
        }
    }

    fn identity(&self) -> Result<Option<Identity>, Failure> {
        let cluster = self.initial_cluster.as_deref();
        let nothing_given = cluster.is_none()
            && self.initial_cluster_token.is_none()
            && self.initial_advertise_peer_urls.is_empty();
        if nothing_given {
            return Ok(None);
        }
        let mut urls = self.initial_advertise_peer_urls.clone();
        for member in cluster.iter().flat_map(|cluster| cluster.split(',')) {
            let Some((name, url)) = member.split_once('=') else {
                return Err(Failure::bad_arguments(format!("--initial-cluster: {member:?} is not name=url")));
            };
            if name != self.name {
                let text = format!(
                    "--initial-cluster names {name:?} and --name is {:?}: a restore makes one member",
                    self.name
                );
                return Err(Failure::bad_arguments(text));
            }
            if self.initial_advertise_peer_urls.is_empty() {
                urls.push(url.to_owned());
            } else if !urls.iter().any(|known| known == url) {
                let text = "--initial-cluster has another URL than --initial-advertise-peer-urls";
                return Err(Failure::bad_arguments(text));
            }
        }
        if urls.is_empty() {
            urls.push("http://localhost:2380".into());
        }
        Ok(Some(identity::derive(&urls, self.initial_cluster_token.as_deref().unwrap_or("etcd-cluster"))))
    }
}

fn report(options: &Options, restored: &Restored) -> String {
    let Restored { source, mark, versions, from_log, leases, users, roles } = restored;
    let log = match from_log {
        0 => String::new(),
        requests => format!("{requests} requests that only the log had, "),
    };
    let moved = if source.revision == mark.revision {
        format!("revision {}, as in the source", mark.revision)
    } else {
        format!(
            "revision {}, moved ahead from {} so that clients list again (--no-bump keeps it)",
            mark.revision, source.revision
        )
    };
    format!(
        "restored {} into {}: {log}{versions} versions of keys, {leases} leases, {users} users, {roles} roles; {moved}",
        options.source.display(),
        options.data_dir.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        restore: RestoreCommand,
    }

    fn parsed(arguments: &[&str]) -> RestoreCommand {
        let arguments = ["x", "snap.db"].iter().chain(arguments);
        Cli::try_parse_from(arguments).unwrap().restore
    }

    #[test]
    fn the_revision_is_moved_by_default() {
        let bump = |arguments: &[&str]| parsed(arguments).bump().map_err(|failure| failure.text);
        let wrong = Err(
            "--mark-compacted goes with --bump-revision: give both, or neither with --no-bump".to_owned()
        );
        assert_eq!(bump(&[]), Ok(None));
        assert_eq!(bump(&["--no-bump"]), Ok(Some(0)));
        assert_eq!(bump(&["--bump-revision", "0"]), Ok(Some(0)));
        assert_eq!(bump(&["--bump-revision=7", "--mark-compacted"]), Ok(Some(7)));
        assert_eq!(bump(&["--bump-revision", "7"]), Ok(Some(7)));
        assert_eq!(bump(&["--mark-compacted"]), Ok(Some(REVISION_BUMP)));
        assert_eq!(bump(&["--bump-revision", "7", "--mark-compacted=false"]), wrong);
        assert_eq!(bump(&["--bump-revision", "0", "--mark-compacted"]), wrong);
    }

    #[test]
    fn ids_are_derived_only_if_something_is_said_about_them() {
        assert_eq!(parsed(&[]).identity().unwrap(), None);
        let urls = ["http://10.0.0.1:2380".to_owned()];
        let expected = Some(identity::derive(&urls, "etcd-cluster"));
        let one = parsed(&["--name=m", "--initial-cluster=m=http://10.0.0.1:2380"]);
        assert_eq!(one.identity().unwrap(), expected);
        assert_eq!(parsed(&["--initial-advertise-peer-urls", &urls[0]]).identity().unwrap(), expected);
        let two = parsed(&["--name=m", "--initial-cluster=m=http://a:1,n=http://b:1"]);
        assert!(two.identity().unwrap_err().text.contains("one member"));
    }
}
