use std::collections::HashSet;
use std::fmt::Write;

use expect_test::expect_file;
use tonic::{Code, Status};

use super::{EtcdError, received_too_large};

#[test]
fn the_whole_table() {
    let mut table = String::new();
    for error in EtcdError::ALL {
        let status = Status::from(*error);
        assert_eq!(status.message(), error.to_string());
        let code = super::code_name(status.code());
        writeln!(table, "{:<30} {:<18} {}", error.name(), code, status.message()).expect("strings grow");
    }
    expect_file!["table.txt"].assert_eq(&table);
}

#[test]
fn texts_are_unique_because_clients_tell_errors_apart_by_them() {
    let texts: HashSet<_> = EtcdError::ALL.iter().map(|error| error.text()).collect();
    assert_eq!(texts.len(), EtcdError::ALL.len());
}

#[test]
fn a_relayed_error_keeps_its_text_only() {
    let status = EtcdError::LeaseNotFound.relayed();
    assert_eq!((status.code(), status.message()), (Code::Unknown, "etcdserver: requested lease not found"));
}

#[test]
fn the_reason_of_a_refused_watch() {
    assert_eq!(
        EtcdError::PermissionDenied.rpc_text(),
        "rpc error: code = PermissionDenied desc = etcdserver: permission denied"
    );
}

#[test]
fn only_the_refusal_of_a_long_message_is_reworded() {
    let text = "Error, decoded message length too large: found 3000000 bytes, the limit is: 2097152 bytes";
    let status = received_too_large(Code::OutOfRange, text).expect("this is the refusal");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "grpc: received message larger than max (3000000 vs. 2097152)");

    assert!(received_too_large(Code::Internal, text).is_none());
    assert!(received_too_large(Code::OutOfRange, EtcdError::Compacted.text()).is_none());
}
