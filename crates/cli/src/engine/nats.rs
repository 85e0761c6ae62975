//! A journal on NATS JetStream: how it is named, and how its servers are waited for.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use vetch_nats::{Login, NatsError, NatsLog, Options, Unsafe};

use super::PlaceError;

const SCHEME: &str = "nats://";

/// How long a start waits for a journal that does not answer: machines that boot together come up
/// in any order.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(120);
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long the last servers of a journal are waited for when most of them are there.
const MAJORITY_TIMEOUT: Duration = Duration::from_secs(4);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// A stream of JetStream, and how to log in there.
#[derive(Debug, Clone)]
pub(crate) struct NatsPlace(Options);

impl NatsPlace {
    pub(super) fn parse(
        urls: &str,
        stream: &str,
        login_file: Option<&Path>,
        allow_unsafe: bool,
    ) -> Result<NatsPlace, PlaceError> {
        let urls: Vec<String> = urls.split(',').map(|url| url.trim().to_string()).collect();
        if let Some(other) = urls.iter().find(|url| !url.starts_with(SCHEME)) {
            return Err(PlaceError::Url(other.clone()));
        }
        let mut options = Options::new(urls, stream);
        options.allow_unsafe = allow_unsafe;
        options.timeout = REQUEST_TIMEOUT;
        if let Some(path) = login_file {
            let text = fs::read_to_string(path).map_err(|error| PlaceError::Login(error.to_string()))?;
            let mut logins = text.lines().map(login);
            options.login = logins.next().unwrap_or(Ok(Login::None))?;
            options.system = logins.next().transpose()?;
        }
        Ok(NatsPlace(options))
    }

    pub(super) fn name(&self) -> &str {
        &self.0.stream
    }

    pub(super) fn hosts(&self) -> Vec<&str> {
        self.0.urls.iter().map(|url| host(url)).collect()
    }

    pub(super) fn trust_majority(&mut self) {
        self.0.most_are_enough = true;
    }

    pub(super) fn connect(&self) -> Result<NatsLog, NatsError> {
        let log = self.open()?;
        for found in log.unsafe_settings() {
            tracing::warn!(%found, "the journal may lose acknowledged writes (--unsafe-journal)");
        }
        Ok(log)
    }

    /// Retries while servers cannot be reached, or some of them do not answer, so that their
    /// settings are unknown.
    fn open(&self) -> Result<NatsLog, NatsError> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let enough = Instant::now() + MAJORITY_TIMEOUT;
        let mut options = self.0.clone();
        loop {
            match NatsLog::open(&options) {
                Err(error @ (NatsError::Connect(_) | NatsError::Stream { .. }))
                    if Instant::now() < deadline =>
                {
                    tracing::warn!(%error, "the journal does not answer yet; retrying");
                    std::thread::sleep(RETRY_DELAY);
                }
                Err(NatsError::Unsafe(found))
                    if !options.most_are_enough
                        && found.iter().all(Unsafe::most_were_seen)
                        && Instant::now() >= enough =>
                {
                    tracing::warn!("not all servers of the journal answer; continuing with a majority");
                    options.most_are_enough = true;
                }
                Err(NatsError::Unsafe(found))
                    if some_are_unreachable(&found) && Instant::now() < deadline =>
                {
                    tracing::warn!("not all servers of the journal answer yet; retrying");
                    std::thread::sleep(RETRY_DELAY);
                }
                other => return other,
            }
        }
    }
}

/// Whether nothing is wrong but that some servers, not all, did not answer.
fn some_are_unreachable(found: &[Unsafe]) -> bool {
    found.iter().all(|found| matches!(found, Unsafe::Unknown { seen: 1.., .. }))
}

fn login(line: &str) -> Result<Login, PlaceError> {
    let (name, password) = line.split_once(':').ok_or_else(|| {
        PlaceError::Login("a line of it is NAME:PASSWORD; the second is for the system account".into())
    })?;
    Ok(Login::User { name: name.trim().to_string(), password: password.trim().to_string() })
}

fn host(url: &str) -> &str {
    let place = url.strip_prefix(SCHEME).unwrap_or(url);
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    match place.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        _ => place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_urls() {
        let hosts = |urls: &str| {
            let place = NatsPlace::parse(urls, "vetch", None, false).unwrap();
            place.hosts().join(" ")
        };
        assert_eq!(
            hosts("nats://127.0.0.1:4222,nats://user:p:w@localhost:4223, nats://[::1]:4224"),
            "127.0.0.1 localhost [::1]"
        );
        assert_eq!(hosts("nats://[::1],nats://a"), "[::1] a");
        assert!(matches!(NatsPlace::parse("http://a", "vetch", None, false), Err(PlaceError::Url(_))));
    }
}
