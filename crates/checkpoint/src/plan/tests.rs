//! Tests of the plan: what it costs over a long life, and the limits it keeps.

use super::*;

const CONFIG: CheckpointConfig = CheckpointConfig {
    rewrite_bytes: 1000,
    rewrite_floor: 100,
    small_file: 10,
    max_files: 10,
    block_bytes: 0,
};

fn full(size: u64) -> FileStats {
    FileStats { size, useful: size, is_stale: false, is_readable: true }
}

fn hollow(size: u64, useful: u64) -> FileStats {
    FileStats { size, useful, is_stale: false, is_readable: true }
}

/// Ranges are easier to compare as pairs.
fn plan(files: &[FileStats], fresh: u64) -> Vec<(usize, usize)> {
    choose(&CONFIG, files, fresh).into_iter().map(|group| (group.start, group.end)).collect()
}

#[test]
fn full_files_of_falling_size_are_left_alone() {
    assert_eq!(plan(&[], 50), [(0, 1)]);
    assert_eq!(plan(&[full(800), full(300), full(100)], 40), [(3, 4)]);
    assert_eq!(fresh_only(3), std::slice::from_ref(&(3..4)));
}

#[test]
fn hollow_files_are_rewritten_and_joined_with_neighbours_that_are_written_anyway() {
    assert_eq!(plan(&[hollow(100, 59), full(400), full(100)], 40), [(0, 1), (3, 4)]);
    assert_eq!(plan(&[hollow(100, 60), full(400), full(100)], 40), [(3, 4)]);
    assert_eq!(plan(&[full(800), hollow(60, 20), hollow(60, 0)], 40), [(1, 4)]);
}

#[test]
fn the_worst_files_come_first_and_the_budget_is_kept_but_for_the_first() {
    let files = [hollow(900, 500), full(9000), hollow(900, 100), full(9000), hollow(200, 110)];
    // A budget of 1000: the emptiest, and then only what still fits.
    assert_eq!(plan(&files, 40), [(2, 3), (5, 6)]);
    let huge = [hollow(50_000, 100), full(9000)];
    assert_eq!(plan(&huge, 40), [(0, 1), (2, 3)]);
}

#[test]
fn four_alike_become_one() {
    assert_eq!(plan(&[full(800), full(50), full(50), full(50)], 50), [(1, 5)]);
    // A large one beside small ones is not dragged along.
    assert_eq!(plan(&[full(800), full(50), full(50)], 50), [(3, 4)]);
}

#[test]
fn too_many_files_are_merged_where_it_is_cheapest() {
    // Alternating sizes give no run that pays, so only the count can force a merge.
    let files: Vec<FileStats> = (0..10).map(|n| full(if n % 2 == 0 { 100_000 } else { 10 })).collect();
    let groups = plan(&files, 10);
    assert!(groups.iter().any(|(from, upto)| upto - from > 1), "{groups:?}");
    let merged: usize = groups.iter().map(|(from, upto)| upto - from - 1).sum();
    assert_eq!(files.len() + 1 - merged, 7);
}

#[test]
fn a_damaged_file_is_never_touched() {
    let damaged = FileStats { is_readable: false, ..hollow(100, 0) };
    assert_eq!(plan(&[damaged], 40), [(1, 2)]);
    assert_eq!(plan(&[full(50), full(50), damaged, full(50), full(50)], 50), [(5, 6)]);
    let many = [damaged; 20];
    assert_eq!(plan(&many, 40), [(20, 21)]);
}

#[test]
fn appending_for_ever_keeps_files_few_and_rewrites_logarithmically() {
    let config = CheckpointConfig { max_files: 48, ..CONFIG };
    let mut files: Vec<FileStats> = Vec::new();
    let mut most = 0;
    let (mut written, rounds) = (0, 4096);
    for _ in 0..rounds {
        let groups = choose(&config, &files, 50);
        files.push(full(50));
        for group in groups.into_iter().rev() {
            let size = files[group.clone()].iter().map(|file| file.useful).sum();
            written += size;
            files.splice(group, [full(size)]);
        }
        most = most.max(files.len());
    }
    let amplification = written as f64 / (rounds * 50) as f64;
    assert!(most <= 32, "{most} files");
    assert!(amplification < 8.0, "every byte was written {amplification:.1} times");
}

#[test]
fn files_of_another_key_are_written_anew_before_garbage_and_at_least_one_by_every_run() {
    let stale = |size| FileStats { is_stale: true, ..full(size) };
    assert_eq!(plan(&[stale(50_000), full(9000), hollow(900, 100)], 40), [(0, 1), (3, 4)]);
    assert_eq!(
        plan(&[full(9000), stale(500), full(9000), stale(400), hollow(900, 100)], 40),
        [(1, 2), (3, 4), (5, 6)]
    );
    let damaged = FileStats { is_readable: false, ..stale(100) };
    assert_eq!(plan(&[damaged], 40), [(1, 2)]);
}
