//! Trials of the whole server: the `vetch` binary beside etcd's own, through their public API only.
//!
//! Each subcommand is one trial; it prints what it does, fails with a non-zero exit code, and names
//! what to run to see the failure again. `scripts/test` runs those that belong to every change; the
//! long ones are run by hand.
//!
//! Not here: tests of single crates, which live beside their code.

#![allow(clippy::print_stdout, reason = "a test program talks on its standard output")]

mod auth;
mod backup;
mod bench;
mod churn;
mod client;
mod cluster;
mod cluster_tls;
mod deployments;
mod differential;
mod encryption;
mod etcdctl;
mod fault_trial;
mod faults;
mod gateway;
mod journal_life;
mod judge;
mod migrate;
mod million;
mod mount;
mod options;
mod powercut;
mod record;
mod replicas;
mod scenarios;
mod server;
mod snapshot;
mod status;
mod tls;
mod tools;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Trials of the whole server")]
struct Arguments {
    #[command(subcommand)]
    trial: Trial,
}

#[derive(Subcommand)]
enum Trial {
    Auth(auth::Auth),
    Backup(backup::Backup),
    Bench(bench::Bench),
    Churn(churn::Churn),
    Cluster(cluster::Cluster),
    ClusterTls(cluster_tls::ClusterTls),
    Deployments(deployments::Deployments),
    Differential(differential::Differential),
    Encryption(encryption::Encryption),
    Etcdctl(etcdctl::Etcdctl),
    Faults(faults::Faults),
    Gateway(gateway::Gateway),
    JournalLife(journal_life::JournalLife),
    Judge(judge::Judge),
    Migrate(migrate::Migrate),
    Million(million::Million),
    Options(options::Options),
    Powercut(powercut::PowerCut),
    Scenarios(scenarios::Scenarios),
    Status(status::Status),
    Tls(tls::TlsTrial),
    Snapshot(snapshot::Snapshot),
    Tools(tools::Tools),
}

#[tokio::main]
async fn main() -> Result<()> {
    // A panic in any thread or task is a failure, also of those that are waited for by none.
    std::panic::set_hook(Box::new(|info| {
        eprintln!("{info}\n{}", std::backtrace::Backtrace::capture());
        std::process::abort();
    }));
    match Arguments::parse().trial {
        Trial::Auth(trial) => trial.run().await,
        Trial::Backup(trial) => trial.run().await,
        Trial::Bench(trial) => trial.run().await,
        Trial::Churn(trial) => trial.run().await,
        Trial::Cluster(trial) => trial.run().await,
        Trial::ClusterTls(trial) => trial.run().await,
        Trial::Deployments(trial) => trial.run().await,
        Trial::Differential(trial) => trial.run().await,
        Trial::Encryption(trial) => trial.run().await,
        Trial::Etcdctl(trial) => trial.run(),
        Trial::Faults(trial) => trial.run().await,
        Trial::Gateway(trial) => trial.run().await,
        Trial::JournalLife(trial) => trial.run().await,
        Trial::Judge(trial) => trial.run(),
        Trial::Migrate(trial) => trial.run().await,
        Trial::Million(trial) => trial.run().await,
        Trial::Options(trial) => trial.run(),
        Trial::Powercut(trial) => trial.run().await,
        Trial::Scenarios(trial) => trial.run().await,
        Trial::Status(trial) => trial.run().await,
        Trial::Tls(trial) => trial.run(),
        Trial::Snapshot(trial) => trial.run().await,
        Trial::Tools(trial) => trial.run().await,
    }
}
