//! Check: finds settings under which JetStream may lose what it acknowledged.
//!
//! Every account that may use a stream can read the stream's settings. Whether a server syncs
//! before it acknowledges is visible only to the system account, which sends one request to all
//! servers (`$SYS.REQ.SERVER.PING.JSZ`). Without such a login the setting is unknown, and unknown
//! is unsafe.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::stream::{Config, DiscardPolicy, PersistenceMode, RetentionPolicy, StorageType};
use futures_util::StreamExt;
use serde_json::Value;

use crate::options::Options;

/// The first server that syncs its Raft log once for all entries of a message, and has the fixes
/// this relies on.
pub const MIN_SERVER: (u64, u64, u64) = (2, 15, 1);

/// A server answers within this, or is taken for absent.
const ROLL_CALL: Duration = Duration::from_millis(1500);

const STRAGGLERS: Duration = Duration::from_millis(100);
/// Between two looks at servers that were away.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Something that may lose acknowledged records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsafe {
    #[error("stream setting {setting} is {found}; it has to be {wanted}, because {why}")]
    Setting { setting: &'static str, found: String, wanted: &'static str, why: &'static str },
    #[error("server {server} is version {version}; {}.{}.{} is the first to be trusted", MIN_SERVER.0, MIN_SERVER.1, MIN_SERVER.2)]
    Version { server: String, version: String },
    #[error(
        "server {server} acknowledges before it syncs (jetstream.sync_interval is {interval}): set `sync_interval: always` \
         in its jetstream section and restart it"
    )]
    Sync { server: String, interval: String },
    #[error(
        "whether all servers sync before they acknowledge is not known: give a login of the system account (only {seen} of \
         {wanted} servers of JetStream answered)"
    )]
    Unknown { seen: usize, wanted: usize },
}

impl Unsafe {
    /// Whether nothing is wrong but that some servers did not answer, and fewer than did.
    pub fn most_were_seen(&self) -> bool {
        matches!(self, Unsafe::Unknown { seen, wanted } if seen * 2 > *wanted)
    }
}

/// The settings a new stream gets.
pub(crate) fn wanted(options: &Options) -> Config {
    Config {
        name: options.stream.clone(),
        subjects: vec![options.subject()],
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        num_replicas: options.replicas,
        discard: DiscardPolicy::New,
        max_bytes: options.max_bytes.unwrap_or(-1),
        max_messages: -1,
        max_messages_per_subject: -1,
        max_consumers: -1,
        max_message_size: -1,
        deny_delete: true,
        deny_purge: false,
        allow_direct: false,
        description: Some("Vetch's journal. Its settings are checked at every start.".into()),
        ..Config::default()
    }
}

/// Whatever in a stream's settings could lose a record, double one, or keep it from being trimmed.
pub(crate) fn settings(found: &Config, options: &Options) -> Vec<Unsafe> {
    let mut problems = Vec::new();
    let mut check = |setting, good: bool, found: String, wanted, why| {
        if !good {
            problems.push(Unsafe::Setting { setting, found, wanted, why });
        }
    };
    let subjects = vec![options.subject()];
    check(
        "storage",
        found.storage == StorageType::File,
        format!("{:?}", found.storage),
        "file",
        "memory is lost with its process",
    );
    check(
        "num_replicas",
        found.num_replicas >= 3,
        found.num_replicas.to_string(),
        "3 or 5",
        "one server's disk may be lost",
    );
    check(
        "discard",
        found.discard == DiscardPolicy::New,
        format!("{:?}", found.discard),
        "new",
        "a full stream must refuse, not drop its oldest records",
    );
    check(
        "retention",
        found.retention == RetentionPolicy::Limits,
        format!("{:?}", found.retention),
        "limits",
        "other policies remove what was read",
    );
    check("max_age", found.max_age.is_zero(), format!("{:?}", found.max_age), "0", "records must not expire");
    check(
        "max_msgs_per_subject",
        found.max_messages_per_subject <= 0,
        found.max_messages_per_subject.to_string(),
        "-1",
        "all records have one subject",
    );
    check("deny_delete", found.deny_delete, "false".into(), "true", "a record that is deleted leaves a hole");
    check("deny_purge", !found.deny_purge, "true".into(), "false", "the journal could not be trimmed");
    check("allow_rollup_hdrs", !found.allow_rollup, "true".into(), "false", "a rollup removes all before it");
    check("allow_msg_ttl", !found.allow_message_ttl, "true".into(), "false", "records must not expire");
    check("no_ack", !found.no_ack, "true".into(), "false", "appends have to be acknowledged");
    check("sealed", !found.sealed, "true".into(), "false", "a sealed stream takes no records");
    check(
        "persist_mode",
        !matches!(found.persist_mode, Some(PersistenceMode::Async)),
        "async".into(),
        "default",
        "it acknowledges before it writes",
    );
    check(
        "mirror and sources",
        found.mirror.is_none() && found.sources.as_ref().is_none_or(Vec::is_empty),
        "set".into(),
        "unset",
        "records of others would be mixed in",
    );
    check(
        "subject_transform",
        found.subject_transform.is_none(),
        "set".into(),
        "unset",
        "records would change their subject",
    );
    check(
        "subjects",
        found.subjects == subjects,
        found.subjects.join(", "),
        "the journal's own",
        "records of others would be mixed in",
    );
    problems
}

