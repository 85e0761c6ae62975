//! What the flags say about a journal that several servers share.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use vetch_checkpoint::identity::Identity;
use vetch_cluster::Config;
use vetch_server::identity;
use vetch_tls::settings::TlsSettings;

use super::{SettingsError, tls};
use crate::engine::{Engine, LogPlace, OrderedJournal};
use crate::flags::Parsed;

/// What replicates the journal, and where.
pub(super) fn engine(flags: &Parsed) -> Result<Engine, SettingsError> {
    let urls = flags.text("journal");
    if urls.is_empty() {
        for flag in ["journal-stream", "journal-login-file", "journal-read-lease", "unsafe-journal"] {
            if flags.is_given(flag) {
                return Err(SettingsError::NoJournal(flag));
            }
        }
        return Ok(Engine::Local);
    }
    let login = super::path(flags, "journal-login-file");
    let (stream, allow_unsafe) = (flags.text("journal-stream"), flags.bool("unsafe-journal"));
    let place = LogPlace::parse(urls, stream, login.as_deref(), allow_unsafe)?;
    // What keeps its promises on files of this machine alone.
    for flag in ["encryption-key-file", "backup-location", "wal-dir", "unsafe-no-fsync"] {
        if flags.is_given(flag) {
            return Err(SettingsError::NotWithJournal(flag));
        }
    }
    Ok(Engine::Ordered(Box::new(OrderedJournal { place, read_lease: read_lease(flags)? })))
}

/// For how long a leader may rely on being the only one. Other servers wait three times as long.
fn read_lease(flags: &Parsed) -> Result<Duration, SettingsError> {
    let (lease, max) = (flags.duration("journal-read-lease"), Config::default().election_timeout / 3);
    if lease > max {
        return Err(SettingsError::JournalReadLease { lease, max });
    }
    Ok(lease)
}

/// Whether the servers on one journal can call each other at the address that this one announces.
pub(super) fn check_advertised_url(
    flags: &Parsed,
    place: &LogPlace,
    client: &TlsSettings,
    peer_client_tls: Option<&TlsSettings>,
) -> Result<(), SettingsError> {
    let advertised = flags.urls("advertise-client-urls");
    let Some(url) = advertised.first().filter(|url| url.host().is_some()) else {
        return Err(SettingsError::JournalAdvertised);
    };
    let is_given = flags.is_given("advertise-client-urls");
    let scope = url.host().map_or(HostScope::Anywhere, host_scope);
    let is_unreachable = match scope {
        HostScope::Unreachable => true,
        // On one machine with all of the journal, the other servers are there, too.
        HostScope::ThisMachine => !is_given || !is_on_this_machine(place),
        HostScope::Anywhere => false,
    };
    if is_unreachable {
        return Err(SettingsError::JournalUnreachable(url.to_string()));
    }
    if !url.is_secure() {
        return Ok(());
    }
    if client.is_empty() && client.auto.is_some() {
        return Err(SettingsError::JournalAutoTls);
    }
    let Some(peer_client_tls) = peer_client_tls else { return Err(SettingsError::JournalAuthority) };
    if peer_client_tls.cert_file.is_some() != peer_client_tls.key_file.is_some() {
        return Err(tls::incomplete_pair(peer_client_tls));
    }
    Ok(())
}

/// From where a host can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostScope {
    Unreachable,
    ThisMachine,
    Anywhere,
}

/// Judged by the name alone. Other names are not resolved: they may mean something else on other
/// machines, or later.
fn host_scope(host: &str) -> HostScope {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    match host.parse::<IpAddr>() {
        Ok(address) if address.to_canonical().is_unspecified() => HostScope::Unreachable,
        Ok(address) if address.to_canonical().is_loopback() => HostScope::ThisMachine,
        Err(_) if name.is_empty() => HostScope::Unreachable,
        Err(_) if name == "localhost" || name.ends_with(".localhost") => HostScope::ThisMachine,
        Ok(_) | Err(_) => HostScope::Anywhere,
    }
}

fn is_on_this_machine(place: &LogPlace) -> bool {
    place.hosts().into_iter().all(|host| host_scope(host) == HostScope::ThisMachine)
}

/// All servers on one log are one cluster. A member is a data directory: its number is drawn when
/// that is made.
pub(super) fn identity(place: &LogPlace) -> Identity {
    let cluster_id = identity::derive(&["journal".to_string()], place.name()).cluster_id;
    let member_id = RandomState::new().hash_one(cluster_id).max(1);
    Identity { cluster_id, member_id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_sorted_by_from_where_they_can_be_called() {
        for host in ["0.0.0.0", "[::]", "::", "", "[::ffff:0.0.0.0]"] {
            assert_eq!(host_scope(host), HostScope::Unreachable, "{host}");
        }
        for host in ["localhost", "LocalHost.", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]"] {
            assert_eq!(host_scope(host), HostScope::ThisMachine, "{host}");
        }
        for host in ["10.0.0.1", "[fd00::1]", "localhost.example.com", "server-1", "notlocalhost"] {
            assert_eq!(host_scope(host), HostScope::Anywhere, "{host}");
        }
    }

    #[test]
    fn a_journal_is_on_this_machine_if_all_of_it_is() {
        let is_here = |urls| is_on_this_machine(&LogPlace::parse(urls, "vetch", None, false).unwrap());
        assert!(is_here("nats://127.0.0.1:4222,nats://user:p:w@localhost:4223, nats://[::1]:4224"));
        assert!(!is_here("nats://127.0.0.1:4222,nats://10.0.0.1:4222"));
        assert!(is_here("nats://[::1]"));
    }
}
