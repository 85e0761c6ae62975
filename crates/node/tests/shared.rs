//! Data directories on their way into a shared journal: a journal begun with one, and checkpoints
//! sent to other servers.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tempfile::TempDir;
use vetch_checkpoint::identity::Identity;
use vetch_checkpoint::transfer::{CheckpointReceiver, TransferError, TransferManifest};
use vetch_checkpoint::{CheckpointConfig, Loaded, audit, load};
use vetch_cluster::{Config, Log, LogError, LogEvent, OrderedLog, Ticket};
use vetch_encryption::EncryptionKeys;
use vetch_journal::{Position, RealDisk};
use vetch_node::Node;
use vetch_node::cluster::ClusterConfig;
use vetch_node::config::NodeConfig;
use vetch_node::error::OpenError;
use vetch_offline::DataDirBuilder;
use vetch_offline::refill::{RefillError, refill};
use vetch_store::Mark;
use vetch_store::load::Unversioned;
use vetch_store::request::PutRequest;
use vetch_testkit::log::handle::ModelHandle;
use vetch_testkit::log::model::ModelLog;
use vetch_testkit::valid::Valid;

const KEYS: usize = 300;

fn config(dir: &Path) -> NodeConfig {
    NodeConfig::new(dir.to_path_buf(), Identity { cluster_id: 1, member_id: 2 })
}

fn log() -> ModelHandle {
    ModelHandle::new(Arc::new(Mutex::new(ModelLog::new(true))))
}

/// The directory of a server that stood alone and ended.
fn stood_alone() -> TempDir {
    stood_alone_with(KEYS)
}

fn stood_alone_with(keys: usize) -> TempDir {
    let dir = TempDir::new().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let node = Node::open(config(dir.path()), |_| {}).unwrap();
        for n in 0..keys {
            let put = PutRequest {
                key: format!("key/{n}").into_bytes().into(),
                value: vec![b'v'; 1000].into(),
                lease: 0,
                prev_kv: false,
                ignore_value: false,
                ignore_lease: false,
            };
            node.put(put.valid()).await.unwrap();
        }
        node.shutdown().await;
    });
    dir
}

fn loaded(dir: &Path) -> Loaded {
    let config = CheckpointConfig::default();
    let checkpoints = dir.join("member").join("checkpoint");
    load(Arc::new(RealDisk), &checkpoints, config, 0, &EncryptionKeys::none(), &mut |_, _| {}).unwrap()
}

#[test]
fn a_journal_goes_on_where_a_server_that_stood_alone_ended() {
    let dir = stood_alone();
    let mut log = log();
    let refilled = refill(dir.path(), &mut log).unwrap();
    assert_eq!(
        (refilled.revision, refilled.keys, refilled.was_seeded),
        (1 + KEYS as i64, KEYS as u64, false)
    );
    assert_eq!((refilled.index.position, refilled.index.tip.next_rev), (Position(1), 2 + KEYS as i64));
    let state = loaded(dir.path());
    assert_eq!((state.position, state.tip), (1, refilled.index.tip));
    assert_eq!(state.store.stats().keys, KEYS as u64);
    assert_eq!(
        state.checkpointer.trim_position(),
        Some((refilled.index.position, refilled.index.tip)),
        "the fallback belongs to this journal"
    );
    // It is a server of a cluster now, with an identity to be chosen.
    assert!(!dir.path().join("member").join("journal").exists());
    assert!(!dir.path().join("member").join("identity").exists());
    assert!(matches!(Node::open(config(dir.path()), |_| {}), Err(OpenError::Shared(_))));
}

#[test]
fn a_refill_that_was_interrupted_is_done_again() {
    let dir = stood_alone();
    let copy = TempDir::new().unwrap();
    copy_all(dir.path(), copy.path());
    let mut log = log();
    let first = refill(dir.path(), &mut log).unwrap();
    assert!(refill(dir.path(), &mut log).unwrap().was_seeded);
    // One that lost power after the journal was begun and before its directory knew.
    let second = refill(copy.path(), &mut log).unwrap();
    assert_eq!((second.index, second.was_seeded), (first.index, false));
}

