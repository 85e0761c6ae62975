use super::table::FLAGS;
use super::*;

fn parsed(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Parsed, UsageError> {
    let arguments = arguments.iter().map(|a| a.to_string());
    let variables = variables.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    match parse(arguments, variables)? {
        Command::Serve(parsed) => Ok(parsed),
        other => panic!("{other:?}"),
    }
}

fn error(arguments: &[&str], variables: &[(&str, &str)]) -> (String, u8) {
    let error = parsed(arguments, variables).unwrap_err();
    (error.to_string(), error.exit_code())
}

#[test]
fn every_spelling_go_accepts_is_accepted() {
    for arguments in [&["--name", "x"][..], &["-name", "x"], &["--name=x"], &["-name=x"]] {
        assert_eq!(parsed(arguments, &[]).unwrap().text("name"), "x", "{arguments:?}");
    }
    assert_eq!(parsed(&["--name="], &[]).unwrap().text("name"), "");
    for (argument, value) in [("--unsafe-no-fsync", true), ("-unsafe-no-fsync=0", false)] {
        assert_eq!(parsed(&[argument], &[]).unwrap().bool("unsafe-no-fsync"), value);
    }
    // A value never follows a switch, so this is a stray word.
    assert_eq!(error(&["--unsafe-no-fsync", "false"], &[]), ("\"false\" is not a valid flag".into(), 1));
    assert_eq!(parsed(&["--name", "a", "--name", "b"], &[]).unwrap().text("name"), "b");
}

#[test]
fn mistakes_are_reported_as_by_go() {
    assert_eq!(error(&["--nope"], &[]), ("flag provided but not defined: -nope".into(), 2));
    assert_eq!(error(&["--name"], &[]), ("flag needs an argument: -name".into(), 2));
    assert_eq!(error(&["---name"], &[]), ("bad flag syntax: ---name".into(), 2));
    assert_eq!(error(&["foo"], &[]), ("\"foo\" is not a valid flag".into(), 1));
    assert!(error(&["grpc-proxy", "start"], &[]).0.contains("subcommand grpc-proxy is not available"));
    let wrong = "invalid value \"x\" for flag -max-txn-ops: parse error";
    assert_eq!(error(&["--max-txn-ops=x"], &[]), (wrong.into(), 2));
}

#[test]
fn choices_are_refused_in_etcds_words() {
    let one = "invalid value \"x\" for flag -initial-cluster-state: invalid value";
    assert_eq!(error(&["--initial-cluster-state=x"], &[]), (one.into(), 2));
    let some = "invalid value \"gone,not-yet\" for flag -v2-deprecation: invalid value \"not-yet\"";
    assert_eq!(error(&["--v2-deprecation=gone,not-yet"], &[]), (some.into(), 2));
    assert!(parsed(&["--v2-deprecation=gone,write-only"], &[]).is_ok());
    let variable = "invalid value \"not-yet\" for ETCD_V2_DEPRECATION: invalid value \"not-yet\"";
    assert_eq!(error(&[], &[("ETCD_V2_DEPRECATION", "not-yet")]), (variable.into(), 1));
}

#[test]
fn help_and_version_win_over_what_follows() {
    for arguments in [["--help", "--nope"], ["-h", "x"]] {
        assert!(matches!(parse(arguments.map(str::to_string), []), Ok(Command::Help)));
    }
    assert!(matches!(parse(["--version".to_string()], []), Ok(Command::Version)));
}

#[test]
fn variables_stand_for_flags() {
    let variables = [("ETCD_MAX_TXN_OPS", "5"), ("ETCD_NAME", ""), ("HOME", "/"), ("ETCD_IMAGE", "x")];
    let parsed = parsed(&[], &variables).unwrap();
    assert_eq!(parsed.uint("max-txn-ops"), 5);
    assert_eq!(parsed.text("name"), "default");
    assert_eq!(parsed.warnings, ["unrecognized environment variable: ETCD_IMAGE"]);
    let (text, code) = error(&["--name=a"], &[("ETCD_NAME", "b")]);
    assert!(text.starts_with("conflicting environment variable is shadowed"), "{text}");
    assert_eq!(code, 1);
}

#[test]
fn the_variable_for_other_architectures_is_known() {
    let warnings = parsed(&[], &[("ETCD_UNSUPPORTED_ARCH", "arm64")]).unwrap().warnings;
    assert_eq!(warnings, ["ETCD_UNSUPPORTED_ARCH has no effect: no architecture is refused here"]);
}

#[test]
fn old_names_mean_the_new_ones() {
    let parsed = parsed(
        &["--experimental-watch-progress-notify-interval=5s", "--experimental-initial-corrupt-check"],
        &[],
    );
    assert_eq!(parsed.unwrap().text("watch-progress-notify-interval"), "5s");
}

#[test]
fn what_cannot_be_ignored_is_refused_and_its_default_is_not() {
    let (text, code) = error(&["--enable-distributed-tracing"], &[]);
    assert!(text.contains("--enable-distributed-tracing is refused: Distributed tracing"), "{text}");
    assert_eq!(code, 1);
    assert!(parsed(&["--enable-distributed-tracing=false"], &[]).is_ok());
    let noted = parsed(&["--snapshot-count=10000"], &[]).unwrap().without_effect;
    assert_eq!(noted[0].0, "snapshot-count");
}

#[test]
fn a_file_stands_for_everything_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("etcd.yaml").display().to_string();
    std::fs::write(&path, "max-txn-ops: 7\n").unwrap();
    let by_flag = parsed(&["--config-file", &path, "--name=x"], &[("ETCD_MAX_TXN_OPS", "9")]).unwrap();
    assert_eq!((by_flag.uint("max-txn-ops"), by_flag.text("name")), (7, "default"));
    let by_variable = parsed(&["--name=x"], &[("ETCD_CONFIG_FILE", &path), ("ETCD_NAME", "y")]).unwrap();
    assert_eq!((by_variable.uint("max-txn-ops"), by_variable.text("name")), (7, "default"));
    let (text, code) = error(&["--config-file=/nonexistent"], &[]);
    assert_eq!((text.as_str(), code), ("open /nonexistent: no such file or directory", 1));
}

