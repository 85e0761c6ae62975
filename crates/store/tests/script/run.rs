//! Running the commands of a script.

use goldenscript::{Command, Context, Runner};
use vetch_store::leased::LeasedRun;
use vetch_store::range::RangeRun;
use vetch_store::request::{RangeRequest, RangeResponse, Remaining, TxnRequest, WriteRequest};
use vetch_store::{Evaluated, Store, StoreError, TxnLimits, Validated, validate};

use super::parse::{self, Args};
use super::{Failure, OpenTxn, Script, show};

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, context: &Context) -> Result<String, Failure> {
        let mut args = Args::new(command);
        let out = self.execute(&command.name, &mut args, context)?;
        args.end()?;
        Ok(out)
    }

    fn end_script(&mut self) -> Result<(), Failure> {
        self.check_copy();
        Ok(())
    }
}

impl Script {
    fn execute(&mut self, name: &str, args: &mut Args<'_>, context: &Context) -> Result<String, Failure> {
        if let Some(request) = parse::request(name, args)? {
            return self.write(&request, context);
        }
        match name {
            "txn" => self.open.push(OpenTxn { txn: TxnRequest::default(), is_in_then: true }),
            "if" => {
                let compare = parse::compare(args)?;
                self.open.last_mut().ok_or("no transaction is open")?.txn.compare.push(compare);
            }
            "then" | "else" => self.branch(name == "then", args)?,
            "end" => {
                if let Some(request) = self.close_txn()? {
                    return self.txn(&request, context);
                }
            }
            "range" => return self.range(&parse::range(args)?, context),
            "stream" => return self.stream(args),
            "remaining" => {
                let id = args.number("lease")?;
                let grant = self.store.leases().get(id).map_or(0, |lease| lease.grant());
                let leases = vec![Remaining { id, grant, seconds: args.number("seconds")? }];
                return self.write(&WriteRequest::LeaseRemaining { leases }, context);
            }
            "keys" => return Ok(self.keys(args.number("lease")?)),
            "free" => return self.free(args),
            "hash" => return self.show_hash(args),
            "limit" => self.limit(args)?,
            "publish" => self.publish(),
            "restart" => self.restart(),
            "versions" => {
                return Ok(self.versions().map(|version| show::record(version) + "\n").collect());
            }
            "state" => return Ok(show::state(&self.store)),
            "size" => {
                let stats = self.store.stats();
                let garbage = self.store.kept_for_watchers();
                return Ok(format!(
                    "keys {} bytes {} (for watchers only {garbage})",
                    stats.keys, stats.bytes
                ));
            }
            "cost" => {
                let change = parse::change(args)?;
                return Ok(format!("{} bytes of journal", self.store.auth_cost(&change)));
            }
            other => return Err(format!("unknown command {other}").into()),
        }
        Ok(String::new())
    }

    fn branch(&mut self, is_in_then: bool, args: &mut Args<'_>) -> Result<(), Failure> {
        if args.flag("txn") {
            self.open.push(OpenTxn { txn: TxnRequest::default(), is_in_then });
            return Ok(());
        }
        self.add_op(parse::op(args)?, is_in_then)
    }

    fn txn(&mut self, request: &WriteRequest, context: &Context) -> Result<String, Failure> {
        match request {
            WriteRequest::Txn(txn) if txn.is_read_only() => {
                let caller = self.caller(context.prefix.as_deref());
                self.store.auth().check_read_txn(&caller, txn)?;
                let mut out = String::new();
                show::txn_response(&self.store.read_txn(txn)?, 0, &mut out);
                Ok(out)
            }
            _ => self.write(request, context),
        }
    }

    /// Has a request evaluated, and compares with the specification and with replay.
    fn write(&mut self, request: &WriteRequest, context: &Context) -> Result<String, Failure> {
        self.store.permit(&self.caller(context.prefix.as_deref()), request)?;
        let before = self.store.head();
        let mut journal = Vec::new();
        let answer = self.store.evaluate(request, &mut journal);
        // The specification knows neither users, nor how much is too much, nor which of several
        // leases of one id is meant.
        let is_specified = match request {
            WriteRequest::Auth(_) => false,
            WriteRequest::LeaseExpire { .. } => answer.is_ok(),
            _ => true,
        };
        if is_specified && answer != Err(StoreError::RequestTooLarge) {
            self.spec.judge(request, &answer);
        }
        let evaluated = answer?;
        self.replay(&journal, &evaluated);
        self.last_entry = self.journal.len();
        self.journal.extend_from_slice(&journal);
        if !context.tags.contains("held") {
            self.publish();
        }
        let mut out = show::evaluated(&evaluated, &journal, before.revision + 1);
        if context.tags.contains("bytes") {
            show::bytes(&journal, &mut out);
        }
        Ok(out)
    }