#[test]
fn a_journal_that_is_not_empty_is_left_alone_and_so_is_the_directory() {
    let (one, other) = (stood_alone_with(KEYS - 1), stood_alone());
    let mut log = log();
    refill(one.path(), &mut log).unwrap();
    assert!(matches!(refill(other.path(), &mut log), Err(RefillError::Journal(_))));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let node = Node::open(config(other.path()), |_| {}).unwrap();
        assert_eq!(node.revision(), 1 + KEYS as i64);
        node.shutdown().await;
    });
}

#[test]
fn what_was_restored_and_never_started_begins_a_journal() {
    let dir = TempDir::new().unwrap();
    let import = DataDirBuilder::begin(dir.path(), -1, EncryptionKeys::none()).unwrap();
    let mark = Mark { revision: 1_000_000, compact_revision: 1_000_000 };
    import.finish(mark, Unversioned::default(), None).unwrap();
    let refilled = refill(dir.path(), &mut log()).unwrap();
    assert_eq!((refilled.revision, refilled.index.tip.next_rev), (1_000_000, 1_000_001));
    assert_eq!(loaded(dir.path()).position, 1);
}

#[test]
fn a_directory_with_nothing_in_it_begins_no_journal() {
    let dir = TempDir::new().unwrap();
    assert!(matches!(refill(dir.path(), &mut log()), Err(RefillError::Nothing(_))));
}

/// A checkpoint of a shared journal: what it consists of, and its bytes.
fn checkpoint() -> (TempDir, TransferManifest, Vec<u8>) {
    let dir = stood_alone();
    refill(dir.path(), &mut log()).unwrap();
    let at = dir.path().join("member").join("checkpoint");
    let number = loaded(dir.path()).report.number.unwrap();
    let (position, tip) = audit(&RealDisk, &at, number, &EncryptionKeys::none()).unwrap();
    let last = format!("{number:016x}.manifest");
    let names = fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".data")).collect();
    names.push(last);
    let bytes = |name: &String| fs::read(at.join(name)).unwrap();
    let files: Vec<(String, u64)> =
        names.iter().map(|name| (name.clone(), bytes(name).len() as u64)).collect();
    let all = names.iter().flat_map(bytes).collect();
    (dir, TransferManifest { position, tip, revision: 1 + KEYS as i64, number, files }, all)
}

fn send(to: &Path, manifest: &TransferManifest, bytes: &[u8]) -> Result<(), TransferError> {
    let mut receiver = CheckpointReceiver::begin(to, manifest.clone())?;
    for piece in bytes.chunks(777) {
        receiver.write(piece)?;
    }
    receiver.finish()
}

