//! The members of the cluster: this one.
//!
//! The flags about members apply until there is data; afterwards the data decides, as in etcd.

use std::collections::BTreeMap;
use std::net::ToSocketAddrs;
use std::path::Path;

use vetch_server::http::url::Url;

use super::SettingsError;
use crate::flags::Parsed;

/// etcd's default for the cluster, which is only replaced if the name is given, not if the URLs
/// are.
const DEFAULT_NAME: &str = "default";
const DEFAULT_PEER: &str = "http://localhost:2380";

/// This member's peer URLs, once the cluster is known to consist of it alone.
pub(super) fn peer_urls(flags: &Parsed, data_dir: &Path) -> Result<Vec<String>, SettingsError> {
    let advertised = super::texts(&flags.urls("initial-advertise-peer-urls"));
    if data_dir.join("member").exists() {
        return Ok(advertised);
    }
    let name = flags.text("name");
    let cluster = members(&initial_cluster(flags, &advertised))?;
    let Some(ours) = cluster.get(name) else {
        return Err(SettingsError::NotInCluster(name.to_string()));
    };
    if flags.text("initial-cluster-state") == "existing" {
        return Err(SettingsError::Join);
    }
    check_same(name, ours, &advertised)?;
    let all: Vec<&String> = cluster.values().flatten().collect();
    if (1..all.len()).any(|i| all[..i].contains(&all[i])) {
        return Err(SettingsError::DuplicateUrl(flags.text("initial-cluster").to_string()));
    }
    let others: Vec<&str> = cluster.keys().map(String::as_str).filter(|other| *other != name).collect();
    if !others.is_empty() {
        return Err(SettingsError::OtherMembers(others.join(", ")));
    }
    Ok(advertised)
}

/// `--initial-cluster`, or its default.
fn initial_cluster(flags: &Parsed, advertised: &[String]) -> String {
    if flags.is_given("initial-cluster") {
        return flags.text("initial-cluster").to_string();
    }
    match flags.text("name") {
        DEFAULT_NAME => format!("{DEFAULT_NAME}={DEFAULT_PEER}"),
        name => advertised.iter().map(|url| format!("{name}={url}")).collect::<Vec<String>>().join(","),
    }
}

/// Members by name, with their URLs in order.
fn members(text: &str) -> Result<BTreeMap<String, Vec<String>>, SettingsError> {
    let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (name, url) = pair.split_once('=').unwrap_or((pair, ""));
        let url = Url::parse(url).map_err(SettingsError::ClusterSyntax)?;
        members.entry(name.to_string()).or_default().push(url.to_string());
    }
    members.values_mut().for_each(|urls| urls.sort());
    Ok(members)
}

/// The URLs of this member in the cluster must be those it advertises, or resolve to the same
/// addresses.
fn check_same(name: &str, ours: &[String], advertised: &[String]) -> Result<(), SettingsError> {
    if ours == advertised || (ours.len() == advertised.len() && resolved(ours) == resolved(advertised)) {
        return Ok(());
    }
    let missing = |from: &[String], known: &[String]| -> Vec<String> {
        from.iter().filter(|url| !known.contains(url)).cloned().collect()
    };
    let pairs =
        |urls: &[String]| urls.iter().map(|url| format!("{name}={url}")).collect::<Vec<_>>().join(",");
    let unadvertised = missing(ours, advertised);
    if unadvertised.is_empty() {
        return Err(SettingsError::NotInOwnCluster(missing(advertised, ours).join(","), pairs(ours)));
    }
    Err(SettingsError::NotAdvertised(pairs(&unadvertised), advertised.join(",")))
}

/// URLs with their hosts resolved. A host without an address stays as it is, and so does localhost,
/// which differs by machine.
fn resolved(urls: &[String]) -> Vec<String> {
    let one = |text: &String| {
        let Ok(url) = Url::parse(text) else { return text.clone() };
        if url.host() == Some("localhost") {
            return text.clone();
        }
        let Ok(mut found) = url.address().to_socket_addrs() else { return text.clone() };
        match found.next() {
            Some(address) => format!("{}://{address}", if url.is_secure() { "https" } else { "http" }),
            None => text.clone(),
        }
    };
    let mut urls: Vec<String> = urls.iter().map(one).collect();
    urls.sort();
    urls
}
