//! The log: one JSON object per line with the keys etcd's log has (`level`, `ts`, `caller`, `msg`), or tab-separated
//! text for people.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// How and where to log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) level: &'a str,
    pub(crate) console: bool,
    pub(crate) outputs: &'a [String],
}

/// Before the flags are understood, and after they were not.
pub(crate) const DEFAULT: Choice<'static> = Choice { level: "info", console: false, outputs: &[] };

/// Sends everything logged from now on to where the flags say.
pub(crate) fn start(choice: Choice<'_>) -> io::Result<()> {
    let level = match choice.level {
        "debug" => LevelFilter::DEBUG,
        "warn" => LevelFilter::WARN,
        "error" | "dpanic" | "panic" | "fatal" => LevelFilter::ERROR,
        _ => LevelFilter::INFO,
    };
    let outputs = Outputs::open(choice.outputs)?;
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(outputs)
        .event_format(Line { console: choice.console })
        .finish();
    // It can only fail if there is a subscriber already, and then that one goes on logging.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

/// Where lines go. Cloning shares the files.
#[derive(Debug, Clone)]
struct Outputs(Arc<Mutex<Vec<Output>>>);

#[derive(Debug)]
enum Output {
    Stderr,
    Stdout,
    File(File),
}

impl Outputs {
    fn open(names: &[String]) -> io::Result<Outputs> {
        let mut outputs = Vec::new();
        for name in names {
            outputs.push(match name.as_str() {
                "default" | "stderr" => Output::Stderr,
                "stdout" => Output::Stdout,
                "systemd/journal" => {
                    return Err(io::Error::other("log output systemd/journal is not available; use stderr"));
                }
                path => Output::File(open(Path::new(path))?),
            });
        }
        if outputs.is_empty() {
            outputs.push(Output::Stderr);
        }
        Ok(Outputs(Arc::new(Mutex::new(outputs))))
    }
}

fn open(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|e| io::Error::new(e.kind(), format!("cannot open log output {}: {e}", path.display())))
}

impl MakeWriter<'_> for Outputs {
    type Writer = Outputs;

    fn make_writer(&self) -> Outputs {
        self.clone()
    }
}

impl Write for Outputs {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        for output in self.0.lock().iter_mut() {
            match output {
                Output::Stderr => io::stderr().write_all(line)?,
                Output::Stdout => io::stdout().write_all(line)?,
                Output::File(file) => file.write_all(line)?,
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
        let outputs = Outputs::open(&[path.display().to_string()]).unwrap();
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
}
