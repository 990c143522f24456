//! A lock that passes from one command to another by its token, over any store.

use crate::help::Place;

/// Acquires a lock for an hour, unless the options say otherwise, and returns its token.
#[track_caller]
pub(crate) fn acquire(place: &Place, name: &str, options: &[&str]) -> String {
    let lease: &[&str] = if options.contains(&"--lease") { &[] } else { &["--lease", "1h"] };
    let ran = place.run(&[&["acquire", name], options, lease].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
    ran.stdout.trim().to_owned()
}

/// A lock of each kind is held after the end of the command that has acquired it, and its token extends and releases it.
#[track_caller]
pub(crate) fn is_passed_on(place: &Place, store: &[&str]) {
    let kinds = [
        ("a", &[][..], "mutex"),
        ("b", &["--fair"], "fair"),
        ("c", &["--shared"], "read-write"),
        ("d", &["--exclusive"], "read-write"),
        ("e", &["--permits", "2", "--of", "3"], "semaphore"),
    ];
    let of_another = acquire(place, "another", store);
    for (name, options, kind) in kinds {
        let token = acquire(place, name, &[options, store].concat());
        let row = place.show(name, store);
        assert_eq!((&row["held"], &row["kind"]), (&true.into(), &kind.into()), "{row}");
        assert_eq!(row["holder"]["program"], "bandog acquire", "{row}");
        let ttl = |row: &serde_json::Value| row["holders"][0]["ttl_ms"].as_u64().unwrap();
        // On Redis, permits are kept for 2 s more than their lease.
        assert!(ttl(&row) > 3_500_000 && ttl(&row) <= 3_605_000, "{row}");
        let text = place.run(&[&["show", name][..], store].concat()).stdout;
        assert!(text.contains("bandog acquire (process "), "{text}");
        let busy =
            [&["lock", name, "--wait", "0s"][..], if name == "c" { &["--exclusive"] } else { options }, store].concat();
        place.run(&[&busy[..], &["--", "true"]].concat()).assert_ended(75, &[name]);
        let wrong = place.run(&[&["release", name, "--token", &of_another][..], store].concat());
        wrong.assert_ended(75, &["this token does not hold"]);
        assert_eq!(place.show(name, store)["held"], true, "another token changed {name}");

        for lease in ["2h", "1s"] {
            place
                .run(&[&["extend", name, "--token", &token, "--lease", lease][..], store].concat())
                .assert_ended(0, &[]);
            let row = place.show(name, store);
            assert!(ttl(&row) > 7_100_000, "{lease}: {row}");
        }
        place.run(&[&["release", name, "--token", &token][..], store].concat()).assert_ended(0, &[]);
        assert_eq!(place.show(name, store)["held"], false);
        let late = place.run(&[&["release", name, "--token", &token][..], store].concat());
        late.assert_ended(75, &["this token does not hold"]);
    }
}
