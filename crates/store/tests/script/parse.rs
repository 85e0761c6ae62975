//! Commands of a script as requests.

use std::collections::VecDeque;
use std::str::FromStr;

use goldenscript::{Argument, Command};
use vetch_store::auth::{Change, Permission, PermissionKind};
use vetch_store::request::*;
use vetch_store::validate;

use super::Failure;

/// The arguments of a command, taken one by one.
pub(super) struct Args<'a> {
    words: VecDeque<&'a str>,
    named: Vec<(&'a str, &'a str)>,
}

impl<'a> Args<'a> {
    pub(super) fn new(command: &'a Command) -> Args<'a> {
        let (mut words, mut named) = (VecDeque::new(), Vec::new());
        for argument in &command.args {
            match argument {
                Argument::Positional(word) => words.push_back(word.as_str()),
                Argument::KeyValue(key, value) => named.push((key.as_str(), value.as_str())),
                _ => {}
            }
        }
        Args { words, named }
    }

    pub(super) fn word(&mut self, what: &str) -> Result<&'a str, Failure> {
        self.words.pop_front().ok_or_else(|| format!("no {what}").into())
    }

    pub(super) fn optional(&mut self) -> Option<&'a str> {
        self.words.pop_front()
    }

    pub(super) fn number<N: FromStr<Err: Into<Failure>>>(&mut self, what: &str) -> Result<N, Failure> {
        self.word(what)?.parse().map_err(Into::into)
    }

    /// Whether a word stands anywhere among the arguments.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let at = self.words.iter().position(|word| *word == name);
        at.is_some_and(|at| self.words.remove(at).is_some())
    }

    pub(super) fn named(&mut self, name: &str) -> Option<&'a str> {
        let at = self.named.iter().position(|(key, _)| *key == name)?;
        Some(self.named.remove(at).1)
    }

    pub(super) fn named_number(&mut self, name: &str) -> Result<i64, Failure> {
        self.named(name).map_or(Ok(0), |value| value.parse().map_err(Into::into))
    }

    pub(super) fn end(self) -> Result<(), Failure> {
        match (self.words.front(), self.named.first()) {
            (None, None) => Ok(()),
            (word, named) => Err(format!("too many arguments: {word:?} {named:?}").into()),
        }
    }
}

fn range_of(args: &mut Args<'_>) -> Result<KeyRange, Failure> {
    let key = args.word("key")?;
    Ok(KeyRange::new(key.to_owned(), args.optional().unwrap_or("").to_owned()))
}

pub(super) fn put(args: &mut Args<'_>) -> Result<PutRequest, Failure> {
    let (prev_kv, ignore_value, ignore_lease) =
        (args.flag("prev_kv"), args.flag("ignore_value"), args.flag("ignore_lease"));
    Ok(PutRequest {
        key: args.word("key")?.to_owned().into(),
        value: args.optional().unwrap_or("").to_owned().into(),
        lease: args.named_number("lease")?,
        prev_kv,
        ignore_value,
        ignore_lease,
    })
}

pub(super) fn delete(args: &mut Args<'_>) -> Result<DeleteRangeRequest, Failure> {
    let prev_kv = args.flag("prev_kv");
    Ok(DeleteRangeRequest { range: range_of(args)?, prev_kv })
}

pub(super) fn range(args: &mut Args<'_>) -> Result<RangeRequest, Failure> {
    let (keys_only, count_only) = (args.flag("keys_only"), args.flag("count_only"));
    Ok(RangeRequest {
        limit: args.named_number("limit")?,
        revision: args.named_number("rev")?,
        sort_order: match args.named("order") {
            None => SortOrder::None,
            Some("asc") => SortOrder::Ascend,
            Some("desc") => SortOrder::Descend,
            Some(other) => return Err(format!("unknown order {other}").into()),
        },
        sort_target: match args.named("sort") {
            None | Some("key") => SortTarget::Key,
            Some("version") => SortTarget::Version,
            Some("create") => SortTarget::Create,
            Some("mod") => SortTarget::Mod,
            Some("value") => SortTarget::Value,
            Some(other) => return Err(format!("unknown sort target {other}").into()),
        },
        min_mod_revision: args.named_number("min_mod")?,
        max_mod_revision: args.named_number("max_mod")?,
        min_create_revision: args.named_number("min_create")?,
        max_create_revision: args.named_number("max_create")?,
        keys_only,
        count_only,
        ..RangeRequest::new(range_of(args)?)
    })
}

