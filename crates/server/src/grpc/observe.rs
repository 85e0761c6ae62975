//! Observing an election: the present leader, and every leader after it.
//!
//! Not every value in between is shown, but the newest always is. The stream waits in two ways in
//! turn: for a first candidate while there is none, and on the leader's own key while there is one.

use std::collections::VecDeque;

use futures_util::{Stream, stream};
use prost::Message;
use tonic::Status;
use vetch_api::EtcdError;
use vetch_api::mvccpb::KeyValue;
use vetch_api::v3electionpb::LeaderResponse;
use vetch_node::error::NodeError;
use vetch_node::event::NodeEvent;
use vetch_node::store::{Record, validate};
use vetch_node::watch::{Create, Filters, Response, WatchEnd, WatchSession};

use super::recipes::Queue;
use super::service_context::ServiceContext;
use super::status;

/// What a response shows of a leader.
pub(super) fn leader(context: &ServiceContext, revision: i64, record: &Record) -> LeaderResponse {
    let kv = KeyValue::decode(&record.wire().concat()[..]).expect("a record is the wire form of a key-value");
    LeaderResponse { header: context.header(revision), kv: Some(kv) }
}

/// The leaders of an election, for as long as the client listens.
pub(super) fn leaders(
    context: ServiceContext,
    queue: Queue,
) -> impl Stream<Item = Result<LeaderResponse, Status>> + Send {
    let observer = Observer { context, queue, state: State::Unknown, ready: VecDeque::new() };
    stream::unfold(Some(observer), async |observer| {
        let mut observer = observer?;
        match observer.next().await {
            Ok(response) => Some((Ok(response), Some(observer))),
            Err(End::Stopped) => Some((Err(status::etcd(EtcdError::Stopped)), None)),
            Err(End::Refused(status)) => Some((Err(status), None)),
            Err(End::Disrupted) => None,
        }
    })
}

/// Why the stream ends.
enum End {
    /// The server stops.
    Stopped,
    /// The client has too much that waits or watches.
    Refused(Status),
    /// Anything else. The stream then ends without an error, as it does in etcd.
    Disrupted,
}

struct Observer {
    context: ServiceContext,
    queue: Queue,
    state: State,
    /// Answers not sent yet.
    ready: VecDeque<LeaderResponse>,
}

enum State {
    /// The leader has to be looked up.
    Unknown,
    /// There was no candidate; the first one will be the leader.
    NoLeader(WatchSession),
    /// There is a leader; its key is watched until it is deleted.
    Following(WatchSession),
}

impl Observer {
    async fn next(&mut self) -> Result<LeaderResponse, End> {
        loop {
            if let Some(response) = self.ready.pop_front() {
                return Ok(response);
            }
            match &mut self.state {
                State::Unknown => self.look_up().await?,
                State::NoLeader(session) => {
                    let responses = responses(session).await?;
                    self.elect(&responses)?;
                }
                State::Following(session) => {
                    let responses = responses(session).await?;
                    self.follow(&responses);
                }
            }
        }
    }

    async fn look_up(&mut self) -> Result<(), End> {
        let request = validate::range(self.queue.first()).map_err(|_| End::Disrupted)?;
        let found = {
            // All keys under the name are looked through, and the end of one leader wakes all who
            // observe it.
            let _permit = self.queue.scan_permit(&self.context).await;
            self.context.node.range(request).await.map_err(|error| match error {
                NodeError::Stopped => End::Stopped,
                _ => End::Disrupted,
            })?
        };
        match found.kvs.first() {
            Some(first) => self.lead(found.revision, first)?,
            None => {
                let range = self.queue.range();
                self.state = State::NoLeader(self.watch(&Create {
                    key: range.key.to_vec(),
                    range_end: range.range_end.to_vec(),
                    start_revision: found.revision,
                    filters: Filters { no_put: false, no_delete: true },
                    ..Create::default()
                })?);
            }
        }
        Ok(())
    }

    /// The first key put while there was no candidate is the leader's.
    fn elect(&mut self, responses: &[Response<NodeEvent>]) -> Result<(), End> {
        match responses.iter().flat_map(Response::events).next() {
            Some(NodeEvent(event)) => self.lead(event.kv.mod_revision(), &event.kv),
            None => Ok(()),
        }
    }

    fn lead(&mut self, revision: i64, record: &Record) -> Result<(), End> {
        self.ready.push_back(leader(&self.context, revision, record));
        self.state = State::Following(self.watch(&Create {
            key: record.key().to_vec(),
            start_revision: revision + 1,
            ..Create::default()
        })?);
        Ok(())
    }

    /// New values of the leader are shown; when its key goes, the next leader is looked up.
    fn follow(&mut self, responses: &[Response<NodeEvent>]) {
        for response in responses {
            for NodeEvent(event) in response.events() {
                if event.kv.is_tombstone() {
                    self.state = State::Unknown;
                    return;
                }
                self.ready.push_back(leader(&self.context, response.header_revision, &event.kv));
            }
        }
    }

    fn watch(&mut self, create: &Create) -> Result<WatchSession, End> {
        self.queue.watch(&self.context, create).map_err(End::Refused)
    }
}

async fn responses(session: &mut WatchSession) -> Result<Vec<Response<NodeEvent>>, End> {
    let responses = session.next().await.map_err(|WatchEnd| End::Stopped)?;
    if responses.iter().any(|response| response.canceled) {
        return Err(End::Disrupted);
    }
    Ok(responses)
}
