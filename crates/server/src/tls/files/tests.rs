use super::*;

fn number(files: &[(PathBuf, Vec<u8>)]) -> Result<i64, TlsError> {
    let mut sum = 0;
    for (path, contents) in files {
        let text = String::from_utf8_lossy(contents);
        sum += text.parse::<i64>().map_err(|e| TlsError::content(path, e))?;
    }
    Ok(sum)
}

#[test]
fn what_worked_stays_until_something_else_works() {
    let dir = tempfile::tempdir().unwrap();
    let paths = vec![dir.path().join("a"), dir.path().join("b")];
    assert!(Reloadable::open(paths.clone(), number).is_err(), "no file yet");
    fs::write(&paths[0], "1").unwrap();
    fs::write(&paths[1], "2").unwrap();
    let mut kept = Reloadable::open(paths.clone(), number).unwrap();
    assert_eq!(*kept.value(), 3);
    assert!(matches!(kept.reload(), Reload::Unchanged));

    fs::write(&paths[0], "x").unwrap();
    let Reload::Rejected(error) = kept.reload() else { panic!("nonsense was accepted") };
    assert!(error.to_string().contains("a: invalid digit"), "{error}");
    assert!(matches!(kept.reload(), Reload::Unchanged), "the same nonsense is reported once");
    assert!(!kept.is_current());
    fs::remove_file(&paths[0]).unwrap();
    assert!(matches!(kept.reload(), Reload::Rejected(TlsError::Read { .. })));
    assert_eq!(*kept.value(), 3);

    fs::write(&paths[0], "5").unwrap();
    assert!(matches!(kept.reload(), Reload::Replaced));
    assert_eq!((*kept.value(), kept.is_current()), (7, true));
}

#[test]
fn a_swapped_link_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("one", "1"), ("two", "2")] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("n"), text).unwrap();
    }
    let link = dir.path().join("data");
    std::os::unix::fs::symlink("one", &link).unwrap();
    let mut kept = Reloadable::open(vec![link.join("n")], number).unwrap();
    let fresh = dir.path().join("fresh");
    std::os::unix::fs::symlink("two", &fresh).unwrap();
    fs::rename(&fresh, &link).unwrap();
    assert!(matches!(kept.reload(), Reload::Replaced));
    assert_eq!(*kept.value(), 2);
}
