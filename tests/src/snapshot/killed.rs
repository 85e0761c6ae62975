//! Killed etcds: an etcd is killed in the middle of everything, Vetch takes over a copy of its data
//! directory, and etcd itself is started again on the original. Everything a client can see must be
//! the same.
//!
//! What differs from round to round is what is asked, when the end comes, and how much of it etcd
//! had put into its database by then, which is up to flags: usually it lags a tenth of a second
//! behind the log.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vetch_api::pb;
use vetch_api::pb::auth_client::AuthClient;

use super::image::{Image, Users};
use super::{load, tools};
use crate::client::Client;
use crate::server::{Kind, Options, Server};
use vetch_testkit::random::Rng;

/// Ways to have a database that is behind, or a log that was cut.
const WAYS: [&[&str]; 4] = [
    &[],
    &["--backend-batch-interval=1h", "--backend-batch-limit=1000000"],
    &["--snapshot-count=50"],
    &["--backend-batch-interval=1h", "--backend-batch-limit=1000000", "--snapshot-count=100"],
];

/// Kills as many etcds as there are rounds.
pub(super) async fn run(rounds: u64, seed: u64) -> Result<()> {
    let (mut from_log, mut without_etcd) = (0, 0);
    for round in seed..seed + rounds {
        let compared = kill(round)
            .await
            .with_context(|| format!("again: vetch-tests snapshot --killed --rounds 1 --seed {round}"))?;
        from_log += compared.unwrap_or(0);
        without_etcd += u64::from(compared.is_none());
    }
    ensure!(without_etcd * 4 <= rounds, "{without_etcd} of {rounds} etcds did not come up again themselves");
    ensure!(from_log > 0, "no log held anything that its database did not have");
    println!(
        "killed: {rounds} etcds killed; {from_log} requests were in their logs only, and everything was equal"
    );
    Ok(())
}

/// None if the killed etcd panics on what it left behind, so that there is nothing to compare with.
async fn kill(seed: u64) -> Result<Option<u64>> {
    let scratch = tempfile::Builder::new().prefix("vetch-killed-").tempdir()?;
    let at = |name: &str| scratch.path().join(name);
    let mut rng = Rng::split_mix(seed);
    let with_auth = rng.percent(40);
    let way = *rng.pick(&WAYS);
    let flags = way.iter().copied().chain(["--bcrypt-cost=4"]).map(str::to_owned).collect();
    let mut etcd = Server::start_with(Kind::Etcd, Options { flags, data_dir: Some(at("etcd")) })?;
    let mut clients = load::start(&etcd.endpoint(), seed, with_auth).await?;
    let life = if with_auth { rng.between(1_000, 4_000) } else { rng.between(200, 2_500) };
    tokio::time::sleep(Duration::from_millis(life as u64)).await;
    etcd.kill()?;
    while clients.join_next().await.is_some() {}
    tools::copy(&at("etcd"), &at("copy"))?;
    let said = tools::vetch_restore(&at("copy"), &at("vetch"), &[])?.stderr;
    let from_log = requests_from_log(&said);

    let vetch = serve(&at("vetch"))?;
    if let Err(error) = etcd.run() {
        let text = format!("{error:#}");
        ensure!(text.contains("exit status: 2") && text.contains(".go:"), "{text}");
        println!("  seed {seed}: etcd panics when it starts again; vetch serves what it left");
        return Ok(None);
    }
    let (theirs, ours) =
        (Client::connect(&etcd.endpoint()).await?, Client::connect(&vetch.endpoint()).await?);
    let (before, after) = (people(&theirs).await?, people(&ours).await?);
    ensure!(before == after, "users and alarms: {before:?} and {after:?}");
    let image = Image::of(&theirs).await?;
    image.must_equal(&Image::of(&ours).await?, "killed etcd -> vetch")?;
    let flags = way.join(" ");
    println!("  seed {seed}: {from_log} requests from the log, equal: {} {flags}", image.size());
    Ok(Some(from_log))
}

fn serve(data_dir: &Path) -> Result<Server> {
    let flags = vec!["--bcrypt-cost=4".to_owned()];
    Server::start_with(Kind::Vetch, Options { flags, data_dir: Some(data_dir.to_path_buf()) })
}

/// As the restore reported it.
pub(super) fn requests_from_log(said: &str) -> u64 {
    let words = said.split(" requests that only the log had").next().filter(|words| words.len() < said.len());
    words.and_then(|words| words.split(' ').next_back()?.parse().ok()).unwrap_or(0)
}

/// Everything about users, and alarms.
#[derive(Debug, PartialEq)]
struct People {
    was_enabled: bool,
    revision: u64,
    /// Who can log in with which password.
    logins: Vec<(&'static str, &'static str, String)>,
    users: Users,
    alarms: Vec<(u64, i32)>,
}

/// Looks at users and alarms, and turns both off: what is compared next must not be refused.
async fn people(client: &Client) -> Result<People> {
    let mut auth = AuthClient::new(client.channel.clone());
    let token = log_in(client, "root", "pw").await;
    let was_enabled = token.is_ok();
    let status = auth.auth_status(with_token(pb::AuthStatusRequest {}, &token)).await?.into_inner();
    ensure!(status.enabled == was_enabled, "root cannot log in: {token:?}");
    let mut logins = Vec::new();
    for name in ["root", "alice", "bob", "carol"] {
        for password in ["pw", "other", ""] {
            let outcome = log_in(client, name, password).await.map(|_| "welcome".to_owned());
            logins.push((name, password, outcome.unwrap_or_else(|text| text)));
        }
    }
    let mut maintenance = client.maintenance.clone();
    let list = pb::AlarmRequest { action: 0, ..Default::default() };
    let raised = maintenance.alarm(with_token(list, &token)).await?.into_inner().alarms;
    let alarms: Vec<(u64, i32)> = raised.iter().map(|alarm| (alarm.member_id, alarm.alarm)).collect();
    for &(member_id, alarm) in &alarms {
        let lower = pb::AlarmRequest { action: 2, member_id, alarm };
        maintenance.alarm(with_token(lower, &token)).await?;
    }
    if was_enabled {
        auth.auth_disable(with_token(pb::AuthDisableRequest {}, &token)).await?;
    }
    let put = pb::PutRequest { key: "the end".into(), value: "of the story".into(), ..Default::default() };
    client.kv.clone().put(put).await?;
    Ok(People {
        was_enabled,
        revision: status.auth_revision,
        logins,
        users: Users::of(client).await?,
        alarms,
    })
}

/// A token, or why there is none.
async fn log_in(client: &Client, name: &str, password: &str) -> Result<String, String> {
    let request = pb::AuthenticateRequest { name: name.into(), password: password.into() };
    let answer = AuthClient::new(client.channel.clone()).authenticate(request).await;
    answer.map(|answer| answer.into_inner().token).map_err(|status| status.message().to_owned())
}

fn with_token<T>(request: T, token: &Result<String, String>) -> tonic::Request<T> {
    let mut request = tonic::Request::new(request);
    if let Ok(token) = token {
        request.metadata_mut().insert("token", token.parse().expect("tokens are letters and digits"));
    }
    request
}
