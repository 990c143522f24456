use super::*;

/// Crates as in this workspace: `bandog` imports the backend `bandog-redis`, and the tests of `bandog-grid` use `bandog`.
fn workspace() -> Tests {
    let member = |name: &str, imports: &[&str], targets: &[(&str, &str)]| Member {
        name: name.to_owned(),
        folder: Path::new("crates").join(name),
        imports: imports.iter().map(|name| (*name).to_owned()).collect(),
        targets: targets.iter().map(|(name, code)| Target::new(name, (*code).to_owned())).collect(),
    };
    let crates = vec![
        member("bandog-core", &[], &[(UNIT, "")]),
        member(
            "bandog-sync",
            &["bandog-core"],
            &[(UNIT, "log(\"bandog::renew\")"), ("laws", "use bandog_sync::Client;")],
        ),
        member("bandog-redis", &["bandog-core"], &[(UNIT, ""), ("it", "\"../../../../docs/redis.md\""), ("laws", "")]),
        member("bandog", &["bandog-sync", "bandog-redis"], &[(UNIT, ""), (DOC, "\"../../../docs/redis.md\"")]),
        member("bandog-grid", &["bandog-sync"], &[(UNIT, ""), (DOC, "bandog::connect"), ("it", "bandog::Grid")]),
        member("bandog-codec", &[], &[("it", "format!(\"{}/../../proof/golden/codec-{name}.txt\", 1)")]),
        Member { folder: "xtask".into(), ..member(XTASK, &[], &[(UNIT, ""), ("it", "")]) },
    ];
    Tests { crates, affected: Targets::new() }
}

/// The targets of a change of this file, without [`ALWAYS`].
fn affected(file: &str) -> Vec<String> {
    let Scope::Some(targets) = of(&[file.into()], workspace()) else { return vec!["all".to_owned()] };
    let always = (ALWAYS.0.to_owned(), ALWAYS.1.to_owned());
    assert!(targets.contains(&always));
    targets.iter().filter(|target| **target != always).map(|(package, target)| format!("{package} {target}")).collect()
}

#[test]
fn a_library_affects_the_tests_that_use_it() {
    let redis = ["bandog unit tests", "bandog doctests", "bandog-grid doctests", "bandog-grid it"];
    let mut redis: Vec<_> =
        redis.into_iter().chain(["bandog-redis it", "bandog-redis laws", "bandog-redis unit tests"]).collect();
    redis.sort_unstable();
    assert_eq!(affected("crates/bandog-redis/src/lua/claim.lua"), redis);
    let grid = ["bandog-grid doctests", "bandog-grid it", "bandog-grid unit tests"];
    assert_eq!(affected("crates/bandog-grid/src/map.rs"), grid);
}

#[test]
fn a_file_of_a_test_target_affects_this_target() {
    assert_eq!(affected("crates/bandog-redis/tests/laws/cluster.rs"), ["bandog-redis laws"]);
    assert_eq!(affected("crates/bandog-core/tests/it.rs"), ["all"], "core has no target of this name");
}

#[test]
fn a_file_that_all_tests_use_affects_all() {
    for file in ["Cargo.lock", "Cargo.toml", "rust-toolchain.toml", "crates/bandog-core/src/lib.rs"] {
        assert_eq!(affected(file), ["all"], "{file}");
    }
}

#[test]
fn a_file_outside_affects_the_tests_that_read_it() {
    let xtask = ["xtask it", "xtask unit tests"];
    assert_eq!(affected("docs/redis.md"), [&["bandog doctests", "bandog-redis it"][..], &xtask].concat());
    assert_eq!(affected("docs/redis.md.old"), xtask);
    assert_eq!(affected("proof/golden/codec-text.txt"), [&["bandog-codec it"][..], &xtask].concat());
    assert_eq!(affected("crates/bandog-grid/README.md"), [&["bandog-grid doctests"][..], &xtask].concat());
}

#[test]
fn code_that_targets_share_belongs_to_each_of_them() {
    let folder = std::env::temp_dir().join(format!("bandog-since-{}", std::process::id()));
    for (file, text) in [("it/main.rs", "own"), ("suite/both.rs", "use bandog_sync::Client;")] {
        fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
        fs::write(folder.join(file), text).unwrap();
    }
    let code = shared(&folder, &[("it", folder.join("it/main.rs"))]);
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(code.unwrap(), "use bandog_sync::Client;");
}
