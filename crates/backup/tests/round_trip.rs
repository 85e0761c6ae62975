//! A node that is archived while it runs, and brought back at revisions and times of its past.
//!
//! Trials of the whole server, against the specification and a real object store: tests/src/backup.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::Runtime;
use vetch_backup::archiver::{Archiver, Settings};
use vetch_backup::catalog::{Catalog, Target};
use vetch_backup::prune::{Keep, prune};
use vetch_backup::restore::{Options, Restored, restore};
use vetch_backup::verify::verify;
use vetch_backup::{BackupError, Location, times};
use vetch_checkpoint::identity::Identity;
use vetch_node::Node;
use vetch_node::config::NodeConfig;
use vetch_store::request::{KeyRange, PutRequest, RangeRequest};
use vetch_testkit::valid::Valid;

/// Nodes answer on this; a depot drives itself and must not be driven from within.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

fn run<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}

struct Ground {
    scratch: TempDir,
}

impl Ground {
    fn new() -> Ground {
        Ground { scratch: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn location(&self) -> Location {
        Location::parse(self.at("backup").to_str().unwrap(), None).unwrap()
    }

    fn settings(&self) -> Settings {
        Settings {
            location: self.location(),
            interval: Duration::from_millis(20),
            full_interval: Duration::from_millis(100),
            retention: None,
        }
    }

    /// A node and its archiver at work: a backup reaches back to when its archiver first ran, which
    /// on a busy machine may be many writes after it was started.
    fn start(&self, data: &str) -> (Node, Archiver) {
        let started = self.start_unchecked(data);
        run(started.0.back_up(false)).unwrap();
        started
    }

    fn start_unchecked(&self, data: &str) -> (Node, Archiver) {
        let node = open(&self.at(data), Some(64 << 20));
        let archiver = Archiver::start(node.archive().unwrap(), self.settings()).unwrap();
        (node, archiver)
    }

    fn restore(&self, target: Target, to: &str) -> Result<Restored, BackupError> {
        let options = Options {
            target,
            journal: None,
            data_dir: self.at(to),
            bump: 0,
            identity: None,
            keys: vetch_encryption::EncryptionKeys::none(),
        };
        restore(&self.location().open().unwrap(), &options, &mut |_| {})
    }

    fn objects(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(&self.at("backup"), &mut found);
        found.sort();
        found
    }
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
}

fn open(data_dir: &Path, archive_limit: Option<u64>) -> Node {
    let mut config = NodeConfig::new(data_dir.to_path_buf(), Identity { cluster_id: 1, member_id: 2 });
    config.archive_limit = archive_limit;
    config.journal_segment_bytes = 64 << 10;
    config.checkpoint_bytes = 32 << 10;
    Node::open(config, |_| {}).unwrap()
}

async fn put(node: &Node, key: &str, value: &str) -> i64 {
    let request = PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        lease: 0,
        prev_kv: false,
        ignore_value: false,
        ignore_lease: false,
    };
    node.put(request.valid()).await.unwrap().revision
}

async fn all(node: &Node) -> Vec<(Vec<u8>, Vec<u8>, i64)> {
    let request = RangeRequest::new(KeyRange::new(vec![0], vec![0]));
    let answer = node.range(request.valid()).await.unwrap();
    answer.kvs.iter().map(|kv| (kv.key().to_vec(), kv.value().to_vec(), kv.mod_revision())).collect()
}

/// Writes `count` keys in turn, some of them again and again, and returns what was there after
/// each.
async fn load(node: &Node, count: usize) -> Vec<(i64, Vec<(Vec<u8>, Vec<u8>, i64)>)> {
    let mut states = Vec::new();
    for index in 0..count {
        let revision = put(node, &format!("/k/{}", index % 17), &"v".repeat(index * 7 % 900)).await;
        if index % 20 == 0 {
            states.push((revision, all(node).await));
        }
    }
    states
}

async fn stop(node: &Node, archiver: Archiver) {
    node.shutdown().await;
    assert!(archiver.finish(Duration::from_secs(30)));
}

/// Waits until a full backup of a checkpoint is there, so that more than replay from nothing is
/// tried.
fn wait_for_full(ground: &Ground, least: i64) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if let Ok(catalog) = Catalog::read(&ground.location().open().unwrap())
            && catalog.timelines.iter().flat_map(|t| &t.fulls).any(|full| full.revision >= least)
        {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no full backup of a checkpoint in time");
}

#[test]
fn every_revision_of_two_lives_comes_back() {
    let ground = Ground::new();
    let (node, archiver) = ground.start("data");
    let mut states = run(load(&node, 300));
    run(stop(&node, archiver));
    let (node, archiver) = ground.start("data");
    states.extend(run(load(&node, 300)));
    wait_for_full(&ground, 100);
    run(stop(&node, archiver));
    for (index, (revision, expected)) in states.iter().enumerate() {
        let restored = ground.restore(Target::Revision(*revision), &format!("r{index}")).unwrap();
        assert_eq!(restored.source.revision, *revision);
        let node = open(&ground.at(&format!("r{index}")), None);
        assert_eq!((node.revision(), &run(all(&node))), (*revision, expected));
        run(node.shutdown());
    }
    let report = verify(&ground.location().open().unwrap(), &mut |_, _| {}).unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    assert_eq!((report.unneeded, report.restorable.len()), (0, 1), "{:?}", report.restorable);
    assert!(report.fulls >= 2 && report.files > 0 && report.chunks > 2, "{report:?}");
}

#[test]
fn a_time_gives_what_was_durable_then_and_no_later_write() {
    let ground = Ground::new();
    let (node, archiver) = ground.start("data");
    let before = run(put(&node, "/a", "before"));
    std::thread::sleep(Duration::from_millis(300));
    let between = times::now();
    std::thread::sleep(Duration::from_millis(300));
    run(put(&node, "/a", "after"));
    run(node.back_up(true)).unwrap();
    run(stop(&node, archiver));
    let restored = ground.restore(Target::Time(between), "then").unwrap();
    assert_eq!(restored.source.revision, before);
    assert!(restored.known_at.is_some_and(|at| at <= between && between - at < 500), "{restored:?}");
    let error = ground.restore(Target::Time(between - 3_600_000), "early").unwrap_err().to_string();
    assert!(error.contains("What can be restored"), "{error}");
    let newest = ground.restore(Target::Newest, "newest").unwrap();
    assert_eq!(newest.source.revision, before + 1);
}

#[test]
fn a_flipped_bit_anywhere_is_found_by_verify_and_refused_by_restore() {
    let ground = Ground::new();
    let (node, archiver) = ground.start("data");
    run(load(&node, 200));
    run(node.back_up(true)).unwrap();
    let last = run(put(&node, "/last", "one"));
    run(stop(&node, archiver));
    let needed = |path: &Path| !path.to_string_lossy().contains("/files/");
    for (index, object) in ground.objects().into_iter().enumerate() {
        let good = std::fs::read(&object).unwrap();
        let mut bad = good.clone();
        let at = (index * 7919) % bad.len();
        bad[at] ^= 1 << (index % 8);
        std::fs::write(&object, &bad).unwrap();
        let depot = ground.location().open().unwrap();
        let report = verify(&depot, &mut |_, _| {}).unwrap();
        assert_eq!(report.damage.len(), 1, "{} byte {at}: {:?}", object.display(), report.damage);
        if needed(&object) {
            let name = format!("bad{index}");
            let outcome = ground.restore(Target::Revision(last), &name);
            let is_first_life = outcome.as_ref().is_ok_and(|restored| restored.source.revision == last);
            assert!(outcome.is_err() || is_first_life, "{}", object.display());
            assert!(outcome.is_ok() || !ground.at(&name).join("member").exists());
        }
        std::fs::write(&object, &good).unwrap();
    }
}

#[test]
fn a_server_on_a_copy_of_the_directory_cannot_write_to_the_same_backup() {
    let ground = Ground::new();
    let (node, archiver) = ground.start("data");
    run(put(&node, "/a", "shared past"));
    run(stop(&node, archiver));
    let copied =
        std::process::Command::new("cp").arg("-r").arg(ground.at("data")).arg(ground.at("copy")).status();
    assert!(copied.unwrap().success());
    let (node, archiver) = ground.start("data");
    let ours = run(put(&node, "/a", "ours"));
    run(node.back_up(false)).unwrap();
    let (other, second) = ground.start_unchecked("copy");
    run(put(&other, "/a", "theirs"));
    let error = run(other.back_up(false)).unwrap_err().to_string();
    assert!(error.contains("another server runs on a copy"), "{error}");
    run(stop(&node, archiver));
    run(other.shutdown());
    second.finish(Duration::from_secs(5));
    ground.restore(Target::Revision(ours), "back").unwrap();
    let node = open(&ground.at("back"), None);
    assert_eq!(run(all(&node))[0].1, b"ours");
    run(node.shutdown());
}

#[test]
fn another_member_is_refused() {
    let ground = Ground::new();
    let (node, archiver) = ground.start("data");
    run(node.back_up(false)).unwrap();
    run(stop(&node, archiver));
    let mut config = NodeConfig::new(ground.at("other"), Identity { cluster_id: 1, member_id: 3 });
    config.archive_limit = Some(1 << 20);
    let other = Node::open(config, |_| {}).unwrap();
    let archiver = Archiver::start(other.archive().unwrap(), ground.settings()).unwrap();
    let error = run(other.back_up(false)).unwrap_err().to_string();
    assert!(error.contains("is the backup of member 2"), "{error}");
    run(other.shutdown());
    archiver.finish(Duration::from_secs(5));
}

#[test]
fn pruning_keeps_what_it_promises() {
    let ground = Ground::new();
    let (node, archiver) = ground.start("data");
    let mut states = run(load(&node, 200));
    wait_for_full(&ground, 100);
    states.extend(run(load(&node, 200)));
    wait_for_full(&ground, 300);
    run(stop(&node, archiver));
    let depot = ground.location().open().unwrap();
    let before = Catalog::read(&depot).unwrap().restorable();
    let promised = Keep { span: Duration::from_secs(3600), fulls: 1 };
    let kept = prune(&depot, None, promised, times::now(), false).unwrap();
    assert_eq!((kept.fulls, kept.chunks), (0, 0), "everything is within the hour");
    let pruned = prune(&depot, None, Keep { span: Duration::ZERO, fulls: 2 }, times::now(), false).unwrap();
    assert!(pruned.fulls > 0 && pruned.chunks > 0, "{pruned:?}");
    let after = Catalog::read(&depot).unwrap().restorable();
    assert!(after[0].first > before[0].first && after[0].last == before[0].last, "{before:?} {after:?}");
    let report = verify(&depot, &mut |_, _| {}).unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    for (index, (revision, expected)) in states.iter().enumerate() {
        let restored = ground.restore(Target::Revision(*revision), &format!("p{index}"));
        if *revision < after[0].first {
            let error = restored.unwrap_err().to_string();
            assert!(error.contains(&format!("revisions {}", after[0].first)), "{error}");
            continue;
        }
        restored.unwrap();
        let node = open(&ground.at(&format!("p{index}")), None);
        assert_eq!(run(all(&node)), *expected);
        run(node.shutdown());
    }
}

/// Whether the newest full backup does without the first one and without the first piece of
/// journal.
fn stands_alone(ground: &Ground) -> bool {
    let Ok(catalog) = Catalog::read(&ground.location().open().unwrap()) else { return false };
    let Some(timeline) = catalog.timelines.first() else { return false };
    let (Some(full), Some(first)) = (timeline.fulls.last(), timeline.chunks.first()) else { return false };
    let next = timeline.chunks.iter().find(|chunk| chunk.last_seq > full.seq);
    timeline.fulls.len() > 1 && next.is_some_and(|next| next.segment > first.segment)
}

#[test]
fn a_damaged_full_backup_or_piece_costs_only_what_needs_it() {
    let ground = Ground::new();
    let (node, archiver) = ground.start("data");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !stands_alone(&ground) {
        assert!(Instant::now() < deadline, "no second full backup in time");
        run(load(&node, 100));
        run(node.back_up(false)).unwrap();
    }
    run(put(&node, "/last", "x"));
    let (last, expected) = (node.revision(), run(all(&node)));
    run(stop(&node, archiver));
    let objects = ground.objects();
    let of = |part: &'static str| objects.iter().filter(move |path| path.to_string_lossy().contains(part));
    let flipped = |path: &Path| {
        let good = std::fs::read(path).unwrap();
        let mut bad = good.clone();
        // In the part that is read to find out what there is.
        bad[20] ^= 1;
        std::fs::write(path, bad).unwrap();
        good
    };
    for (part, place) in [("/full/", "without-full"), ("/journal/", "without-piece")] {
        let path = of(part).next().unwrap();
        let good = flipped(path);
        let restored = ground.restore(Target::Newest, place).unwrap();
        assert_eq!(restored.source.revision, last, "{part}");
        let node = open(&ground.at(place), None);
        assert_eq!(run(all(&node)), expected);
        run(node.shutdown());
        // What needs it is refused, with what is wrong.
        let error = ground.restore(Target::Revision(2), "none").unwrap_err().to_string();
        assert!(error.contains("is damaged") && !ground.at("none").exists(), "{error}");
        std::fs::write(path, good).unwrap();
    }
    // The newest is not silently something older.
    let path = of("/journal/").next_back().unwrap();
    let good = flipped(path);
    let error = ground.restore(Target::Newest, "none").unwrap_err().to_string();
    assert!(error.contains("is damaged") && !ground.at("none").exists(), "{error}");
    std::fs::write(path, good).unwrap();
    // A server goes on with a backup of which something old is damaged.
    flipped(of("/full/").next().unwrap());
    let (node, archiver) = ground.start("data");
    let revision = run(put(&node, "/later", "x"));
    assert_eq!(run(node.back_up(false)).unwrap().revision, revision);
    run(stop(&node, archiver));
    assert_eq!(ground.restore(Target::Newest, "later").unwrap().damage.len(), 1);
}
