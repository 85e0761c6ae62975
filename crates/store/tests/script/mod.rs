//! Scripts: requests as text, and beside each what it answered, changed and wrote to the journal.
//!
//! Every request is also given to the specification, which must agree, and every journal entry to a
//! second store, which must arrive at the same state: a script shows behaviour, and cannot show one
//! that is wrong by these two measures.
//!
//! | command | what it does |
//! |---|---|
//! | `put KEY [VALUE] [lease=ID] [prev_kv] [ignore_value] [ignore_lease]` | |
//! | `del KEY [END] [prev_kv]` | END `"\0"`: every key from KEY on |
//! | `txn`, `if`, `then`, `else`, `end` | a transaction, nested by `then txn` .. `end` |
//! | `range KEY [END] [rev=] [limit=] [sort=] [order=] [keys_only] [count_only] [min_mod=] ..` | |
//! | `stream KEY [END] [step=KEYS] ..` | the same in chunks, as RangeStream sends it |
//! | `compact REV`, `free [CHANGES]` | compacts; frees memory, all of it unless told |
//! | `grant ID TTL`, `revoke ID`, `expire ID GRANT`, `remaining ID SECONDS`, `keys ID` | leases |
//! | `alarm MEMBER on\|off` | |
//! | `auth CHANGE ..` | users and roles, see `parse::change` |
//! | `hash [REV] [etcd=NUMBER]` | HashKV; `etcd` is the number that etcd gave |
//! | `limit ops=\|keys=\|bytes=\|kept=` | limits of transactions |
//! | `publish` | makes visible what was evaluated with the tag `[held]` |
//! | `restart` | the store becomes what its journal replays to |
//! | `versions`, `state`, `size`, `cost CHANGE ..` | what the store holds |
//!
//! A prefix is the user who asks: `alice: put a 1`. The tag `[bytes]` shows the journal entry's
//! bytes. A refusal is expected with `!`.

mod parse;
mod run;
mod show;

use std::error::Error;

use vetch_model::Model;
use vetch_store::auth::Caller;
use vetch_store::hash::{HashRun, PastHashes};
use vetch_store::request::{RequestOp, TxnRequest, WriteRequest};
use vetch_store::{Record, Store, validate};

use crate::spec::Spec;

pub(crate) use show::state;

pub(crate) type Failure = Box<dyn Error>;

/// What a script runs on.
pub(crate) struct Script {
    pub(super) store: Store,
    /// Replays the journal of `store`.
    copy: Store,
    spec: Spec,
    /// Hashes of past compactions, for HashKV.
    past: PastHashes,
    journal: Vec<u8>,
    /// Where the last entry of the journal begins.
    last_entry: usize,
    /// Transactions under construction: each is nested in the one before it.
    open: Vec<OpenTxn>,
    ops_max: usize,
}

/// A transaction under construction, and whether it stands in the `then` branch of its parent.
struct OpenTxn {
    txn: TxnRequest,
    is_in_then: bool,
}

impl Script {
    pub(crate) fn new() -> Script {
        Script {
            store: Store::default(),
            copy: Store::default(),
            spec: Spec::new(),
            past: PastHashes::default(),
            journal: Vec::new(),
            last_entry: 0,
            open: Vec::new(),
            ops_max: 128,
        }
    }

    /// The journal bytes of the last request.
    pub(crate) fn last_entry(&self) -> &[u8] {
        &self.journal[self.last_entry..]
    }

    fn caller(&self, user: Option<&str>) -> Caller {
        user.map_or(Caller::Server, |name| Caller::user(name, self.store.auth().revision()))
    }

    /// What both stores hold at head must be the same.
    fn check_copy(&self) {
        assert_eq!(self.copy.head(), self.store.head(), "replay arrives elsewhere");
        assert_eq!(self.copy.unversioned(), self.store.unversioned(), "replay arrives elsewhere");
        assert_eq!(self.copy.stats().keys, self.store.stats().keys, "replay arrives elsewhere");
        for version in self.versions() {
            assert!(self.copy.retains(version), "replay has no {version:?}");
        }
        for (id, _) in self.store.leases().iter() {
            assert_eq!(self.copy.lease_keys(id), self.store.lease_keys(id), "keys of lease {id}");
        }
    }

    /// Every version that is retained, in the order in which they came to be.
    fn versions(&self) -> impl Iterator<Item = &Record> {
        self.spec.versions.iter().filter(|version| self.store.retains(version))
    }

    fn hash_compactions(&mut self) {
        while let Some(next) = self.past.next_to_hash() {
            let mut run = HashRun::in_compaction(&next);
            while !run.step(&self.store, 3).expect("the past does not move") {}
            self.past.hashed(next.revision, run.finish());
        }
    }

    /// The checksum up to a revision, with the compaction that it stands for.
    fn hash(&self, at: i64) -> Result<(u32, i64), Failure> {
        let mark = self.store.visible();
        let known = if at > 0 { self.past.find(at) } else { None };
        if known.is_none() && at > 0 && at < mark.compact_revision {
            return Err("required revision has been compacted".into());
        }
        let at = if at == 0 { mark.revision } else { at };
        let model: &Model = &self.spec.model;
        let (specified, compacted) = match known {
            Some(past) => (model.hash_in_compaction(at, past.compact_revision), past.compact_revision),
            None => (model.hash_kv(at, mark.compact_revision), mark.compact_revision),
        };
        let given = match known {
            Some(past) => past.hash.expect("it was hashed"),
            None => {
                let mut run = HashRun::new(at, mark);
                while !run.step(&self.store, 3).expect("no compaction has moved") {}
                run.finish()
            }
        };
        assert_eq!(given, specified, "the specification hashes revision {at} to another number");
        Ok((given, compacted))
    }

    fn add_op(&mut self, op: RequestOp, is_in_then: bool) -> Result<(), Failure> {
        let txn = &mut self.open.last_mut().ok_or("no transaction is open")?.txn;
        if is_in_then {
            txn.success.push(op)
        } else {
            txn.failure.push(op)
        }
        Ok(())
    }

    /// Ends the innermost transaction. The outermost one is returned.
    fn close_txn(&mut self) -> Result<Option<WriteRequest>, Failure> {
        let OpenTxn { txn, is_in_then } = self.open.pop().ok_or("no transaction is open")?;
        if self.open.is_empty() {
            return Ok(Some(WriteRequest::Txn(validate::txn(txn, self.ops_max)?)));
        }
        self.add_op(RequestOp::Txn(txn), is_in_then)?;
        Ok(None)
    }
}
