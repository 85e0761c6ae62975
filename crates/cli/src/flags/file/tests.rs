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

/// Every name of the sample file that comes with etcd 3.7.1, with a value of the same kind. The
/// trial `options` reads that file itself.
#[test]
fn names_and_values_of_etcds_sample_are_accepted() {
    let parsed = parsed(
        "name: 'default'\ndata-dir:\nwal-dir:\nsnapshot-count: 10000\nheartbeat-interval: 100\n\
         election-timeout: 1000\nquota-backend-bytes: 0\nlisten-peer-urls: http://localhost:2380\n\
         listen-client-urls: http://localhost:2379\nmax-snapshots: 5\nmax-wals: 5\ncors:\n\
         initial-advertise-peer-urls: http://localhost:2380\nadvertise-client-urls: http://localhost:2379\n\
         discovery:\ndiscovery-fallback: 'proxy'\ndiscovery-proxy:\ndiscovery-srv:\ninitial-cluster:\n\
         initial-cluster-token: 'etcd-cluster'\ninitial-cluster-state: 'new'\nstrict-reconfig-check: false\n\
         enable-pprof: true\nproxy: 'off'\nproxy-failure-wait: 5000\nproxy-refresh-interval: 30000\n\
         proxy-dial-timeout: 1000\nproxy-write-timeout: 5000\nproxy-read-timeout: 0\n\
         client-transport-security:\n  cert-file:\n  key-file:\n  client-cert-auth: false\n  trusted-ca-file:\n  auto-tls: false\n\
         peer-transport-security:\n  cert-file:\n  key-file:\n  client-cert-auth: false\n  trusted-ca-file:\n  auto-tls: false\n  allowed-cn:\n  allowed-hostname:\n\
         self-signed-cert-validity: 1\nlog-level: debug\nlogger: zap\nlog-outputs: [stderr]\n\
         force-new-cluster: false\nauto-compaction-mode: periodic\nauto-compaction-retention: \"1\"\n\
         cipher-suites: [\n  TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,\n  TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384\n]\n\
         tls-min-version: 'TLS1.2'\ntls-max-version: 'TLS1.3'\n",
    )
    .unwrap();
    assert!(!parsed.is_given("discovery-fallback"));
    assert!(parsed.warnings.iter().any(|warning| warning.contains("discovery-fallback")));
    crate::settings::Settings::from_flags(&parsed).unwrap();
}

#[test]
fn what_etcd_checks_on_the_command_line_only_is_not_checked_in_files() {
    assert_eq!(parsed("v2-deprecation: not-yet").unwrap().text("v2-deprecation"), "not-yet");
    let state = parsed("initial-cluster-state: other").unwrap();
    let refusal = crate::settings::Settings::from_flags(&state).unwrap_err().to_string();
    assert_eq!(refusal, "unexpected clusterState \"other\"");
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
