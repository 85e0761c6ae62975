//! `vetch keygen`: makes a key for encryption at rest, and adds it to the key file.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use vetch_encryption::{KeyId, KeyRing};

use super::{Failure, exit, print_message, print_result};

const HEADING: &str =
    "# Keys of encryption at rest. The first encrypts new data; the others decrypt old data.\n";

/// Makes a random key for encryption at rest (--encryption-key-file).
///
/// Without a file, the line of the key is printed. A file that does not exist is made, readable for
/// its owner alone. In an existing key file the new key becomes the first: a running server reloads
/// it at once.
#[derive(Parser)]
#[command(name = "vetch keygen", disable_version_flag = true)]
struct Cli {
    /// The key file to make, or to add the new key to.
    file: Option<PathBuf>,
    /// Name of the key; if not given, k1, or the next number in the file.
    #[arg(long)]
    id: Option<String>,
}

/// Runs the command; `arguments` are those behind the word `keygen`.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match super::parsed::<Cli>("vetch keygen", arguments) {
        Ok(cli) => exit(cli.run()),
        Err(code) => code,
    }
}

impl Cli {
    fn run(&self) -> Result<(), Failure> {
        let Some(path) = &self.file else {
            return print_result(vetch_encryption::generate_key(self.name(None)?).trim_end());
        };
        let is_there = path.try_exists()?;
        let ring = if is_there { Some(vetch_encryption::read_key_file(path)?) } else { None };
        let id = self.name(ring.as_ref())?;
        if ring.as_ref().is_some_and(|ring| ring.find(id).is_some()) {
            return Err(Failure::bad_arguments(format!(
                "{} has a key of the name {id} already",
                path.display()
            )));
        }
        let line = vetch_encryption::generate_key(id);
        let failed = |error| Failure { code: 1, text: format!("cannot write {}: {error}", path.display()) };
        if is_there {
            put_first(path, &line).map_err(failed)?;
        } else {
            make(path, &line).map_err(failed)?;
        }
        print_message(&format!(
            "{id} is the first key of {}. Keep a copy: without it, data encrypted with it is lost.",
            path.display()
        ));
        Ok(())
    }

    fn name(&self, ring: Option<&KeyRing>) -> Result<KeyId, Failure> {
        let wrong = "--id: the name of a key has 1 to 16 letters, digits, dots, hyphens and underscores";
        let next = || {
            let numbers = ring.iter().flat_map(|ring| ring.ids());
            let numbers = numbers.filter_map(|id| id.to_string().strip_prefix('k')?.parse::<u32>().ok());
            format!("k{}", numbers.max().map_or(1, |n| n.saturating_add(1)))
        };
        let name = self.id.clone().unwrap_or_else(next);
        KeyId::new(&name).ok_or_else(|| Failure::bad_arguments(wrong))
    }
}

fn make(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(HEADING.as_bytes())?;
    file.write_all(line.as_bytes())?;
    file.sync_all()
}

/// Puts a line before the first key, so that at every moment the file holds the old keys or the old
/// keys and the new one. A line that turns encryption off is removed.
fn put_first(path: &Path, line: &str) -> io::Result<()> {
    let old = fs::read_to_string(path)?;
    let is_comment = |line: &&str| line.trim().is_empty() || line.trim().starts_with('#');
    let mut text: String = old.lines().take_while(is_comment).map(|line| format!("{line}\n")).collect();
    text.push_str(line);
    let rest = old.lines().skip_while(is_comment).filter(|line| line.trim() != "plain");
    text.extend(rest.map(|line| format!("{line}\n")));
    // If the path is a symbolic link, its target is replaced.
    let path = fs::canonicalize(path)?;
    let about = fs::metadata(&path)?;
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let write = || {
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(about.mode() & 0o777).open(&new)?;
        fchown(&file, Some(about.uid()), Some(about.gid()))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    };
    write().inspect_err(|_| drop(fs::remove_file(&new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generated(path: &Path, id: Option<&str>) -> Result<(), Failure> {
        Cli { file: Some(path.to_path_buf()), id: id.map(str::to_owned) }.run()
    }

    #[test]
    fn a_new_key_comes_first_and_the_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        generated(&path, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        generated(&path, None).unwrap();
        generated(&path, Some("mine")).unwrap();
        let ids = || {
            vetch_encryption::read_key_file(&path)
                .unwrap()
                .ids()
                .map(|id| id.to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(ids(), "mine k2 k1");
        assert!(generated(&path, Some("k1")).is_err(), "a name is used once");
        assert!(generated(&path, Some("a b")).is_err());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(HEADING), "{text}");
        // Encryption had been turned off, and is on again.
        fs::write(&path, format!("plain\n{text}")).unwrap();
        generated(&path, None).unwrap();
        assert_eq!(ids(), "k3 mine k2 k1");
        assert!(vetch_encryption::read_key_file(&path).unwrap().current().is_some());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }
}
