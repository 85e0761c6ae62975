//! Writes the seeds of the corpus: what the shipped encoders write, small, and in the form that
//! each target reads.
//!
//! `seeds DIR` puts them into `DIR/<target>/seed-*`. They are the same every time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use vetch_api::pb;
use vetch_bolt::{PAGE_SIZE, Writer};
use vetch_checkpoint::{Capture, load};
use vetch_fuzz::image::{self, Flags};
use vetch_fuzz::{checkpoint, etcd_log, identity, recovery, replay};
use vetch_journal::{Draft, Journal, Kind, LocalJournal, MemDisk, PartId, PayloadRef, Recovery, Tip};
use vetch_store::{Record, Store};

fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).expect("usage: seeds DIR"));
    write(&dir, "entry", entries());
    write(&dir, "recovery", journals());
    write(&dir, "checkpoint", checkpoints());
    write(&dir, "identity", identities());
    write(&dir, "replay", payloads());
    write(&dir, "wire", messages());
    write(&dir, "json", bodies());
    write(&dir, "bolt", databases());
    write(&dir, "http2", connections());
    write(&dir, "connection", (1..=12).map(decisions).collect());
    write(&dir, "etcd_log", logs());
    write(&dir, "model", vec![(0..=255).collect(), (0..200).map(|n: u8| n.wrapping_mul(37)).collect()]);
}

fn write(dir: &Path, target: &str, seeds: Vec<Vec<u8>>) {
    let dir = dir.join(target);
    std::fs::create_dir_all(&dir).expect("the corpus can be written");
    for (n, seed) in seeds.iter().enumerate() {
        std::fs::write(dir.join(format!("seed-{n:02}")), seed).expect("the corpus can be written");
    }
}

/// What a client and services decide, as random as can be.
fn decisions(seed: u64) -> Vec<u8> {
    let bytes = (0..10u64).flat_map(|n| *blake3::hash(&(seed * 100 + n).to_le_bytes()).as_bytes());
    bytes.take(20 + 25 * seed as usize).collect()
}

/// Clients: calls, one in parts, settings, windows, a reset, pings, padding, a farewell.
fn connections() -> Vec<Vec<u8>> {
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        [&[0, (payload.len() >> 8) as u8, payload.len() as u8, kind, flags, 0, 0, 0, stream], payload]
            .concat()
    };
    // Indexed fields, a path that is remembered, Huffman-coded text, and one that is not
    // remembered.
    let head =
        b"\x83\x86\x44\x03/kv\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\x00\x02te\x08trailers";
    let call = |stream| [frame(1, 4, stream, head), frame(0, 1, stream, b"\0\0\0\0\x02hi")].concat();
    let again = [frame(1, 4, 3, b"\x83\x86\xbf\xbe"), frame(0, 1, 3, b"\0\0\0\0\0")].concat();
    let settings = frame(4, 0, 0, &[0, 4, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0]);
    let windows = [frame(8, 0, 0, &[0, 1, 0, 0]), frame(8, 0, 1, &[0, 0, 16, 0])].concat();
    let parts = [
        frame(1, 0, 1, &head[..5]),
        frame(9, 4, 1, &head[5..]),
        frame(0, 0, 1, b"ab"),
        frame(0, 8, 1, b"\x01c\0"),
    ];
    let last = [
        frame(3, 0, 1, &[0, 0, 0, 8]),
        frame(6, 0, 0, b"12345678"),
        frame(7, 0, 0, &[0; 8]),
        frame(2, 0, 5, &[0; 5]),
    ];
    let lives = [
        call(1),
        [call(1), again.clone()].concat(),
        [settings, call(1), windows].concat(),
        [parts.concat(), last.concat()].concat(),
        [frame(1, 5, 1, head), again].concat(),
    ];
    lives.iter().flat_map(|life| [[&[255, 0], &life[..]].concat(), [&[6, 77], &life[..]].concat()]).collect()
}

/// A message as the field of another.
fn field(tag: u32, message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::encode_key(tag, prost::encoding::WireType::LengthDelimited, &mut bytes);
    prost::encoding::encode_varint(message.encoded_len() as u64, &mut bytes);
    message.encode(&mut bytes).expect("there is room");
    bytes
}