fn names(dir: &Path) -> Vec<String> {
    let member = dir.join("member");
    let mut names: Vec<String> = fs::read_dir(member)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_checkpoint_that_was_sent_is_the_one_that_was_held() {
    let (_source, manifest, bytes) = checkpoint();
    let to = TempDir::new().unwrap();
    send(to.path(), &manifest, &bytes).unwrap();
    assert_eq!(names(to.path()), ["LOCK", "checkpoint"]);
    let state = loaded(to.path());
    assert_eq!((state.position, state.tip), (1, manifest.tip));
    assert_eq!(state.store.stats().keys, KEYS as u64);
    // Another one takes its place.
    send(to.path(), &manifest, &bytes).unwrap();
    assert_eq!(names(to.path()), ["LOCK", "checkpoint"]);
}

#[test]
fn an_interrupted_transfer_is_no_checkpoint_and_begins_anew() {
    let (_source, manifest, bytes) = checkpoint();
    let to = TempDir::new().unwrap();
    let mut receiver = CheckpointReceiver::begin(to.path(), manifest.clone()).unwrap();
    receiver.write(&bytes[..bytes.len() / 2]).unwrap();
    drop(receiver);
    assert!(!to.path().join("member").join("checkpoint").exists());
    let short = send(to.path(), &manifest, &bytes[..bytes.len() - 1]);
    assert!(matches!(short, Err(TransferError::Refused(_))), "{short:?}");
    let long = send(to.path(), &manifest, &[bytes.as_slice(), b"more"].concat());
    assert!(matches!(long, Err(TransferError::Refused(_))), "{long:?}");
    assert!(!to.path().join("member").join("checkpoint").exists());
    send(to.path(), &manifest, &bytes).unwrap();
}

#[test]
fn damage_on_the_way_is_noticed_and_what_was_there_stays() {
    let (_source, manifest, bytes) = checkpoint();
    let to = TempDir::new().unwrap();
    send(to.path(), &manifest, &bytes).unwrap();
    for at in (0..bytes.len()).step_by(bytes.len() / 40) {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        let sent = send(to.path(), &manifest, &bad);
        assert!(matches!(sent, Err(TransferError::Damaged(_))), "byte {at}: {sent:?}");
    }
    let mut elsewhere = manifest.clone();
    elsewhere.tip.hash[0] ^= 1;
    assert!(matches!(send(to.path(), &elsewhere, &bytes), Err(TransferError::Refused(_))));
    assert_eq!(loaded(to.path()).store.stats().keys, KEYS as u64);
}

#[test]
fn names_that_are_not_those_of_a_checkpoint_are_refused() {
    let (_source, manifest, _) = checkpoint();
    let to = TempDir::new().unwrap();
    for name in ["../identity", "/etc/passwd", "0000000000000001.data.tmp", "", "x"] {
        let mut bad = manifest.clone();
        bad.files[0].0 = name.into();
        assert!(
            matches!(CheckpointReceiver::begin(to.path(), bad), Err(TransferError::Refused(_))),
            "{name}"
        );
    }
    let mut twice = manifest.clone();
    let first = twice.files[0].clone();
    twice.files.insert(0, first);
    assert!(CheckpointReceiver::begin(to.path(), twice).is_err());
    let mut none = manifest;
    none.files.clear();
    assert!(CheckpointReceiver::begin(to.path(), none).is_err());
}

fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry: PathBuf = entry.unwrap().path();
        let target = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_all(&entry, &target);
        } else {
            fs::copy(&entry, &target).unwrap();
        }
    }
}

/// The model log, with records as large as a server wants them.
struct Wide(ModelHandle);

impl Log for Wide {
    fn append(&mut self, ticket: Ticket, after: Position, record: Bytes) {
        self.0.append(ticket, after, record);
    }

    fn read(&mut self, after: Position) {
        self.0.read(after);
    }

    fn next(&mut self, wait: Duration) -> Option<LogEvent> {
        self.0.next(wait)
    }

    fn trim(&mut self, floor: Position) -> Result<(), LogError> {
        self.0.trim(floor)
    }

    fn max_record(&self) -> usize {
        8 << 20
    }
}

#[test]
fn a_server_that_had_read_nothing_when_it_took_a_checkpoint_starts_again() {
    let (dir, log) = (TempDir::new().unwrap(), Arc::new(Mutex::new(ModelLog::new(true))));
    let open = || {
        let cluster =
            ClusterConfig { name: "a".into(), client_urls: vec!["http://a".into()], peer_urls: Vec::new() };
        Node::open_replicated(
            config(dir.path()),
            cluster,
            Box::new(OrderedLog::new(Wide(ModelHandle::new(log.clone())), Config::default())),
            |_| {},
        )
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // A journal that is full has its servers take checkpoints, whatever they have.
    log.lock().unwrap().capacity = Some(0);
    let node = open().unwrap();
    let begun = Instant::now();
    while !checkpoints(dir.path()) {
        assert!(begun.elapsed() < Duration::from_secs(30), "no checkpoint was taken");
        std::thread::sleep(Duration::from_millis(10));
    }
    runtime.block_on(node.shutdown());
    log.lock().unwrap().capacity = None;
    let node = open().expect("it holds nothing that the journal does not know");
    runtime.block_on(node.shutdown());
}

fn checkpoints(dir: &Path) -> bool {
    let files = fs::read_dir(dir.join("member/checkpoint")).into_iter().flatten().flatten();
    files.into_iter().any(|file| file.path().extension().is_some_and(|kind| kind == "manifest"))
}
