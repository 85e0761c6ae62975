//! The scenarios of the backup trial.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::load::{self, Load};
use super::store::Store;
use super::{compare, tools};
use crate::client::Client;
use crate::server::{Kind, Options, Server};
use vetch_testkit::random::Rng;

/// How much later than it happened a client may learn of it on a busy machine, in milliseconds.
const SLACK: u64 = 3_000;

fn start(store: &Store, name: &str, more: &[&str]) -> Result<Server> {
    let mut flags = store.flags()?;
    flags.extend(more.iter().map(|flag| (*flag).to_owned()));
    Server::start_with(Kind::Vetch, Options { flags, data_dir: Some(store.at(name)) })
}

/// Lets clients write for a while; with `kill`, the server is then gone from one moment to the
/// next.
async fn burst(
    server: &mut Server,
    load: &mut Load,
    rng: &mut Rng,
    millis: (i64, i64),
    kill: bool,
) -> Result<Vec<(u64, i64)>> {
    let stop = Arc::new(AtomicBool::new(false));
    let endpoint = server.endpoint();
    let pause = Duration::from_millis(rng.between(millis.0, millis.1) as u64);
    let end = async {
        tokio::time::sleep(pause).await;
        stop.store(!kill, Ordering::Relaxed);
        if kill { server.kill() } else { Ok(()) }
    };
    let (answered, ended) = tokio::join!(load.burst(&endpoint, rng, Arc::clone(&stop)), end);
    ended?;
    answered
}

/// Lives under load, each ended by a kill; then restores of revisions and times from all of them.
pub(super) async fn past(mut store: Store, rng: &mut Rng, lives: usize, restores: usize) -> Result<()> {
    let begun = Instant::now();
    let mut load = Load::new();
    let mut server = start(&store, "data", &[])?;
    let (mut moments, mut answered) = (Vec::new(), Vec::new());
    for life in 0..lives {
        if life > 0 {
            server.run()?;
        }
        let client = Client::connect(&server.endpoint()).await?;
        load.settle(&client).await?;
        load.quiet(&client, rng).await?;
        // A time at which nothing happens, for long enough to be distinguished from its neighbours.
        tokio::time::sleep(Duration::from_millis(400)).await;
        moments.push((load::now(), load.history.newest()));
        tokio::time::sleep(Duration::from_millis(300)).await;
        if life == 1
            && let Some(gateway) = &mut store.gateway
        {
            gateway.kill()?;
            answered.extend(burst(&mut server, &mut load, rng, (900, 1200), false).await?);
            gateway.run()?;
        }
        answered.extend(burst(&mut server, &mut load, rng, (500, 1300), true).await?);
    }
    server.run()?;
    let client = Client::connect(&server.endpoint()).await?;
    load.settle(&client).await?;
    load.quiet(&client, rng).await?;
    let output = tools::now(&server.endpoint())?;
    ensure!(output.contains(&format!("revision {} is in", load.history.newest())), "{output}");
    if let Some(gateway) = &store.gateway {
        let log = server.log_of_this_life()?;
        ensure!(!log.contains(gateway.secret()), "the log tells the secret key");
    }
    server.terminate()?;
    let newest = load.history.newest();
    println!("{}: {newest} revisions in {} lives, {:.0?}", store.name(), lives + 1, begun.elapsed());
    println!("  {}", tools::verify(&store)?);
    revisions(&store, &load, rng, restores).await?;
    times(&store, &load, rng, &moments, &answered).await?;
    moved_ahead(&store, &load).await?;
    damage(&store, rng)?;
    pruned(&store, &load).await
}

async fn restored(store: &Store, load: &Load, revision: i64) -> Result<String> {
    let to = store.at(&format!("at-{revision}"));
    tools::restore(store, &to, &["--at-revision", &revision.to_string()])?;
    let output = compare::equal(&to, revision, &load.history.at(revision)?).await;
    let output = output.with_context(|| format!("restored at revision {revision}"))?;
    fs::remove_dir_all(&to)?;
    Ok(output)
}