/// The log of an etcd that was asked for a little of everything, whole, in two files, and as raw
/// bytes.
fn logs() -> Vec<Vec<u8>> {
    let put = |key: &str, lease| pb::PutRequest {
        key: key.to_owned().into(),
        value: "v".into(),
        lease,
        ..Default::default()
    };
    let nested = pb::TxnRequest {
        compare: vec![pb::Compare { key: "a".into(), ..Default::default() }],
        failure: vec![pb::RequestOp { request: Some(pb::request_op::Request::RequestPut(put("n", 0))) }],
        ..Default::default()
    };
    let user = |name: &str| pb::AuthUserAddRequest {
        name: name.into(),
        hashed_password: "aGFzaA==".into(),
        ..Default::default()
    };
    let requests = [
        field(4, &put("a", 0)),
        field(8, &pb::LeaseGrantRequest { id: 5, ttl: 60 }),
        field(4, &put("b", 5)),
        field(6, &nested),
        field(5, &pb::DeleteRangeRequest { key: "a".into(), range_end: "b".into(), prev_kv: true }),
        field(7, &pb::CompactionRequest { revision: 3, physical: false }),
        field(9, &pb::LeaseRevokeRequest { id: 5 }),
        field(10, &pb::AlarmRequest { action: 1, member_id: 1, alarm: 1 }),
        field(10, &pb::AlarmRequest { action: 2, member_id: 1, alarm: 1 }),
        field(1100, &user("root")),
        field(1104, &pb::AuthUserGrantRoleRequest { user: "root".into(), role: "root".into() }),
        field(1200, &pb::AuthRoleAddRequest { name: "r".into() }),
        field(1000, &pb::AuthEnableRequest {}),
        [vec![0xa2, 0x06, 8, 0x12, 4, b'r', b'o', b'o', b't', 0x18, 9], field(4, &put("c", 0))].concat(),
    ];
    let mut records: Vec<(u8, Vec<u8>)> = vec![(4, Vec::new()), (1, vec![8, 1, 16, 2]), (5, Vec::new())];
    for (n, request) in (1u8..).zip(requests) {
        let mut data = vec![0x10, 2, 0x18, n, 0x22];
        prost::encoding::encode_varint(request.len() as u64, &mut data);
        data.extend(request);
        // In the middle a second file begins, as its number says.
        records.push((if n == 6 { 128 + 2 } else { 2 }, data));
        if n % 4 == 0 {
            records.push((3, vec![8, 2, 24, n]));
        }
    }
    let mut raw = Vec::new();
    let mut crc = 0;
    for (kind, content) in records.iter().filter(|(kind, _)| *kind < 128).take(8) {
        crc = crc32c::crc32c_append(crc, content);
        etcd_log::frame(&mut raw, *kind, content, crc);
    }
    vec![
        image::build(Flags(1), &records),
        image::build(Flags(1), &records[..8]),
        image::build(Flags(0), &[(0, raw)]),
    ]
}

/// Files with an inline bucket, one of a page, one of several levels, and one with overflow pages.
fn databases() -> Vec<Vec<u8>> {
    let shapes: [&[(&[u8], u32, usize)]; 4] = [
        &[(b"inline", 3, 4)],
        &[(b"empty", 0, 0), (b"page", 50, 8)],
        &[(b"levels", 3, 2100), (b"meta", 1, 1)],
        &[(b"overflow", 2, 5000)],
    ];
    let mut seeds = Vec::new();
    for shape in shapes {
        let mut writer = Writer::new(Vec::new());
        for (name, keys, value) in shape {
            writer.bucket(name).expect("memory");
            (0..*keys).for_each(|n| writer.put(&n.to_be_bytes(), &vec![0; *value]).expect("memory"));
        }
        let (body, layout) = writer.finish().expect("memory");
        let file = [layout.front(), body].concat();
        // Pages end in zeros, which the target adds by itself.
        let content =
            |page: &[u8]| page[..page.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1)].to_vec();
        let pages: Vec<(u8, Vec<u8>)> = (0..).zip(file.chunks(PAGE_SIZE).map(content)).collect();
        seeds.push(image::build(Flags(0), &pages));
        seeds.push(image::build(Flags(1), &pages));
    }
    seeds
}

fn draft(kind: Kind, payloads: &[&[u8]]) -> Draft {
    let mut draft = Draft::new(kind);
    for (n, payload) in (0..).zip(payloads) {
        draft.begin_part(PartId { partition: n, owner_epoch: 1, pseq: u64::from(n) });
        draft.payload().extend_from_slice(payload);
        draft.end_part(1);
    }
    draft
}

fn entries() -> Vec<Vec<u8>> {
    let mut tip = Tip::genesis(2);
    let mut with_ref = draft(Kind::Writes, &[]);
    let reference = PayloadRef { stream: 1, position: 2, len: 3, hash: [4; 32] };
    with_ref.push_ref(PartId { partition: 1, owner_epoch: 1, pseq: 1 }, 2, &reference);
    let drafts = [
        draft(Kind::NewEpoch, &[]),
        draft(Kind::Writes, &[b"payload"]),
        draft(Kind::Writes, &[b"", b"two parts"]),
        draft(Kind::Barrier, &[]),
        with_ref,
    ];
    drafts.map(|draft| draft.chain(&mut tip).bytes().to_vec()).to_vec()
}

