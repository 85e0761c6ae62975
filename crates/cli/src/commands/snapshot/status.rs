//! `vetch snapshot status`.

use std::path::PathBuf;

use clap::Args;
use vetch_snapshot::status::{Status, status};

use super::super::output::{Format, size, table};
use super::super::progress::Ticker;
use super::super::{Failure, print_result};

#[derive(Args)]
pub(super) struct StatusCommand {
    /// The snapshot.
    filename: PathBuf,
}

impl StatusCommand {
    pub(super) fn run(&self, format: Format) -> Result<(), Failure> {
        let mut ticker = Ticker::new();
        let status =
            status(&self.filename, &mut |done, total| ticker.report("checking the hash", done, total))?;
        print_result(&shown(&status, format)?)
    }
}

fn shown(status: &Status, format: Format) -> Result<String, Failure> {
    let row = || {
        let Status { hash, revision, total_key, total_size, version } = status;
        [format!("{hash:x}"), revision.to_string(), total_key.to_string(), size(*total_size), version.clone()]
    };
    Ok(match format {
        Format::Simple => row().join(", "),
        Format::Table => table(&["hash", "revision", "total keys", "total size", "version"], &row()),
        Format::Json => serde_json::to_string(status)?,
        Format::Fields => format!(
            "\"Hash\" : {}\n\"Revision\" : {}\n\"Keys\" : {}\n\"Size\" : {}\n\"Version\" : {}",
            status.hash, status.revision, status.total_key, status.total_size, status.version
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_etcdutls() {
        let status = Status {
            hash: 4_223_610_705,
            revision: 10,
            total_key: 3,
            total_size: 20480,
            version: "3.7.0".into(),
        };
        let shown = |format| shown(&status, format).unwrap();
        assert_eq!(shown(Format::Simple), "fbbf2f51, 10, 3, 20 kB, 3.7.0");
        assert_eq!(
            shown(Format::Json),
            r#"{"hash":4223610705,"revision":10,"totalKey":3,"totalSize":20480,"version":"3.7.0"}"#
        );
        assert!(shown(Format::Fields).starts_with("\"Hash\" : 4223610705\n\"Revision\" : 10\n\"Keys\" : 3"));
    }
}
