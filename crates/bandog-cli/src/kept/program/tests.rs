use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_program_is_found_by_path_or_by_name() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    fs::write(path("run"), "").unwrap();
    fs::write(path("read"), "").unwrap();
    fs::create_dir(path("folder")).unwrap();
    fs::set_permissions(path("run"), fs::Permissions::from_mode(0o755)).unwrap();
    let paths = format!("/nowhere:{}:/bin", place.path().to_str().unwrap());
    for (name, found) in [
        ("run", Ok(())),
        ("read", Err(Fault::NotExecutable)),
        ("folder", Err(Fault::NotExecutable)),
        ("none", Err(Fault::NotFound)),
    ] {
        assert_eq!(find(name.as_ref(), Some(&paths)), found, "{name:?}");
        assert_eq!(find(path(name).as_os_str(), None), found, "{name:?} by its path");
    }
    assert_eq!(find("sh".as_ref(), Some(&paths)), Ok(()));
    assert_eq!(find("sh".as_ref(), Some("")), Err(Fault::NotFound));
    assert_eq!(find("sh".as_ref(), None), Ok(()));
    assert_eq!(find("".as_ref(), None), Err(Fault::NotExecutable), "an empty name is a directory");
}

#[test]
fn a_directory_that_cannot_be_entered_is_named() {
    let place = tempfile::tempdir().unwrap();
    let command = ["true".into()];
    let absent = place.path().join("absent");
    let fault = check(&command, &[], Some(&absent)).unwrap_err();
    assert_eq!(fault.to_string(), format!("no such directory: {absent:?}"));
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(check(&command, &[], Some(&file)), Err(Missing::NoDirectory(file)));
    assert_eq!(check(&command, &[], Some(place.path())), Ok(()));
    let fault = check(&["no-such-program".into()], &[], Some(place.path())).unwrap_err();
    assert_eq!(fault.to_string(), "no such command: \"no-such-program\"");
}
