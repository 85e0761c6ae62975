//! Nothing is written meanwhile: everything clients can see is the same on both sides.

use anyhow::{Context, Result, ensure};
use tonic::Code;
use vetch_api::pb;
use vetch_api::pb::auth_client::AuthClient;

use super::process::Migration;
use crate::client::Client;
use crate::server::{Kind, Server};
use crate::snapshot::content;
use crate::snapshot::image::{Image, Users};

pub(super) async fn run() -> Result<()> {
    everything().await?;
    with_users().await
}

async fn everything() -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("vetch-migrate-").tempdir()?;
    let etcd = Server::start(Kind::Etcd)?;
    let source = Client::connect(&etcd.endpoint()).await?;
    content::fill(&source).await?;
    content::add_users(&source).await?;
    let mut migration = Migration::new(&etcd.endpoint(), scratch.path(), &[])?;
    migration.start()?;
    migration.hears("SAFE to cut over").await?;
    let said = migration.refusal()?;
    ensure!(said.contains("another 'vetch migrate'"), "a second one at work: {said}");

    // By way of Vetch before the cut-over, to etcd: what it changes in users is fetched with a new
    // copy.
    let through = Client::connect(&migration.endpoint()).await?;
    let role = pb::AuthRoleAddRequest { name: "late".into() };
    AuthClient::new(through.channel.clone()).role_add(role).await?;
    migration.hears("users or roles of the etcd were changed").await?;
    while migration.said()?.matches("SAFE to cut over").count() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let through = Client::connect(&migration.endpoint()).await?;
    content::write_on(&through).await?;
    migration.cut_over().await?;
    let vetch = Client::connect(&migration.endpoint()).await?;
    let image = Image::of(&source).await?;
    image.must_equal(&Image::of(&vetch).await?, "etcd -> vetch migrate")?;
    ensure!(Users::of(&source).await? == Users::of(&vetch).await?, "users or roles differ after a migration");
    println!("  quiet: equal, {}", image.size());

    let elsewhere = tempfile::Builder::new().prefix("vetch-migrate-").tempdir()?;
    let said = Migration::new(&etcd.endpoint(), elsewhere.path(), &[])?.refusal()?;
    ensure!(said.contains("CORRUPT alarm"), "an etcd that is fenced already: {said}");
    Ok(())
}

/// With authentication on: credentials are needed, no client's request is forwarded with them, and
/// passwords still work afterwards.
async fn with_users() -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("vetch-migrate-").tempdir()?;
    let etcd = Server::start(Kind::Etcd)?;
    let source = Client::connect(&etcd.endpoint()).await?;
    content::add_users(&source).await?;
    let revision = source.kv.clone().put(put()).await?.into_inner().header.context("no header")?.revision;
    // At the revision of a compaction etcd has another hash to offer, so keys have to be compared.
    source.kv.clone().compact(pb::CompactionRequest { revision, physical: true }).await?;
    AuthClient::new(source.channel.clone()).auth_enable(pb::AuthEnableRequest {}).await?;
    let refused = tempfile::Builder::new().prefix("vetch-migrate-").tempdir()?;
    let said = Migration::new(&etcd.endpoint(), refused.path(), &[])?.refusal()?;
    ensure!(said.contains("user name is empty"), "without credentials: {said}");
    let mut migration = Migration::new(&etcd.endpoint(), scratch.path(), &["--user", "root:secret"])?;
    migration.start()?;
    migration.hears("SAFE to cut over").await?;
    let through = Client::connect(&migration.endpoint()).await?;
    let refusal = through.kv.clone().put(put()).await.err().context("forwarded in the name of root")?;
    ensure!(refusal.code() == Code::Unavailable, "{refusal:?}");
    migration.cut_over().await?;
    let line = migration.hears("DONE").await?;
    ensure!(line.contains("every key the same"), "{line}");
    let mut auth = AuthClient::new(Client::connect(&migration.endpoint()).await?.channel);
    let alice = pb::AuthenticateRequest { name: "alice".into(), password: "wonder".into() };
    let token = auth.authenticate(alice).await?.into_inner().token;
    let mut request = tonic::Request::new(put());
    request.metadata_mut().insert("token", token.parse()?);
    through.kv.clone().put(request).await?;
    let refusal = through.kv.clone().put(put()).await.err().context("a client without a name was let in")?;
    println!("  with users: alice writes with her password; without one: {}", refusal.message());
    Ok(())
}

fn put() -> pb::PutRequest {
    pb::PutRequest { key: "/a/key".into(), value: "v".into(), ..Default::default() }
}
