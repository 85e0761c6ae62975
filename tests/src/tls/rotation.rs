//! Everything replaced under a running server while clients come and go: no request may fail.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rcgen::SerialNumber;

use super::cases::demanding;
use super::pki::{Pki, client, server};
use super::probe::Caller;
use crate::server::{Kind, Server};

/// Longer than the server waits between two looks at its files.
const NOTICED: Duration = Duration::from_millis(1300);

/// Rotates the server's certificate, the authorities and the list of revoked certificates.
pub(super) fn run() -> Result<()> {
    let mut pki = Pki::new()?;
    pki.write("roots.crt", pki.authority.pem().as_bytes())?;
    pki.issue("old", client("old"))?;
    pki.issue("leaving", client("leaving").with(|p| p.serial_number = Some(SerialNumber::from(5u64))))?;
    pki.revoke("crl", &[1])?;
    let mut flags = demanding(&pki);
    flags.push(format!("--client-crl-file={}", pki.text("crl")));
    let server_process = Server::start_secure(Kind::Vetch, flags)?;
    let port = server_process.port;
    let old_authority = pki.authority.pem();

    // The new authority signs both sides; while it takes over, everyone trusts both.
    let next = super::pki::authority("etcd-ca", |_| {})?;
    pki.issue_by(&next, "new", client("new"))?;
    let both = [old_authority.as_str(), &next.pem()].concat();
    pki.write("roots.crt", both.as_bytes())?;
    let seen = |pki: &Pki, name: &str| -> Result<String> { Caller { pki, name, port }.curl("/version", &[]) };
    ensure!(seen(&pki, "old")?.starts_with("in"), "the old client does not come in");
    ensure!(seen(&pki, "new")? == "out", "the new client comes in before its authority is trusted");
    ensure!(seen(&pki, "leaving")?.starts_with("in"), "the leaving client does not come in");

    let (stop, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| -> Result<()> {
        let traffic = scope.spawn(|| traffic(&pki, port, &stop, &requests));
        let rotated = (|| {
            sleep(Duration::from_millis(200));
            pki.write("ca.crt", both.as_bytes())?;
            sleep(NOTICED);
            ensure!(seen(&pki, "new")?.starts_with("in"), "the new authority is not trusted");
            pki.issue_by(&next, "server", server())?;
            sleep(NOTICED);
            pki.write("only-next.crt", next.pem().as_bytes())?;
            let strict = Caller { pki: &pki, name: "new", port };
            let only_next = pki.text("only-next.crt");
            let answer = strict.curl("/version", &["--cacert", &only_next])?;
            ensure!(answer.starts_with("in"), "the server still shows its old certificate");
            pki.revoke("crl", &[1, 5])?;
            sleep(NOTICED);
            ensure!(seen(&pki, "leaving")? == "out", "a revoked client comes in");
            pki.write("crl", b"nonsense")?;
            pki.write("server.crt", b"nonsense")?;
            sleep(NOTICED);
            ensure!(seen(&pki, "leaving")? == "out", "a broken list let a revoked client in");
            Ok(())
        })();
        stop.store(true, SeqCst);
        let failed = traffic.join().expect("the traffic panicked")?;
        rotated?;
        ensure!(failed.is_empty(), "requests failed meanwhile: {failed:?}");
        Ok(())
    })?;
    pki.authority = next;
    pki.write("ca.crt", pki.authority.pem().as_bytes())?;
    sleep(NOTICED);
    ensure!(seen(&pki, "new")?.starts_with("in"), "the new client is locked out");
    ensure!(seen(&pki, "old")? == "out", "the old authority is still trusted");
    let log = server_process.log_of_this_life()?;
    ensure!(log.contains("the old ones stay in use"), "broken files were not reported");
    let requests = requests.load(SeqCst);
    ensure!(requests > 20, "only {requests} requests were made meanwhile");
    println!("tls: rotation under {requests} requests on new connections, none failed");
    Ok(())
}

/// One new connection after another, with the old client's certificate. Gives what went wrong.
fn traffic(pki: &Pki, port: u16, stop: &AtomicBool, requests: &AtomicU64) -> Result<Vec<String>> {
    let mut failed = Vec::new();
    let begun = Instant::now();
    while !stop.load(SeqCst) {
        let caller = Caller { pki, name: "old", port };
        let answer = caller.curl("/version", &[]).context("curl")?;
        if !answer.starts_with("in 200") {
            failed.push(format!("{answer} after {:?}", begun.elapsed()));
        }
        requests.fetch_add(1, SeqCst);
    }
    Ok(failed)
}
