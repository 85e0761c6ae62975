//! The files that git tracks, and those that are new and not ignored.

use std::io;
use std::path::PathBuf;
use std::process::Command;

/// One file of text.
pub(crate) struct File {
    /// From the root of the repository, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) struct Tree {
    files: Vec<File>,
    links: Vec<String>,
}

impl Tree {
    /// Reads every file that is text. Directories of test data and generated files are left out.
    pub(crate) fn read() -> io::Result<Tree> {
        // As it is now, not as it was when this was compiled: a copied target directory would make
        // the checks read the tree that it was copied from.
        let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| "xtask".into());
        let root = PathBuf::from(manifest_dir).join("..");
        let listed = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(&root)
            .output()?;
        if !listed.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&listed.stderr).into_owned()));
        }
        let (mut files, mut links) = (Vec::new(), Vec::new());
        for path in String::from_utf8_lossy(&listed.stdout).lines() {
            if root.join(path).is_symlink() {
                links.push(path.to_owned());
            } else if let Ok(text) = std::fs::read_to_string(root.join(path)) {
                // A file that was deleted and not staged is still listed.
                files.push(File { path: path.to_owned(), text });
            }
        }
        Ok(Tree { files, links })
    }

    /// Symbolic links, which are not read.
    pub(crate) fn links(&self) -> &[String] {
        &self.links
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn with_ending(&self, ending: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.path.ends_with(ending))
    }

    /// Whether there is a file or a directory of this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let directory = format!("{path}/");
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&directory))
    }

    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}
