use super::*;
use crate::flags::{Command, parse};

fn settings(arguments: &[&str]) -> Result<Settings, SettingsError> {
    let arguments = arguments.iter().map(|a| a.to_string());
    match parse(arguments, []).unwrap() {
        Command::Serve(parsed) => Settings::from_flags(&parsed),
        other => panic!("{other:?}"),
    }
}

fn refusal(arguments: &[&str]) -> String {
    settings(arguments).unwrap_err().to_string()
}

#[test]
fn no_flags_are_enough() {
    let settings = settings(&[]).unwrap();
    assert_eq!(settings.node.data_dir, PathBuf::from("default.vetch"));
    assert_eq!(settings.node.min_lease_ttl, 2);
    assert_eq!(settings.node.request_timeout, Duration::from_secs(7));
    assert_eq!(settings.listeners.len(), 1);
    assert_eq!(settings.listeners[0].1, Serves::GrpcAndHttp);
    assert_eq!(settings.http.keepalive_interval, Some(Duration::from_secs(7200)));
    assert!(settings.retention.is_none());
    // The IDs an etcd with the same flags has.
    assert_eq!(settings.node.proposed.member_id, 0x8e9e05c52164694d);
    assert_eq!(settings.node.proposed.cluster_id, 0xcdf818194e3a8c32);
}

#[test]
fn the_shortest_lease_follows_the_election_timeout() {
    let ttl = |heartbeat: &str, election: &str| {
        let arguments = ["--heartbeat-interval", heartbeat, "--election-timeout", election];
        settings(&arguments).unwrap().node.min_lease_ttl
    };
    assert_eq!(ttl("100", "1000"), 2);
    assert_eq!(ttl("500", "5000"), 8);
    assert_eq!(ttl("10", "100"), 1);
    let text = refusal(&["--heartbeat-interval=300", "--election-timeout=1000"]);
    assert!(text.contains("5 times"), "{text}");
}

#[test]
fn http_can_have_listeners_of_its_own() {
    let settings = settings(&[
        "--listen-client-urls=http://127.0.0.1:1,unix:///tmp/x",
        "--advertise-client-urls=http://127.0.0.1:1",
        "--listen-client-http-urls=http://127.0.0.1:2",
        "--listen-metrics-urls=http://127.0.0.1:3",
    ])
    .unwrap();
    let serves: Vec<Serves> = settings.listeners.iter().map(|(_, serves)| *serves).collect();
    assert_eq!(serves, [Serves::Grpc, Serves::Grpc, Serves::Http, Serves::Metrics]);
}

#[test]
fn what_would_need_other_members_is_refused() {
    let other = "--initial-cluster=default=http://localhost:2380,b=http://b:2380";
    assert!(refusal(&[other]).contains("other members (b)"));
    assert!(refusal(&["--initial-cluster=b=http://b:2380"]).contains("couldn't find local name \"default\""));
    assert!(
        refusal(&["--initial-cluster=default=http://127.0.0.2:2380"])
            .contains("missing from --initial-advertise-peer-urls")
    );
    assert!(refusal(&["--initial-cluster=default=http://127.0.0.1:2380"]).contains("missing from"));
    let existing = ["--initial-cluster-state=existing", "--data-dir=/nonexistent"];
    assert!(refusal(&existing).contains("data directory in use"));
}

#[test]
fn mistakes_are_named() {
    assert!(
        refusal(&["--listen-client-urls=http://[::1]:1"]).contains("--advertise-client-urls is required")
    );
    assert!(refusal(&["--listen-client-urls=http://x:1"]).contains("expected IP in URL for binding"));
    assert!(refusal(&["--listen-metrics-urls=https://[::1]:1"]).contains("must be provided for metrics"));
    assert!(!settings(&["--metrics=some"]).unwrap().extensive_metrics);
    assert!(refusal(&["--auto-compaction-mode=x"]).contains("unknown auto-compaction-mode"));
    assert!(refusal(&["--watch-progress-notify-interval=1ms"]).contains("100ms"));
}

#[test]
fn retention_is_time_or_revisions() {
    let of = |arguments: &[&str]| settings(arguments).unwrap().retention;
    assert_eq!(of(&["--auto-compaction-retention=5m"]), Some(Retention::Period(Duration::from_secs(300))));
    assert_eq!(of(&["--auto-compaction-retention=2"]), Some(Retention::Period(Duration::from_secs(7200))));
    let revisions = ["--auto-compaction-mode=revision", "--auto-compaction-retention=1000"];
    assert_eq!(of(&revisions), Some(Retention::Revisions(1000)));
    assert_eq!(of(&["--auto-compaction-mode=revision"]), None);
}

