//! The trial of a cluster that speaks TLS: servers forward requests and exchange reports, read
//! indexes and checkpoints over TLS; a client has the identity of its certificate at every server,
//! and no client gets another identity by what it sends.
//!
//! The servers' own certificate has the name of a user who may do everything: a client that is
//! mistaken for the server that forwarded its request would get access that it must not have.

mod secure_cluster;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use tokio_stream::StreamExt;
use tonic::Code;
use vetch_api::pb::watch_request::RequestUnion;
use vetch_api::{authpb, pb};

use secure_cluster::{SecureCluster, TIMEOUT, asking, get, put};

/// Try a cluster with TLS, client certificates and users.
#[derive(Args, Debug)]
pub(crate) struct ClusterTls {}

/// Longer than a server waits between two looks at its files.
const NOTICED: Duration = Duration::from_millis(1300);

/// A claim about the sender, as servers make them: number and hash of an entry of the journal, and
/// `root`.
const FORGED: &str = "1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.cm9vdA";
const FORGED_YOUNG: &str = "99999999.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.cm9vdA";
const FORGED_EMPTY: &str = "1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

impl ClusterTls {
    pub(crate) async fn run(&self) -> Result<()> {
        let begun = Instant::now();
        let mut cluster = SecureCluster::build(&["root", "alice", "eve", "stranger"]).await?;
        let outcome = play(&mut cluster).await;
        cluster.judge(outcome)?;
        println!("cluster-tls: {:.1}s", begun.elapsed().as_secs_f64());
        Ok(())
    }
}

async fn play(cluster: &mut SecureCluster) -> Result<()> {
    let step = |what: &str| println!("cluster-tls: {what}");
    step("users are made by way of a server that does not write");
    make_users(cluster).await.context("making users")?;
    step("everybody is who the certificate says, at every server");
    everybody_is_known(cluster).await?;
    step("what is longer than a call: a watch, and a lease that is kept alive");
    streams(cluster).await?;
    step("tokens are good at every server");
    tokens(cluster).await?;
    step("no client gets another identity by what it sends");
    forged(cluster).await?;
    step("the leader is killed");
    lose_leader(cluster).await?;
    step("certificates and authority are replaced, and the leader is killed");
    cluster.rotate(NOTICED).await?;
    lose_leader(cluster).await.context("after the certificates were replaced")?;
    old_ones_are_out(cluster).await?;
    step("a new server takes a checkpoint of another");
    join(cluster).await
}

async fn make_users(cluster: &mut SecureCluster) -> Result<()> {
    let at = cluster.follower().await?;
    let mut users = cluster.users("root", at).await?;
    users.role_add(pb::AuthRoleAddRequest { name: "alices".into() }).await?;
    let perm = authpb::Permission { perm_type: 2, key: "/alice/".into(), range_end: "/alice0".into() };
    let grant = pb::AuthRoleGrantPermissionRequest { name: "alices".into(), perm: Some(perm) };
    users.role_grant_permission(grant).await?;
    users.role_add(pb::AuthRoleAddRequest { name: "root".into() }).await?;
    for (name, role) in
        [("root", "root"), ("server", "root"), ("alice", "alices"), ("eve", ""), ("words", "alices")]
    {
        let password = if name == "words" { "secret" } else { "" };
        let options = Some(authpb::UserAddOptions { no_password: password.is_empty() });
        let password = password.to_owned();
        users
            .user_add(pb::AuthUserAddRequest { name: name.into(), password, options, ..Default::default() })
            .await?;
        if !role.is_empty() {
            users
                .user_grant_role(pb::AuthUserGrantRoleRequest { user: name.into(), role: role.into() })
                .await?;
        }
    }
    users.auth_enable(pb::AuthEnableRequest {}).await?;
    let listed = users.user_list(pb::AuthUserListRequest {}).await.context("root is not root")?.into_inner();
    ensure!(listed.users.len() == 5, "{:?}", listed.users);
    Ok(())
}

async fn everybody_is_known(cluster: &mut SecureCluster) -> Result<()> {
    for at in cluster.alive() {
        let alice = cluster.client("alice", at).await?;
        put(&alice, "/alice/key", &[]).await.with_context(|| format!("alice at server {at}"))?;
        ensure!(get(&alice, "/alice/key", &[]).await? == 1, "what alice put is not there");
        denied(put(&alice, "/secret", &[]).await, "alice puts what she must not", at)?;
        for name in ["eve", "stranger"] {
            let other = cluster.client(name, at).await?;
            denied(put(&other, "/alice/key", &[]).await, name, at)?;
            denied(get(&other, "/alice/key", &[]).await, name, at)?;
        }
        put(&cluster.client("root", at).await?, "/secret", &[]).await?;
        let said = cluster.etcdctl("alice", at, &["put", "/alice/by-etcdctl", "v"])?;
        ensure!(said == "in OK", "etcdctl at server {at}: {said}");
        ensure!(
            cluster.etcdctl("eve", at, &["put", "/alice/by-etcdctl", "v"])? == "out",
            "eve gets in by etcdctl"
        );
    }
    Ok(())
}

fn denied<T>(answer: Result<T, tonic::Status>, what: &str, at: usize) -> Result<()> {
    let code = answer.map(|_| Code::Ok).unwrap_or_else(|status| status.code());
    ensure!(code == Code::PermissionDenied, "{what}, at server {at}: {code:?}");
    Ok(())
}

