//! The identity of a new server: IDs derived from its peer URLs and the cluster's token, as in
//! etcd.
//!
//! The same flags give the same ids as an etcd started with them, so dashboards, backups and
//! scripts that name a member keep working. The IDs are chosen once and then kept in the data
//! directory.

use sha1::{Digest, Sha1};
use vetch_checkpoint::identity::Identity;

#[cfg(test)]
mod tests;

/// The identity of the first member of a cluster.
pub fn derive(peer_urls: &[String], cluster_token: &str) -> Identity {
    let member_id = member_id(peer_urls, cluster_token);
    Identity { cluster_id: cluster_id(&[member_id]), member_id }
}

/// The id of a member known from the start of its cluster.
pub fn member_id(peer_urls: &[String], cluster_token: &str) -> u64 {
    let mut urls = peer_urls.to_vec();
    urls.sort();
    let mut hash = Sha1::new();
    for url in &urls {
        hash.update(url);
    }
    hash.update(cluster_token);
    first_eight(hash)
}

/// The id of the cluster that these members found.
pub fn cluster_id(members: &[u64]) -> u64 {
    let mut members = members.to_vec();
    members.sort_unstable();
    let mut hash = Sha1::new();
    for member in &members {
        hash.update(member.to_be_bytes());
    }
    first_eight(hash)
}

fn first_eight(hash: Sha1) -> u64 {
    let digest = hash.finalize();
    let (first, _) = digest.split_first_chunk::<8>().expect("SHA-1 has 20 bytes");
    u64::from_be_bytes(*first)
}
