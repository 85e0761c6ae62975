//! Rot while the server runs: it is found, reported, and repaired from memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::stepped_node::SteppedNode;

const CHECKPOINTS: &str = "/data/member/checkpoint";
const JOURNAL: &str = "/data/member/journal";
const HOUR: Duration = Duration::from_secs(3600);

/// A server with two checkpoints and some journal behind them.
fn with_checkpoints(scrub_interval: Duration) -> SteppedNode {
    let mut fixture = SteppedNode::with(|config| config.scrub_interval = scrub_interval);
    for round in 0..3 {
        fill(&mut fixture, round);
    }
    fixture
}

/// Writes more than a checkpoint and a segment take.
fn fill(fixture: &mut SteppedNode, round: usize) {
    for n in 0..60 {
        fixture.put(&format!("k{round}-{n}"), &"x".repeat(300));
    }
    fixture.settle();
}

fn files(fixture: &SteppedNode, dir: &str, suffix: &str) -> Vec<PathBuf> {
    let all = fixture.disk().files().into_keys();
    all.filter(|path| path.starts_with(dir) && path.to_string_lossy().ends_with(suffix)).collect()
}

fn flip_a_bit(fixture: &SteppedNode, path: &Path, at: usize) {
    let mut content = fixture.disk().content(path).unwrap();
    content[at] ^= 1;
    fixture.disk().overwrite(path, &content);
}

/// Lets so much time pass that everything on disk is read, step by step.
fn pass(fixture: &mut SteppedNode, hours: usize) {
    for _ in 0..hours * 4 {
        fixture.advance(HOUR / 4);
        fixture.settle();
    }
}

fn damaged(fixture: &SteppedNode) -> Vec<String> {
    fixture.node.files().damaged
}

#[test]
fn a_damaged_checkpoint_is_replaced_by_one_from_memory() {
    for (interval, is_mended) in [(24 * HOUR, true), (Duration::ZERO, false)] {
        let mut fixture = with_checkpoints(interval);
        let data = files(&fixture, CHECKPOINTS, ".data");
        flip_a_bit(&fixture, &data[0], 200);
        pass(&mut fixture, 25);
        let metrics = fixture.node.metrics();
        assert_eq!(metrics.scrub.damage_found.get() > 0, is_mended, "it is reported");
        assert_eq!(metrics.checkpoints.healed.get(), u64::from(is_mended));
        assert_eq!(damaged(&fixture), [""; 0], "nothing that is needed is damaged, as far as is known");
        assert_eq!(fixture.can_start().is_ok(), is_mended, "{:?}", fixture.can_start());
        if is_mended {
            fill(&mut fixture, 9);
            assert_eq!(fixture.can_start(), Ok(()));
        }
    }
}

/// A restart from the checkpoint that was written from memory holds what the one before it held.
#[test]
fn what_was_mended_is_the_same_state() {
    let mut fixture = with_checkpoints(24 * HOUR);
    fixture.delete("k0-1");
    let revision = fixture.put("k0-2", "again");
    fixture.compact(revision);
    fill(&mut fixture, 5);
    for data in files(&fixture, CHECKPOINTS, ".data") {
        flip_a_bit(&fixture, &data, 300);
    }
    pass(&mut fixture, 25);
    assert_eq!(fixture.node.metrics().checkpoints.healed.get(), 1);
    let before = (fixture.hash(), fixture.get("k0-1"), fixture.get("k0-2"), fixture.get("k5-7"));
    let mut fixture = fixture.power_cut();
    assert_eq!((fixture.hash(), fixture.get("k0-1"), fixture.get("k0-2"), fixture.get("k5-7")), before);
}

#[test]
fn a_damaged_manifest_is_replaced() {
    let mut fixture = with_checkpoints(24 * HOUR);
    let manifests = files(&fixture, CHECKPOINTS, ".manifest");
    flip_a_bit(&fixture, manifests.last().unwrap(), 40);
    pass(&mut fixture, 25);
    assert_eq!(fixture.node.metrics().checkpoints.healed.get(), 1);
    assert_eq!((damaged(&fixture), fixture.can_start()), (vec![], Ok(())));
}

/// A segment that replay would need: checkpoints are taken until it is not needed any more, and it
/// goes.
#[test]
fn a_damaged_segment_is_left_behind() {
    for (interval, is_mended) in [(24 * HOUR, true), (Duration::ZERO, false)] {
        let mut fixture = SteppedNode::with(|config| {
            config.scrub_interval = interval;
            config.checkpoint_bytes = 1 << 20;
            config.checkpoint_interval = 1000 * HOUR;
        });
        fill(&mut fixture, 0);
        fill(&mut fixture, 1);
        let segments = files(&fixture, JOURNAL, ".journal");
        assert!(segments.len() > 1 && files(&fixture, CHECKPOINTS, ".data").is_empty());
        flip_a_bit(&fixture, &segments[0], 700);
        pass(&mut fixture, 25);
        assert_eq!(fixture.node.metrics().scrub.damage_found.get() > 0, is_mended);
        assert_eq!((damaged(&fixture).is_empty(), fixture.can_start().is_ok()), (true, is_mended));
        assert_eq!(files(&fixture, JOURNAL, ".journal").contains(&segments[0]), !is_mended);
    }
}

/// What cannot be read back right after it was written takes the place of nothing: the journal
/// keeps what it covers.
#[test]
fn the_journal_is_trimmed_only_behind_what_was_read_back() {
    let mut fixture = SteppedNode::with(|config| {
        config.scrub_interval = Duration::ZERO;
        // About a block at a time.
        config.tuning.checkpoints.read_back_bytes = 1;
        config.checkpoint_bytes = 1 << 20;
        config.checkpoint_interval = HOUR;
    });
    let checkpoint = |fixture: &mut SteppedNode| {
        fixture.advance(HOUR);
        let before = fixture.node.metrics().checkpoints.duration.counts().iter().sum::<u64>();
        while fixture.node.metrics().checkpoints.duration.counts().iter().sum::<u64>() == before {
            let _ = (fixture.housekeep(), fixture.sequence(), fixture.sync());
        }
    };
    fill(&mut fixture, 0);
    checkpoint(&mut fixture);
    fixture.settle();
    fill(&mut fixture, 1);
    let segments = files(&fixture, JOURNAL, ".journal");
    let known = files(&fixture, CHECKPOINTS, ".data");
    checkpoint(&mut fixture);
    let new = files(&fixture, CHECKPOINTS, ".data").into_iter().find(|path| !known.contains(path)).unwrap();
    flip_a_bit(&fixture, &new, 200);
    for _ in 0..20 {
        fixture.housekeep();
        fixture.sync();
    }
    assert!(damaged(&fixture)[0].contains(new.to_str().unwrap()), "{:?}", damaged(&fixture));
    assert!(files(&fixture, JOURNAL, ".journal").starts_with(&segments), "nothing is trimmed");
    assert_eq!(fixture.can_start(), Ok(()), "from the checkpoint before, and the journal");
    fixture.advance(Duration::from_secs(6));
    fixture.settle();
    assert_eq!((fixture.node.metrics().checkpoints.healed.get(), damaged(&fixture)), (1, vec![]));
    assert_eq!(fixture.can_start(), Ok(()));
}
