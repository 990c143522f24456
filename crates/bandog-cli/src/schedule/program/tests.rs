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
        ("read", Err(Missing::NotExecutable)),
        ("folder", Err(Missing::NotExecutable)),
        ("none", Err(Missing::NotFound)),
    ] {
        assert_eq!(find(name.as_ref(), Some(&paths)), found, "{name:?}");
        assert_eq!(find(path(name).as_os_str(), None), found, "{name:?} by its path");
    }
    assert_eq!(find("sh".as_ref(), Some(&paths)), Ok(()));
    assert_eq!(find("sh".as_ref(), Some("")), Err(Missing::NotFound));
    assert_eq!(find("sh".as_ref(), None), Ok(()));
    assert_eq!(find("".as_ref(), None), Err(Missing::NotExecutable), "an empty name is a directory");
}
