//! Reading in the model: ranges with every option, and HashKV.

use vetch_store::Record;
use vetch_store::record::Fields;
use vetch_store::request::*;

use super::Model;

impl Model {
    /// The answer at revision `at`, with `revision` in its header.
    pub(crate) fn range(&self, request: &RangeRequest, revision: i64, at: i64) -> RangeResponse {
        let mut kvs = self.live(&request.range, at);
        let count = kvs.len() as i64;
        if request.count_only {
            return RangeResponse { revision, kvs: vec![], more: false, count };
        }
        let filtered = [
            request.min_mod_revision,
            request.max_mod_revision,
            request.min_create_revision,
            request.max_create_revision,
        ]
        .iter()
        .any(|&bound| bound != 0);
        let by_key = request.sort_target == SortTarget::Key;
        let in_order =
            request.sort_order == SortOrder::None || (by_key && request.sort_order == SortOrder::Ascend);
        let mut more = false;
        if request.limit > 0 && in_order && !filtered {
            // The limit cuts in key order, one too many is kept to tell that there is more, and only
            // then are the few that are left sorted.
            kvs.truncate((request.limit as usize).saturating_add(1));
        }
        kvs.retain(|kv| {
            let (changed, created) = (kv.mod_revision(), kv.create_revision());
            (request.min_mod_revision == 0 || changed >= request.min_mod_revision)
                && (request.max_mod_revision == 0 || changed <= request.max_mod_revision)
                && (request.min_create_revision == 0 || created >= request.min_create_revision)
                && (request.max_create_revision == 0 || created <= request.max_create_revision)
        });
        kvs.sort_by(|a, b| match request.sort_target {
            SortTarget::Key => a.key().cmp(b.key()),
            SortTarget::Version => a.version().cmp(&b.version()),
            SortTarget::Create => a.create_revision().cmp(&b.create_revision()),
            SortTarget::Mod => a.mod_revision().cmp(&b.mod_revision()),
            SortTarget::Value => a.value().cmp(b.value()),
        });
        if request.sort_order == SortOrder::Descend {
            kvs.reverse();
        }
        if request.limit > 0 && kvs.len() as i64 > request.limit {
            kvs.truncate(request.limit as usize);
            more = true;
        }
        if request.keys_only {
            kvs = kvs.iter().map(|kv| without_value(kv, request.sort_target)).collect();
        }
        RangeResponse { revision, kvs, more, count }
    }

    /// CRC-32C as etcd's HashKV forms it, once the compaction at `compacted` is done.
    pub(crate) fn hash(&self, at: i64, compacted: i64) -> u32 {
        let newest = |version: &Record, at: i64| self.version_at(version.key(), at) == Some(version);
        let living = self.keys.keys().any(|key| self.live_at(key, at).is_some());
        let mut versions: Vec<&Record> = self
            .all_versions()
            .filter(|version| version.mod_revision() <= at)
            .filter(|version| {
                version.mod_revision() > compacted
                    || (!version.is_tombstone()
                        && newest(version, compacted)
                        && (newest(version, at) || !living))
            })
            .collect();
        versions.sort_by_key(|version| (version.mod_revision(), version.sub()));
        let mut bytes = b"key".to_vec();
        for version in versions {
            bytes.extend(version.mod_revision().to_be_bytes());
            bytes.push(b'_');
            bytes.extend(u64::from(version.sub()).to_be_bytes());
            if version.is_tombstone() {
                bytes.push(b't');
                bytes.extend([0x0a, version.key().len() as u8]);
                bytes.extend(version.key());
            } else {
                bytes.extend(version.wire());
            }
        }
        crc32c::crc32c(&bytes)
    }
}

/// Only a sort by value reads the whole record; any other keys-only answer does not know the lease.
fn without_value(kv: &Record, target: SortTarget) -> Record {
    Record::new(Fields {
        key: kv.key(),
        value: b"",
        create_revision: kv.create_revision(),
        mod_revision: kv.mod_revision(),
        version: kv.version(),
        lease: if target == SortTarget::Value { kv.lease() } else { 0 },
        sub: kv.sub(),
    })
}