async fn revisions(store: &Store, load: &Load, rng: &mut Rng, count: usize) -> Result<()> {
    let newest = load.history.newest();
    let mut wanted = vec![2, newest];
    wanted.extend((2..count).map(|_| rng.between(2, newest)));
    for revision in wanted {
        let output = restored(store, load, revision).await?;
        println!("  revision {revision}: as the specification says: {output}");
    }
    let output = tools::refused(store, &store.at("never"), &["--at-revision", &(newest + 1).to_string()])?;
    ensure!(output.contains(&format!("revisions 1 to {newest}")), "the ranges are not named: {output}");
    let to = store.at("newest");
    tools::restore(store, &to, &[])?;
    let output = compare::equal(&to, newest, &load.history.until_after(newest)?).await?;
    println!("  the newest state: as the specification says: {output}");
    Ok(())
}

/// Times at which nothing happened give exactly what was there; others something between what was
/// acknowledged before and what was written later.
async fn times(
    store: &Store,
    load: &Load,
    rng: &mut Rng,
    moments: &[(u64, i64)],
    answered: &[(u64, i64)],
) -> Result<()> {
    let seconds = |millis: u64| format!("{}.{:03}", millis / 1000, millis % 1000);
    for &(time, revision) in moments {
        let to = store.at(&format!("time-{time}"));
        tools::restore(store, &to, &["--at-time", &seconds(time)])?;
        let output = compare::equal(&to, revision, &load.history.until_after(revision)?).await;
        output.with_context(|| format!("restored at time {time}, revision {revision}"))?;
    }
    println!("  {} times at rest: as the specification says", moments.len());
    for _ in 0..2 {
        let (time, _) = *rng.pick(answered);
        let to = store.at(&format!("burst-{time}"));
        tools::restore(store, &to, &["--at-time", &seconds(time)])?;
        let server =
            Server::start_with(Kind::Vetch, Options { data_dir: Some(to.clone()), ..Options::default() })?;
        let revision = Client::connect(&server.endpoint()).await?.revision().await?;
        drop(server);
        let of = |within: &dyn Fn(u64) -> bool| {
            answered.iter().filter(|(at, _)| within(*at)).map(|(_, r)| *r).max()
        };
        let least = of(&|at| at + SLACK <= time).unwrap_or(1);
        let most = of(&|at| at <= time + SLACK).unwrap_or(i64::MAX);
        ensure!((least..=most).contains(&revision), "time {time} gave {revision}, not {least} to {most}");
        if !load.history.is_ambiguous(revision) {
            compare::equal(&to, revision, &load.history.at(revision)?).await?;
        }
        println!(
            "  a time in a burst: revision {revision}, between {least} and {most}, as the specification says"
        );
    }
    let output = tools::refused(store, &store.at("never"), &["--at-time", "1000"])?;
    ensure!(output.contains("What can be restored"), "the ranges are not named: {output}");
    Ok(())
}

/// By default clients get "compacted" and begin anew.
async fn moved_ahead(store: &Store, load: &Load) -> Result<()> {
    let revision = load.history.newest() / 2;
    let to = store.at("moved");
    let dir = to.to_str().context("a path that is text")?;
    let arguments = ["--data-dir", dir, "--at-revision", &revision.to_string()];
    let ended = tools::run(store, &["restore"], &arguments)?;
    ensure!(ended.is_success, "{}", ended.stderr);
    let server = Server::start_with(Kind::Vetch, Options { data_dir: Some(to), ..Options::default() })?;
    let client = Client::connect(&server.endpoint()).await?;
    let now = client.revision().await?;
    ensure!(now == revision + 1_000_000_000, "revision {revision} became {now}");
    let at = vetch_api::pb::RangeRequest { key: "x".into(), revision, ..Default::default() };
    let output = client.kv.clone().range(at).await.err().context("an old revision can still be read")?;
    ensure!(output.message().contains("compacted"), "{output}");
    println!("  without --no-bump the revision is {now}, and {revision} is compacted");
    Ok(())
}