/// How many servers have to be seen: each one that holds a replica has to sync, and a stream may
/// have more than a new one gets.
pub(crate) fn servers_wanted(found: &Config, options: &Options) -> usize {
    options.replicas.max(found.num_replicas)
}

/// The version a server names, if it is a number; suffixes of previews are no release.
pub(crate) fn version(server: &str, version: &str) -> Option<Unsafe> {
    let numbers: Option<Vec<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    let new =
        matches!(numbers.as_deref(), Some([major, minor, patch]) if (*major, *minor, *patch) >= MIN_SERVER);
    (!new).then(|| Unsafe::Version { server: server.to_string(), version: version.to_string() })
}

/// Asks every server, by way of the system account.
pub(crate) async fn servers(system: &Client, wanted: usize) -> Vec<Unsafe> {
    let inbox = system.new_inbox();
    let answers = async {
        let answers = system.subscribe(inbox.clone()).await.ok()?;
        system
            .publish_with_reply("$SYS.REQ.SERVER.PING.JSZ", inbox, "{\"config\":true}".into())
            .await
            .ok()?;
        Some(answers)
    };
    let Some(mut answers) = answers.await else { return vec![Unsafe::Unknown { seen: 0, wanted }] };
    let (mut problems, mut seen) = (Vec::new(), 0);
    let until = tokio::time::Instant::now() + ROLL_CALL;
    loop {
        // Once all that are needed answered, the others are not waited for long.
        let wait = if seen < wanted { until } else { until.min(tokio::time::Instant::now() + STRAGGLERS) };
        let Ok(Some(answer)) = tokio::time::timeout_at(wait, answers.next()).await else { break };
        let Ok(answer) = serde_json::from_slice::<Value>(&answer.payload) else { continue };
        if let Some(found) = server(&answer) {
            seen += 1;
            problems.extend(found);
        }
    }
    if seen < wanted {
        problems.push(Unsafe::Unknown { seen, wanted });
    }
    problems
}

/// Checks servers that were down once they are back, and warns until all of them are safe: a record
/// that one of them acknowledges without a sync may not be on a second one.
pub(crate) async fn look_again(system: Client, wanted: usize) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let problems = servers(&system, wanted).await;
        if problems.is_empty() {
            return;
        }
        for problem in problems.iter().filter(|problem| !problem.most_were_seen()) {
            tracing::error!(%problem, "the journal may lose acknowledged writes");
        }
    }
}

/// What is wrong with the server that gave this answer; nothing if it has no JetStream.
fn server(answer: &Value) -> Option<Vec<Unsafe>> {
    let config = answer["data"]["config"].as_object()?;
    let name = answer["server"]["name"].as_str().unwrap_or("?");
    let mut problems: Vec<Unsafe> =
        version(name, answer["server"]["ver"].as_str().unwrap_or("?")).into_iter().collect();
    if config.get("sync_always").and_then(Value::as_bool) != Some(true) {
        let interval = config.get("sync_interval").and_then(Value::as_u64).unwrap_or_default();
        problems.push(Unsafe::Sync {
            server: name.to_string(),
            interval: format!("{:?}", Duration::from_nanos(interval)),
        });
    }
    Some(problems)
}

#[cfg(test)]
mod tests {
    use super::{Unsafe, servers_wanted, settings, version, wanted};
    use crate::options::Options;

    /// Makes a setting worse.
    type Change = fn(&mut async_nats::jetstream::stream::Config);

    #[test]
    fn the_settings_of_a_new_stream_are_safe_and_every_change_for_the_worse_is_named() {
        let options = Options::new(vec![], "j");
        let good = wanted(&options);
        assert_eq!(settings(&good, &options), []);
        let worse: [(&str, Change); 6] = [
            ("storage", |config| config.storage = async_nats::jetstream::stream::StorageType::Memory),
            ("num_replicas", |config| config.num_replicas = 1),
            ("discard", |config| config.discard = async_nats::jetstream::stream::DiscardPolicy::Old),
            ("max_age", |config| config.max_age = std::time::Duration::from_secs(1)),
            ("deny_delete", |config| config.deny_delete = false),
            ("subjects", |config| config.subjects.push("more".into())),
        ];
        for (name, change) in worse {
            let mut config = good.clone();
            change(&mut config);
            let found = settings(&config, &options);
            assert!(
                matches!(&found[..], [Unsafe::Setting { setting, .. }] if *setting == name),
                "{name}: {found:?}"
            );
        }
    }

    #[test]
    fn every_server_with_a_replica_has_to_be_seen() {
        let options = Options::new(vec![], "j");
        let mut config = wanted(&options);
        for (replicas, servers) in [(1, 3), (3, 3), (5, 5)] {
            config.num_replicas = replicas;
            assert_eq!(servers_wanted(&config, &options), servers);
        }
    }

    #[test]
    fn versions_are_compared_as_numbers_and_previews_are_not_trusted() {
        for good in ["2.15.1", "2.15.2", "2.16.0", "3.0.0", "2.100.0"] {
            assert_eq!(version("a", good), None);
        }
        for bad in ["2.15.0", "2.14.9", "2.9.10", "2.15.1-RC.1", "nonsense", ""] {
            assert!(version("a", bad).is_some(), "{bad}");
        }
    }
}
