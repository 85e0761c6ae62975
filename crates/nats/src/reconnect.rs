//! Reconnect: leaves a NATS server that has lost the others for another one.
//!
//! Such a server keeps its clients and answers their pings. If it led the stream, it goes on
//! answering requests about it for half a minute and more, while the others have long elected
//! another leader. It cannot take a record. So after a time without a new record that is longer
//! than in normal operation, the other servers are asked who leads the stream. If one of them knows
//! of a leader that this one does not know of, the connection moves there. Otherwise no server
//! would be better, and a reconnect would only disturb.
//!
//! A leader that is cut off says that it leads until it notices, and while the others elect another
//! one, they know of none. So a leader counts only if it has heard from most replicas recently.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream::stream::{ClusterInfo, PeerInfo};
use async_nats::{Client, ConnectOptions, jetstream};
use parking_lot::Mutex;
use vetch_journal::Position;

use crate::options::Options;
use crate::retry::{Unanswered, retry_until_answered};

/// An idle leader appends five records a second; without one, a follower campaigns after two
/// seconds.
const SILENCE: Duration = Duration::from_secs(3);
/// How often to check for silence.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// How long a leader may take to answer.
const LEADER_TIMEOUT: Duration = Duration::from_secs(1);
/// A leader hears of its replicas every second when nothing is written, and within two after a
/// write. One that was cut off when the silence began has not heard of them for longer.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(2);
/// How long another connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The next server is drawn at random, and may be the same one.
const DRAWS_MAX: usize = 6;

/// When the newest record arrived.
#[derive(Clone)]
pub(crate) struct Heard(Arc<Mutex<Last>>);

struct Last {
    position: Position,
    at: Instant,
}

impl Heard {
    pub(crate) fn nothing() -> Heard {
        Heard(Arc::new(Mutex::new(Last { position: Position(0), at: Instant::now() })))
    }

    /// There is a record at this position.
    pub(crate) fn of(&self, position: Position) {
        let mut last = self.0.lock();
        if position > last.position {
            *last = Last { position, at: Instant::now() };
        }
    }

    /// Gives another server the full time to deliver a record.
    pub(crate) fn begin(&self) {
        self.0.lock().at = Instant::now();
    }

    fn is_silent(&self) -> bool {
        self.0.lock().at.elapsed() >= SILENCE
    }
}

/// Watches the connection, until the runtime ends.
pub(crate) async fn reconnect_if_isolated(client: Client, options: Options, heard: Heard) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        // The client reconnects a lost connection by itself.
        if heard.is_silent() && client.connection_state() == State::Connected {
            if is_led_elsewhere(&client, &options).await && heard.is_silent() {
                reconnect(&client).await;
            }
            heard.begin();
        }
    }
}

/// Whether another server knows of a leader that this one does not know of.
async fn is_led_elsewhere(client: &Client, options: &Options) -> bool {
    let here = stream_cluster(client, options).await;
    for url in &options.urls {
        let only = Options { urls: vec![url.clone()], ..options.clone() };
        let connecting = only.connect(&options.login, ConnectOptions::new());
        let Ok(Ok(other)) = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await else { continue };
        if other.server_info().server_id == client.server_info().server_id {
            continue;
        }
        let there = stream_cluster(&other, options).await;
        // Asking takes a while, and a leader may have been chosen meanwhile that is known here too.
        if is_better(here.as_ref(), there.as_ref())
            && is_better(stream_cluster(client, options).await.as_ref(), there.as_ref())
        {
            return true;
        }
    }
    false
}

/// The state of the stream's cluster, as reported over this connection.
async fn stream_cluster(client: &Client, options: &Options) -> Option<StreamCluster> {
    let stream = jetstream::new(client.clone()).get_stream_no_info(&options.stream).await.ok()?;
    let ask = || async { stream.get_info().await.map_err(Unanswered::failed) };
    let info = retry_until_answered(ask, LEADER_TIMEOUT).await.ok()?;
    Some(StreamCluster { replicas: info.config.num_replicas, cluster: info.cluster? })
}

/// Who leads a stream, and the replicas that it hears of.
struct StreamCluster {
    /// How many there should be.
    replicas: usize,
    cluster: ClusterInfo,
}

impl StreamCluster {
    fn leader(&self) -> Option<&str> {
        self.cluster.leader.as_deref()
    }

    /// The leader, if it has heard from most replicas just now. A leader lists the other replicas
    /// and not itself: an answer that lists the leader is from a follower, which does not know when
    /// the others were heard from.
    fn sure_leader(&self) -> Option<&str> {
        let leader = self.leader()?;
        let others = &self.cluster.replicas;
        let all = self.replicas.max(others.len() + 1);
        let heard = 1 + others.iter().filter(|peer| is_heard(peer)).count();
        let its_own = others.iter().all(|peer| peer.name != leader);
        (its_own && heard * 2 > all).then_some(leader)
    }
}