/// A journal of these batches, as the files of an image.
fn journal(is_encrypted: bool, batches: &[&[&[u8]]]) -> Vec<(u8, Vec<u8>)> {
    let disk = MemDisk::new();
    let view = Arc::new(disk.clone());
    let recovery = LocalJournal::recover(
        view,
        Path::new(recovery::DIR),
        recovery::config(is_encrypted),
        Tip::genesis(2),
    );
    let (mut journal, _) = recovery.and_then(Recovery::finish).expect("an empty directory");
    let mut tip = journal.claim().expect("nothing fails");
    for batch in batches {
        let chained: Vec<_> =
            batch.iter().map(|payload| draft(Kind::Writes, &[payload]).chain(&mut tip)).collect();
        journal.append_batch(&chained).expect("nothing fails");
    }
    let number = |path: &Path| {
        let name = path.file_stem()?.to_str()?;
        u8::try_from(u64::from_str_radix(name, 16).ok()? - 1).ok()
    };
    disk.files().iter().filter_map(|(path, content)| Some((number(path)?, content.clone()))).collect()
}

fn journals() -> Vec<Vec<u8>> {
    let large = [7; 700];
    let images = [
        journal(false, &[]),
        journal(false, &[&[b"one"], &[b"two", b"three"]]),
        journal(false, &[&[&large], &[b"last"]]),
    ];
    let mut seeds: Vec<Vec<u8>> = (0..4u8)
        .flat_map(|flags| images.iter().map(move |files| image::build(Flags(flags), files)))
        .collect();
    // A torn write: the last record without its second sector.
    let mut torn = images[2].clone();
    let last = torn.iter_mut().find(|(_, content)| content.len() > 1024 || content[512..516] == *b"VJRN");
    if let Some((_, content)) = last {
        let end = content.len();
        content[end - 512..].fill(0);
    }
    seeds.push(image::build(Flags(0), &torn));
    let encrypted = journal(true, &[&[b"one"], &[&large]]);
    seeds.extend((0..2u8).map(|flags| image::build(Flags(flags), &encrypted)));
    seeds
}

/// Checkpoints of the script's life, taken after every so many requests.
fn checkpoint_files(is_encrypted: bool, every: usize) -> Vec<(u8, Vec<u8>)> {
    let disk = MemDisk::new();
    let opened = load(
        Arc::new(disk.clone()),
        Path::new(checkpoint::DIR),
        checkpoint::CONFIG,
        0,
        &image::keys(is_encrypted),
        &mut |_, _| {},
    );
    let mut loaded = opened.expect("an empty directory");
    let (store, mut tip) = (&mut loaded.store, loaded.tip);
    let mut dirty: Vec<Record> = Vec::new();
    for (n, request) in (1..).zip(replay::script()) {
        let mut payload = Vec::new();
        let evaluated = store.evaluate(&request, &mut payload).expect("nothing refuses these");
        let mut entry = Draft::new(Kind::Writes);
        entry.begin_part(PartId { partition: 0, owner_epoch: 0, pseq: 0 });
        entry.payload().extend_from_slice(&payload);
        entry.end_part(u32::from(!evaluated.events.is_empty()));
        entry.chain(&mut tip);
        dirty.extend(evaluated.events.into_iter().map(|event| event.kv));
        store.publish(store.head());
        if n % every == 0 {
            let capture = Capture::at_head(store, tip, std::mem::take(&mut dirty));
            let retained = |records: &[Record]| records.iter().map(|record| store.retains(record)).collect();
            loaded.checkpointer.run(capture, &retained).expect("nothing fails");
        }
    }
    let number = |path: &Path| {
        let number = u8::from_str_radix(path.file_stem()?.to_str()?, 16).ok()?;
        Some(number * 2 + u8::from(path.extension()? == "manifest"))
    };
    disk.files().iter().filter_map(|(path, content)| Some((number(path)?, content.clone()))).collect()
}

fn checkpoints() -> Vec<Vec<u8>> {
    let images = [
        checkpoint_files(false, 11),
        checkpoint_files(false, 3),
        checkpoint_files(false, 1),
        checkpoint_files(true, 11),
    ];
    (0..2u8).flat_map(|flags| images.iter().map(move |files| image::build(Flags(flags), files))).collect()
}

fn identities() -> Vec<Vec<u8>> {
    let mut file = b"VETCHID1".to_vec();
    let proposed = identity::config().proposed;
    file.extend_from_slice(&proposed.cluster_id.to_le_bytes());
    file.extend_from_slice(&proposed.member_id.to_le_bytes());
    file.extend_from_slice(&crc32c::crc32c(&file).to_le_bytes());
    [0, 1].map(|flags| [&[flags], &file[..]].concat()).to_vec()
}

