//! Authorisation: the one hook that every service calls before it uses the node.
//!
//! It authenticates the caller and returns the node as that caller may use it. Checks that need no
//! keys are made here; permissions on keys and leases are checked by the node, in the instant the
//! request is evaluated, so that nothing can change in between.

use std::sync::Arc;

use vetch_api::EtcdError;
use vetch_node::Node;
use vetch_node::store::auth::Caller;

use super::status;
use crate::auth::{Authenticator, Credentials};

/// What a request needs beyond what the node checks.
#[derive(Debug, Clone, Copy)]
pub enum RequiredPermission<'a> {
    /// Nothing, not even valid credentials.
    NoCredentials,
    /// Nothing more than the node checks itself.
    CheckedByNode,
    /// Any known user.
    User,
    /// A user with the root role.
    Root,
    /// Permission to read the watched range, when the watch is created. Later changes of the
    /// permission do not end the watch.
    Watch { key: &'a [u8], range_end: &'a [u8] },
}

/// Decides.
#[derive(Clone)]
pub struct Authorizer {
    authenticator: Arc<Authenticator>,
}

impl Authorizer {
    pub fn new(authenticator: Arc<Authenticator>) -> Authorizer {
        Authorizer { authenticator }
    }

    pub fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// `node` for this caller, or why there is none.
    pub fn check(
        &self,
        node: &Node,
        credentials: &Credentials,
        required: RequiredPermission<'_>,
    ) -> Result<Node, EtcdError> {
        if let RequiredPermission::NoCredentials = required {
            return Ok(node.for_caller(Caller::Anonymous));
        }
        let caller = self.authenticator.caller(node, credentials).map_err(|_| EtcdError::InvalidAuthToken)?;
        if node.auth_enabled() {
            let auth = node.auth();
            let decision = match required {
                RequiredPermission::NoCredentials | RequiredPermission::CheckedByNode => Ok(()),
                RequiredPermission::User => auth.check_user(&caller),
                RequiredPermission::Root => auth.check_root(&caller),
                RequiredPermission::Watch { key, range_end } => {
                    auth.check_read(&caller, first_key(key), range_end)
                }
            };
            decision.map_err(status::etcd_from_auth)?;
        }
        Ok(node.for_caller(caller))
    }
}

/// A watch that names no key begins with the smallest one.
fn first_key(key: &[u8]) -> &[u8] {
    if key.is_empty() { &[0] } else { key }
}
