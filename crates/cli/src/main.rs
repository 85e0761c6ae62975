//! The binary: flags in, a server out.
//!
//! Exit codes are etcd's: 2 for a flag that does not exist, 1 for anything else that prevents a
//! start and for a server that failed. A signal ends the process as that signal does, after
//! everything was closed; as process 1, where signals have no default action, it is 0.

mod causes;
mod cluster;
mod commands;
mod compactor;
mod engine;
mod flags;
mod keys;
mod logging;
mod migrate;
mod migration_dir;
mod notify;
mod serve;
mod settings;
mod sockets;
mod wal_dir;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use flags::{Command, Parsed, UsageError};
use serve::ExitReason;
use settings::Settings;

const _: () = assert!(!vetch_seeded_bugs::SEEDED, "a server is never built with seeded bugs");

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    vetch_server::guard_process();
    let rest = std::env::args_os().skip(2);
    match std::env::args_os().nth(1).as_ref().and_then(|word| word.to_str()) {
        Some("snapshot") => return commands::snapshot::run(rest),
        Some("inspect") => return commands::inspect::run(rest),
        Some("journal") => return commands::journal::run(rest),
        Some("keygen") => return commands::keygen::run(rest),
        Some("status") => return commands::status::run(rest),
        Some("top") => return commands::top::run(rest),
        Some("bench") => return vetch_bench::run(rest),
        Some("backup") => return commands::backup::run(rest),
        Some("restore") => return commands::restore::run(rest),
        Some("verify") => return commands::verify::run(rest),
        Some("migrate") => return migrate::run(rest),
        _ => {}
    }
    let arguments = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned());
    let variables = std::env::vars_os();
    let variables =
        variables.map(|(k, v)| (k.to_string_lossy().into_owned(), v.to_string_lossy().into_owned()));
    match flags::parse(arguments, variables) {
        Ok(Command::Help) => print(&flags::help()),
        Ok(Command::Version) => print(&version()),
        Ok(Command::Serve(parsed)) => run_server(&parsed, serve::serve),
        Err(error) => usage_failure(&error),
    }
}

/// Runs `server` with a log and checked settings, and turns its end into an exit.
fn run_server<L, F, E>(parsed: &Parsed, server: L) -> ExitCode
where
    L: FnOnce(Settings) -> F,
    F: Future<Output = Result<ExitReason, E>>,
    E: std::fmt::Display,
{
    let outputs = parsed.list("log-outputs");
    let config = logging::LogConfig {
        logger: parsed.text("logger"),
        level: parsed.text("log-level"),
        format: parsed.text("log-format"),
        outputs: &outputs,
        rotation: parsed.bool("enable-log-rotation").then(|| parsed.text("log-rotation-config-json")),
    };
    if let Err(error) = logging::start(config) {
        return flags_failure(&error);
    }
    log_flag_warnings(parsed);
    let settings = match Settings::from_flags(parsed) {
        Ok(settings) => settings,
        Err(error) => return flags_failure(&error),
    };
    if settings.node.unsafe_no_fsync {
        tracing::warn!("--unsafe-no-fsync: a crash will lose acknowledged writes");
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fatal(&error),
    };
    runtime.spawn(tick());
    match runtime.block_on(server(settings)) {
        Ok(ExitReason::Signal(number)) => {
            // By default, the runtime would wait for a recovery that is still reading.
            runtime.shutdown_background();
            exit_by_signal(number)
        }
        Ok(ExitReason::NodeStopped | ExitReason::Replaced) => ExitCode::FAILURE,
        Err(error) => fatal(&error),
    }
}

/// Keeps the runtime's next deadline near. Every request has a deadline of some seconds. If that
/// were the nearest of all, as it is with one sequential client, the runtime would wake from its
/// wait for sockets to register it: one system call and one more turn of its loop for every
/// request.
async fn tick() {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
    }
}

/// Logs the notes about flags, now that there is a log.
fn log_flag_warnings(parsed: &Parsed) {
    if let Some(path) = &parsed.file {
        tracing::info!(
            path,
            "loaded server configuration, other configuration command line flags and environment variables will be ignored if provided"
        );
    }
    if !parsed.used_variables.is_empty() {
        let variables = parsed.used_variables.join(",");
        tracing::info!(variables, "recognized and used environment variables");
    }
    for (flag, why) in &parsed.without_effect {
        tracing::info!(flag, why, "flag accepted without effect");
    }
    for warning in &parsed.warnings {
        tracing::warn!("{warning}");
    }
}

/// Ends the process the way the signal does by default, so that its sender sees the expected
/// status.
fn exit_by_signal(signal: i32) -> ExitCode {
    if std::process::id() == 1 {
        return ExitCode::SUCCESS;
    }
    match signal_hook::low_level::emulate_default_handler(signal) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fatal(&error),
    }
}

fn fatal(error: &dyn std::fmt::Display) -> ExitCode {
    // It has an effect only if there is no log yet.
    let _ = logging::start(logging::DEFAULT);
    tracing::error!(%error, "cannot serve");
    ExitCode::FAILURE
}

/// The flags are valid one by one, but not together.
fn flags_failure(error: &dyn std::error::Error) -> ExitCode {
    let _ = logging::start(logging::DEFAULT);
    tracing::error!(%error, "failed to verify flags");
    ExitCode::FAILURE
}

fn usage_failure(error: &UsageError) -> ExitCode {
    if error.exit_code() == 1 {
        return flags_failure(error);
    }
    let text = format!("{error}\nRun 'vetch --help' for usage.\n");
    // If standard error is closed there is no way left to explain.
    let _ = std::io::stderr().write_all(text.as_bytes());
    ExitCode::from(error.exit_code())
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The first line is for tools that search for etcd.
fn version() -> String {
    format!(
        "etcd Version: {}\nVetch Version: {}\nRust Version: {}\nTarget: {}\n",
        vetch_api::version::SERVER,
        env!("CARGO_PKG_VERSION"),
        env!("VETCH_RUSTC_VERSION"),
        env!("VETCH_TARGET"),
    )
}