#[test]
fn the_table_is_sound() {
    let mut names: Vec<&str> = FLAGS.iter().flat_map(|(_, flags)| *flags).map(|flag| flag.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "every flag once");
    for flag in FLAGS.iter().flat_map(|(_, flags)| *flags) {
        assert_eq!(value::check(flag.kind, flag.default), Ok(()), "default of {}", flag.name);
        assert!(help().contains(&format!("--{}", flag.name)));
    }
}

/// The part of docs/compatibility.md that comes from the table. `UPDATE_EXPECT=1` rewrites it.
#[test]
fn the_documented_flags_are_these() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- flags begin -->\n", "<!-- flags end -->");
    let from = text.find(begin).unwrap() + begin.len();
    let to = text.find(end).unwrap();
    let table = documented();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, format!("{}{table}{}", &text[..from], &text[to..])).unwrap();
        return;
    }
    assert_eq!(&text[from..to], table, "run this test with UPDATE_EXPECT=1");
}

fn documented() -> String {
    let mut out = String::from("| flag | default | here |\n|---|---|---|\n");
    for flag in FLAGS.iter().flat_map(|(_, flags)| *flags) {
        let here = match flag.class {
            Class::Works => format!("works. {}", flag.help),
            Class::NoEffect(why) => format!("accepted, no effect. {why}"),
            Class::Refused(why) => format!("refused. {why}"),
        };
        let default = if flag.default.is_empty() { String::new() } else { format!("`{}`", flag.default) };
        out.push_str(&format!("| `--{}` | {default} | {here} |\n", flag.name));
    }
    out
}
