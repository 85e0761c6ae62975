//! The workloads of single requests, from their options to their reports.

use anyhow::{Context, Result, ensure};

use crate::args::{Leasing, Listing, Load, Objects, Paging, Reading, Simple};
use crate::report::Report;
use crate::session::Session;
use crate::workloads::cas::Cas;
use crate::workloads::churn::Churn;
use crate::workloads::keepalive::KeepAlive;
use crate::workloads::list::List;
use crate::workloads::pages::Pages;
use crate::workloads::put::Put;
use crate::workloads::read::Read;
use crate::workloads::{Keys, Values, setup};

fn values(session: &Session<'_>, objects: &Objects, worker: usize) -> Values {
    Values::new(objects.value_size, session.common.seed + 7 + worker as u64)
}

/// Slots have keys of their own, so there must be enough.
fn enough(load: &Load, things: usize, threads: usize) -> Result<()> {
    let most = load.clients.iter().copied().max().unwrap_or(0).max(if load.rate.is_empty() {
        0
    } else {
        load.in_flight
    });
    ensure!(
        things >= most + threads,
        "{most} requests under way need more than {things} keys or leases: see --keys and --in-flight"
    );
    Ok(())
}

pub(crate) fn put(session: &Session<'_>, options: &Simple) -> Result<Report> {
    let mut report = session.report("put")?;
    let keys = Keys::new(&session.common.prefix, options.objects.keys);
    session.sweep(&mut report, &options.load, "", &|worker, workers, _| {
        Box::new(Put::new(keys.clone(), values(session, &options.objects, worker), worker, workers))
    })?;
    Ok(report)
}

pub(crate) fn cas(session: &Session<'_>, options: &Simple) -> Result<Report> {
    enough(&options.load, options.objects.keys, session.common.threads)?;
    let keys = setup::keys(session, &options.objects)?;
    let mut report = session.report("cas")?;
    let load = &options.load;
    let steps: Vec<Load> = if load.rate.is_empty() {
        load.clients.iter().map(|clients| Load { clients: vec![*clients], ..load.clone() }).collect()
    } else {
        load.rate.iter().map(|rate| Load { rate: vec![*rate], ..load.clone() }).collect()
    };
    // Every step changes the keys, so the next one has to look at them again.
    for step in steps {
        let revisions = setup::revisions(session.wire(1)?.as_mut(), &keys)?;
        session.sweep(&mut report, &step, "", &|worker, workers, slots| {
            let values = values(session, &options.objects, worker);
            Box::new(Cas::new(keys.clone(), values, &revisions, (worker, workers), slots))
        })?;
        if report.interrupted {
            break;
        }
    }
    Ok(report)
}

pub(crate) fn churn(session: &Session<'_>, options: &Simple) -> Result<Report> {
    let mut report = session.report("churn")?;
    // What an interrupted run left behind must not be in the way of the next.
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    let keys = Keys::new(&format!("{}churn-{now}/", session.common.prefix), options.objects.keys);
    session.sweep(&mut report, &options.load, "", &|worker, workers, slots| {
        Box::new(Churn::new(keys.clone(), values(session, &options.objects, worker), worker, workers, slots))
    })?;
    Ok(report)
}

pub(crate) fn read(session: &Session<'_>, options: &Reading) -> Result<Report> {
    let keys = setup::keys(session, &options.simple.objects)?;
    let mut report = session.report("read")?;
    session.sweep(&mut report, &options.simple.load, "", &|worker, _, _| {
        let seed = session.common.seed + worker as u64;
        Box::new(Read::new(keys.clone(), options.serializable, options.absent, seed))
    })?;
    Ok(report)
}

pub(crate) fn list(session: &Session<'_>, options: &Listing) -> Result<Report> {
    let keys = setup::keys(session, &options.simple.objects)?;
    let mut report = session.report("list")?;
    for length in &options.lengths {
        let (label, length) = match length.as_str() {
            "all" => (format!("all {} keys", keys.count), keys.count),
            number => {
                let number =
                    number.parse().with_context(|| format!("{number:?} is neither a number nor all"))?;
                (format!("{number} keys"), number)
            }
        };
        if length > keys.count {
            continue;
        }
        session.sweep(&mut report, &options.simple.load, &label, &|worker, _, slots| {
            let seed = session.common.seed + worker as u64;
            Box::new(List::new(keys.clone(), length, options.stream, seed, slots))
        })?;
        if report.interrupted {
            break;
        }
    }
    Ok(report)
}

pub(crate) fn pages(session: &Session<'_>, options: &Paging) -> Result<Report> {
    ensure!(options.page > 0, "a page has at least one key");
    let keys = setup::keys(session, &options.simple.objects)?;
    let mut report = session.report("pages")?;
    let label = format!("pages of {} of {} keys", options.page, keys.count);
    session.sweep(&mut report, &options.simple.load, &label, &|_, _, slots| {
        Box::new(Pages::new(keys.clone(), options.page, slots))
    })?;
    Ok(report)
}

pub(crate) fn keepalive(session: &Session<'_>, options: &Leasing) -> Result<Report> {
    enough(&options.load, options.leases, session.common.threads)?;
    let leases = setup::leases(session, options.leases, options.ttl)?;
    let leases: Vec<i64> = leases.iter().map(|lease| lease.id).collect();
    let mut report = session.report("keepalive")?;
    session.sweep(&mut report, &options.load, "", &|worker, workers, slots| {
        Box::new(KeepAlive::new(leases.clone(), (worker, workers), slots))
    })?;
    Ok(report)
}
