//! Losses at their limits: one server of each kind, after which everything goes on, and the
//! journal's majority, after which writes are refused in so many words, reads of what a server has
//! and watches go on, and everything resumes by itself.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::{join_all, try_join_all};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::metadata::MetadataValue;
use vetch_api::pb;
use vetch_api::pb::watch_request::RequestUnion;

use super::network::JOURNAL;
use super::{Field, LIMIT};
use crate::client::Client;
use crate::replicas::members::Leader;

/// A server may take this long to find out that there is no leader.
const REFUSAL: Duration = Duration::from_secs(15);
/// What it says then: etcd's words.
const CLEAR: [&str; 2] = ["Unavailable: etcdserver: request timed out", "Unavailable: etcdserver: no leader"];
/// For a watch that has nothing to wait for: its server has to hear of what was written, whatever
/// became of the journal before. On a machine that has little to do it takes a third of a second.
const SOON: Duration = Duration::from_secs(3);
/// What the watches of a time without a journal look at.
const WATCHED: &str = "/outage";

impl Field {
    /// A server of the journal and one that serves are gone at once: what is left has to serve.
    pub(super) async fn kill_one_of_each(&mut self, leader: Leader) -> Result<String> {
        let stream_leader = self.journal.stream_leader().await?;
        let (server, journal) = match self.rng.below(4) {
            0 => (leader.at, stream_leader),
            1 => (leader.at, (stream_leader + 1) % 3),
            2 => (self.follower(leader), stream_leader),
            _ => (self.follower(leader), (stream_leader + 1) % 3),
        };
        let since = self.recorder.now();
        self.members.kill(server)?;
        self.journal.kill(journal)?;
        let mut what = format!("server {server} and the journal's {journal} were killed");
        if server == leader.at {
            let took = self.failover(leader, since).await?;
            let times = match journal == stream_leader {
                true => &mut self.times.with_journal,
                false => &mut self.times.failovers,
            };
            times.push(took);
            what += &format!(", another one wrote after {} ms", took.as_millis());
        }
        let took = self.goes_on("on what is left").await?;
        let endpoints = self.members.endpoints();
        for endpoint in endpoints.iter().enumerate().filter(|(at, _)| *at != server).map(|(_, it)| it) {
            ensure!(self.served_soon(endpoint).await, "{endpoint} does not serve while {what}");
        }
        self.journal.run(journal)?;
        self.members.run(&[server])?;
        Ok(format!("{what}, five more writes took {} ms, and both that were left served", took.as_millis()))
    }

