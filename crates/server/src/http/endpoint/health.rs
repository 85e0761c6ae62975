//! `/health`, `/livez` and `/readyz`: whether this server works.
//!
//! `/health` is the old page: alarms and a read, as JSON. The other two run named checks and answer
//! in text; each check also has a path of its own. A full disk makes `/health` bad but neither of
//! the others: restarting or isolating a server does not free space.

use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use tonic::Code;
use tonic::body::Body;
use vetch_api::pb;
use vetch_api::pb::kv_client::KvClient;
use vetch_node::error::NodeError;
use vetch_node::store::request::{AlarmKind, KeyRange, RangeRequest};
use vetch_node::store::validate;

use super::query;
use crate::grpc::Rpc;
use crate::http::{ServerState, answer};
use vetch_metrics::CHECKS;

/// How long the leader of a cluster may take to answer.
const LEADER_TIMEOUT: Duration = Duration::from_secs(5);

pub(in crate::http) fn is_at(path: &str) -> bool {
    path == "/health" || path == "/livez" || path == "/readyz" || single_check(path).is_some()
}

pub(in crate::http) async fn answer<B>(request: &Request<B>, shared: &ServerState) -> Response<Body> {
    if request.method() != Method::GET {
        return answer::only_get();
    }
    let path = request.uri().path().to_string();
    let query = query::pairs(request.uri().query());
    if path == "/health" {
        return health(&query, shared).await;
    }
    let excluded = |name: &str| query.iter().any(|(key, value)| key == "exclude" && value == name);
    let checks: Vec<usize> = match single_check(&path) {
        Some(check) => vec![check],
        None => (0..CHECKS.len()).filter(|i| CHECKS[*i].0 == &path[1..] && !excluded(CHECKS[*i].1)).collect(),
    };
    run(&checks, query.iter().any(|(key, _)| key == "verbose"), shared).await
}

/// The index of the check whose own path this is.
fn single_check(path: &str) -> Option<usize> {
    let (page, name) = path.strip_prefix('/')?.split_once('/')?;
    CHECKS.iter().position(|check| *check == (page, name))
}

async fn run(checks: &[usize], verbose: bool, shared: &ServerState) -> Response<Body> {
    let (mut text, mut failed) = (String::new(), false);
    for index in checks {
        let name = CHECKS[*index].1;
        let result = check(name, shared).await;
        shared.metrics.health.check(*index, result.is_ok());
        match result {
            Ok(()) => text.push_str(&format!("[+]{name} ok\n")),
            Err(reason) => {
                failed = true;
                text.push_str(&format!("[-]{name} failed: {reason}\n"));
            }
        }
    }
    if failed {
        tracing::error!(reason = text, "health check failed");
        return answer::failure(StatusCode::SERVICE_UNAVAILABLE, &text);
    }
    answer::plain(StatusCode::OK, if verbose { text + "ok\n" } else { "ok\n".to_string() })
}

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error("alarm activated: CORRUPT")]
    Corrupt,
    #[error(transparent)]
    Read(#[from] NodeError),
    #[error("the leader does not answer")]
    LeaderSilent,
    #[error("{}", .0.message())]
    Leader(#[from] tonic::Status),
}

async fn check(name: &str, shared: &ServerState) -> Result<(), CheckError> {
    match name {
        "data_corruption" => {
            match shared.node.alarms().iter().any(|alarm| alarm.kind == AlarmKind::Corrupt) {
                true => Err(CheckError::Corrupt),
                false => Ok(()),
            }
        }
        "serializable_read" => read(shared, true).await,
        "linearizable_read" => read(shared, false).await,
        // A single server always votes.
        "non_learner" => Ok(()),
        _ => unreachable!("not in the list of checks: {name}"),
    }
}

async fn read(shared: &ServerState, serializable: bool) -> Result<(), CheckError> {
    if !serializable && shared.node.cluster().is_some_and(|cluster| !cluster.borrow().is_leader) {
        return read_via_leader(shared.grpc.clone()).await;
    }
    let mut request = RangeRequest::new(KeyRange::single("health"));
    request.serializable = serializable;
    request.keys_only = true;
    request.limit = 1;
    let request = validate::range(request).map_err(NodeError::from)?;
    shared.node.range(request).await?;
    Ok(())
}

/// A follower's linearizable reads need the leader.
async fn read_via_leader(grpc: Rpc) -> Result<(), CheckError> {
    let request = pb::RangeRequest { key: "health".into(), keys_only: true, limit: 1, ..Default::default() };
    let mut client = KvClient::new(grpc);
    match tokio::time::timeout(LEADER_TIMEOUT, client.range(request)).await {
        Err(_) => Err(CheckError::LeaderSilent),
        // It answered, even if only with a missing permission.
        Ok(Err(status)) if matches!(status.code(), Code::InvalidArgument | Code::PermissionDenied) => Ok(()),
        Ok(outcome) => Ok(outcome.map(drop)?),
    }
}

async fn health(query: &[(String, String)], shared: &ServerState) -> Response<Body> {
    let found = unhealthy(query, shared).await;
    shared.metrics.health.health(found.is_none());
    let body = serde_json::json!({
        "health": if found.is_none() { "true" } else { "false" },
        "reason": found.as_deref().unwrap_or_default(),
    });
    match found {
        None => answer::whole(StatusCode::OK, answer::TEXT, body.to_string()),
        Some(reason) => {
            tracing::warn!(reason, "serving /health false");
            answer::failure(StatusCode::SERVICE_UNAVAILABLE, &body.to_string())
        }
    }
}

/// Why the server is not healthy.
async fn unhealthy(query: &[(String, String)], shared: &ServerState) -> Option<String> {
    for alarm in shared.node.alarms() {
        let name = match alarm.kind {
            AlarmKind::NoSpace => "NOSPACE",
            AlarmKind::Corrupt => "CORRUPT",
        };
        if !query.iter().any(|(key, value)| key == "exclude" && value == name) {
            return Some(format!("ALARM {name}"));
        }
    }
    let serializable = query.iter().find(|(key, _)| key == "serializable").is_some_and(|(_, v)| v == "true");
    read(shared, serializable).await.err().map(|error| format!("RANGE ERROR:{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_path() {
        assert!(is_at("/livez/serializable_read"));
        assert!(is_at("/readyz/data_corruption"));
        assert!(!is_at("/livez/data_corruption"));
        assert!(!is_at("/readyz/"));
        assert!(!is_at("/health/"));
    }
}
