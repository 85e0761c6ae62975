//! What can be restored, and from what.

use super::*;
use vetch_base::Seq;

fn full(seq: u64, revision: i64) -> Full {
    Full {
        format: format::FORMAT,
        journal: "j".into(),
        seq: Seq::new(seq),
        revision,
        compact_revision: -1,
        time: seq * 1000,
        files: Vec::new(),
        chunks: Vec::new(),
    }
}

fn chunk(first_seq: u64, last_seq: u64) -> ChunkInfo {
    // Two revisions an entry; the time of an entry is a thousand times its number.
    let (revision, times) = (Some(last_seq as i64 * 2), Some((first_seq * 1000, last_seq * 1000)));
    // A segment for every ten entries.
    let segment = Seq::new(first_seq / 10);
    let (first_seq, last_seq) = (Seq::new(first_seq), Seq::new(last_seq));
    ChunkInfo { first_seq, last_seq, segment, revision, times, size: 1 }
}

fn timeline(fulls: &[u64], chunks: &[(u64, u64)]) -> Timeline {
    Timeline {
        journal: "j".into(),
        fulls: fulls.iter().map(|&seq| full(seq, seq as i64 * 2)).collect(),
        chunks: chunks.iter().map(|&(first, last)| chunk(first, last)).collect(),
        ..Timeline::default()
    }
}

fn catalog(timelines: Vec<Timeline>) -> Catalog {
    let owner = Owner { format: format::FORMAT, cluster_id: "1".into(), member_id: "2".into() };
    Catalog { owner, timelines }
}

fn ranges(timeline: &Timeline) -> Vec<(i64, i64)> {
    timeline.restorable().iter().map(|range| (range.first, range.last)).collect()
}

#[test]
fn a_run_is_restorable_from_its_first_full_backup_on() {
    assert_eq!(ranges(&timeline(&[0], &[(1, 5), (6, 9)])), [(0, 18)]);
    assert_eq!(ranges(&timeline(&[7], &[(1, 5), (6, 9)])), [(14, 18)]);
    assert_eq!(ranges(&timeline(&[9], &[(1, 5), (6, 9)])), [(18, 18)]);
    assert_eq!(ranges(&timeline(&[], &[(1, 5)])), []);
}

#[test]
fn a_gap_ends_what_can_be_restored_until_the_next_full_backup() {
    let with_gap = timeline(&[0, 22], &[(1, 5), (6, 9), (20, 25)]);
    assert_eq!(ranges(&with_gap), [(0, 18), (44, 50)]);
    let without_full = timeline(&[0], &[(1, 5), (20, 25)]);
    assert_eq!(ranges(&without_full), [(0, 10)]);
    let alone = timeline(&[0, 15], &[(1, 5)]);
    assert_eq!(ranges(&alone), [(0, 10), (30, 30)]);
}

fn needs(timeline: &Timeline, revision: i64) -> Option<(u64, Vec<u64>)> {
    let catalog = catalog(vec![timeline.clone()]);
    let plan = catalog.at_revision(&catalog.timelines.iter().collect::<Vec<_>>(), revision).ok()?;
    Some((plan.full.seq.get(), plan.chunks.iter().map(|chunk| chunk.first_seq.get()).collect()))
}

#[test]
fn a_revision_needs_the_full_backup_before_it_and_the_chunks_up_to_it() {
    let timeline = timeline(&[0, 7, 22], &[(1, 5), (6, 9), (20, 25), (26, 30)]);
    assert_eq!(needs(&timeline, 1), Some((0, vec![1])));
    assert_eq!(needs(&timeline, 10), Some((0, vec![1])));
    assert_eq!(needs(&timeline, 11), Some((0, vec![1, 6])));
    assert_eq!(
        needs(&timeline, 14),
        Some((0, vec![1, 6])),
        "the full backup of the same revision may hold more"
    );
    assert_eq!(needs(&timeline, 15), Some((7, vec![1, 6])), "a segment is read from its beginning");
    assert_eq!(needs(&timeline, 19), None, "behind the first run");
    assert_eq!(needs(&timeline, 43), None, "before the full backup of the second");
    assert_eq!(needs(&timeline, 44), Some((22, vec![])));
    assert_eq!(needs(&timeline, 45), Some((22, vec![20])));
    assert_eq!(needs(&timeline, 55), Some((22, vec![20, 26])));
    assert_eq!(needs(&timeline, 61), None);
}

#[test]
fn a_revision_that_two_journals_have_is_not_guessed() {
    let one = timeline(&[0], &[(1, 5)]);
    let other = Timeline { journal: "k".into(), ..timeline(&[0], &[(1, 9)]) };
    let both = catalog(vec![one, other]);
    let error = |revision| both.at_revision(&both.timelines.iter().collect::<Vec<_>>(), revision);
    let error = |revision| error(revision).unwrap_err().to_string();
    let twice = error(8);
    assert!(twice.contains("--journal"), "{twice}");
    let never = error(99);
    assert!(never.contains("revisions 0 to 10") && never.contains("revisions 0 to 18"), "{never}");
}