#[test]
fn journal_and_checkpoints_can_be_made_small() {
    let node =
        settings(&["--journal-segment-bytes=65536", "--checkpoint-bytes=4096", "--checkpoint-interval=2s"]);
    let node = node.unwrap().node;
    assert_eq!((node.journal_segment_bytes, node.checkpoint_bytes), (65536, 4096));
    assert_eq!(node.checkpoint_interval, Duration::from_secs(2));
    assert_eq!(node.scrub_interval, Duration::from_secs(24 * 3600));
    assert_eq!(settings(&["--scrub-interval=0s"]).unwrap().node.scrub_interval, Duration::ZERO, "off");
    let text = refusal(&["--journal-segment-bytes=1"]);
    assert!(text.contains("between 16384"), "{text}");
    // Neither means "never", so neither is guessed at.
    assert!(refusal(&["--checkpoint-bytes=0"]).contains("at least 4096"));
    assert!(refusal(&["--checkpoint-interval=0s"]).contains("more than 0"));
}

#[test]
fn servers_on_a_journal_verify_each_other() {
    let secure = [
        "--journal=nats://127.0.0.1:4222",
        "--listen-client-urls=https://127.0.0.1:1",
        "--advertise-client-urls=https://127.0.0.1:1",
    ];
    let with = |more: &[&str]| settings(&[&secure[..], more].concat());
    let own = ["--cert-file=c", "--key-file=k"];
    assert!(
        with(&own).unwrap_err().to_string().contains("needs --trusted-ca-file or --peer-trusted-ca-file")
    );
    assert!(with(&["--auto-tls"]).unwrap_err().to_string().contains("cannot be used with --auto-tls"));
    let peer_client_tls = |more: &[&str]| {
        let peer_client_tls = with(&[&own[..], more].concat()).unwrap().peer_client_tls.unwrap();
        let text = |path: Option<PathBuf>| path.unwrap().display().to_string();
        [
            text(peer_client_tls.cert_file),
            text(peer_client_tls.key_file),
            text(peer_client_tls.trusted_ca_file),
        ]
    };
    assert_eq!(peer_client_tls(&["--trusted-ca-file=t"]), ["c", "k", "t"]);
    assert_eq!(peer_client_tls(&["--trusted-ca-file=t", "--peer-trusted-ca-file=p"]), ["c", "k", "p"]);
    let peer = ["--trusted-ca-file=t", "--peer-cert-file=pc", "--peer-key-file=pk"];
    assert_eq!(peer_client_tls(&peer), ["pc", "pk", "t"]);
    let client = ["--trusted-ca-file=t", "--client-cert-file=cc", "--client-key-file=ck"];
    assert_eq!(peer_client_tls(&client), ["cc", "ck", "t"]);
    let half = [&own[..], &["--trusted-ca-file=t", "--peer-cert-file=pc"]].concat();
    assert!(with(&half).unwrap_err().to_string().contains("must both be present[key: , cert: pc]"));
    let plain = ["--journal=nats://127.0.0.1:4222", "--advertise-client-urls=unix:///tmp/x"];
    assert!(refusal(&plain).contains("http:// or https:// address first"));
    let open = ["--journal=nats://127.0.0.1:4222", "--advertise-client-urls=http://127.0.0.1:1"];
    assert!(settings(&open).unwrap().peer_client_tls.is_none());
}

#[test]
fn servers_on_a_journal_announce_where_others_reach_them() {
    let with = |journal: &str, advertised: &str| {
        let journal = format!("--journal={journal}");
        let advertised = format!("--advertise-client-urls={advertised}");
        settings(&[&journal, &advertised]).map(drop).map_err(|error| error.to_string())
    };
    let (near, far) = ("nats://127.0.0.1:4222,nats://localhost:4223", "nats://10.0.0.1:4222");
    let text = refusal(&[&format!("--journal={near}")]);
    assert!(text.contains("http://localhost:2379 leads each of them to itself"), "{text}");
    for advertised in ["http://localhost:2379", "http://127.0.0.1:2379", "http://[::1]:2379"] {
        assert_eq!(with(near, advertised), Ok(()), "{advertised}");
        assert!(with(far, advertised).is_err_and(|text| text.contains("leads each")), "{advertised}");
    }
    for advertised in ["http://0.0.0.0:2379", "http://[::]:2379"] {
        assert!(with(near, advertised).is_err_and(|text| text.contains("leads each")), "{advertised}");
    }
    assert_eq!(with(far, "http://10.0.0.2:2379"), Ok(()));
    // A single server may advertise any URL.
    assert!(settings(&["--advertise-client-urls=http://0.0.0.0:2379"]).is_ok());
}

