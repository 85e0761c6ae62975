use super::{cluster_id, derive, member_id};

/// The IDs of etcd 3.7.1 with these flags.
#[test]
fn ids_are_those_of_etcd() {
    let identity = derive(&["http://127.0.0.1:14002".to_owned()], "etcd-cluster");
    assert_eq!(identity.member_id, 14553190815069698650);
    assert_eq!(identity.cluster_id, 7799799071287980863);
}

#[test]
fn the_order_of_urls_and_members_does_not_matter() {
    let (a, b) = ("http://a:1".to_owned(), "http://b:1".to_owned());
    assert_eq!(member_id(&[a.clone(), b.clone()], "t"), member_id(&[b, a], "t"));
    assert_eq!(cluster_id(&[1, 2]), cluster_id(&[2, 1]));
    assert_ne!(cluster_id(&[1, 2]), cluster_id(&[1, 3]));
}
