//! One request to the server, from the history's words to the history's outcome.

use prost::Message;
use tonic::Status;
use vetch_api::pb;
use vetch_check::Outcome;
use vetch_model::{Answer, Range, Request};

use super::translate;
use crate::client::Client;

/// The API has two ways to ask for a range; both owe the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Unary,
    Stream,
}

/// What was received: the header and the body, in the history's words.
type Received = Result<(Option<pb::ResponseHeader>, Answer), Status>;

/// Sends the request and waits for its answer, however long that takes.
pub(super) async fn send(client: &Client, request: &Request, way: Way) -> Received {
    let mut kv = client.kv.clone();
    match request {
        Request::Range(range) => {
            let response = match way {
                Way::Unary => kv.range(translate::range(range)).await?.into_inner(),
                Way::Stream => range_stream(client, range).await?,
            };
            let answer = Answer::Range(translate::ranged(&response));
            Ok((response.header, answer))
        }
        Request::Put(put) => {
            let response = kv.put(translate::put(put)).await?.into_inner();
            let prev_kv = response.prev_kv.as_ref().map(translate::key_value);
            Ok((response.header, Answer::Put { prev_kv }))
        }
        Request::Delete(delete) => {
            let response = kv.delete_range(translate::delete(delete)).await?.into_inner();
            let answer = Answer::Delete(translate::deleted(&response));
            Ok((response.header, answer))
        }
        Request::Txn(txn) => {
            let response = kv.txn(translate::txn(txn)).await?.into_inner();
            let answer = translate::txn_answer(&response).map_err(|e| Status::internal(e.to_string()))?;
            Ok((response.header, Answer::Txn(answer)))
        }
        Request::Compact { revision } => {
            let request = pb::CompactionRequest { revision: *revision, physical: false };
            Ok((kv.compact(request).await?.into_inner().header, Answer::Compact))
        }
        Request::LeaseGrant { .. } | Request::LeaseRevoke { .. } | Request::LeaseKeepAlive { .. } => {
            send_lease(client, request).await
        }
    }
}

async fn send_lease(client: &Client, request: &Request) -> Received {
    let mut lease = client.lease.clone();
    match request {
        Request::LeaseGrant { id, ttl } => {
            let request = pb::LeaseGrantRequest { id: *id, ttl: *ttl };
            let response = lease.lease_grant(request).await?.into_inner();
            Ok((response.header, Answer::LeaseGrant { id: response.id, ttl: response.ttl }))
        }
        Request::LeaseRevoke { id } => {
            let response = lease.lease_revoke(pb::LeaseRevokeRequest { id: *id }).await?.into_inner();
            Ok((response.header, Answer::LeaseRevoke))
        }
        Request::LeaseKeepAlive { id } => {
            let requests = tokio_stream::once(pb::LeaseKeepAliveRequest { id: *id });
            let mut responses = lease.lease_keep_alive(requests).await?.into_inner();
            match responses.message().await? {
                Some(response) => Ok((response.header, Answer::LeaseKeepAlive { ttl: response.ttl })),
                None => Err(Status::unavailable("the stream of renewals ended without an answer")),
            }
        }
        _ => Err(Status::internal("not a request about a lease")),
    }
}

async fn range_stream(client: &Client, range: &Range) -> Result<pb::RangeResponse, Status> {
    let mut stream = client.kv.clone().range_stream(translate::range(range)).await?.into_inner();
    let mut merged = pb::RangeResponse::default();
    while let Some(chunk) = stream.message().await? {
        let part = chunk.range_response.unwrap_or_default().encode_to_vec();
        merged.merge(&part[..]).map_err(|e| Status::internal(e.to_string()))?;
    }
    Ok(merged)
}

/// Would a reader of the history say that the store changed?
pub(super) fn wrote(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Answered { answer, .. } => match answer {
            Answer::Put { .. } => true,
            Answer::Delete(deleted) => deleted.deleted > 0,
            Answer::Txn(txn) => txn.succeeded,
            _ => false,
        },
        _ => false,
    }
}