    fn replay(&mut self, journal: &[u8], evaluated: &Evaluated) {
        let replayed = self.copy.replay(journal).expect("what was written can be read");
        let events: Vec<_> = replayed.into_iter().flat_map(|revision| revision.events).collect();
        assert_eq!(events, evaluated.events, "replay gives other events");
        assert_eq!(self.copy.head(), self.store.head(), "replay arrives elsewhere");
    }

    fn publish(&mut self) {
        let before = self.store.visible().compact_revision;
        self.store.publish(self.store.head());
        self.past.compacted(before, self.store.visible().compact_revision);
        self.hash_compactions();
    }

    /// The store is what its journal replays to. Hashes of past compactions are forgotten.
    fn restart(&mut self) {
        self.check_copy();
        let mut store = Store::default();
        store.replay(&self.journal).expect("what was written can be read");
        store.publish(store.head());
        self.store = store;
        self.past = vetch_store::hash::PastHashes::default();
    }

    fn range(&mut self, request: &RangeRequest, context: &Context) -> Result<String, Failure> {
        let request = &validate::range(request.clone())?;
        let caller = self.caller(context.prefix.as_deref());
        self.store.auth().check_read(&caller, &request.range.key, &request.range.range_end)?;
        let response = self.read(request, usize::MAX)?;
        assert_eq!(self.read(request, 2)?, response, "the size of steps must not matter");
        let mut out = String::new();
        show::range_response(&response, 0, &mut out);
        Ok(out)
    }

    fn read(&self, request: &Validated<RangeRequest>, step: usize) -> Result<RangeResponse, StoreError> {
        let mut run = RangeRun::new(request.clone(), self.store.visible())?;
        while !run.step(&self.store, step, usize::MAX)? {}
        let count = run.count(&self.store)?;
        Ok(run.finish(count))
    }

    fn stream(&mut self, args: &mut Args<'_>) -> Result<String, Failure> {
        let step = usize::try_from(args.named_number("step")?)?.max(1);
        let mut run = RangeRun::new(validate::range(parse::range(args)?)?, self.store.visible())?;
        let mut out = String::new();
        loop {
            let is_done = run.step(&self.store, step, usize::MAX)?;
            let chunk: Vec<String> = run.take().iter().map(show::record).collect();
            show::line(&mut out, 0, format_args!("chunk [{}]", chunk.join(", ")));
            if is_done {
                break;
            }
        }
        let count = run.count(&self.store)?;
        show::range_response(&run.finish(count), 0, &mut out);
        Ok(out)
    }

    fn keys(&self, lease: i64) -> String {
        let mut run = LeasedRun::of(&self.store, lease);
        while !run.step(&self.store, 1).expect("no compaction has moved") {}
        run.finish().iter().map(|version| show::record(version) + "\n").collect()
    }

    fn free(&mut self, args: &mut Args<'_>) -> Result<String, Failure> {
        let max = args.optional().map_or(Ok(usize::MAX), str::parse)?;
        let mut freed = Vec::new();
        let is_done = self.store.compact_step(max, &mut freed);
        let mut out: String =
            freed.iter().map(|record| format!("freed {}\n", show::record(record))).collect();
        out += if is_done { "nothing left to free" } else { "more to free" };
        Ok(out)
    }

    fn show_hash(&mut self, args: &mut Args<'_>) -> Result<String, Failure> {
        let at = args.optional().map_or(Ok(0), str::parse)?;
        let etcd = args.named("etcd");
        let (hash, compacted) = self.hash(at)?;
        if etcd.is_some_and(|number| number != hash.to_string()) {
            return Err(format!("etcd gives another number than {hash}").into());
        }
        Ok(format!("hash {hash} compacted {compacted}"))
    }

    fn limit(&mut self, args: &mut Args<'_>) -> Result<(), Failure> {
        if let Some(ops) = args.named("ops") {
            self.ops_max = ops.parse()?;
        }
        if let Some(kept) = args.named("kept") {
            self.store.limit_kept_values(kept.parse()?);
        }
        let mut limits = TxnLimits::default();
        if let Some(keys) = args.named("keys") {
            limits.keys = keys.parse()?;
        }
        if let Some(bytes) = args.named("bytes") {
            limits.bytes = bytes.parse()?;
        }
        self.store.limit_txns(limits);
        Ok(())
    }
}
