//! The trial of a cluster that speaks TLS: requests are passed on, reported, asked for and copied
//! over TLS, clients stay who their certificates say they are whichever server they ask, and nobody
//! becomes somebody else by what he says.
//!
//! The servers' own certificate has the name of a user who may do everything: whoever were taken
//! for the server that passed his request on would get what he must not.

mod house;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use tokio_stream::StreamExt;
use tonic::Code;
use vetch_api::pb::watch_request::RequestUnion;
use vetch_api::{authpb, pb};

use house::{House, LIMIT, asking, get, put};

/// Try a cluster with TLS, client certificates and users.
#[derive(Args, Debug)]
pub(crate) struct ClusterTls {}

/// Longer than a server waits between two looks at its files.
const NOTICED: Duration = Duration::from_millis(1300);

/// A claim about the sender, as servers make them: number and hash of an entry of the journal, and
/// `root`.
const FORGED: &str = "1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.cm9vdA";
const FORGED_YOUNG: &str = "99999999.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.cm9vdA";
const FORGED_NOBODY: &str = "1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

impl ClusterTls {
    pub(crate) async fn run(&self) -> Result<()> {
        let begun = Instant::now();
        let mut house = House::build(&["root", "alice", "eve", "stranger"]).await?;
        let outcome = play(&mut house).await;
        house.judge(outcome)?;
        println!("cluster-tls: {:.1}s", begun.elapsed().as_secs_f64());
        Ok(())
    }
}

async fn play(house: &mut House) -> Result<()> {
    let step = |what: &str| println!("cluster-tls: {what}");
    step("users are made by way of a server that does not write");
    make_users(house).await.context("making users")?;
    step("everybody is who the certificate says, at every server");
    everybody_is_known(house).await?;
    step("what is longer than a call: a watch, and a lease that is kept alive");
    streams(house).await?;
    step("tokens are good at every server");
    tokens(house).await?;
    step("nobody becomes somebody else by what he says");
    forged(house).await?;
    step("the writer is killed");
    lose_writer(house).await?;
    step("certificates and authority are replaced, and the writer is killed");
    house.rotate(NOTICED).await?;
    lose_writer(house).await.context("after the certificates were replaced")?;
    old_ones_are_out(house).await?;
    step("a new server takes a checkpoint of another");
    join(house).await
}

async fn make_users(house: &mut House) -> Result<()> {
    let at = house.follower().await?;
    let mut users = house.users("root", at).await?;
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

async fn everybody_is_known(house: &mut House) -> Result<()> {
    for at in house.alive() {
        let alice = house.client("alice", at).await?;
        put(&alice, "/alice/key", &[]).await.with_context(|| format!("alice at server {at}"))?;
        ensure!(get(&alice, "/alice/key", &[]).await? == 1, "what alice put is not there");
        denied(put(&alice, "/secret", &[]).await, "alice puts what she must not", at)?;
        for name in ["eve", "stranger"] {
            let other = house.client(name, at).await?;
            denied(put(&other, "/alice/key", &[]).await, name, at)?;
            denied(get(&other, "/alice/key", &[]).await, name, at)?;
        }
        put(&house.client("root", at).await?, "/secret", &[]).await?;
        let said = house.etcdctl("alice", at, &["put", "/alice/by-etcdctl", "v"])?;
        ensure!(said == "in OK", "etcdctl at server {at}: {said}");
        ensure!(
            house.etcdctl("eve", at, &["put", "/alice/by-etcdctl", "v"])? == "out",
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

async fn streams(house: &mut House) -> Result<()> {
    let at = house.follower().await?;
    let alice = house.client("alice", at).await?;
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
    let told = tokio::time::timeout(LIMIT, watch.message()).await.context("no event")??;
    ensure!(told.is_some_and(|told| told.events.len() == 1), "no event");
    Ok(())
}

/// A token given out by way of any server is good at all of them; one that nobody gave out is not.
async fn tokens(house: &mut House) -> Result<()> {
    let request = || pb::AuthenticateRequest { name: "words".into(), password: "secret".into() };
    for from in house.alive() {
        // Whose certificate it is does not matter beside a token.
        let token = house.users("eve", from).await?.authenticate(request()).await?.into_inner().token;
        let token = [("token", token)];
        for at in house.alive() {
            let client = house.client("eve", at).await?;
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

async fn forged(house: &mut House) -> Result<()> {
    let before = get_revision(house).await?;
    for at in house.alive() {
        for name in ["eve", "stranger", "alice"] {
            let client = house.client(name, at).await?;
            for claim in [FORGED, FORGED_YOUNG, FORGED_NOBODY, "nonsense", ""] {
                let claim = [("vetch-sender", claim.to_owned())];
                let tried = || format!("{name} at server {at} claims {claim:?}");
                ensure!(put(&client, "/secret", &claim).await.is_err(), "{} and puts", tried());
                ensure!(get(&client, "/secret", &claim).await.is_err(), "{} and reads", tried());
                let mut users = house.users(name, at).await?;
                let listed = users.user_list(asking(pb::AuthUserListRequest {}, &claim)).await;
                ensure!(listed.is_err(), "{} and lists users", tried());
            }
        }
    }
    ensure!(get_revision(house).await? == before, "something was written meanwhile");
    Ok(())
}

async fn get_revision(house: &House) -> Result<i64> {
    house.client("root", 0).await?.revision().await
}

/// The writer is killed; alice goes on at every other server; it comes back, and she goes on there.
async fn lose_writer(house: &mut House) -> Result<()> {
    let writer = house.writer().await?;
    let at = house.follower().await?;
    let witness = house.client("alice", at).await?;
    house.servers[writer].kill()?;
    let begun = Instant::now();
    put(&witness, "/alice/after", &[]).await.context("on an old connection")?;
    println!("  {:.1}s until the next write", begun.elapsed().as_secs_f64());
    house.writer().await?;
    everybody_is_known(house).await.context("without the former writer")?;
    house.servers[writer].run()?;
    house.writer().await?;
    everybody_is_known(house).await.context("with the former writer")
}

async fn old_ones_are_out(house: &mut House) -> Result<()> {
    for at in house.alive() {
        let client = house.client("old-alice", at).await;
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
async fn join(house: &mut House) -> Result<()> {
    let begun = Instant::now();
    let at = house.follower().await?;
    let alice = house.client("alice", at).await?;
    while house.held().await?.first <= 1 {
        ensure!(begun.elapsed() < LIMIT, "the journal was not trimmed in {LIMIT:?}");
        for key in 0..50 {
            let value = vec![7; 8 << 10].into();
            let message = pb::PutRequest { key: format!("/alice/{key}").into(), value, ..Default::default() };
            alice.kv.clone().put(message).await?;
        }
    }
    house.add()?;
    let at = house.servers.len() - 1;
    let log = house.servers[at].log_of_this_life()?;
    ensure!(log.contains("fetching a checkpoint from another server"), "it took no checkpoint");
    house.writer().await?;
    everybody_is_known(house).await.context("with the new server")
}
