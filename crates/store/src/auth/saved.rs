//! Users and roles of one moment, for a checkpoint or a snapshot.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::accounts::Auth;
use super::effect::{Effect, Effects};
use super::state::AuthState;

/// Users and roles as they were when this was made. Making it copies a pointer; it becomes plain
/// data when that is first looked at, which takes time for each user and is not to be done with the
/// store locked.
#[derive(Debug, Default)]
pub struct SavedAuth {
    auth: Arc<Auth>,
    state: OnceLock<AuthState>,
}

impl SavedAuth {
    pub(crate) fn auth(&self) -> &Arc<Auth> {
        &self.auth
    }
}

impl From<Arc<Auth>> for SavedAuth {
    fn from(auth: Arc<Auth>) -> SavedAuth {
        SavedAuth { auth, state: OnceLock::new() }
    }
}

impl From<AuthState> for SavedAuth {
    fn from(state: AuthState) -> SavedAuth {
        Arc::new(Auth::from(state)).into()
    }
}

impl Clone for SavedAuth {
    fn clone(&self) -> SavedAuth {
        Arc::clone(&self.auth).into()
    }
}

impl Deref for SavedAuth {
    type Target = AuthState;

    fn deref(&self) -> &AuthState {
        self.state.get_or_init(|| self.auth.state())
    }
}

impl PartialEq for SavedAuth {
    fn eq(&self, other: &SavedAuth) -> bool {
        self.auth == other.auth
    }
}

impl Eq for SavedAuth {}

/// All users and roles as bytes.
pub fn encode_state(state: &AuthState, out: &mut Vec<u8>) {
    let roles = state.roles.iter().map(|(name, role)| Effect::Role(name.clone(), Some(role.clone())));
    let users = state.users.iter().map(|(name, user)| Effect::User(name.clone(), Some(user.clone())));
    let enabled = [Effect::Enabled(state.enabled)];
    let effects = roles.chain(users).chain(enabled).collect();
    Effects { revision: state.revision, effects }.encode(out);
}

/// None if the bytes are damaged.
pub fn decode_state(mut bytes: &[u8]) -> Option<AuthState> {
    let effects = Effects::decode(&mut bytes).ok()?;
    // What comes last tells a whole state from the beginning of one.
    effects.effects.last().filter(|last| matches!(last, Effect::Enabled(_)))?;
    let mut auth = Auth::default();
    auth.apply(&effects);
    Some(auth.state())
}
