//! Refusals: alarms, limits, unknown methods; and the small services beside the API.

use anyhow::Result;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::uri::PathAndQuery;
use vetch_api::{health as health_api, pb};

use super::{Script, put, revision};
use crate::client::Client;

async fn alarm(client: &Client, action: i32, alarm: i32, script: &mut Script) {
    let request = pb::AlarmRequest { action, member_id: 0, alarm };
    let answer = client.maintenance.clone().alarm(request).await;
    script.answer("alarm", answer, |response| {
        let alarms: Vec<i32> = response.alarms.iter().map(|alarm| alarm.alarm).collect();
        format!("{alarms:?} {}", revision(&response.header))
    });
}

/// One request of each kind, and whether it passes.
async fn try_everything(client: &Client, script: &mut Script) {
    script.answer("put", put(client, "a", "1", 0).await, |response| revision(&response.header));
    let range = pb::RangeRequest { key: "a".into(), ..Default::default() };
    let answer = client.kv.clone().range(range.clone()).await;
    script
        .answer("range", answer, |response| format!("{} at {}", response.count, revision(&response.header)));
    let get = pb::RequestOp { request: Some(pb::request_op::Request::RequestRange(range)) };
    let delete = pb::DeleteRangeRequest { key: "b".into(), ..Default::default() };
    let remove = pb::RequestOp { request: Some(pb::request_op::Request::RequestDeleteRange(delete.clone())) };
    let put = pb::PutRequest { key: "c".into(), ..Default::default() };
    let write = pb::RequestOp { request: Some(pb::request_op::Request::RequestPut(put)) };
    for (what, success, failure) in [
        ("reading txn", vec![get.clone()], vec![]),
        ("deleting txn", vec![remove], vec![]),
        ("writing txn", vec![write.clone()], vec![]),
        ("txn that would write", vec![get], vec![write]),
    ] {
        let answer = client.kv.clone().txn(pb::TxnRequest { success, failure, ..Default::default() }).await;
        script.answer(what, answer, |response| revision(&response.header));
    }
    let answer = client.kv.clone().delete_range(delete).await;
    script.answer("delete", answer, |response| revision(&response.header));
    let answer = client.lease.clone().lease_grant(pb::LeaseGrantRequest { ttl: 100, id: 0 }).await;
    script.answer("grant", answer, |response| revision(&response.header));
    let answer = client.lease.clone().lease_revoke(pb::LeaseRevokeRequest { id: 9 }).await;
    script.answer("revoke", answer, |response| revision(&response.header));
    let current = client.revision().await.unwrap_or(0);
    let answer =
        client.kv.clone().compact(pb::CompactionRequest { revision: current, physical: false }).await;
    script.answer("compact", answer, |response| revision(&response.header));
    let answer = client.maintenance.clone().status(pb::StatusRequest {}).await;
    script.answer("status", answer, |response| {
        let errors = response.errors.iter().map(|error| {
            let words = error.split_whitespace().filter(|word| !word.starts_with("memberID:"));
            words.collect::<Vec<_>>().join(" ")
        });
        format!("{:?}", errors.collect::<Vec<_>>())
    });
}

pub(super) fn no_space(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        put(&client, "b", "1", 0).await?;
        alarm(&client, 1, 1, script).await;
        alarm(&client, 1, 1, script).await;
        try_everything(&client, script).await;
        alarm(&client, 0, 0, script).await;
        alarm(&client, 0, 2, script).await;
        alarm(&client, 2, 1, script).await;
        alarm(&client, 2, 1, script).await;
        try_everything(&client, script).await;
        Ok(())
    }
    .boxed()
}

pub(super) fn corrupt(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        put(&client, "b", "1", 0).await?;
        alarm(&client, 1, 2, script).await;
        try_everything(&client, script).await;
        alarm(&client, 2, 2, script).await;
        try_everything(&client, script).await;
        Ok(())
    }
    .boxed()
}

pub(super) fn small_limits(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        let op = |index: usize| pb::RequestOp {
            request: Some(pb::request_op::Request::RequestPut(pb::PutRequest {
                key: format!("k{index}").into(),
                ..Default::default()
            })),
        };
        for count in [5, 6] {
            let success = (0..count).map(op).collect();
            let answer = client.kv.clone().txn(pb::TxnRequest { success, ..Default::default() }).await;
            script.answer(&format!("{count} operations"), answer, |response| revision(&response.header));
        }
        for size in [1_000, 2_100, 300_000, 525_000, 530_000, 3_000_000] {
            let answer = put(&client, "big", &"x".repeat(size), 0).await;
            script.answer(&format!("{size} bytes"), answer, |response| revision(&response.header));
        }
        Ok(())
    }
    .boxed()
}

pub(super) fn unknown_methods(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        for path in ["/etcdserverpb.KV/Nonsense", "/etcdserverpb.Nonsense/Range", "/x/y", "/nonsense"] {
            let mut call = tonic::client::Grpc::new(client.channel.clone());
            call.ready().await?;
            let codec = tonic_prost::ProstCodec::<pb::RangeRequest, pb::RangeResponse>::default();
            let request = tonic::Request::new(pb::RangeRequest::default());
            let answer = call.unary(request, PathAndQuery::from_static(path), codec).await;
            script.answer(path, answer, |_| "answered".into());
        }
        Ok(())
    }
    .boxed()
}

pub(super) fn health(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        for service in ["", "etcdserverpb.KV", "nonsense"] {
            let request = health_api::HealthCheckRequest { service: service.into() };
            let answer = client.health.clone().check(request.clone()).await;
            script.answer(&format!("check {service:?}"), answer, |response| format!("{}", response.status));
            let mut stream = client.health.clone().watch(request).await?.into_inner();
            script.note(format!(
                "watch {service:?}: {:?}",
                stream.message().await.map(|m| m.map(|m| m.status))
            ));
        }
        Ok(())
    }
    .boxed()
}

pub(super) fn leadership(client: Client, script: &mut Script) -> BoxFuture<'_, Result<()>> {
    async move {
        let members = client
            .cluster
            .clone()
            .member_list(pb::MemberListRequest { linearizable: true })
            .await?
            .into_inner();
        script.note(format!("{} members, {}", members.members.len(), revision(&members.header)));
        let own = members.members.first().map_or(0, |member| member.id);
        let moved = client.maintenance.clone().move_leader(pb::MoveLeaderRequest { target_id: own }).await;
        script.answer("move to itself", moved, |response| revision(&response.header));
        let promoted = client.cluster.clone().member_promote(pb::MemberPromoteRequest { id: own }).await;
        script.answer("promote itself", promoted, |response| revision(&response.header));
        let mut request = tonic::Request::new(pb::RangeRequest { key: "a".into(), ..Default::default() });
        request.metadata_mut().insert("hasleader", "true".parse()?);
        let answer = client.kv.clone().range(request).await;
        script.answer("with a leader required", answer, |response| revision(&response.header));
        let hash = client.maintenance.clone().hash(pb::HashRequest {}).await;
        script.answer("hash", hash, |response| revision(&response.header));
        Ok(())
    }
    .boxed()
}
