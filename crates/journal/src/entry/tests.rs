//! The codec on generated and hostile bytes, and each rule of the chain broken once.

use bytes::Bytes;
use proptest::prelude::*;

use super::{
    ChainError, Draft, ENTRY_HEADER_LEN, Entry, EntryError, Hash, Kind, Part, PartId, Payload, PayloadRef,
    Tip, hash_entry,
};
use vetch_base::{Epoch, Seq};

fn payload() -> impl Strategy<Value = Payload> {
    let bytes =
        proptest::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| Payload::Inline(bytes.into()));
    let reference = any::<(u64, u64, u64, Hash)>()
        .prop_map(|(stream, position, len, hash)| Payload::Ref(PayloadRef { stream, position, len, hash }));
    prop_oneof![3 => bytes, 1 => reference]
}

fn part() -> impl Strategy<Value = Part> {
    (any::<(u32, u64, u64, u32)>(), payload()).prop_map(|((partition, owner_epoch, pseq, count), payload)| {
        Part { id: PartId { partition, owner_epoch, pseq }, count, payload }
    })
}

fn entry() -> impl Strategy<Value = Entry> {
    let kind = (1..=8u8).prop_map(|number| Kind::from_number(number).expect("eight kinds"));
    let place = any::<(u64, u64, Hash, i64)>();
    (place, kind, proptest::collection::vec(part(), 0..5)).prop_map(
        |((epoch, seq, prev_hash, base_rev), kind, parts)| Entry {
            epoch: Epoch::new(epoch),
            seq: Seq::new(seq),
            prev_hash,
            base_rev,
            kind,
            parts,
        },
    )
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(entry in entry()) {
        let encoded = Bytes::from(entry.encode());
        prop_assert_eq!(Entry::decode(&encoded), Ok(entry));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Entry::decode(&Bytes::from(bytes));
    }

    #[test]
    fn what_is_accepted_encodes_to_itself(
        entry in entry(),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
    ) {
        let mut bytes = entry.encode();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(decoded) = Entry::decode(&Bytes::from(bytes.clone())) {
            prop_assert_eq!(decoded.encode(), bytes);
        }
    }

    #[test]
    fn a_draft_writes_what_encode_writes(entry in entry(), next_rev in 0..1i64 << 60) {
        let mut tip = Tip { epoch: Epoch::new(4), seq: Seq::new(9), hash: entry.prev_hash, next_rev };
        let before = tip;
        let mut draft = Draft::new(entry.kind);
        for part in &entry.parts {
            match &part.payload {
                Payload::Inline(payload) => {
                    draft.begin_part(part.id);
                    draft.payload().extend_from_slice(payload);
                    prop_assert_eq!(draft.payload_len(), payload.len());
                    draft.end_part(part.count);
                }
                Payload::Ref(reference) => draft.push_ref(part.id, part.count, reference),
            }
        }
        let chained = draft.chain(&mut tip);
        let epoch = if entry.kind == Kind::NewEpoch { Epoch::new(5) } else { Epoch::new(4) };
        let expected = Entry { epoch, seq: Seq::new(10), base_rev: next_rev, ..entry };
        prop_assert_eq!(&chained.bytes()[..], &expected.encode()[..]);
        prop_assert_eq!(before.accept(&expected, hash_entry(chained.bytes())), Ok(tip));
        prop_assert_eq!((chained.before(), chained.after()), (&before, &tip));
    }
}

#[test]
fn hostile_lengths_are_refused_without_allocating() {
    let entry = Entry {
        epoch: Epoch::new(1),
        seq: Seq::new(1),
        prev_hash: [0; 32],
        base_rev: 2,
        kind: Kind::Writes,
        parts: Vec::new(),
    };
    let mut many_parts = entry.encode();
    many_parts[6..8].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(Entry::decode(&many_parts.into()), Err(EntryError::Short { need: 32, have: 0 }));
    let mut long = entry.encode();
    long[0..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(Entry::decode(&long.into()), Err(EntryError::Length { .. })));
    let part =
        Part { id: PartId::default(), count: 1, payload: Payload::Inline(Bytes::from_static(b"payload")) };
    let mut wide = Entry { parts: vec![part], ..entry.clone() }.encode();
    wide[ENTRY_HEADER_LEN + 28..ENTRY_HEADER_LEN + 32].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(Entry::decode(&wide.into()), Err(EntryError::Short { .. })));
    let mut newer = entry.encode();
    newer[4] = 2;
    assert_eq!(Entry::decode(&newer.into()), Err(EntryError::Version(2)));
}

#[test]
fn each_rule_of_the_chain_is_checked() {
    let tip = Tip { epoch: Epoch::new(3), seq: Seq::new(10), hash: [7; 32], next_rev: 50 };
    let part = Part { id: PartId::default(), count: 4, payload: Payload::Inline(Bytes::new()) };
    let good = Entry {
        epoch: Epoch::new(3),
        seq: Seq::new(11),
        prev_hash: [7; 32],
        base_rev: 50,
        kind: Kind::Writes,
        parts: vec![part],
    };
    let accept = |entry: &Entry| tip.accept(entry, [8; 32]);
    assert_eq!(
        accept(&good),
        Ok(Tip { epoch: Epoch::new(3), seq: Seq::new(11), hash: [8; 32], next_rev: 54 })
    );
    let seq = ChainError::Seq { expected: Seq::new(11), found: Seq::new(12) };
    assert_eq!(accept(&Entry { seq: Seq::new(12), ..good.clone() }), Err(seq));
    assert_eq!(accept(&Entry { prev_hash: [6; 32], ..good.clone() }), Err(ChainError::PrevHash));
    for epoch in [2, 4].map(Epoch::new) {
        let wrong = ChainError::Epoch { current: Epoch::new(3), found: epoch };
        assert_eq!(accept(&Entry { epoch, ..good.clone() }), Err(wrong));
    }
    let stale = ChainError::NewEpoch { current: Epoch::new(3), found: Epoch::new(3) };
    assert_eq!(accept(&Entry { kind: Kind::NewEpoch, ..good.clone() }), Err(stale));
    assert!(accept(&Entry { kind: Kind::NewEpoch, epoch: Epoch::new(9), ..good.clone() }).is_ok());
    let rev = ChainError::BaseRev { expected: 50, found: 51 };
    assert_eq!(accept(&Entry { base_rev: 51, ..good.clone() }), Err(rev));
    let full = Tip { next_rev: i64::MAX, ..tip };
    assert_eq!(
        full.accept(&Entry { base_rev: i64::MAX, ..good.clone() }, [8; 32]),
        Err(ChainError::Overflow)
    );
    let last = Tip { seq: Seq::new(u64::MAX - 1), ..tip };
    assert_eq!(last.accept(&Entry { seq: Seq::MAX, ..good.clone() }, [8; 32]), Err(ChainError::Overflow));
    let last = Entry { kind: Kind::NewEpoch, epoch: Epoch::MAX, ..good };
    assert_eq!(accept(&last), Err(ChainError::Overflow), "no server could claim after it");
}