/// One bit in one object: verify names it, and a restore that needs it is refused. One that can do
/// without a full backup says so.
fn damage(store: &Store, rng: &mut Rng) -> Result<()> {
    let objects = store.objects()?;
    let newest_of = |kind: &str| objects.iter().rfind(|path| path.to_string_lossy().contains(kind)).cloned();
    let mut chosen: Vec<_> =
        ["/full/", "/journal/", "vetch-backup.json"].into_iter().filter_map(newest_of).collect();
    let needed = chosen.len();
    chosen.extend((0..4).map(|_| rng.pick(&objects).clone()));
    for (index, path) in chosen.iter().enumerate() {
        let good = fs::read(path)?;
        let mut bad = good.clone();
        let at = rng.below(bad.len());
        bad[at] ^= 1 << rng.below(8);
        fs::write(path, &bad)?;
        let ended = tools::run(store, &["verify"], &[])?;
        let name = path.file_name().and_then(|name| name.to_str()).context("a name")?;
        ensure!(!ended.is_success, "byte {at} of {} was flipped, and verify found nothing", path.display());
        ensure!(ended.stdout.contains(name), "verify does not name {name}: {}", ended.stdout);
        if index < needed {
            let to = store.at("damaged");
            match name.ends_with(".json") && path.to_string_lossy().contains("/full/") {
                true => tools::restored_without(store, &to, name)?,
                false => drop(tools::refused(store, &to, &[])?),
            }
        }
        fs::write(path, &good)?;
    }
    tools::verify(store)?;
    println!("  a flipped bit in {} objects: found each time, and refused by what needs it", chosen.len());
    Ok(())
}

async fn pruned(store: &Store, load: &Load) -> Result<()> {
    let newest = load.history.newest();
    let would = tools::prune(store, &["--keep=0s", "--keep-fulls=2", "--dry-run"])?;
    let before = tools::ranges(store)?;
    let did = tools::prune(store, &["--keep=0s", "--keep-fulls=2"])?;
    ensure!(would.replace("would remove", "removed") == did, "{would} but {did}");
    let after = tools::ranges(store)?;
    let (first, last) = *after.last().context("nothing is left")?;
    ensure!(last == newest && first > before[0].0, "{before:?} became {after:?}");
    tools::verify(store)?;
    for revision in [first + 1, (first + newest) / 2 + 1, newest] {
        restored(store, load, revision.min(newest)).await?;
    }
    let output = tools::refused(store, &store.at("never"), &["--at-revision", &(first - 1).to_string()])?;
    ensure!(output.contains(&format!("revisions {first} to {newest}")), "the ranges are not named: {output}");
    println!("  {did}; revisions {first} to {newest} can still be restored, and earlier ones are refused");
    Ok(())
}

/// The store is away for so long that the journal has to go: the server lives on, and what can be
/// restored is reported.
pub(super) async fn gap(rng: &mut Rng) -> Result<()> {
    let mut store = Store::bucket()?;
    let mut load = Load::new();
    let mut server = start(&store, "data", &["--backup-journal-bytes=1500000"])?;
    let client = Client::connect(&server.endpoint()).await?;
    burst(&mut server, &mut load, rng, (300, 500), false).await?;
    load.quiet(&client, rng).await?;
    wait(&store, "the first backup", |ranges| ranges.len() == 1)?;
    store.gateway.as_mut().context("a gateway")?.kill()?;
    load.value_bytes = 20_000;
    let deadline = Instant::now() + Duration::from_secs(120);
    while !server.log_of_this_life()?.contains("dropped the journal that was retained") {
        ensure!(Instant::now() < deadline, "the retained journal was never dropped");
        burst(&mut server, &mut load, rng, (300, 500), false).await?;
    }
    let metrics = metric(&server, "vetch_backup_let_go_total")?;
    ensure!(metrics >= 1.0, "the metric says {metrics}");
    store.gateway.as_mut().context("a gateway")?.run()?;
    load.value_bytes = 300;
    wait(&store, "a backup behind the gap", |ranges| ranges.len() == 2)?;
    burst(&mut server, &mut load, rng, (300, 500), false).await?;
    server.terminate()?;
    let ranges = tools::ranges(&store)?;
    let [(_, before), (after, newest)] = ranges[..] else { anyhow::bail!("{ranges:?}") };
    ensure!(newest == load.history.newest() && before < after, "{ranges:?}");
    let inside = (before + 1).max((before + after) / 2);
    let output = tools::refused(&store, &store.at("never"), &["--at-revision", &inside.to_string()])?;
    let named = [format!("to {before}"), format!("revisions {after} to {newest}")];
    ensure!(named.iter().all(|range| output.contains(range)), "the ranges are not named: {output}");
    for revision in [before, after + 1, newest] {
        restored(&store, &load, revision).await?;
    }
    println!("gap: the store was away; {before} and {after} to {newest} are restored, {inside} is refused");
    println!("  {}", tools::verify(&store)?);
    Ok(())
}

