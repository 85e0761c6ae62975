//! The commands.

use clap::{Parser, Subcommand};

use crate::args::{Compare, Leasing, Listing, Paging, Reading, Simple};

#[derive(Parser)]
#[command(
    name = "vetch bench",
    about = "Measures any server with etcd's API",
    long_about = "Measures any server with etcd's API.\n\nKeys are written below --prefix and stay there unless \
                  --clean is given. Every run is bounded by --duration; Ctrl-C ends it early and prints what there is.",
    disable_version_flag = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Puts without a condition.
    Put(Simple),
    /// Kubernetes' update: if unchanged then put, else read.
    Cas(Simple),
    /// Objects that are created and deleted again.
    Churn(Simple),
    /// Reads of single keys.
    Read(Reading),
    /// Lists of many keys.
    List(Listing),
    /// A list in pages, all at one revision.
    Pages(Paging),
    /// Writes and the watchers that get them.
    Watch(crate::watch::Watching),
    /// Renewals of leases.
    Keepalive(Leasing),
    /// Very many leases that end at about the same time, with a key each.
    Expiry(crate::expiry::Expiring),
    /// What a Kubernetes cluster of N nodes does, or a search for the largest N.
    Kube(crate::kube::Kube),
    /// A recorded conversation between Kubernetes and its store, at its own pace or faster.
    Replay(crate::replay::Replay),
    /// Fills a server, restarts it and lists everything: times and memory.
    Restart(crate::restart::Restarting),
    /// Latency of updates while nothing else happens, and while everything is listed and compacted.
    Interference(crate::interference::Interfering),
    /// What this machine can do: syncs of the disk, echoes over loopback.
    Machine(crate::machine::Machine),
    /// Runs any of these against several servers in turn and prints ratios.
    Compare(Compare),
}
