//! The log: one JSON object per line with the keys etcd's log has (`level`, `ts`, `caller`, `msg`),
//! or tab-separated text.
//!
//! [`output`] has the destinations, [`rotate`] the rotation of files.

mod journald;
mod output;
mod rotate;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use output::Outputs;
use rotate::Rotation;

/// Format and outputs of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogConfig<'a> {
    pub(crate) logger: &'a str,
    pub(crate) level: &'a str,
    pub(crate) format: &'a str,
    pub(crate) outputs: &'a [String],
    /// How to rotate the one file among the outputs, as JSON.
    pub(crate) rotation: Option<&'a str>,
}

/// Until the flags are parsed, and if that fails.
pub(crate) const DEFAULT: LogConfig<'static> =
    LogConfig { logger: "zap", level: "info", format: "json", outputs: &[], rotation: None };

/// Errors of the log's flags, in etcd's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error("--logger=capnslog is removed in v3.5")]
    Capnslog,
    #[error("unknown logger option {0:?}")]
    Logger(String),
    #[error("unknown log format: {0}, supported values json, console")]
    Format(String),
    #[error("multi logoutput for \"default\" is not supported yet")]
    DefaultAmongOthers,
    #[error("running with systemd/journal but other '--log-outputs' values are configured as well")]
    JournalAmongOthers,
    #[error("--log-outputs requires a single file path when --log-rotate-config-json is defined")]
    NoFileToRotate,
    #[error("improperly formatted log rotation config: {0}")]
    RotationSyntax(serde_json::Error),
    #[error("invalid log rotation config: {0}")]
    Rotation(String),
    #[error("open sink {path:?}: {error}")]
    Open { path: String, error: io::Error },
    #[error("cannot reach systemd's journal: {0}")]
    Journal(io::Error),
}

/// Sends everything logged from now on to the outputs of the flags.
pub(crate) fn start(config: LogConfig<'_>) -> Result<(), LogError> {
    match config.logger {
        "zap" => {}
        "capnslog" => return Err(LogError::Capnslog),
        other => return Err(LogError::Logger(other.to_string())),
    }
    let rotation = config.rotation.map(|json| Rotation::read(json, config.outputs)).transpose()?;
    let console = match config.format {
        "json" | "" => false,
        "console" => true,
        other => return Err(LogError::Format(other.to_string())),
    };
    let level = match config.level.to_ascii_lowercase().as_str() {
        "debug" => LevelFilter::DEBUG,
        "warn" => LevelFilter::WARN,
        "error" | "dpanic" | "panic" | "fatal" => LevelFilter::ERROR,
        _ => LevelFilter::INFO,
    };
    let outputs = Outputs::open(config.outputs, rotation)?;
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(outputs)
        .event_format(Line { console })
        .finish();
    // It can only fail if there is a subscriber already, which then keeps logging.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

/// Opens a log file.
fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// The form of a line.
struct Line {
    console: bool,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = level_name(event.metadata().level());
        let Fields { message, rest } = fields;
        if self.console {
            let rest = if rest.is_empty() { String::new() } else { format!("\t{}", Value::Object(rest)) };
            return writeln!(out, "{time}\t{level}\t{message}{rest}");
        }
        let mut line = format!("{{\"level\":\"{level}\",\"ts\":\"{time}\"");
        line.push_str(&format!(",\"caller\":{}", Value::from(event.metadata().target())));
        line.push_str(&format!(",\"msg\":{}", Value::from(message)));
        for (key, value) in rest {
            line.push_str(&format!(",{}:{value}", Value::from(key)));
        }
        writeln!(out, "{line}}}")
    }
}

fn level_name(level: &Level) -> &'static str {
    match *level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG | Level::TRACE => "debug",
    }
}

/// The fields of an event, with the message apart.
#[derive(Default)]
struct Fields {
    message: String,
    rest: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        // Identifiers cannot hold a dash, the keys of this log can.
        self.rest.insert(field.name().replace('_', "-"), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.put(field, Value::from(format!("{value:?}"))),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_string(),
            _ => self.put(field, Value::from(value)),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::from(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(console: bool) -> String {
        let path = std::env::temp_dir().join(format!("vetch-log-test-{}-{console}", std::process::id()));
        let outputs = Outputs::open(&[path.display().to_string()], None).unwrap();
        let format = Line { console };
        let subscriber = tracing_subscriber::fmt().with_writer(outputs).event_format(format).finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(data_dir = "x\"y", revision = 7, ok = true, "said {}", "so");
        });
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        text
    }

    #[test]
    fn a_line_is_an_object_with_the_usual_keys() {
        let line: Value = serde_json::from_str(&logged(false)).unwrap();
        assert_eq!(line["level"], "warn");
        assert_eq!(line["msg"], "said so");
        assert_eq!(line["data-dir"], "x\"y");
        assert_eq!(line["revision"], 7);
        assert_eq!(line["ok"], true);
        assert!(line["ts"].as_str().unwrap().contains('T'));
    }

    #[test]
    fn people_get_text() {
        let line = logged(true);
        assert!(line.contains("\twarn\tsaid so\t{"), "{line}");
    }

    #[test]
    fn what_cannot_be_logged_to_is_refused() {
        let refusal = |config: LogConfig<'_>| start(config).unwrap_err().to_string();
        let outputs = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<String>>();
        assert!(refusal(LogConfig { logger: "capnslog", ..DEFAULT }).contains("removed in v3.5"));
        assert!(refusal(LogConfig { logger: "x", ..DEFAULT }).contains("unknown logger option \"x\""));
        assert!(refusal(LogConfig { format: "x", ..DEFAULT }).contains("unknown log format: x"));
        let two = outputs(&["default", "stderr"]);
        assert!(refusal(LogConfig { outputs: &two, ..DEFAULT }).contains("multi logoutput"));
        let nowhere = outputs(&["/nonexistent/x"]);
        assert!(refusal(LogConfig { outputs: &nowhere, ..DEFAULT }).contains("open sink \"/nonexistent/x\""));
        assert!(
            refusal(LogConfig { rotation: Some("{}"), ..DEFAULT }).contains("requires a single file path")
        );
    }
}
