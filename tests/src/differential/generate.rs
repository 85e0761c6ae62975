//! Requests by rng: a small world of keys, values, leases and revisions, so that steps keep
//! meeting each other.
//!
//! A step depends on the seed, its number and what is known of the servers (revision, compaction,
//! live watchers), never on the steps generated before it.

use bytes::Bytes;
use vetch_api::pb;

use super::request::{CHOSEN, FUTURE, Request, SETTLED};
use vetch_testkit::random::Rng;

/// What the generator may know about the servers' common state.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) revision: i64,
    pub(crate) compacted: i64,
    /// All compactions, the last of them last.
    pub(crate) compactions: Vec<i64>,
    /// How many lease ids the servers have chosen themselves.
    pub(crate) chosen_leases: usize,
    /// Ids of the watchers that are alive, per stream.
    pub(crate) watchers: [Vec<i64>; 2],
}

const KEYS: [&str; 14] =
    ["a", "a/1", "a/2", "b", "b/1", "b/2", "b/2/x", "c", "c/1", "d", "e", "\u{0}", "z", "\u{7f}\u{7f}"];
const VALUES: [&str; 7] =
    ["", "0", "1", "2", "two", "3", "a rather longer value that repeats, repeats, repeats"];
const MIB: usize = 1 << 20;

pub(crate) struct Generator<'a> {
    pub(crate) rng: Rng,
    pub(crate) world: &'a World,
    /// Set while a request is made in which nothing is wrong by intent. One bad operation refuses a
    /// whole transaction, so without it hardly any would be carried out.
    pub(crate) sane: bool,
}