fn payloads() -> Vec<Vec<u8>> {
    let mut store = Store::default();
    let mut seeds = Vec::new();
    let mut all = vec![2];
    for request in replay::script() {
        let from = all.len();
        let evaluated = store.evaluate(&request, &mut all).expect("nothing refuses these");
        seeds.push([&[2], &all[from..]].concat());
        for event in evaluated.events {
            let mut saved = vec![1];
            event.kv.save(&mut saved);
            seeds.extend([[&[0][..], &event.kv.wire().concat()].concat(), saved]);
        }
    }
    let mut on_top = vec![3];
    let mut base = replay::base();
    for request in replay::script().into_iter().filter(|request| format!("{request:?}").contains("Put")) {
        base.evaluate(&request, &mut on_top).expect("nothing refuses these");
    }
    seeds.extend([all, on_top]);
    seeds
}

fn txn() -> pb::TxnRequest {
    let put = pb::PutRequest { key: "a".into(), value: "v".into(), prev_kv: true, ..Default::default() };
    let range = pb::RangeRequest { key: "a".into(), range_end: "c".into(), limit: 2, ..Default::default() };
    let delete = pb::DeleteRangeRequest { key: "b".into(), prev_kv: true, ..Default::default() };
    let op = |request| pb::RequestOp { request: Some(request) };
    use pb::request_op::Request;
    let nested = pb::TxnRequest { success: vec![op(Request::RequestPut(put.clone()))], ..Default::default() };
    let compare = pb::Compare {
        result: pb::compare::CompareResult::Less as i32,
        target: pb::compare::CompareTarget::Mod as i32,
        key: "a".into(),
        target_union: Some(pb::compare::TargetUnion::ModRevision(9)),
        ..Default::default()
    };
    pb::TxnRequest {
        compare: vec![compare],
        success: vec![op(Request::RequestPut(put)), op(Request::RequestRange(range.clone()))],
        failure: vec![op(Request::RequestDeleteRange(delete)), op(Request::RequestTxn(nested))],
    }
}

fn range() -> pb::RangeRequest {
    use pb::range_request::{SortOrder, SortTarget};
    pb::RangeRequest {
        key: "a".into(),
        range_end: "\0".into(),
        limit: 3,
        revision: 5,
        sort_order: SortOrder::Descend as i32,
        sort_target: SortTarget::Value as i32,
        min_mod_revision: 1,
        ..Default::default()
    }
}

fn watch() -> pb::WatchRequest {
    let create =
        pb::WatchCreateRequest { key: "a".into(), start_revision: 3, filters: vec![0], ..Default::default() };
    pb::WatchRequest { request_union: Some(pb::watch_request::RequestUnion::CreateRequest(create)) }
}

/// Each message with its number in `messages`.
fn messages() -> Vec<Vec<u8>> {
    let put = pb::PutRequest { key: "k".into(), value: "v".into(), lease: 7, ..Default::default() };
    let delete = pb::DeleteRangeRequest { key: "a".into(), range_end: "b".into(), prev_kv: true };
    let numbered = |number: u8, bytes: Vec<u8>| [&[number], &bytes[..]].concat();
    vec![
        numbered(0, range().encode_to_vec()),
        numbered(1, put.encode_to_vec()),
        numbered(2, delete.encode_to_vec()),
        numbered(3, txn().encode_to_vec()),
        numbered(4, pb::CompactionRequest { revision: 5, physical: true }.encode_to_vec()),
        numbered(5, watch().encode_to_vec()),
        numbered(6, pb::LeaseGrantRequest { ttl: 60, id: 7 }.encode_to_vec()),
        numbered(
            11,
            pb::MemberAddRequest { peer_ur_ls: vec!["http://a:1".into()], is_learner: true }.encode_to_vec(),
        ),
    ]
}

fn bodies() -> Vec<Vec<u8>> {
    let json = |number: u8, body: serde_json::Result<Vec<u8>>| {
        [&[number], &body.expect("it can be written")[..]].concat()
    };
    let as_written: Vec<Vec<u8>> =
        messages().iter().map(|seed| [&[seed[0] + 128], &seed[1..]].concat()).collect();
    let mut seeds = vec![
        json(0, vetch_api::json::to_vec(&range())),
        json(3, vetch_api::json::to_vec(&txn())),
        json(5, vetch_api::json::to_vec(&watch())),
        br#"{"key":"YQ==","rangeEnd":"YQ-_","limit":"3","sort_order":"DESCEND","revision":5}"#.to_vec(),
        b"\x05{\"create_request\":{\"key\":\"YQ\"}} {\"cancel_request\":{\"watch_id\":1}}".to_vec(),
    ];
    seeds[3].insert(0, 0);
    seeds.extend(as_written);
    seeds
}
