//! All ways in and out, with a small store that holds a little of everything.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::content;
use super::image::{Image, Users};
use super::tools;
use crate::client::Client;
use crate::server::{Kind, Options, Server};

pub(super) async fn run() -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("vetch-snapshot-").tempdir()?;
    let at = |name: &str| scratch.path().join(name);
    let mut etcd = Server::start_with(Kind::Etcd, kept(&at("etcd")))?;
    let source = Client::connect(&etcd.endpoint()).await?;
    content::fill(&source).await?;
    content::add_users(&source).await?;
    let (image, users) = (Image::of(&source).await?, Users::of(&source).await?);
    println!("snapshot: {}; {:?} users and roles", image.size(), users.count());

    tools::etcdctl_save(&etcd.endpoint(), &at("etcd.snapshot"))?;
    println!("  etcd's own snapshot: {}", tools::status(&at("etcd.snapshot"))?);
    tools::vetch_restore(&at("etcd.snapshot"), &at("vetch"), &["--no-bump"])?;
    let vetch = Server::start_with(Kind::Vetch, kept(&at("vetch")))?;
    let taken = Client::connect(&vetch.endpoint()).await?;
    image.must_equal(&Image::of(&taken).await?, "etcd -> snapshot -> vetch")?;
    println!("  etcd -> snapshot -> vetch: equal");

    content::go_on(&source).await?;
    content::go_on(&taken).await?;
    let image = Image::of(&source).await?;
    image.must_equal(&Image::of(&taken).await?, "the same requests after the restore")?;
    println!("  the same requests afterwards: equal, {}", image.size());

    back_to_etcd(&scratch, &vetch, &image, &users).await?;
    etcd.terminate()?;
    from_directory(&scratch, &etcd, &image, &users).await?;
    moved_ahead(&scratch, &image).await?;
    encrypted(&scratch, &image).await?;
    refusals(&scratch).await
}

fn kept(data_dir: &Path) -> Options {
    Options { data_dir: Some(data_dir.to_path_buf()), ..Options::default() }
}

/// By either tool's snapshot of Vetch, restored by etcd's tool and served by etcd.
async fn back_to_etcd(scratch: &TempDir, vetch: &Server, image: &Image, users: &Users) -> Result<()> {
    let at = |name: &str| scratch.path().join(name);
    tools::etcdctl_save(&vetch.endpoint(), &at("vetch.snapshot"))?;
    tools::vetch_save(&vetch.endpoint(), &at("vetch.snapshot.2"))?;
    let same = fs::read(at("vetch.snapshot"))? == fs::read(at("vetch.snapshot.2"))?;
    ensure!(same, "two snapshots of the same state differ");
    println!("  Vetch's snapshot: {}", tools::status(&at("vetch.snapshot"))?);
    tools::etcdutl_restore(&at("vetch.snapshot"), &at("etcd.again"), &[])?;
    let etcd = Server::start_with(Kind::Etcd, kept(&at("etcd.again")))?;
    let client = Client::connect(&etcd.endpoint()).await?;
    image.must_equal(&Image::of(&client).await?, "etcd -> vetch -> etcd")?;
    ensure!(*users == Users::of(&client).await?, "users or roles differ after etcd -> vetch -> etcd");
    println!("  etcd -> vetch -> etcd: equal, users and roles too");
    Ok(())
}

/// Vetch on what a stopped etcd left, with its ids and its revisions.
async fn from_directory(scratch: &TempDir, etcd: &Server, image: &Image, users: &Users) -> Result<()> {
    let at = |name: &str| scratch.path().join(name);
    refuses_etcds_directory(scratch, &etcd.data_dir)?;
    tools::vetch_restore(&etcd.data_dir, &at("vetch.from.dir"), &[])?;
    let vetch = Server::start_with(Kind::Vetch, kept(&at("vetch.from.dir")))?;
    let client = Client::connect(&vetch.endpoint()).await?;
    image.must_equal(&Image::of(&client).await?, "data directory of etcd -> vetch")?;
    ensure!(*users == Users::of(&client).await?, "users or roles differ after a migration");
    println!("  data directory of a stopped etcd -> vetch: equal, users and roles too");
    Ok(())
}

