//! A snapshot that an etcd 3.7.1 wrote, taken over by a node, and taken out of it again.
//!
//! `testdata/etcd-3.7.1.snapshot` has keys with several versions, a key that was deleted and made
//! again, one that was deleted last, a lease, two users, a role, authentication turned on, and a
//! compaction at 7. HashKV was 96771910 at revision 10.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs::File;
use std::path::{Path, PathBuf};

use vetch_bolt::Db;
use vetch_checkpoint::identity::Identity;
use vetch_node::Node;
use vetch_node::config::NodeConfig;
use vetch_node::store::request::{KeyRange, PutRequest, RangeRequest};
use vetch_snapshot::restore::{Options, REVISION_BUMP, Restored, restore};
use vetch_snapshot::status::status;
use vetch_snapshot::{Export, Member, SnapshotError};
use vetch_testkit::valid::Valid;

const HASH_KV: u32 = 96_771_910;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/etcd-3.7.1.snapshot")
}

fn options(source: &Path, data_dir: &Path, bump: Option<u64>) -> Options {
    Options {
        source: source.to_path_buf(),
        source_wal: None,
        other_members: Vec::new(),
        leave_undecided: false,
        data_dir: data_dir.to_path_buf(),
        skip_hash_check: false,
        bump,
        identity: None,
    }
}

fn restored(source: &Path, data_dir: &Path, bump: Option<u64>) -> Result<Restored, SnapshotError> {
    restore(&options(source, data_dir, bump), &mut |_| {})
}

fn open(data_dir: &Path) -> Node {
    let config = NodeConfig::new(data_dir.to_path_buf(), Identity { cluster_id: 1, member_id: 2 });
    Node::open(config, |_| {}).unwrap()
}

async fn export(node: &Node, path: &Path) {
    let member = Member {
        id: 2,
        name: "default".into(),
        peer_urls: vec!["http://localhost:2380".into()],
        client_urls: vec!["http://localhost:2379".into()],
        term: 2,
        cluster_version: "3.7.0".into(),
        storage_version: "3.7.0".into(),
    };
    let mut export = Export::new(node.snapshot().await.unwrap(), &member);
    let total = export.bytes();
    let mut file = Vec::new();
    while let Some(piece) = export.next(1000) {
        file.extend_from_slice(&piece);
        assert_eq!(export.remaining(), total - file.len() as u64);
    }
    file.extend_from_slice(&export.digest());
    std::fs::write(path, file).unwrap();
}

fn bucket(path: &Path, name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    let db = Db::open(file, len - 32).unwrap();
    let bucket = db.bucket(name.as_bytes()).unwrap().unwrap();
    let mut entries = db.entries(&bucket);
    let mut found = Vec::new();
    while let Some(entry) = entries.next().unwrap() {
        found.push((entry.key.to_vec(), entry.value.to_vec()));
    }
    found
}

#[tokio::test]
async fn what_etcd_wrote_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = restored(&fixture(), dir.path(), Some(0)).unwrap();
    assert_eq!((outcome.mark.revision, outcome.mark.compact_revision), (10, 7));
    assert_eq!((outcome.versions, outcome.leases, outcome.users, outcome.roles), (5, 1, 2, 1));
    let node = open(dir.path());
    let hash = node.hash_kv(0).await.unwrap();
    assert_eq!((hash.hash, hash.compact_revision, hash.hash_revision), (HASH_KV, 7, 10));
    let state = node.snapshot().await.unwrap();
    assert!(state.unversioned.auth.enabled);
    assert_eq!(state.unversioned.auth.revision, 7);
    assert_eq!(state.unversioned.leases.iter().next().unwrap().ttl, 600);
    node.shutdown().await;
}

#[tokio::test]
async fn what_goes_in_comes_out_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let (first, again) = (dir.path().join("first"), dir.path().join("again"));
    restored(&fixture(), &first, Some(0)).unwrap();
    let node = open(&first);
    let file = dir.path().join("snapshot");
    export(&node, &file).await;
    node.shutdown().await;
    for name in ["alarm", "auth", "authRoles", "authUsers", "cluster", "key", "lease", "members_removed"] {
        assert_eq!(bucket(&file, name), bucket(&fixture(), name), "{name}");
    }
    let (ours, theirs) =
        (status(&file, &mut |_, _| {}).unwrap(), status(&fixture(), &mut |_, _| {}).unwrap());
    assert_eq!((ours.revision, ours.total_key, ours.version), (10, 3, theirs.version));
    restored(&file, &again, Some(0)).unwrap();
    let node = open(&again);
    assert_eq!(node.hash_kv(0).await.unwrap().hash, HASH_KV);
    node.shutdown().await;
}

#[tokio::test]
async fn by_default_the_revision_is_moved_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = restored(&fixture(), dir.path(), None).unwrap();
    let revision = 10 + REVISION_BUMP as i64;
    assert_eq!((outcome.mark.revision, outcome.mark.compact_revision), (revision, revision));
    let node = open(dir.path());
    let found = node.range(RangeRequest::new(KeyRange::new("\0", "\0")).valid()).await;
    // Authentication is on in this snapshot; the caller here is the server itself.
    let found = found.unwrap();
    let seen: Vec<(&[u8], i64)> = found.kvs.iter().map(|kv| (kv.key(), kv.mod_revision())).collect();
    assert_eq!(seen, [(&b"a"[..], 7), (b"e", 9), (b"leased", 8)]);
    let put = PutRequest {
        key: "a".into(),
        value: "next".into(),
        lease: 0,
        prev_kv: false,
        ignore_value: false,
        ignore_lease: false,
    };
    assert_eq!(node.put(put.valid()).await.unwrap().revision, revision + 1);
    node.shutdown().await;
}

#[test]
fn what_is_not_whole_is_refused_and_leaves_no_data() {
    let dir = tempfile::tempdir().unwrap();
    let good = std::fs::read(fixture()).unwrap();
    let target = dir.path().join("target");
    let refused = |bytes: &[u8]| {
        let path = dir.path().join("bad");
        std::fs::write(&path, bytes).unwrap();
        let error = restored(&path, &target, None).unwrap_err();
        assert!(!target.join("member").exists());
        error
    };
    let mut flipped = good.clone();
    flipped[9000] ^= 1;
    assert!(matches!(refused(&flipped), SnapshotError::WrongHash { .. }));
    assert!(matches!(refused(&good[..good.len() - 32]), SnapshotError::NoHash));
    assert!(matches!(refused(&good[..8192 + 32]), SnapshotError::Format { .. }));
    assert!(matches!(refused(b""), SnapshotError::Format { .. }));
}

#[test]
fn a_directory_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("member.restoring")).unwrap();
    let error = restored(&fixture(), dir.path(), None).unwrap_err();
    assert!(error.to_string().contains("not empty"), "{error}");
    let error = restored(dir.path(), &dir.path().join("x"), None).unwrap_err();
    assert!(error.to_string().contains("neither a snapshot nor the data directory"), "{error}");
}
