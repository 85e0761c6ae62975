//! Output: one line of text or of JSON each. Damage is counted, and decides the exit code.

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};
use vetch_node::journal::Sight;
use vetch_node::store::Record;
use vetch_node::store::describe::{Described, What};

use super::super::Failure;
use super::super::output::Format;

/// Bytes of a value that are shown.
const VALUE_BYTES_SHOWN: usize = 1024;

pub(super) struct Out {
    is_json: bool,
    out: std::io::BufWriter<std::io::Stdout>,
    problems: u64,
}

impl Out {
    pub(super) fn new(format: &str) -> Result<Out, Failure> {
        let is_json = Format::simple_or_json(format)? == Format::Json;
        Ok(Out { is_json, out: std::io::BufWriter::new(std::io::stdout()), problems: 0 })
    }

    /// Prints one item in the requested format.
    pub(super) fn line(&mut self, text: &str, value: impl FnOnce() -> Value) {
        let written =
            if self.is_json { writeln!(self.out, "{}", value()) } else { writeln!(self.out, "{text}") };
        // The reader closed the pipe; nothing is lost.
        if written.is_err() {
            std::process::exit(0);
        }
    }

    /// Reports damage at a place.
    pub(super) fn damage(&mut self, file: &str, offset: Option<u64>, reason: &str) {
        self.problems += 1;
        let place = offset.map_or(String::new(), |offset| format!(" at byte {offset}"));
        let value = || json!({"type": "damage", "file": file, "offset": offset, "reason": reason});
        self.line(&format!("DAMAGE {file}{place}: {reason}"), value);
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.out.flush()?;
        if self.problems == 0 {
            return Ok(());
        }
        Err(Failure { code: 1, text: format!("{} places are damaged or cannot be read", self.problems) })
    }
}

/// Damage that a scan found.
pub(super) fn report_damage(dir: &Path, sight: Sight, out: &mut Out) {
    let path = |file: &str| dir.join(file).display().to_string();
    match sight {
        Sight::Damage(damage) => out.damage(&path(&damage.file), Some(damage.offset), &damage.reason),
        Sight::Encrypted { file, offset, source } => {
            out.damage(&path(&file), Some(offset), &source.to_string())
        }
        Sight::Torn(torn) => {
            let (file, offset, bytes) = (path(&torn.file), torn.offset, torn.bytes);
            let text = format!(
                "{file} at byte {offset}: an interrupted write of {bytes} bytes, which the next start cuts"
            );
            out.line(&text, || json!({"type": "torn", "file": file, "offset": offset, "bytes": bytes}));
        }
        Sight::Segment { .. } | Sight::Record(_) | Sight::Entry { .. } => {}
    }
}

/// Bytes as text, with everything odd escaped.
pub(super) fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

pub(super) fn record_text(record: &Record, values: bool) -> String {
    let mut text = format!("{} ", shown(record.key()));
    if record.is_tombstone() {
        text.push_str("deleted");
    } else {
        text += &format!(
            "version {} created {} value {} bytes",
            record.version(),
            record.create_revision(),
            record.value_len()
        );
    }
    if record.lease() != 0 {
        text += &format!(" lease {:x}", record.lease());
    }
    if values && !record.is_tombstone() {
        text += &format!(" = {}", shown(&record.value()[..record.value_len().min(VALUE_BYTES_SHOWN)]));
    }
    text
}

pub(super) fn record_json(record: &Record, values: bool) -> Value {
    let mut value = json!({
        "key": shown(record.key()),
        "mod_revision": record.mod_revision(),
        "deleted": record.is_tombstone(),
    });
    if !record.is_tombstone() {
        value["create_revision"] = record.create_revision().into();
        value["version"] = record.version().into();
        value["lease"] = record.lease().into();
        value["value_bytes"] = record.value_len().into();
        if values {
            value["value"] = shown(&record.value()[..record.value_len().min(VALUE_BYTES_SHOWN)]).into();
        }
    }
    value
}

pub(super) fn effect_text(described: &Described, values: bool) -> String {
    let revision = described.revision.map_or("-".to_owned(), |revision| revision.to_string());
    let what = match &described.what {
        What::Put(record) => format!("put {}", record_text(record, values)),
        What::Delete { key } => format!("delete {}", shown(key)),
        What::DeleteRange { key, range_end } => {
            format!("delete range {} .. {}", shown(key), shown(range_end))
        }
        What::LeaseGrant { id, ttl } => format!("lease {id:x} granted for {ttl}s"),
        What::LeaseRevoke { id } => format!("lease {id:x} revoked or expired, with its keys"),
        What::LeaseRemaining { id, seconds } => format!("lease {id:x} has {seconds}s left (0: all)"),
        What::Compact { revision } => format!("compact at {revision}"),
        What::Alarm { alarm, is_on } => {
            format!("alarm {:?} {}", alarm.kind, if *is_on { "on" } else { "off" })
        }
        What::Auth => "users or roles changed".to_owned(),
    };
    format!("  {revision:>10}  {what}")
}

pub(super) fn effect_json(described: &Described, values: bool) -> Value {
    let mut value = match &described.what {
        What::Put(record) => {
            let mut value = record_json(record, values);
            value["effect"] = "put".into();
            value
        }
        What::Delete { key } => json!({"effect": "delete", "key": shown(key)}),
        What::DeleteRange { key, range_end } => {
            json!({"effect": "delete_range", "key": shown(key), "range_end": shown(range_end)})
        }
        What::LeaseGrant { id, ttl } => json!({"effect": "lease_grant", "lease": id, "ttl": ttl}),
        What::LeaseRevoke { id } => json!({"effect": "lease_revoke", "lease": id}),
        What::LeaseRemaining { id, seconds } => {
            json!({"effect": "lease_remaining", "lease": id, "seconds": seconds})
        }
        What::Compact { revision } => json!({"effect": "compact", "at": revision}),
        What::Alarm { alarm, is_on } => {
            json!({"effect": "alarm", "kind": format!("{:?}", alarm.kind), "on": is_on})
        }
        What::Auth => json!({"effect": "auth"}),
    };
    value["revision"] = described.revision.into();
    value
}
