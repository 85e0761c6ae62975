//! Rot while the server runs: it is found, told, and mended from what is in memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::lab::Lab;

const CHECKPOINTS: &str = "/data/member/checkpoint";
const JOURNAL: &str = "/data/member/journal";
const HOUR: Duration = Duration::from_secs(3600);

/// A server with two checkpoints and some journal behind them.
fn with_checkpoints(scrub_interval: Duration) -> Lab {
    let mut lab = Lab::with(|config| config.scrub_interval = scrub_interval);
    for round in 0..3 {
        fill(&mut lab, round);
    }
    lab
}

/// Writes more than a checkpoint and a segment take.
fn fill(lab: &mut Lab, round: usize) {
    for n in 0..60 {
        lab.put(&format!("k{round}-{n}"), &"x".repeat(300));
    }
    lab.settle();
}

fn files(lab: &Lab, dir: &str, suffix: &str) -> Vec<PathBuf> {
    let all = lab.disk().files().into_keys();
    all.filter(|path| path.starts_with(dir) && path.to_string_lossy().ends_with(suffix)).collect()
}

fn flip_a_bit(lab: &Lab, path: &Path, at: usize) {
    let mut content = lab.disk().content(path).unwrap();
    content[at] ^= 1;
    lab.disk().overwrite(path, &content);
}

/// Lets so much time pass that everything on disk is read, step by step.
fn pass(lab: &mut Lab, hours: usize) {
    for _ in 0..hours * 4 {
        lab.advance(HOUR / 4);
        lab.settle();
    }
}

fn damaged(lab: &Lab) -> Vec<String> {
    lab.node.files().damaged
}

#[test]
fn a_damaged_checkpoint_is_replaced_by_one_from_memory() {
    for (interval, is_mended) in [(24 * HOUR, true), (Duration::ZERO, false)] {
        let mut lab = with_checkpoints(interval);
        let data = files(&lab, CHECKPOINTS, ".data");
        flip_a_bit(&lab, &data[0], 200);
        pass(&mut lab, 25);
        let metrics = lab.node.metrics();
        assert_eq!(metrics.scrub.damage_found.get() > 0, is_mended, "it is told");
        assert_eq!(metrics.checkpoints.healed.get(), u64::from(is_mended));
        assert_eq!(damaged(&lab), [""; 0], "nothing that is needed is damaged, as far as is known");
        assert_eq!(lab.can_start().is_ok(), is_mended, "{:?}", lab.can_start());
        if is_mended {
            fill(&mut lab, 9);
            assert_eq!(lab.can_start(), Ok(()));
        }
    }
}

/// A restart from the checkpoint that was written from memory holds what the one before it held.
#[test]
fn what_was_mended_is_the_same_state() {
    let mut lab = with_checkpoints(24 * HOUR);
    lab.delete("k0-1");
    let revision = lab.put("k0-2", "again");
    lab.compact(revision);
    fill(&mut lab, 5);
    for data in files(&lab, CHECKPOINTS, ".data") {
        flip_a_bit(&lab, &data, 300);
    }
    pass(&mut lab, 25);
    assert_eq!(lab.node.metrics().checkpoints.healed.get(), 1);
    let before = (lab.hash(), lab.get("k0-1"), lab.get("k0-2"), lab.get("k5-7"));
    let mut lab = lab.power_cut();
    assert_eq!((lab.hash(), lab.get("k0-1"), lab.get("k0-2"), lab.get("k5-7")), before);
}

#[test]
fn a_damaged_manifest_is_replaced() {
    let mut lab = with_checkpoints(24 * HOUR);
    let manifests = files(&lab, CHECKPOINTS, ".manifest");
    flip_a_bit(&lab, manifests.last().unwrap(), 40);
    pass(&mut lab, 25);
    assert_eq!(lab.node.metrics().checkpoints.healed.get(), 1);
    assert_eq!((damaged(&lab), lab.can_start()), (vec![], Ok(())));
}

/// A segment that replay would need: checkpoints are taken until it is not needed any more, and it
/// goes.
#[test]
fn a_damaged_segment_is_left_behind() {
    for (interval, is_mended) in [(24 * HOUR, true), (Duration::ZERO, false)] {
        let mut lab = Lab::with(|config| {
            config.scrub_interval = interval;
            config.checkpoint_bytes = 1 << 20;
            config.checkpoint_interval = 1000 * HOUR;
        });
        fill(&mut lab, 0);
        fill(&mut lab, 1);
        let segments = files(&lab, JOURNAL, ".journal");
        assert!(segments.len() > 1 && files(&lab, CHECKPOINTS, ".data").is_empty());
        flip_a_bit(&lab, &segments[0], 700);
        pass(&mut lab, 25);
        assert_eq!(lab.node.metrics().scrub.damage_found.get() > 0, is_mended);
        assert_eq!((damaged(&lab).is_empty(), lab.can_start().is_ok()), (true, is_mended));
        assert_eq!(files(&lab, JOURNAL, ".journal").contains(&segments[0]), !is_mended);
    }
}

/// What cannot be read back right after it was written takes the place of nothing: the journal
/// keeps what it covers.
#[test]
fn the_journal_is_trimmed_only_behind_what_was_read_back() {
    let mut lab = Lab::with(|config| {
        config.scrub_interval = Duration::ZERO;
        // About a block at a time.
        config.tuning.checkpoints.read_back_bytes = 1;
        config.checkpoint_bytes = 1 << 20;
        config.checkpoint_interval = HOUR;
    });
    let checkpoint = |lab: &mut Lab| {
        lab.advance(HOUR);
        let before = lab.node.metrics().checkpoints.duration.counts().iter().sum::<u64>();
        while lab.node.metrics().checkpoints.duration.counts().iter().sum::<u64>() == before {
            let _ = (lab.housekeep(), lab.sequence(), lab.sync());
        }
    };
    fill(&mut lab, 0);
    checkpoint(&mut lab);
    lab.settle();
    fill(&mut lab, 1);
    let segments = files(&lab, JOURNAL, ".journal");
    let known = files(&lab, CHECKPOINTS, ".data");
    checkpoint(&mut lab);
    let new = files(&lab, CHECKPOINTS, ".data").into_iter().find(|path| !known.contains(path)).unwrap();
    flip_a_bit(&lab, &new, 200);
    for _ in 0..20 {
        lab.housekeep();
        lab.sync();
    }
    assert!(damaged(&lab)[0].contains(new.to_str().unwrap()), "{:?}", damaged(&lab));
    assert!(files(&lab, JOURNAL, ".journal").starts_with(&segments), "nothing is trimmed");
    assert_eq!(lab.can_start(), Ok(()), "from the checkpoint before, and the journal");
    lab.advance(Duration::from_secs(6));
    lab.settle();
    assert_eq!((lab.node.metrics().checkpoints.healed.get(), damaged(&lab)), (1, vec![]));
    assert_eq!(lab.can_start(), Ok(()));
}
