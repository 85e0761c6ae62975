use super::*;

fn parsed(text: &str) -> Result<Parsed, FileError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("etcd.yaml");
    fs::write(&path, text).unwrap();
    read(path.to_str().unwrap())
}

fn refusal(text: &str) -> String {
    parsed(text).unwrap_err().to_string()
}

#[test]
fn names_are_those_of_flags_and_types_are_etcds() {
    let parsed = parsed(
        "name: a\n\
         snapshot-count: 10000\n\
         auto-compaction-retention: \"8\"\n\
         watch-progress-notify-interval: 5000000000\n\
         strict-reconfig-check: yes\n\
         log-outputs: [stderr, /tmp/x]\n\
         Listen-Client-Urls: https://127.0.0.1:2379,https://10.0.0.1:2379\n\
         wal-dir:\n",
    )
    .unwrap();
    assert_eq!(parsed.text("name"), "a");
    assert_eq!(parsed.uint("snapshot-count"), 10_000);
    assert_eq!(parsed.text("auto-compaction-retention"), "8");
    assert_eq!(parsed.duration("watch-progress-notify-interval").as_secs(), 5);
    assert!(parsed.bool("strict-reconfig-check"));
    assert_eq!(parsed.list("log-outputs"), ["stderr", "/tmp/x"]);
    assert_eq!(parsed.urls("listen-client-urls").len(), 2);
    assert!(!parsed.is_given("wal-dir"));
}

#[test]
fn blocks_set_the_flags_of_their_kind() {
    let parsed = parsed(
        "client-transport-security:\n  cert-file: a\n  client-cert-auth: true\n  allowed-cn: [x, y]\n\
         peer-transport-security:\n  cert-file: b\n  allowed-hostname: [z]\n\
         socket-options:\n  reuse-port: true\n",
    )
    .unwrap();
    assert_eq!((parsed.text("cert-file"), parsed.text("peer-cert-file")), ("a", "b"));
    assert!(parsed.bool("client-cert-auth") && !parsed.bool("peer-client-cert-auth"));
    assert_eq!(parsed.list("client-cert-allowed-cn"), ["x", "y"]);
    assert_eq!(parsed.list("peer-cert-allowed-hostname"), ["z"]);
    assert!(parsed.bool("socket-reuse-port"));
}

#[test]
fn what_etcd_passes_over_is_passed_over_with_a_word() {
    let parsed = parsed(
        "nonsense: 1\ncert-file: x\nexperimental-initial-corrupt-check: true\n\
         experimental-watch-progress-notify-interval: 5000000000\n\
         client-transport-security:\n  name: x\n",
    )
    .unwrap();
    let warned = parsed.warnings.join("\n");
    for name in
        ["nonsense", "cert-file", "experimental-initial-corrupt-check", "client-transport-security.name"]
    {
        assert!(warned.contains(name), "{name}: {warned}");
    }
    assert!(!parsed.is_given("cert-file"));
    assert_eq!(parsed.duration("watch-progress-notify-interval").as_secs(), 5);
}

#[test]
fn mistakes_are_named() {
    assert!(refusal("name: [a]").contains("cannot unmarshal a list into name, which must be a text"));
    assert!(refusal("watch-progress-notify-interval: 10m").contains("nanoseconds"));
    assert!(refusal("heartbeat-interval: \"100\"").contains("a whole number"));
    assert!(refusal("auto-compaction-retention: 8").contains("must be a text"));
    assert!(refusal("pre-vote: 1").contains("true or false"));
    assert!(refusal("log-outputs: stderr").contains("a list of texts"));
    assert!(refusal("peer-transport-security: x").contains("invalid peer-transport-security"));
    assert!(refusal("listen-client-urls: x").contains("unexpected error setting up listen-client-urls"));
    assert!(refusal("feature-gates: Nope=true").contains("unrecognized feature gate: Nope"));
    assert!(refusal("a: b: c").contains("as YAML"));
    assert!(refusal("just text").contains("mapping"));
    assert_eq!(read("/nonexistent").unwrap_err().to_string(), "open /nonexistent: no such file or directory");
    assert!(parsed("").unwrap().warnings.is_empty());
}
