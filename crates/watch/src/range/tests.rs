use super::*;
use crate::testing::{del, put};

fn span(start: &[u8], end: Option<&[u8]>) -> KeyRange {
    KeyRange::Span { start: start.into(), end: end.map(Into::into) }
}

#[test]
fn the_two_byte_strings_are_read_as_etcd_reads_them() {
    assert_eq!(KeyRange::new(b"a", b""), Ok(KeyRange::Key((*b"a").into())));
    assert_eq!(KeyRange::new(b"", b""), Ok(KeyRange::Key((*b"\0").into())));
    assert_eq!(KeyRange::new(b"a", b"\0"), Ok(span(b"a", None)));
    assert_eq!(KeyRange::new(b"", b"\0"), Ok(span(b"\0", None)));
    assert_eq!(KeyRange::new(b"a", b"c"), Ok(span(b"a", Some(b"c"))));
    assert_eq!(KeyRange::new(b"a", b"a"), Err(EmptyRange));
    assert_eq!(KeyRange::new(b"b", b"a"), Err(EmptyRange));
}

#[test]
fn a_span_of_one_possible_key_is_that_key() {
    assert_eq!(KeyRange::new(b"a", b"a\0"), Ok(KeyRange::Key((*b"a").into())));
    assert_eq!(KeyRange::new(b"a", b"a\0\0"), Ok(span(b"a", Some(b"a\0\0"))));
    assert_eq!(KeyRange::new(b"a", b"b\0"), Ok(span(b"a", Some(b"b\0"))));
}

#[test]
fn a_range_holds_its_start_but_not_its_end() {
    let range = KeyRange::new(b"b", b"d").unwrap();
    for (key, inside) in [("a", false), ("b", true), ("b\0", true), ("c~", true), ("d", false)] {
        assert_eq!(range.contains(key.as_bytes()), inside, "{key:?}");
    }
    assert!(KeyRange::new(b"b", b"\0").unwrap().contains(b"zzz"));
    assert!(!KeyRange::new(b"b", b"\0").unwrap().contains(b"a"));
    assert!(!KeyRange::new(b"b", b"").unwrap().contains(b"b\0"));
}

#[test]
fn filters_name_what_is_dropped() {
    let no_put = Filters { no_put: true, no_delete: false };
    let no_delete = Filters { no_put: false, no_delete: true };
    assert!(!no_put.admit(&put("a", 2)) && no_put.admit(&del("a", 2)));
    assert!(no_delete.admit(&put("a", 2)) && !no_delete.admit(&del("a", 2)));
    assert!(Filters::default().is_open() && !no_put.is_open() && !no_delete.is_open());
}