/// Zero is reported for a replica that was never heard from.
fn is_heard(peer: &PeerInfo) -> bool {
    !peer.offline && !peer.active.is_zero() && peer.active <= REPLICA_TIMEOUT
}

/// Whether another server knows of a leader that is to be believed and that is not known here.
fn is_better(here: Option<&StreamCluster>, there: Option<&StreamCluster>) -> bool {
    let sure = there.and_then(StreamCluster::sure_leader);
    sure.is_some() && sure != here.and_then(StreamCluster::leader)
}

async fn reconnect(client: &Client) {
    let lost = client.server_info();
    tracing::warn!(
        server = lost.server_name,
        "this server of the journal has lost the others; going to another one"
    );
    for _ in 0..DRAWS_MAX {
        if client.force_reconnect().await.is_err() || is_elsewhere(client, &lost.server_id).await {
            return;
        }
    }
}

/// Whether a connection to another server is made in time.
async fn is_elsewhere(client: &Client, lost: &str) -> bool {
    let until = Instant::now() + CONNECT_TIMEOUT;
    // The old one is there for a moment after it was given up.
    tokio::time::sleep(CHECK_INTERVAL).await;
    while Instant::now() < until {
        if client.connection_state() == State::Connected {
            return client.server_info().server_id != lost;
        }
        tokio::time::sleep(CHECK_INTERVAL / 10).await;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARD: Duration = Duration::from_millis(700);
    const LOST: Duration = Duration::from_millis(2900);

    /// A report with this leader, and when it heard from the others.
    fn led_by(leader: &str, others: &[(&str, Duration)]) -> StreamCluster {
        let peer = |(name, active): &(&str, Duration)| PeerInfo {
            name: (*name).to_string(),
            active: *active,
            ..PeerInfo::default()
        };
        let mut report = without_leader();
        report.cluster.leader = Some(leader.to_string());
        report.cluster.replicas = others.iter().map(peer).collect();
        report
    }

    fn without_leader() -> StreamCluster {
        StreamCluster { replicas: 3, cluster: serde_json::from_str("{}").expect("all of it may be left out") }
    }

    #[test]
    fn a_server_without_a_leader_is_left_for_one_that_hears_of_most_replicas() {
        let healthy = led_by("b", &[("a", LOST), ("c", HEARD)]);
        let cut_off = led_by("a", &[("b", LOST), ("c", LOST)]);
        assert!(is_better(Some(&without_leader()), Some(&healthy)));
        assert!(is_better(None, Some(&healthy)));
        assert!(is_better(Some(&cut_off), Some(&healthy)), "it goes on saying that it leads");
        assert!(!is_better(Some(&healthy), Some(&healthy)));
    }

    #[test]
    fn a_leader_that_is_cut_off_is_not_believed() {
        let cut_off = led_by("a", &[("b", LOST), ("c", LOST)]);
        assert!(!is_better(Some(&without_leader()), Some(&cut_off)));
        assert!(!is_better(None, Some(&cut_off)));
        let mut offline = led_by("a", &[("b", HEARD), ("c", HEARD)]);
        assert!(is_better(None, Some(&offline)));
        offline.cluster.replicas.iter_mut().for_each(|peer| peer.offline = true);
        assert!(!is_better(None, Some(&offline)));
    }

    #[test]
    fn most_means_most_of_those_that_there_should_be() {
        let mut two_of_five = led_by("a", &[("b", HEARD)]);
        assert!(is_better(None, Some(&two_of_five)), "two of three");
        two_of_five.replicas = 5;
        assert!(!is_better(None, Some(&two_of_five)));
        let never_heard_of = led_by("a", &[("b", Duration::ZERO), ("c", Duration::ZERO)]);
        assert!(!is_better(None, Some(&never_heard_of)));
        let by_another = led_by("a", &[("a", HEARD), ("b", HEARD)]);
        assert!(!is_better(None, Some(&by_another)), "only the leader knows");
    }

    #[test]
    fn only_a_record_that_is_new_breaks_the_silence() {
        let heard = Heard::nothing();
        let long_ago = Instant::now().checked_sub(2 * SILENCE).expect("the machine is up for longer");
        let forget = || heard.0.lock().at = long_ago;
        assert!(!heard.is_silent());
        forget();
        assert!(heard.is_silent());
        heard.of(Position(7));
        assert!(!heard.is_silent());
        forget();
        heard.of(Position(7));
        heard.of(Position(3));
        assert!(heard.is_silent(), "what was read before says nothing");
        heard.begin();
        assert!(!heard.is_silent());
    }
}
