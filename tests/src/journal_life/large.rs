//! Requests whose effects are large: as much as a record of the journal takes is done, and more is
//! refused, without harm to other requests.

use anyhow::{Result, ensure};
use tonic::Code;
use vetch_api::pb;
use vetch_api::pb::request_op::Request;

use super::Cluster;
use crate::client::Client;
use crate::replicas::members::Members;
use crate::replicas::nats::Journal;

const TOO_LARGE: &str = "etcdserver: request is too large";
const KEYS: usize = 20_000;

pub(super) async fn run() -> Result<()> {
    let journal = Journal::start().await?;
    let flags = ["--max-request-bytes=16777216", "--max-txn-ops=100000"].map(str::to_owned);
    let members = Members::start(&journal.flags(), &flags)?;
    let mut cluster = Cluster { journal, members };
    let outcome = play(&mut cluster).await;
    cluster.judge(outcome).await
}

async fn play(cluster: &mut Cluster) -> Result<()> {
    let leader = cluster.members.leader().await?;
    let client = Client::connect(&cluster.members.servers[leader.at].endpoint()).await?;
    for from in (0..KEYS).step_by(1000) {
        let puts = (from..from + 1000).map(|at| put(format!("many/{at:06}"), vec![b'v'; 100]));
        txn(&client, puts.collect()).await?;
    }
    let delete =
        pb::DeleteRangeRequest { key: "many/".into(), range_end: "many0".into(), ..Default::default() };
    let deleted = client.kv.clone().delete_range(delete).await?.into_inner().deleted;
    ensure!(deleted == KEYS as i64, "{deleted} keys were deleted");
    // Above a record's size, sent and taken over.
    let before = client.revision().await?;
    refused(txn(&client, vec![put("a".into(), vec![b'v'; 6 << 20])]).await)?;
    for at in 0..6 {
        txn(&client, vec![put(format!("kept/{at}"), vec![b'v'; 1 << 20])]).await?;
    }
    let again = (0..6).map(|at| pb::PutRequest {
        key: format!("kept/{at}").into(),
        ignore_value: true,
        ..Default::default()
    });
    refused(txn(&client, again.map(Request::RequestPut).collect()).await)?;
    ensure!(client.revision().await? == before + 6, "something that was refused was done");
    let after = cluster.members.leader().await?;
    ensure!(after.epoch == leader.epoch, "another server writes: {leader:?}, {after:?}");
    let revision = cluster.all_have_the_same().await?;
    println!(
        "  one delete of {KEYS} keys was done, what exceeds a record was refused, at revision {revision}"
    );
    cluster.members.all_run()
}

fn put(key: String, value: Vec<u8>) -> Request {
    Request::RequestPut(pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() })
}

async fn txn(client: &Client, ops: Vec<Request>) -> Result<(), tonic::Status> {
    let success = ops.into_iter().map(|request| pb::RequestOp { request: Some(request) }).collect();
    client.kv.clone().txn(pb::TxnRequest { success, ..Default::default() }).await.map(drop)
}

fn refused(outcome: Result<(), tonic::Status>) -> Result<()> {
    let is_too_large = matches!(&outcome, Err(status) if status.code() == Code::InvalidArgument && status.message() == TOO_LARGE);
    ensure!(is_too_large, "{outcome:?}");
    Ok(())
}