/// A server must not begin anew where there is data of another.
fn refuses_etcds_directory(scratch: &TempDir, data_dir: &Path) -> Result<()> {
    let copy = scratch.path().join("copy");
    fs::create_dir_all(copy.join("member"))?;
    fs::create_dir(copy.join("member").join("snap"))?;
    ensure!(data_dir.join("member").join("snap").is_dir(), "etcd keeps its data elsewhere now");
    let refusal =
        Server::start_with(Kind::Vetch, kept(&copy)).err().context("etcd's data was not refused")?;
    ensure!(
        format!("{refusal:#}").contains("vetch snapshot restore"),
        "the refusal does not help: {refusal:#}"
    );
    Ok(())
}

/// By default no revision that a client may have seen is given out again.
async fn moved_ahead(scratch: &TempDir, image: &Image) -> Result<()> {
    let at = |name: &str| scratch.path().join(name);
    let said = tools::vetch_restore(&at("vetch.snapshot"), &at("vetch.ahead"), &[])?.stderr;
    let expected = image.revision + 1_000_000_000;
    ensure!(said.contains(&format!("revision {expected}")), "{said}");
    let vetch = Server::start_with(Kind::Vetch, kept(&at("vetch.ahead")))?;
    let client = Client::connect(&vetch.endpoint()).await?;
    let newest = super::image::hash_kv(&client, 0).await?;
    ensure!((newest.hash_revision, newest.compact_revision) == (expected, expected), "{newest:?}");
    let kvs = super::image::list(&client, 0).await?;
    let before = image.states.values().next_back().context("the image has no state")?;
    ensure!(before.has(&kvs), "the keys differ after the revision was moved ahead");
    let old = super::image::list(&client, image.revision).await;
    ensure!(old.is_err(), "a revision before the restore can still be read");
    tools::etcdctl_save(&vetch.endpoint(), &at("vetch.ahead.snapshot"))?;
    tools::status(&at("vetch.ahead.snapshot"))?;
    println!("  moved ahead by default: revision {expected}, compacted there, keys equal");
    Ok(())
}

/// A restore can encrypt what it writes: without the key nothing can be read, with it everything is
/// there.
async fn encrypted(scratch: &TempDir, image: &Image) -> Result<()> {
    let at = |name: &str| scratch.path().join(name);
    let key = at("restore.key");
    tools::vetch(&["keygen", tools::text(&key)])?;
    let with_key = ["--encryption-key-file", tools::text(&key)];
    let target = at("vetch.encrypted");
    let flags = [&with_key[..], &["--no-bump"]].concat();
    tools::try_restore(&at("vetch.snapshot"), &target, &flags)?;
    ensure!(tools::vetch(&["verify", tools::text(&target)]).is_err(), "it can be read without the key");
    tools::vetch(&[&["verify", tools::text(&target)], &with_key[..]].concat())?;
    let mut setup = kept(&target);
    setup.flags.extend(with_key.map(str::to_owned));
    let vetch = Server::start_with(Kind::Vetch, setup)?;
    let kvs = super::image::list(&Client::connect(&vetch.endpoint()).await?, 0).await?;
    let before = image.states.values().next_back().context("the image has no state")?;
    ensure!(before.has(&kvs), "the keys differ after an encrypted restore");
    println!("  encrypted: refused without its key, keys equal with it");
    Ok(())
}

/// What is damaged, incomplete or in the way is refused, and nothing is left behind.
async fn refusals(scratch: &TempDir) -> Result<()> {
    let at = |name: &str| scratch.path().join(name);
    let good = fs::read(at("vetch.snapshot"))?;
    let target = at("vetch.refused");
    let refuse = |name: &str, bytes: &[u8], flags: &[&str], because: &str| -> Result<()> {
        fs::write(at(name), bytes)?;
        let said = tools::vetch_refuses(&at(name), &target, flags)?;
        ensure!(said.contains(because), "{name}: {said}");
        ensure!(!target.join("member").exists(), "{name}: something that looks like data was left behind");
        // What a failed restore leaves must be removed by hand, so that it is not taken for data.
        if target.exists() {
            fs::remove_dir_all(&target)?;
        }
        Ok(())
    };
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    refuse("flipped", &flipped, &[], "sha256")?;
    refuse("without.hash", &good[..good.len() - 32], &[], "--skip-hash-check")?;
    refuse("cut", &good[..good.len() / 2 / 4096 * 4096], &["--skip-hash-check"], "cut short")?;
    refuse("no.snapshot", b"anything", &["--skip-hash-check"], "too short")?;
    let occupied = at("vetch");
    let said = tools::vetch_refuses(&at("vetch.snapshot"), &occupied, &[])?;
    ensure!(said.contains("not empty"), "{said}");
    println!("  damaged, cut, without hash, into a directory in use: refused");
    Ok(())
}
