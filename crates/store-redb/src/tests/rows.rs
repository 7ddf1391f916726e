//! A rewrite makes a new file in the place of the old one.

use super::*;
use folio_testkit::engine::reads::check_everything;

#[test]
fn a_read_goes_on_with_the_file_that_it_began_with_and_no_draft_is_left() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    read(&engine, |s| {
        engine.rewrite().unwrap();
        assert_eq!(s.sessions(None, 9).unwrap().len(), 1);
    });
    write(&engine, &everything(2)).unwrap();
    drop(engine);
    let names: Vec<_> = std::fs::read_dir(place.dir.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "a draft is left");
    check_everything(&place.open(), 1);
}

#[cfg(unix)]
#[test]
fn a_rewrite_keeps_a_link_and_the_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    drop(engine);
    let mode = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(&place.path, mode).unwrap();
    let link = place.dir.path().join("link");
    std::os::unix::fs::symlink(&place.path, &link).unwrap();
    let engine = RedbEngine::open(&RedbConfig::new(&link)).unwrap();
    engine.rewrite().unwrap();
    write(&engine, &everything(2)).unwrap();
    drop(engine);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let mode = place.path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    check_everything(&place.open(), 2);
}

#[test]
fn what_a_killed_rewrite_left_goes_with_the_next_opening() {
    let place = Place::new();
    drop(place.open());
    let mut draft = place.path.clone().into_os_string();
    draft.push(".rewrite");
    std::fs::write(&draft, b"half a copy").unwrap();
    drop(RedbEngine::open(&place.config().read_only()).unwrap());
    assert!(PathBuf::from(&draft).exists(), "a reader changes nothing");
    drop(place.open());
    assert!(!PathBuf::from(&draft).exists());
}
