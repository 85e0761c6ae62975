//! The help text.

use std::fmt::Write;

use super::table::FLAGS;
use super::{Class, Flag};

const USAGE: &str = "\
Usage:

  vetch [flags]
    Serve etcd's API. Without flags: on localhost:2379, with data in ./default.vetch.

  vetch --version
    Show the version.

  vetch -h | --help
    Show this text.

  vetch journal refill
    Fill an empty shared journal from a data directory; see 'vetch journal refill --help'.

  vetch migrate
    Move a running etcd to Vetch without stopping it; see 'vetch migrate --help'.

  vetch snapshot
    Save, show and restore snapshots; see 'vetch snapshot --help'.

  vetch inspect | vetch verify
    Show what a data directory holds; verify every byte of one, or of a backup; see --help of either.

  vetch keygen
    Make a key for encryption at rest; see 'vetch keygen --help'.

  vetch status | vetch top
    Show the state of running servers, once or continuously; see --help of either.

  vetch bench
    Benchmark any server with etcd's API; see 'vetch bench --help'.

  vetch backup | vetch restore
    Take, list and prune backups; restore a revision or a time; see --help of either.

Every flag can also be given as an environment variable: --max-txn-ops is ETCD_MAX_TXN_OPS.
Names of earlier releases of etcd are accepted too.
";

/// Usage, and every flag by group: first those that do something.
pub(crate) fn help() -> String {
    let mut out = USAGE.to_string();
    for (group, flags) in FLAGS {
        let working: Vec<&Flag> = flags.iter().filter(|flag| flag.class == Class::Works).collect();
        if !working.is_empty() {
            push(&mut out, format_args!("\n{group}:\n"));
            working.into_iter().for_each(|flag| describe(&mut out, flag));
        }
    }
    let all = || FLAGS.iter().flat_map(|(_, flags)| *flags);
    out.push_str("\nAccepted, without effect here:\n");
    for flag in all() {
        if let Class::NoEffect(why) = flag.class {
            push(&mut out, format_args!("  --{}\n    {why}\n", flag.name));
        }
    }
    out.push_str("\nRefused unless left at the default:\n");
    for flag in all() {
        if let Class::Refused(why) = flag.class {
            push(&mut out, format_args!("  --{} '{}'\n    {why}\n", flag.name, flag.default));
        }
    }
    out
}

fn describe(out: &mut String, flag: &Flag) {
    push(out, format_args!("  --{} '{}'\n    {}\n", flag.name, flag.default, flag.help));
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a string cannot fail");
}
