//! Simple tokens: random words that this server keeps.
//!
//! A token lives for a while after its last use, and dies with what it proves: when its user goes
//! or gets another password, or when authentication is turned off. The table is not notified of
//! that; every lookup checks the users, so no change of them can be missed. A restart forgets all
//! tokens.
//!
//! In a cluster a server also caches tokens that another one issued. They live here for a part of
//! their time, however often they are used, so that they are resolved again, which renews
//! them at the issuing server, before they expire there.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use vetch_node::store::auth::{Auth, Caller};

/// Tokens that are kept; one more is refused.
const TOKENS_MAX: usize = 100_000;
/// The shortest interval between two sweeps of expired tokens.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The part of its lifetime for which a token is cached.
const CACHED_TTL_DIVISOR: u32 = 4;
const WORD_LEN: usize = 16;
const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

pub(super) struct SimpleTokens {
    ttl: Duration,
    began: Instant,
    table: RwLock<Table>,
}

struct Table {
    tokens: HashMap<String, Token>,
    swept: Instant,
}

struct Token {
    owner: TokenOwner,
    /// Milliseconds since the table was made.
    expires_at: AtomicU64,
    is_cached: bool,
}

/// Whom a token stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenOwner {
    pub user: Arc<str>,
    /// The auth revision at which the password was right.
    pub auth_revision: u64,
}

impl SimpleTokens {
    pub(super) fn new(ttl: Duration) -> SimpleTokens {
        let now = Instant::now();
        let table = Table { tokens: HashMap::new(), swept: now };
        SimpleTokens { ttl, began: now, table: RwLock::new(table) }
    }

    /// Tokens that are kept, including those that expired since the last sweep.
    pub(super) fn len(&self) -> usize {
        self.table.read().tokens.len()
    }

    /// A new token; None if there are too many already. `index` is only there because etcd's tokens
    /// have one.
    pub(super) fn assign(&self, auth: &Auth, user: &str, auth_revision: u64, index: u64) -> Option<String> {
        let name = format!("{}.{index}", random_letters());
        let owner = TokenOwner { user: user.into(), auth_revision };
        self.insert(auth, &name, owner, false).then_some(name)
    }

    /// Caches a token that another server issued, if there is room.
    pub(super) fn cache(&self, auth: &Auth, token: &str, owner: TokenOwner) {
        self.insert(auth, token, owner, true);
    }

    fn insert(&self, auth: &Auth, name: &str, owner: TokenOwner, is_cached: bool) -> bool {
        let now = Instant::now();
        let mut table = self.table.write();
        if now - table.swept >= SWEEP_INTERVAL {
            table.swept = now;
            let millis = self.millis(now);
            table.tokens.retain(|_, token| token.is_alive(auth, millis));
        }
        if table.tokens.len() >= TOKENS_MAX {
            return false;
        }
        let ttl = if is_cached { self.ttl / CACHED_TTL_DIVISOR } else { self.ttl };
        let expires_at = AtomicU64::new(self.millis(now + ttl));
        table.tokens.insert(name.to_owned(), Token { owner, expires_at, is_cached });
        true
    }

    /// The user of a token. The lookup keeps it alive.
    pub(super) fn find(&self, auth: &Auth, token: &str) -> Option<Caller> {
        let owner = self.owner(auth, token)?;
        Some(Caller::User { name: owner.user, revision: auth.revision() })
    }

    /// The same, and since when.
    pub(super) fn owner(&self, auth: &Auth, token: &str) -> Option<TokenOwner> {
        let now = Instant::now();
        let table = self.table.read();
        let token = table.tokens.get(token).filter(|token| token.is_alive(auth, self.millis(now)))?;
        if !token.is_cached {
            token.expires_at.fetch_max(self.millis(now + self.ttl), Ordering::Relaxed);
        }
        Some(token.owner.clone())
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from((at - self.began).as_millis()).unwrap_or(u64::MAX)
    }
}

impl Token {
    fn is_alive(&self, auth: &Auth, now: u64) -> bool {
        now < self.expires_at.load(Ordering::Relaxed)
            && auth.still_holds(&self.owner.user, self.owner.auth_revision)
    }
}

/// Random letters, uniformly distributed.
fn random_letters() -> String {
    let mut word = String::with_capacity(WORD_LEN);
    while word.len() < WORD_LEN {
        let mut bytes = [0; 2 * WORD_LEN];
        getrandom::fill(&mut bytes).expect("the system has randomness");
        // The highest bytes would favour the first letters.
        let fair = bytes.iter().filter(|&&byte| usize::from(byte) < 256 / LETTERS.len() * LETTERS.len());
        let letters = fair.map(|&byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
        word.extend(letters.take(WORD_LEN - word.len()));
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use vetch_node::store::auth::{AuthState, User};

    fn users(names: &[&str]) -> Auth {
        let users = names.iter().map(|name| ((*name).to_owned(), User::default())).collect();
        Auth::from(AuthState { enabled: true, revision: 7, users, ..AuthState::default() })
    }

    #[test]
    fn tokens_look_like_etcds() {
        let tokens = SimpleTokens::new(Duration::from_secs(300));
        let auth = users(&["a"]);
        let token = tokens.assign(&auth, "a", 7, 42).unwrap();
        let (word, index) = token.split_once('.').unwrap();
        assert_eq!((word.len(), index), (16, "42"));
        assert!(word.bytes().all(|letter| letter.is_ascii_alphabetic()));
        assert_ne!(tokens.assign(&auth, "a", 7, 42).unwrap(), token);
    }

    #[test]
    fn a_token_stands_for_its_user_as_long_as_there_is_one() {
        let tokens = SimpleTokens::new(Duration::from_secs(300));
        let auth = users(&["a", "b"]);
        let token = tokens.assign(&auth, "a", 7, 1).unwrap();
        assert_eq!(tokens.find(&auth, &token), Some(Caller::user("a", 7)));
        assert_eq!(tokens.find(&auth, "nonsense"), None);
        assert_eq!(tokens.find(&users(&["b"]), &token), None);
    }

    #[test]
    fn a_borrowed_token_is_asked_for_again_and_dies_with_what_it_proves() {
        let (here, there) =
            (SimpleTokens::new(Duration::from_millis(800)), SimpleTokens::new(Duration::from_secs(300)));
        let auth = users(&["a"]);
        let token = there.assign(&auth, "a", 7, 1).unwrap();
        assert_eq!(here.find(&auth, &token), None);
        here.cache(&auth, &token, there.owner(&auth, &token).unwrap());
        assert_eq!(here.find(&auth, &token), Some(Caller::user("a", 7)));
        assert_eq!(here.find(&users(&["b"]), &token), None);
        std::thread::sleep(Duration::from_millis(120));
        here.find(&auth, &token);
        std::thread::sleep(Duration::from_millis(120));
        assert_eq!(here.find(&auth, &token), None, "using it does not keep it");
    }

    #[test]
    fn a_token_lives_a_while_after_its_last_use() {
        let tokens = SimpleTokens::new(Duration::from_millis(400));
        let auth = users(&["a"]);
        let token = tokens.assign(&auth, "a", 7, 1).unwrap();
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(150));
            assert!(tokens.find(&auth, &token).is_some());
        }
        std::thread::sleep(Duration::from_millis(450));
        assert_eq!(tokens.find(&auth, &token), None);
    }
}