async fn streams(cluster: &mut SecureCluster) -> Result<()> {
    let at = cluster.follower().await?;
    let alice = cluster.client("alice", at).await?;
    let mut lease = alice.lease.clone();
    let granted =
        lease.lease_grant(pb::LeaseGrantRequest { ttl: 60, ..Default::default() }).await?.into_inner();
    let keep = tokio_stream::once(pb::LeaseKeepAliveRequest { id: granted.id });
    let kept = lease.lease_keep_alive(keep).await?.into_inner().message().await?.context("no answer")?;
    ensure!(kept.ttl == 60, "the lease was not kept alive: {kept:?}");
    let create = pb::WatchCreateRequest { key: "/alice/watched".into(), ..Default::default() };
    let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let mut watch = alice.watch.clone().watch(requests).await?.into_inner();
    ensure!(watch.message().await?.is_some_and(|created| created.created), "no watch");
    put(&alice, "/alice/watched", &[]).await?;
    let response = tokio::time::timeout(TIMEOUT, watch.message()).await.context("no event")??;
    ensure!(response.is_some_and(|response| response.events.len() == 1), "no event");
    Ok(())
}

/// A token issued through any server is valid at all of them; one that no server issued is not.
async fn tokens(cluster: &mut SecureCluster) -> Result<()> {
    let request = || pb::AuthenticateRequest { name: "words".into(), password: "secret".into() };
    for from in cluster.alive() {
        // Whose certificate it is does not matter beside a token.
        let token = cluster.users("eve", from).await?.authenticate(request()).await?.into_inner().token;
        let token = [("token", token)];
        for at in cluster.alive() {
            let client = cluster.client("eve", at).await?;
            let tried = format!("a token from server {from} at server {at}");
            put(&client, "/alice/by-token", &token).await.context(tried.clone())?;
            ensure!(get(&client, "/alice/by-token", &token).await.context(tried.clone())? == 1);
            denied(get(&client, "/secret", &token).await, &tried, at)?;
            client.maintenance.clone().status(asking(pb::StatusRequest {}, &token)).await.context(tried)?;
            let wrong = get(&client, "/alice/by-token", &[("token", "wrong.1".into())]).await;
            ensure!(wrong.is_err_and(|status| status.message().contains("invalid auth token")));
        }
    }
    Ok(())
}

async fn forged(cluster: &mut SecureCluster) -> Result<()> {
    let before = get_revision(cluster).await?;
    for at in cluster.alive() {
        for name in ["eve", "stranger", "alice"] {
            let client = cluster.client(name, at).await?;
            for claim in [FORGED, FORGED_YOUNG, FORGED_EMPTY, "nonsense", ""] {
                let claim = [("vetch-sender", claim.to_owned())];
                let tried = || format!("{name} at server {at} claims {claim:?}");
                ensure!(put(&client, "/secret", &claim).await.is_err(), "{} and puts", tried());
                ensure!(get(&client, "/secret", &claim).await.is_err(), "{} and reads", tried());
                let mut users = cluster.users(name, at).await?;
                let listed = users.user_list(asking(pb::AuthUserListRequest {}, &claim)).await;
                ensure!(listed.is_err(), "{} and lists users", tried());
            }
        }
    }
    ensure!(get_revision(cluster).await? == before, "something was written meanwhile");
    Ok(())
}

async fn get_revision(cluster: &SecureCluster) -> Result<i64> {
    cluster.client("root", 0).await?.revision().await
}

/// The leader is killed; alice goes on at every other server; it comes back, and she goes on there.
async fn lose_leader(cluster: &mut SecureCluster) -> Result<()> {
    let leader = cluster.leader().await?;
    let at = cluster.follower().await?;
    let witness = cluster.client("alice", at).await?;
    cluster.servers[leader].kill()?;
    let begun = Instant::now();
    put(&witness, "/alice/after", &[]).await.context("on an old connection")?;
    println!("  {:.1}s until the next write", begun.elapsed().as_secs_f64());
    cluster.leader().await?;
    everybody_is_known(cluster).await.context("without the former leader")?;
    cluster.servers[leader].run()?;
    cluster.leader().await?;
    everybody_is_known(cluster).await.context("with the former leader")
}

async fn old_ones_are_out(cluster: &mut SecureCluster) -> Result<()> {
    for at in cluster.alive() {
        let client = cluster.client("old-alice", at).await;
        let answer = match &client {
            Ok(client) => get(client, "/alice/key", &[]).await.is_ok(),
            Err(_) => false,
        };
        ensure!(!answer, "the old certificate is still good at server {at}");
    }
    Ok(())
}

/// Fills the journal until it was trimmed, which takes reports of a majority, and starts a server
/// that has to begin with another's checkpoint.
async fn join(cluster: &mut SecureCluster) -> Result<()> {
    let begun = Instant::now();
    let at = cluster.follower().await?;
    let alice = cluster.client("alice", at).await?;
    while cluster.stream_state().await?.first <= 1 {
        ensure!(begun.elapsed() < TIMEOUT, "the journal was not trimmed in {TIMEOUT:?}");
        for key in 0..50 {
            let value = vec![7; 8 << 10].into();
            let message = pb::PutRequest { key: format!("/alice/{key}").into(), value, ..Default::default() };
            alice.kv.clone().put(message).await?;
        }
    }
    cluster.add()?;
    let at = cluster.servers.len() - 1;
    let log = cluster.servers[at].log_of_this_life()?;
    ensure!(log.contains("fetching a checkpoint from another server"), "it took no checkpoint");
    cluster.leader().await?;
    everybody_is_known(cluster).await.context("with the new server")
}