impl Generator<'_> {
    pub(crate) fn request(&mut self) -> Request {
        type Make = fn(&mut Generator<'_>) -> Request;
        let makers: [(usize, Make); 17] = [
            (200, |g| Request::Range(g.range())),
            (30, |g| Request::RangeStream(g.range_for_stream())),
            (240, |g| Request::Put(g.put())),
            (50, |g| Request::DeleteRange(g.delete())),
            (220, |g| Request::Txn(g.txn(0))),
            (12, |g| Request::Compact(g.compaction())),
            (35, |g| Request::Grant(g.grant())),
            (25, |g| Request::Revoke(pb::LeaseRevokeRequest { id: g.lease() })),
            (12, |g| Request::KeepAlive(pb::LeaseKeepAliveRequest { id: g.lease() })),
            (20, |g| {
                Request::TimeToLive(pb::LeaseTimeToLiveRequest { id: g.lease(), keys: g.rng.percent(60) })
            }),
            (8, |_| Request::Leases),
            (30, |g| g.watch_create()),
            (10, |g| g.watch_cancel()),
            (20, |_| Request::WatchSettle),
            (8, |_| Request::Status),
            (16, |g| Request::HashKv(pb::HashKvRequest { revision: g.hash_revision() })),
            (14, |g| g.administration()),
        ];
        self.rng.weighted(&makers)(self)
    }

    fn key(&mut self) -> Bytes {
        if self.rng.percent(2) && !self.sane {
            return Bytes::new();
        }
        // Half of all requests meet on the first few keys.
        let bound = if self.rng.percent(50) { 5 } else { KEYS.len() };
        Bytes::from_static(KEYS[self.rng.below(bound)].as_bytes())
    }

    /// A key and an end: one key, a prefix, everything from a key on, everything, two keys in
    /// either order.
    fn span(&mut self) -> (Bytes, Bytes) {
        let key = self.key();
        match self.rng.below(8) {
            0..=2 => (key, Bytes::new()),
            3 => (key, Bytes::from_static(b"\0")),
            4 => (Bytes::from_static(b"\0"), Bytes::from_static(b"\0")),
            5 => {
                let end = prefix_end(&key);
                (key, end)
            }
            _ => (key, self.key()),
        }
    }

    fn value(&mut self) -> Bytes {
        match self.rng.below(2_000) {
            0 => Bytes::from(vec![b'x'; MIB * 5 / 4]),
            1 => Bytes::from(vec![b'x'; MIB * 3 / 2 + 500]),
            2 => Bytes::from(vec![b'x'; MIB * 2 + 500]),
            _ => Bytes::from_static(self.rng.pick(&VALUES).as_bytes()),
        }
    }

    /// 0 (now), the recent past, the edges of what is compacted, the future, nonsense.
    fn revision(&mut self) -> i64 {
        let World { revision, compacted, .. } = *self.world;
        match self.rng.below(if self.sane { 7 } else { 20 }) {
            0..=6 => 0,
            7..=12 => (revision - self.rng.between(0, 12)).max(1),
            13 => self.rng.between(1, revision.max(1)),
            14 | 15 => compacted + self.rng.between(-1, 1),
            16 | 17 => revision + self.rng.between(-1, 1),
            18 => revision + self.rng.between(1, 10),
            _ => *self.rng.pick(&[-1, 1, i64::MAX, i64::MIN]),
        }
    }

    /// The same, and what was compacted exactly: servers remember the hashes of the last ten
    /// compactions.
    fn hash_revision(&mut self) -> i64 {
        let last = self.world.compactions.len().saturating_sub(12);
        match &self.world.compactions[last..] {
            some @ [_, ..] if !self.sane && self.rng.percent(25) => *self.rng.pick(some),
            _ => self.revision(),
        }
    }

    fn lease(&mut self) -> i64 {
        let chosen = self.world.chosen_leases;
        match self.rng.below(10) {
            0 => *self.rng.pick(&[0, -1, 777, i64::MAX]),
            1 | 2 if chosen > 0 => CHOSEN + (chosen - 1 - self.rng.below(chosen.min(3))) as i64,
            _ => self.rng.between(1, 8),
        }
    }

    fn range(&mut self) -> pb::RangeRequest {
        let (key, range_end) = self.span();
        let mut request =
            pb::RangeRequest { key, range_end, revision: self.revision(), ..Default::default() };
        if self.rng.percent(35) {
            request.limit = *self.rng.pick(&[1, 1, 2, 3, 5, 100, -1]);
        }
        if self.rng.percent(40) {
            request.sort_order = *self.rng.pick(&[0, 1, 1, 2, 2, 2]);
            request.sort_target = self.rng.between(0, 4);
        }
        match self.rng.below(100) {
            _ if self.sane => {}
            0 => request.sort_order = 9,
            1 => request.sort_target = -1,
            _ => {}
        }
        request.serializable = self.rng.percent(20);
        request.keys_only = self.rng.percent(15);
        request.count_only = self.rng.percent(10);
        if self.rng.percent(20) {
            self.filters(&mut request);
        }
        request
    }

    fn filters(&mut self, request: &mut pb::RangeRequest) {
        for field in [
            &mut request.min_mod_revision,
            &mut request.max_mod_revision,
            &mut request.min_create_revision,
            &mut request.max_create_revision,
        ] {
            if self.rng.percent(40) {
                *field = self.world.revision - self.rng.between(-2, 30);
            }
        }
    }

    /// As `range`, but mostly without the options that streams refuse.
    fn range_for_stream(&mut self) -> pb::RangeRequest {
        let mut request = self.range();
        if self.rng.percent(80) {
            request.sort_order = 0;
            request.sort_target = 0;
            request.min_mod_revision = 0;
            request.max_mod_revision = 0;
            request.min_create_revision = 0;
            request.max_create_revision = 0;
        }
        // Without an order etcd sorts each chunk of the stream by itself and may repeat keys: see
        // docs/compatibility.md.
        if request.sort_order == pb::range_request::SortOrder::None as i32 {
            request.sort_target = pb::range_request::SortTarget::Key as i32;
        }
        request
    }

    fn put(&mut self) -> pb::PutRequest {
        let mut request = pb::PutRequest { key: self.key(), value: self.value(), ..Default::default() };
        if self.rng.percent(if self.sane { 5 } else { 35 }) {
            request.lease = self.lease();
        }
        request.prev_kv = self.rng.percent(25);
        if self.sane && self.rng.percent(95) {
            return request;
        }
        // With the field it replaces mostly empty, as a sane client would send it.
        if self.rng.percent(8) {
            request.ignore_value = true;
            if self.rng.percent(80) {
                request.value = Bytes::new();
            }
        }
        if self.rng.percent(8) {
            request.ignore_lease = true;
            if self.rng.percent(80) {
                request.lease = 0;
            }
        }
        request
    }

    fn delete(&mut self) -> pb::DeleteRangeRequest {
        let (key, mut range_end) = self.span();
        // Wiping everything is rare, or nothing would ever grow.
        if range_end == "\0" && self.rng.percent(80) {
            range_end = Bytes::new();
        }
        pb::DeleteRangeRequest { key, range_end, prev_kv: self.rng.percent(50) }
    }

    fn txn(&mut self, depth: usize) -> pb::TxnRequest {
        let mut request = pb::TxnRequest::default();
        self.sane = if depth == 0 { self.rng.percent(75) } else { self.sane };
        for _ in 0..*self.rng.pick(&[0, 0, 1, 1, 1, 2, 3]) {
            request.compare.push(self.compare());
        }
        for branch in [&mut request.success, &mut request.failure] {
            for _ in 0..*self.rng.pick(&[0, 1, 1, 2, 2, 3, 4]) {
                branch.push(self.operation(depth));
            }
        }
        if self.rng.below(150) == 0 {
            self.crowd(&mut request);
        }
        request
    }

    /// Around the limit of 128 operations, in one of the three lists.
    fn crowd(&mut self, request: &mut pb::TxnRequest) {
        let count = *self.rng.pick(&[126, 128, 129]);
        let get = || {
            pb::request_op::Request::RequestRange(pb::RangeRequest { key: "a".into(), ..Default::default() })
        };
        let gets = (0..count).map(|_| pb::RequestOp { request: Some(get()) }).collect();
        match self.rng.below(3) {
            0 => request.compare = (0..count).map(|_| self.compare()).collect(),
            1 => request.success = gets,
            _ => request.failure = gets,
        }
    }

    fn operation(&mut self, depth: usize) -> pb::RequestOp {
        use pb::request_op::Request as Op;
        let request = match self.rng.below(40) {
            0 if !self.sane => return pb::RequestOp { request: None },
            0..=12 => Op::RequestRange(self.range()),
            13..=27 => Op::RequestPut(self.put()),
            28..=34 => Op::RequestDeleteRange(self.delete()),
            _ if depth < 3 => Op::RequestTxn(self.txn(depth + 1)),
            _ => Op::RequestPut(self.put()),
        };
        pb::RequestOp { request: Some(request) }
    }

    fn compare(&mut self) -> pb::Compare {
        use pb::compare::TargetUnion as Union;
        let target = self.rng.between(0, 4);
        let mut compare =
            pb::Compare { result: self.rng.between(0, 3), target, key: self.key(), ..Default::default() };
        if self.rng.percent(25) {
            (compare.key, compare.range_end) = self.span();
        }
        let revision = self.world.revision - self.rng.between(-1, 15);
        // Sometimes the operand belongs to another target, or is missing.
        let operand = if self.rng.percent(96) { target } else { self.rng.between(0, 5) };
        compare.target_union = match operand {
            0 => Some(Union::Version(self.rng.between(0, 4))),
            1 => Some(Union::CreateRevision(*self.rng.pick(&[0, 0, revision]))),
            2 => Some(Union::ModRevision(*self.rng.pick(&[0, revision, revision]))),
            3 => Some(Union::Value(self.value())),
            4 => Some(Union::Lease(*self.rng.pick(&[0, self.world.chosen_leases as i64 % 6 + 1]))),
            _ => None,
        };
        compare
    }

    fn compaction(&mut self) -> pb::CompactionRequest {
        let World { revision, compacted, .. } = *self.world;
        let revision = match self.rng.below(10) {
            0 => compacted,
            1 => revision + self.rng.between(1, 3),
            2 => *self.rng.pick(&[-1, i64::MIN, i64::MAX]),
            3 => revision,
            _ => revision - self.rng.between(0, 40),
        };
        // etcd accepts 0 on a store that was never compacted, and from then on answers for the hash
        // of revision 0, which means the present everywhere else, with the empty store's.
        let revision = if revision == 0 { 1 } else { revision };
        pb::CompactionRequest { revision, physical: self.rng.percent(40) }
    }

    fn grant(&mut self) -> pb::LeaseGrantRequest {
        // Long enough never to expire during a run, or refused.
        let ttl = *self.rng.pick(&[600, 600, 600, 3_600, 3_600, 9_000_000_000, 9_000_000_001, i64::MAX]);
        let id = if self.rng.percent(25) { 0 } else { self.rng.between(1, 8) };
        pb::LeaseGrantRequest { ttl, id }
    }

    fn watch_create(&mut self) -> Request {
        let World { revision, compacted, .. } = *self.world;
        let (key, range_end) = self.span();
        let mut create = pb::WatchCreateRequest { key, range_end, ..Default::default() };
        create.prev_kv = self.rng.percent(50);
        create.fragment = self.rng.percent(30);
        create.progress_notify = self.rng.percent(20);
        create.filters = self.rng.pick(&[vec![], vec![], vec![], vec![0], vec![1], vec![0, 1]]).clone();
        if self.rng.percent(20) {
            create.watch_id = self.rng.between(1, 12);
        }
        if self.rng.percent(20) {
            create.start_revision = revision + self.rng.between(1, 15);
            return Request::WatchCreate(FUTURE, create);
        }
        create.start_revision = match self.rng.below(10) {
            0..=3 => 0,
            4..=6 => (revision - self.rng.between(0, 60)).max(1),
            7 => compacted + self.rng.between(-2, 1),
            8 => self.rng.between(1, revision.max(1)),
            _ => *self.rng.pick(&[1, -1, revision]),
        };
        Request::WatchCreate(SETTLED, create)
    }

    fn watch_cancel(&mut self) -> Request {
        let stream = *self.rng.pick(&[SETTLED, SETTLED, FUTURE]);
        let watchers = &self.world.watchers[stream];
        // The watcher that was made first answers for progress and stays.
        if watchers.len() > 1 && self.rng.percent(85) {
            let index = 1 + self.rng.below(watchers.len() - 1);
            return Request::WatchCancel(stream, watchers[index]);
        }
        Request::WatchCancel(stream, 999)
    }

    /// Operators' requests that leave the server as it is: questions, refusals and things with
    /// nothing to do.
    fn administration(&mut self) -> Request {
        let unknown = 12_345;
        match self.rng.below(12) {
            0 => Request::Alarm(pb::AlarmRequest { action: 0, member_id: 0, alarm: self.rng.between(0, 2) }),
            1 => Request::Alarm(pb::AlarmRequest { action: 2, member_id: 0, alarm: self.rng.between(0, 2) }),
            2 => Request::MoveLeader(*self.rng.pick(&[0, unknown])),
            3 => Request::Downgrade(pb::DowngradeRequest {
                action: 0,
                version: (*self.rng.pick(&["3.6", "3.6.0", "3.5.0", "3.7.0", "x", "", "3.6.0-rc"])).into(),
            }),
            4 => Request::Downgrade(pb::DowngradeRequest {
                action: *self.rng.pick(&[1, 7]),
                version: (*self.rng.pick(&["3.5.0", "nonsense", "3.8.0"])).into(),
            }),
            5 => Request::Downgrade(pb::DowngradeRequest { action: 2, version: String::new() }),
            6 => Request::Defragment,
            7 => Request::MemberList(self.rng.percent(50)),
            8 => Request::MemberPromote(unknown),
            9 => Request::MemberRemove(unknown),
            10 => Request::MemberUpdate(pb::MemberUpdateRequest {
                id: unknown,
                peer_ur_ls: vec![(*self.rng.pick(&["http://127.0.0.1:1", "nonsense"])).into()],
            }),
            _ => Request::MemberAdd(pb::MemberAddRequest {
                peer_ur_ls: (*self.rng.pick(&[
                    &["nonsense"] as &[&str],
                    &["http://localhost"],
                    &["ftp://a:1"],
                    &[],
                ]))
                .iter()
                .map(|url| (*url).to_owned())
                .collect(),
                is_learner: self.rng.percent(50),
            }),
        }
    }
}

/// The smallest key after all keys with this prefix.
fn prefix_end(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < 0xff {
            *last += 1;
            return Bytes::from(end);
        }
        end.pop();
    }
    Bytes::from_static(b"\0")
}
