//! The output formats of etcd's tools.

use super::{BAD_FEATURE, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Simple,
    Fields,
    Json,
    Table,
}

impl Format {
    pub(crate) fn parse(name: &str) -> Result<Format, Failure> {
        match name {
            "simple" => Ok(Format::Simple),
            "fields" => Ok(Format::Fields),
            "json" => Ok(Format::Json),
            "table" => Ok(Format::Table),
            _ => Err(unsupported(name, "simple, fields, json or table")),
        }
    }

    /// For commands with these two formats only.
    pub(crate) fn simple_or_json(name: &str) -> Result<Format, Failure> {
        match name {
            "simple" => Ok(Format::Simple),
            "json" => Ok(Format::Json),
            _ => Err(unsupported(name, "simple or json")),
        }
    }
}

fn unsupported(name: &str, known: &str) -> Failure {
    Failure { code: BAD_FEATURE, text: format!("unsupported output format {name:?}: -w takes {known} here") }
}

/// One row under a header, in a frame.
pub(crate) fn table(header: &[&str], row: &[String]) -> String {
    let header: Vec<String> = header.iter().map(|name| name.to_uppercase()).collect();
    let widths: Vec<usize> = header.iter().zip(row).map(|(name, cell)| name.len().max(cell.len())).collect();
    let rule = |left: char, between: &str, right: char| {
        let lines: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}", lines.join(between))
    };
    let line = |cells: Vec<String>| format!("│ {} │", cells.join(" │ "));
    let centred = header.iter().zip(&widths).map(|(name, width)| format!("{name:^width$}")).collect();
    let flush_right = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
    [rule('┌', "┬", '┐'), line(centred), rule('├', "┼", '┤'), line(flush_right), rule('└', "┴", '┘')]
        .join("\n")
}

/// A size for people, in powers of ten.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let unit = bytes.ilog(1000) as usize;
    let value = (bytes as f64 / 1000f64.powi(unit as i32) * 10.0 + 0.5).floor() / 10.0;
    if value < 10.0 { format!("{value:.1} {}", UNITS[unit]) } else { format!("{value:.0} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_looks_as_etcdutl_draws_it() {
        let header = ["hash", "revision", "total keys", "total size", "version"];
        let row = ["fbbf2f51", "10", "3", "20 kB", "3.7.0"].map(String::from);
        let drawn = "\
┌──────────┬──────────┬────────────┬────────────┬─────────┐
│   HASH   │ REVISION │ TOTAL KEYS │ TOTAL SIZE │ VERSION │
├──────────┼──────────┼────────────┼────────────┼─────────┤
│ fbbf2f51 │       10 │          3 │      20 kB │   3.7.0 │
└──────────┴──────────┴────────────┴────────────┴─────────┘";
        assert_eq!(table(&header, &row), drawn);
    }

    #[test]
    fn sizes_are_rounded_as_etcdutl_does() {
        let cases =
            [(5, "5 B"), (999, "999 B"), (1000, "1.0 kB"), (20480, "20 kB"), (1_370_000_000, "1.4 GB")];
        for (bytes, shown) in cases {
            assert_eq!(size(bytes), shown);
        }
    }
}
