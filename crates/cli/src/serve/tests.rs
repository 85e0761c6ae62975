use super::*;

#[test]
fn a_new_data_directory_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b");
    prepare(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    // The second start finds it.
    prepare(&path).unwrap();
}

#[test]
fn the_data_of_an_etcd_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("member/wal")).unwrap();
    let refusal = prepare(dir.path()).unwrap_err().to_string();
    assert!(refusal.contains("holds the data of an etcd"), "{refusal}");
}