    async fn served_soon(&mut self, endpoint: &str) -> bool {
        for _ in 0..10 {
            if self.recorder.serves(endpoint).await {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        false
    }

    pub(super) async fn lose_quorum(&mut self, leader: Leader) -> Result<String> {
        let endpoints = self.members.endpoints();
        let mut eyes = try_join_all(endpoints.iter().map(|endpoint| Eye::open(endpoint, false))).await?;
        let demanding = try_join_all(endpoints.iter().map(|endpoint| Eye::open(endpoint, true))).await?;
        let killed = self.rng.percent(50);
        let left = self.rng.below(3);
        let lost = [(left + 1) % 3, (left + 2) % 3];
        match killed {
            true => lost.iter().try_for_each(|at| self.journal.kill(*at))?,
            false => self.network.part(&JOURNAL, &JOURNAL)?,
        }
        let without = self.without_quorum(&endpoints, &mut eyes, demanding).await;
        match killed {
            true => lost.iter().try_for_each(|at| self.journal.run(*at))?,
            false => self.network.heal()?,
        }
        let refusals = without?;
        let revision = self.writes_again(&endpoints[leader.at]).await?;
        let written = std::time::Instant::now();
        let seen = join_all(eyes.into_iter().map(|eye| eye.sees(revision, written))).await;
        for (at, seen) in seen.into_iter().enumerate() {
            // A leader that was replaced meanwhile begins again, and its watches with it.
            match seen {
                Err(error) if at != leader.at => return Err(error),
                Err(_) => {}
                Ok(took) => self.times.heard.push(took),
            }
        }
        let how = match killed {
            true => format!("the journal's servers {lost:?} were away"),
            false => "the journal's servers did not hear each other".to_owned(),
        };
        Ok(format!(
            "{how}: writes were refused ({refusals}), reads here and watches went on, but for those that ask for a leader"
        ))
    }

    /// What has to be so for as long as the journal decides nothing. Answers how writes were
    /// refused.
    async fn without_quorum(
        &self,
        endpoints: &[String],
        eyes: &mut [Eye],
        demanding: Vec<Eye>,
    ) -> Result<String> {
        let writes = endpoints.iter().map(|endpoint| self.recorder.write_fails(endpoint, REFUSAL));
        let mut words = try_join_all(writes).await?;
        for word in &words {
            ensure!(CLEAR.contains(&word.as_str()), "without a journal a write was refused with {word:?}");
        }
        for endpoint in endpoints {
            self.recorder.reads_here(endpoint).await?;
        }
        for eye in eyes {
            eye.is_open().await?;
        }
        try_join_all(demanding.into_iter().map(Eye::ends)).await?;
        words.sort_unstable();
        words.dedup();
        Ok(words.join("; ").replace("Unavailable: ", ""))
    }

    /// Waits until a write of what the eyes look at is acknowledged.
    async fn writes_again(&mut self, endpoint: &str) -> Result<i64> {
        let begun = std::time::Instant::now();
        loop {
            match self.recorder.write_to(endpoint, WATCHED).await {
                Ok(revision) => return Ok(revision),
                Err(error) => {
                    ensure!(
                        begun.elapsed() < LIMIT,
                        "no write {LIMIT:?} after the journal was whole: {error:#}"
                    );
                }
            }
            self.members.all_run()?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// A watch on one server that is never begun again.
struct Eye {
    endpoint: String,
    requests: mpsc::Sender<pb::WatchRequest>,
    responses: Streaming<pb::WatchResponse>,
}

impl Eye {
    /// One that demands a leader is ended where there is none, as Kubernetes asks for.
    async fn open(endpoint: &str, demands_leader: bool) -> Result<Eye> {
        let client = Client::connect(endpoint).await?;
        let (requests, outgoing) = mpsc::channel(16);
        let create = pb::WatchCreateRequest { key: WATCHED.into(), ..Default::default() };
        requests.send(request(RequestUnion::CreateRequest(create))).await?;
        let call = demanding(ReceiverStream::new(outgoing), demands_leader);
        let responses = client.watch.clone().watch(call).await?.into_inner();
        let mut eye = Eye { endpoint: endpoint.to_owned(), requests, responses };
        let first = eye.next().await?;
        ensure!(first.created, "{endpoint} did not begin a watch: {first:?}");
        Ok(eye)
    }

    async fn next(&mut self) -> Result<pb::WatchResponse> {
        let endpoint = &self.endpoint;
        let message = tokio::time::timeout(SOON, self.responses.message()).await;
        let message = message.with_context(|| format!("a watch at {endpoint} gets nothing"))?;
        message
            .with_context(|| format!("a watch at {endpoint} was broken"))?
            .with_context(|| format!("a watch at {endpoint} was ended"))
    }

    /// It is, and says how far it has come.
    async fn is_open(&mut self) -> Result<()> {
        self.requests.send(request(RequestUnion::ProgressRequest(pb::WatchProgressRequest {}))).await?;
        loop {
            let response = self.next().await.context("without a journal")?;
            ensure!(!response.canceled, "without a journal a watch was cancelled: {response:?}");
            if response.events.is_empty() {
                return Ok(());
            }
        }
    }

    /// It is ended, and says why, and a read that demands a leader is refused in the same words.
    async fn ends(mut self) -> Result<()> {
        let end = async {
            loop {
                match self.responses.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => bail!("a watch that demands a leader was ended without a word"),
                    Err(status) => return Ok(status),
                }
            }
        };
        let ended = tokio::time::timeout(REFUSAL, end).await;
        let status = ended.with_context(|| format!("{} goes on without a leader", self.endpoint))??;
        ensure!(is_without_leader(&status), "without a leader a watch was ended with {status:?}");
        let read = pb::RangeRequest { key: WATCHED.into(), serializable: true, ..Default::default() };
        let client = Client::connect(&self.endpoint).await?;
        match client.kv.clone().range(demanding(read, true)).await {
            Err(status) if is_without_leader(&status) => Ok(()),
            other => bail!("a read that demands a leader was answered with {other:?}"),
        }
    }

    /// Goes on until it got a change at `revision`, and says how long after it was
    /// `written` that was.
    async fn sees(mut self, revision: i64, written: std::time::Instant) -> Result<Duration> {
        loop {
            let response = self.next().await.context("after the journal was whole again")?;
            if response.canceled {
                bail!("a watch was cancelled: {response:?}");
            }
            let mut events = response.events.iter().filter_map(|event| event.kv.as_ref());
            if events.any(|kv| kv.mod_revision == revision) {
                let took = written.elapsed();
                ensure!(took < SOON, "a watch at {} got a write after {took:?}", self.endpoint);
                return Ok(took);
            }
        }
    }
}

fn demanding<T>(message: T, a_leader: bool) -> tonic::Request<T> {
    let mut call = tonic::Request::new(message);
    if a_leader {
        call.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    }
    call
}

fn is_without_leader(status: &tonic::Status) -> bool {
    status.code() == tonic::Code::Unavailable && status.message() == "etcdserver: no leader"
}

fn request(union: RequestUnion) -> pb::WatchRequest {
    pb::WatchRequest { request_union: Some(union) }
}
