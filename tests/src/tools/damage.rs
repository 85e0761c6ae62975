//! Damage on purpose, in a copy.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::data_directory::{DataDirectory, contents};
use vetch_testkit::random::Rng;

/// A copy of the data directory with one file changed.
fn broken(fixture: &DataDirectory, file: &Path, change: impl Fn(&mut Vec<u8>)) -> Result<tempfile::TempDir> {
    let copy = tempfile::Builder::new().prefix("vetch-broken-").tempdir()?;
    for (path, mut content) in contents(&fixture.data())? {
        let to = copy.path().join(path.strip_prefix(fixture.data())?);
        fs::create_dir_all(to.parent().context("a file is in a directory")?)?;
        if path == file {
            change(&mut content);
        }
        fs::write(to, content)?;
    }
    Ok(copy)
}

/// The files that hold data, and how many of their bytes do.
fn files(fixture: &DataDirectory) -> Result<Vec<(PathBuf, usize)>> {
    let all = contents(&fixture.data())?.into_iter().filter(|(path, _)| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        [".journal", ".data", ".manifest"].iter().any(|ending| name.ends_with(ending)) || name == "identity"
    });
    // Zeros behind the last record of a segment are not data.
    let used = |content: &[u8]| content.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    Ok(all.map(|(path, content)| (path, used(&content))).filter(|(_, used)| *used > 0).collect())
}

/// Single bits, anywhere in any file: found and named, or in the padding of a record, where they do
/// no harm.
pub(super) fn flips(fixture: &DataDirectory, count: usize, seed: u64) -> Result<()> {
    let files = files(fixture)?;
    let mut rng = Rng::for_step(seed, usize::from(fixture.is_encrypted));
    let (mut seen, mut harmless) = (0, 0);
    for number in 0..count {
        let (file, used) = &files[number % files.len()];
        let (at, bit) = (rng.below(*used), rng.below(8));
        let is_padding = is_padding(&fs::read(file)?, file, at);
        let copy = broken(fixture, file, |content| content[at] ^= 1 << bit)?;
        let answer = fixture.tool(&["verify"], copy.path(), &["-w", "json"])?;
        let what = format!("{} byte {at} bit {bit}: {}{}", file.display(), answer.stdout, answer.stderr);
        if is_padding {
            ensure!(answer.code == Some(0), "padding is no data: {what}");
            harmless += 1;
            continue;
        }
        ensure!(answer.code == Some(1), "not seen: {what}");
        let found: Value = serde_json::from_str(&answer.stdout)?;
        let name = file.file_name().context("it has a name")?.to_string_lossy().into_owned();
        let problems = found["problems"].as_array().context("a list")?;
        let named = problems
            .iter()
            .find(|problem| problem["file"].as_str().is_some_and(|file| file.ends_with(&name)));
        let named = named.with_context(|| format!("the file is not named: {what}"))?;
        if let Some(offset) = named["offset"].as_u64() {
            ensure!(offset as usize <= at, "the place is behind the damage: {what}");
        }
        // Inspect gets through as far as it can, and says the same.
        if number % 5 == 0 {
            let answer = fixture.tool(&["inspect", "summary"], copy.path(), &[])?;
            ensure!(answer.code == Some(1) && answer.stdout.contains("DAMAGE"), "inspect is content: {what}");
        }
        seen += 1;
    }
    println!("  {count} flipped bits in {} files: {seen} seen and named, {harmless} in padding", files.len());
    ensure!(seen > count / 2, "hardly anything was flipped that matters");
    Ok(())
}

/// Whether the byte lies in the padding of a journal record, by the record's own header.
fn is_padding(content: &[u8], file: &Path, at: usize) -> bool {
    if file.extension() != Some("journal".as_ref()) {
        return false;
    }
    let mut record = 0;
    while record + 512 <= content.len() && content[record..].starts_with(b"VJRN") {
        let len =
            u32::from_le_bytes(content[record + 28..record + 32].try_into().expect("four bytes")) as usize;
        let (end, next) = (record + 48 + len, record + (48 + len).next_multiple_of(512));
        if at < next {
            return at >= end;
        }
        record = next;
    }
    false
}

/// Files cut short, and files that are gone.
pub(super) fn cuts(fixture: &DataDirectory) -> Result<()> {
    let mut cases = 0;
    for (file, used) in files(fixture)? {
        for keep in [0, used / 2, used - 1] {
            let copy = broken(fixture, &file, |content| content.truncate(keep))?;
            let answer = fixture.tool(&["verify"], copy.path(), &[])?;
            let what = format!("{} cut to {keep} of {used}", file.display());
            ensure!(answer.code == Some(1), "{what}: {}{}", answer.stdout, answer.stderr);
            let answer = fixture.tool(&["inspect", "entries"], copy.path(), &[])?;
            ensure!(
                matches!(answer.code, Some(0 | 1)),
                "{what}: inspect ended with {:?}: {}",
                answer.code,
                answer.stderr
            );
            cases += 1;
        }
    }
    println!("  {cases} files cut short: all seen");
    Ok(())
}
