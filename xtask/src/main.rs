//! `cargo xtask tidy`: checks of the repository that no compiler makes.
//!
//! Each check reads the files that git tracks and returns a line for each finding, with file and
//! line number. A check has no exceptions hidden in code: what it allows stands in its own file.
#![allow(clippy::print_stdout, reason = "a command for the terminal")]

mod files;
mod habits;
mod layers;
mod lengths;
mod links;
mod modules;
mod names;
mod ratchet;
mod sizes;
mod source;
mod words;
mod workspace;

use std::process::ExitCode;

use files::Tree;

/// A check by name, and what it found.
type Check = (&'static str, fn(&Tree) -> Vec<String>);

const CHECKS: [Check; 8] = [
    ("layers", layers::check),
    ("modules", modules::check),
    ("sizes", sizes::check),
    ("habits", habits::check),
    ("lengths", lengths::check),
    ("words", words::check),
    ("names", names::check),
    ("links", links::check),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().map(String::as_str) != Some("tidy") || arguments.len() > 2 {
        println!("cargo xtask tidy [CHECK]; checks: {}", CHECKS.map(|(name, _)| name).join(", "));
        return ExitCode::from(2);
    }
    let tree = match Tree::read() {
        Ok(tree) => tree,
        Err(error) => {
            println!("tidy: the files of the repository cannot be read: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut findings = 0;
    for (name, check) in CHECKS {
        if arguments.get(1).is_some_and(|wanted| wanted != name) {
            continue;
        }
        let found = check(&tree);
        for finding in &found {
            println!("{name}: {finding}");
        }
        findings += found.len();
    }
    println!("tidy: {findings} findings in {} files", tree.len());
    if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