#[test]
fn a_lease_on_reads_is_shorter_than_others_wait() {
    let journal = ["--journal=nats://127.0.0.1:4222", "--advertise-client-urls=http://127.0.0.1:1"];
    let with = |more: &'static str| [&journal[..], &[more]].concat();
    let read_lease = |flags: &[&str]| match settings(flags).unwrap().engine {
        Engine::Ordered(journal) => journal.read_lease,
        Engine::Local => panic!("a journal was named"),
    };
    assert_eq!(read_lease(&journal), Duration::from_millis(500));
    assert!(read_lease(&with("--journal-read-lease=0")).is_zero());
    let text = refusal(&with("--journal-read-lease=501ms"));
    assert!(text.contains("too long"), "{text}");
    let text = refusal(&["--journal-read-lease=100ms"]);
    assert!(text.contains("without --journal"), "{text}");
}

#[test]
fn tls_is_asked_for_by_the_url() {
    let secure = ["--listen-client-urls=https://127.0.0.1:1", "--advertise-client-urls=https://127.0.0.1:1"];
    let with = |more: &[&str]| settings(&[&secure[..], more].concat());
    let refused = |more: &[&str]| with(more).unwrap_err().to_string();
    assert!(refused(&[]).contains("must be provided for client url https://127.0.0.1:1"));
    assert!(refused(&["--cert-file=c"]).contains("must both be present[key: , cert: c]"));
    assert!(refused(&["--tls-min-version=TLS1.1"]).contains("unexpected TLS version \"TLS1.1\""));
    assert!(refused(&["--tls-min-version=TLS1.3", "--tls-max-version=TLS1.2"]).contains("greater than"));
    assert!(refused(&["--tls-min-version=TLS1.3", "--cipher-suites=x"]).contains("only TLS1.3"));
    let given =
        with(&["--cert-file=c", "--key-file=k", "--trusted-ca-file=t", "--client-crl-file=r"]).unwrap();
    let tls = given.tls(Serves::GrpcAndHttp);
    assert_eq!((tls.cert_file.clone(), tls.crl_file.clone()), (Some("c".into()), Some("r".into())));
    assert!(tls.demands_client_cert() && !given.tls(Serves::Peer).demands_client_cert());
    let made = with(&["--auto-tls", "--self-signed-cert-validity=2", "--data-dir=/nonexistent"]).unwrap();
    let auto = made.client_tls.auto.unwrap();
    assert_eq!((auto.years, auto.hosts), (2, vec!["127.0.0.1:1".to_string()]));
    assert_eq!(auto.directory, PathBuf::from("/nonexistent/fixtures/client"));
    assert!(refused(&["--auto-tls", "--self-signed-cert-validity=0"]).contains("between 1 and 1000"));
}

#[test]
fn a_connection_can_hold_a_whole_request() {
    let held = |arguments: &[&str]| {
        let http = settings(arguments).unwrap().http;
        (http.max_connection_bytes, http.max_client_bytes)
    };
    assert_eq!(held(&[]), (128 << 20, 512 << 20));
    // What etcd accepts works; the bounds that are not given follow.
    let large = 4 * ((64 << 20) + (512 << 10));
    assert_eq!(held(&["--max-request-bytes=67108864"]), (large, 512 << 20));
    assert_eq!(held(&["--max-connection-bytes=1073741824"]), (1 << 30, 1 << 30));
    assert_eq!(
        refusal(&["--max-connection-bytes=8388607"]),
        "--max-connection-bytes=8388607 is too small for --max-request-bytes=1572864: a connection must be \
         able to hold a whole request, for which it needs at least 8388608"
    );
    assert_eq!(held(&["--max-connection-bytes=8388608"]).0, 8 << 20);
    assert_eq!(
        refusal(&["--max-client-bytes=134217727"]),
        "--max-client-bytes=134217727 is less than --max-connection-bytes=134217728: all connections must \
         be able to hold what one may"
    );
    assert_eq!(held(&["--max-client-bytes=134217728"]).1, 128 << 20);
}