/// Kills in the middle of large uploads leave nothing that looks like more than it is.
pub(super) async fn torn(rng: &mut Rng) -> Result<()> {
    let store = Store::bucket()?;
    let mut load = Load::new();
    load.value_bytes = 60_000;
    let mut server =
        start(&store, "data", &["--checkpoint-bytes=4194304", "--journal-segment-bytes=16777216"])?;
    for round in 0..4 {
        if round > 0 {
            server.run()?;
            load.settle(&Client::connect(&server.endpoint()).await?).await?;
        }
        burst(&mut server, &mut load, rng, (400, 1500), true).await?;
        // Nothing is there before the first upload is.
        if round > 0 {
            tools::verify(&store)?;
        }
    }
    server.run()?;
    load.settle(&Client::connect(&server.endpoint()).await?).await?;
    wait(&store, "everything", |ranges| ranges.last().is_some_and(|range| range.1 == load.history.newest()))?;
    server.terminate()?;
    let newest = load.history.newest();
    for revision in [newest, rng.between(2, newest)] {
        restored(&store, &load, revision).await?;
    }
    println!("torn: {newest} revisions, killed 4 times in the middle: {}", tools::verify(&store)?);
    Ok(())
}

/// A server on a copy of the data, and another server, cannot write to the same place.
pub(super) async fn copy(rng: &mut Rng) -> Result<()> {
    let store = Store::directory()?;
    let mut load = Load::new();
    let mut server = start(&store, "data", &[])?;
    burst(&mut server, &mut load, rng, (200, 300), false).await?;
    server.terminate()?;
    let copied =
        std::process::Command::new("cp").arg("-r").arg(store.at("data")).arg(store.at("copy")).status()?;
    ensure!(copied.success(), "copying failed");
    server.run()?;
    burst(&mut server, &mut load, rng, (300, 400), false).await?;
    let newest = load.history.newest();
    wait(&store, "the first server's writes", |ranges| ranges.last().is_some_and(|range| range.1 == newest))?;
    for (name, output) in [("copy", "another server runs on a copy"), ("stranger", "is the backup of member")]
    {
        let other = start(&store, name, &[])?;
        wait_for_log(&other, output)?;
    }
    burst(&mut server, &mut load, rng, (200, 300), false).await?;
    server.terminate()?;
    restored(&store, &load, load.history.newest()).await?;
    println!("copy: a server on a copy, and a stranger, were refused; {}", tools::verify(&store)?);
    Ok(())
}

fn wait(store: &Store, what: &str, is_there: impl Fn(&[(i64, i64)]) -> bool) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        let ranges = tools::ranges(store);
        if ranges.as_ref().is_ok_and(|ranges| is_there(ranges)) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{what} did not arrive: {ranges:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn wait_for_log(server: &Server, text: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !server.log_of_this_life()?.contains(text) {
        ensure!(Instant::now() < deadline, "the log never says {text:?}:\n{}", server.log_tail()?);
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn metric(server: &Server, name: &str) -> Result<f64> {
    let page = std::process::Command::new("curl")
        .args(["-s", &format!("{}/metrics", server.endpoint())])
        .output()?;
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    let line =
        page.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no metric {name}"))?;
    Ok(line.trim().parse()?)
}
