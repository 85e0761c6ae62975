//! Requests drawn from an input, over so few keys, leases and revisions that everything collides.

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use vetch_store::Mark;
use vetch_store::request::*;
use vetch_testkit::valid::Valid;

fn one_of<T: Clone>(input: &mut Unstructured, choices: &[T]) -> Result<T> {
    Ok(choices[input.choose_index(choices.len())?].clone())
}

fn flag(input: &mut Unstructured) -> Result<bool> {
    input.arbitrary()
}

fn key(input: &mut Unstructured) -> Result<Bytes> {
    const KEYS: [&[u8]; 8] = [b"a", b"a\0", b"ab", b"b", b"c", b"\xff", b"\0", b""];
    Ok(Bytes::from_static(one_of(input, &KEYS)?))
}

fn key_range(input: &mut Unstructured) -> Result<KeyRange> {
    const ENDS: [&[u8]; 8] = [b"", b"", b"\0", b"b", b"c", b"a\0", b"\xff\xff", b"a"];
    Ok(KeyRange { key: key(input)?, range_end: Bytes::from_static(one_of(input, &ENDS)?) })
}

fn lease(input: &mut Unstructured) -> Result<i64> {
    one_of(input, &[0, 0, 0, 0, 1, 2, 3, -5])
}

/// Around what exists, and far away from it.
fn revision(input: &mut Unstructured, mark: Mark) -> Result<i64> {
    match input.int_in_range(0..=7)? {
        0 => one_of(input, &[i64::MAX, i64::MIN, -1, mark.revision + 1, mark.compact_revision - 1]),
        1..=3 => Ok(0),
        _ => input.int_in_range(0..=mark.revision + 1),
    }
}

pub(super) fn range(input: &mut Unstructured, mark: Mark) -> Result<RangeRequest> {
    let mut request =
        RangeRequest { revision: revision(input, mark)?, ..RangeRequest::new(key_range(input)?) };
    if request.range.key.is_empty() {
        request.range.key = Bytes::from_static(b"a");
    }
    request.limit = one_of(input, &[0, 0, 1, 2, 3, -3, i64::MAX])?;
    request.sort_order = one_of(input, &[SortOrder::None, SortOrder::Ascend, SortOrder::Descend])?;
    let targets =
        [SortTarget::Key, SortTarget::Version, SortTarget::Create, SortTarget::Mod, SortTarget::Value];
    request.sort_target = one_of(input, &targets)?;
    request.keys_only = flag(input)?;
    request.count_only = input.ratio(1, 4)?;
    if input.ratio(1, 3)? {
        request.min_mod_revision = revision(input, mark)?;
        request.max_mod_revision = revision(input, mark)?;
        request.min_create_revision = revision(input, mark)?;
        request.max_create_revision = revision(input, mark)?;
    }
    Ok(request)
}

fn put(input: &mut Unstructured) -> Result<PutRequest> {
    const VALUES: [&[u8]; 4] = [b"", b"x", b"y", b"zz"];
    let flags = input.int_in_range(0..=15u8)?;
    let request = PutRequest {
        key: key(input)?,
        value: Bytes::from_static(one_of(input, &VALUES)?),
        lease: lease(input)?,
        prev_kv: flags & 1 != 0,
        ignore_value: flags >> 1 == 1,
        ignore_lease: flags >> 1 == 2,
    };
    Ok(request)
}

fn delete(input: &mut Unstructured) -> Result<DeleteRangeRequest> {
    Ok(DeleteRangeRequest { range: key_range(input)?, prev_kv: flag(input)? })
}

fn compare(input: &mut Unstructured, mark: Mark) -> Result<Compare> {
    let results = [
        CompareResult::Equal,
        CompareResult::Greater,
        CompareResult::Less,
        CompareResult::NotEqual,
        CompareResult::Unknown,
    ];
    let target = match input.int_in_range(0..=5)? {
        0 => CompareTarget::Version(input.int_in_range(0..=3)?),
        1 => CompareTarget::Create(revision(input, mark)?),
        2 => CompareTarget::Mod(revision(input, mark)?),
        3 => CompareTarget::Value(Bytes::from_static(one_of(input, &[b"x", b"y"])?)),
        4 => CompareTarget::Lease(lease(input)?),
        _ => CompareTarget::Unknown,
    };
    Ok(Compare { range: key_range(input)?, result: one_of(input, &results)?, target })
}

fn ops(input: &mut Unstructured, mark: Mark, depth: u32) -> Result<Vec<RequestOp>> {
    let count = input.int_in_range(0..=3)?;
    let mut ops = Vec::new();
    for _ in 0..count {
        ops.push(match input.int_in_range(0..=9)? {
            0..=1 => RequestOp::Range(range(input, mark)?),
            2 => RequestOp::DeleteRange(delete(input)?),
            3 if depth < 3 => RequestOp::Txn(txn(input, mark, depth + 1)?),
            4 if depth == 0 => RequestOp::Empty,
            _ => RequestOp::Put(put(input)?),
        });
    }
    Ok(ops)
}

fn txn(input: &mut Unstructured, mark: Mark, depth: u32) -> Result<TxnRequest> {
    let compares = input.int_in_range(0..=2)?;
    let compare = (0..compares).map(|_| compare(input, mark)).collect::<Result<_>>()?;
    Ok(TxnRequest { compare, success: ops(input, mark, depth)?, failure: ops(input, mark, depth)? })
}

/// A transaction of any shape, or another write, which is well-formed.
pub(super) enum Write {
    Txn(TxnRequest),
    Other(WriteRequest),
}

pub(super) fn write(input: &mut Unstructured, mark: Mark) -> Result<Write> {
    Ok(Write::Other(match input.int_in_range(0..=9)? {
        0 => WriteRequest::LeaseGrant {
            id: input.int_in_range(1..=3)?,
            ttl: one_of(input, &[1, 60, i64::MAX])?,
        },
        1 => WriteRequest::LeaseRevoke { id: input.int_in_range(1..=4)? },
        2 => WriteRequest::Compact { revision: revision(input, mark)? },
        3 => WriteRequest::DeleteRange(valid_delete(delete(input)?).valid()),
        4..=6 => return Ok(Write::Txn(txn(input, mark, 0)?)),
        _ => WriteRequest::Put(valid_put(put(input)?).valid()),
    }))
}

fn valid_put(mut request: PutRequest) -> PutRequest {
    if request.key.is_empty() {
        request.key = Bytes::from_static(b"a");
    }
    if request.ignore_value {
        request.value = Bytes::new();
    }
    if request.ignore_lease {
        request.lease = 0;
    }
    request
}

fn valid_delete(mut request: DeleteRangeRequest) -> DeleteRangeRequest {
    if request.range.key.is_empty() {
        request.range.key = Bytes::from_static(b"a");
    }
    request
}
