//! `vetch top`: what keeps a server busy, refreshed in a terminal, or once for scripts.

mod rates;
mod screen;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tokio::runtime::Runtime;
use vetch_api::vetch::LookResponse;

use super::client::{ClientArgs, Session, duration};
use super::look::look;
use super::output::Format;
use super::{Failure, exit, parsed, print_result};
use rates::View;
use screen::{ScreenSize, draw};
use terminal::{Input, Terminal};

/// Limit on slow streams.
const STREAMS: u32 = 20;

#[derive(Parser)]
#[command(
    name = "vetch top",
    about = "Shows what keeps a server busy: prefixes by writes, RPCs, slow watchers, leases, sizes. q quits, space refreshes",
    disable_version_flag = true
)]
struct Cli {
    #[command(flatten)]
    client: ClientArgs,
    /// Refresh interval, in seconds or with units (2s, 500ms).
    #[arg(long, default_value = "2s", value_parser = duration)]
    interval: Duration,
    /// Show one interval and end.
    #[arg(long)]
    once: bool,
    /// Output format to --once: simple or json.
    #[arg(short = 'w', long, default_value = "simple")]
    write_out: String,
}

/// Runs the command; `arguments` are those behind the word `top`.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match parsed::<Cli>("vetch top", arguments) {
        Ok(cli) => exit(cli.run()),
        Err(code) => code,
    }
}

impl Cli {
    fn run(&self) -> Result<(), Failure> {
        let format = Format::simple_or_json(&self.write_out)?;
        if self.interval.is_zero() {
            return Err(Failure::bad_arguments("--interval must be more than 0"));
        }
        let endpoints = self.client.endpoints();
        let [endpoint] = &endpoints[..] else {
            return Err(Failure::bad_arguments("top shows one server: name one in --endpoints"));
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let session = runtime.block_on(self.client.connect(endpoint))?;
        let first = runtime.block_on(look(&session, STREAMS))?;
        if first.traffic.is_none() {
            let text = format!("{endpoint} is not a Vetch server: etcd does not report this");
            return Err(Failure { code: 1, text });
        }
        if self.once {
            return self.show_once(&runtime, &session, endpoint, &first, format);
        }
        if format == Format::Json {
            return Err(Failure::bad_arguments("--write-out json goes with --once"));
        }
        self.show_until_quit(&runtime, session, endpoint, first)
    }

    fn show_once(
        &self,
        runtime: &Runtime,
        session: &Session,
        endpoint: &str,
        first: &LookResponse,
        format: Format,
    ) -> Result<(), Failure> {
        std::thread::sleep(self.interval);
        let view = View::between(first, runtime.block_on(look(session, STREAMS))?);
        let size = ScreenSize { columns: usize::MAX, rows: usize::MAX };
        print_result(&match format {
            Format::Json => serde_json::to_string_pretty(&view)?,
            _ => draw(&view, endpoint, size).join("\n"),
        })
    }

    /// Runs until it is ended. A server that does not answer is polled again, by a new connection
    /// if necessary.
    fn show_until_quit(
        &self,
        runtime: &Runtime,
        mut session: Session,
        endpoint: &str,
        mut before: LookResponse,
    ) -> Result<(), Failure> {
        let Some(terminal) = Terminal::enter() else {
            return Err(Failure::bad_arguments("top needs a terminal; scripts use --once"));
        };
        terminal.show(&[format!("vetch top   {endpoint}   loading...")])?;
        while terminal.wait(self.interval)? != Input::Quit {
            match runtime.block_on(look(&session, STREAMS)) {
                Ok(now) => {
                    let view = View::between(&before, now.clone());
                    terminal.show(&draw(&view, endpoint, terminal.size()))?;
                    before = now;
                }
                Err(failure) => {
                    terminal
                        .show(&[format!("vetch top   {endpoint}"), format!("TROUBLE  {}", failure.text)])?;
                    if let Ok(anew) = runtime.block_on(self.client.connect(endpoint)) {
                        session = anew;
                    }
                }
            }
        }
        Ok(())
    }
}