/// One operation of a transaction that is not itself one.
pub(super) fn op(args: &mut Args<'_>) -> Result<RequestOp, Failure> {
    Ok(match args.word("operation")? {
        "put" => RequestOp::Put(put(args)?),
        "del" => RequestOp::DeleteRange(delete(args)?),
        "range" => RequestOp::Range(range(args)?),
        "nothing" => RequestOp::Empty,
        other => return Err(format!("unknown operation {other}").into()),
    })
}

/// `TARGET KEY [END] RESULT OPERAND`.
pub(super) fn compare(args: &mut Args<'_>) -> Result<Compare, Failure> {
    let target = args.word("target")?;
    let key = args.word("key")?;
    let mut word = args.word("result")?;
    let result = |word: &str| match word {
        "eq" => Some(CompareResult::Equal),
        "ne" => Some(CompareResult::NotEqual),
        "gt" => Some(CompareResult::Greater),
        "lt" => Some(CompareResult::Less),
        _ => None,
    };
    let mut end = "";
    if result(word).is_none() {
        end = word;
        word = args.word("result")?;
    }
    let result = result(word).ok_or_else(|| format!("unknown result {word}"))?;
    let target = match target {
        "value" => CompareTarget::Value(args.word("operand")?.to_owned().into()),
        "version" => CompareTarget::Version(args.number("operand")?),
        "create" => CompareTarget::Create(args.number("operand")?),
        "mod" => CompareTarget::Mod(args.number("operand")?),
        "lease" => CompareTarget::Lease(args.number("operand")?),
        other => return Err(format!("unknown target {other}").into()),
    };
    Ok(Compare { range: KeyRange::new(key.to_owned(), end.to_owned()), result, target })
}

/// A request that is a single command; None if the command is no request.
pub(super) fn request(name: &str, args: &mut Args<'_>) -> Result<Option<WriteRequest>, Failure> {
    Ok(Some(match name {
        "put" => WriteRequest::Put(validate::put(put(args)?)?),
        "del" => WriteRequest::DeleteRange(validate::delete_range(delete(args)?)?),
        "compact" => WriteRequest::Compact { revision: args.number("revision")? },
        "grant" => WriteRequest::LeaseGrant { id: args.number("lease")?, ttl: args.number("TTL")? },
        "revoke" => WriteRequest::LeaseRevoke { id: args.number("lease")? },
        "expire" => WriteRequest::LeaseExpire { id: args.number("lease")?, grant: args.number("grant")? },
        "alarm" => {
            let alarm = Alarm { member: args.number("member")?, kind: AlarmKind::NoSpace };
            match args.word("on or off")? {
                "on" => WriteRequest::AlarmActivate(alarm),
                _ => WriteRequest::AlarmDeactivate(alarm),
            }
        }
        "auth" => WriteRequest::Auth(change(args)?),
        _ => return Ok(None),
    }))
}

/// `enable`, `disable`, `user+ NAME [HASH]`, `user- NAME`, `password NAME HASH`, `grant USER ROLE`,
/// `revoke USER ROLE`, `role+ NAME`, `role- NAME`, `allow ROLE read|write|readwrite KEY [END]`,
/// `deny ROLE KEY [END]`. In a script `user+` is written `"user+"`.
pub(super) fn change(args: &mut Args<'_>) -> Result<Change, Failure> {
    let kind = args.word("change")?;
    if kind == "enable" || kind == "disable" {
        return Ok(if kind == "enable" { Change::Enable } else { Change::Disable });
    }
    let name = args.word("name")?.to_owned();
    let mut next = || args.optional().map(str::to_owned);
    let hash = |text: Option<String>| text.map(Into::into);
    Ok(match kind {
        "user+" => {
            let password = next();
            Change::UserAdd { name, no_password: password.is_none(), password: hash(password) }
        }
        "user-" => Change::UserDelete { name },
        "password" => Change::UserChangePassword { name, password: hash(next()) },
        "grant" => Change::UserGrantRole { user: name, role: next().unwrap_or_default() },
        "revoke" => Change::UserRevokeRole { user: name, role: next().unwrap_or_default() },
        "role+" => Change::RoleAdd { name },
        "role-" => Change::RoleDelete { name },
        "allow" => {
            let kind = match next().unwrap_or_default().as_str() {
                "read" => PermissionKind::of_number(0),
                "write" => PermissionKind::of_number(1),
                _ => PermissionKind::of_number(2),
            };
            let key = next().unwrap_or_default().into();
            let permission = Permission { kind, key, range_end: next().unwrap_or_default().into() };
            Change::RoleGrantPermission { role: name, permission: Some(permission) }
        }
        "deny" => {
            let key = next().unwrap_or_default().into();
            Change::RoleRevokePermission { role: name, key, range_end: next().unwrap_or_default().into() }
        }
        other => return Err(format!("unknown change {other}").into()),
    })
}
