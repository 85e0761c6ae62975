//! The member that a snapshot names.

/// Whose snapshot it is. A restore replaces all of this but the versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    pub name: String,
    pub peer_urls: Vec<String>,
    pub client_urls: Vec<String>,
    pub term: u64,
    pub cluster_version: String,
    pub storage_version: String,
}
