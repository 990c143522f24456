//! `bandog cron`: output and errors.

use crate::help::{Place, Ran};

#[test]
fn next_prints_one_instant_per_line_and_none_at_the_end() {
    let place = Place::new();
    let next = |args: &[&str]| {
        let ran = place.run(&[&["cron", "next"], args].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
        ran.stdout
    };
    let from = "2026-01-30T12:00:00Z";
    assert_eq!(next(&["0 0 0 L * ?", "--from", from]), "2026-01-31T00:00:00Z\n");
    assert_eq!(next(&["0 0 0 L * ?", "--from", from, "--count", "2"]), "2026-01-31T00:00:00Z\n2026-02-28T00:00:00Z\n");
    assert_eq!(next(&["0 0 0 1 1 ? 2027", "--from", from, "--count", "3"]), "2027-01-01T00:00:00Z\nnone\n");
    assert_eq!(next(&["0 0 0 1 1 ? 2020", "--from", from]), "none\n");
    assert_eq!(next(&["0 9 * * 1-5", "--dialect", "unix", "--from", from]), "2026-02-02T09:00:00Z\n");
    assert_eq!(next(&["0 0 9 * * 1-5", "--dialect", "spring", "--from", from]), "2026-02-02T09:00:00Z\n");
    let friday = |days| next(&["--days", days, "--from", from, "0 0 0 13 * FRI"]);
    assert_eq!(friday("and"), "2026-02-13T00:00:00Z\n");
    assert_eq!(friday("or"), "2026-02-06T00:00:00Z\n");
    let zone = ["0 30 2 * * ?", "--zone", "America/New_York", "--from", "2026-03-07T12:00:00-05:00", "--count", "2"];
    assert_eq!(next(&zone), "2026-03-08T03:00:00-04:00\n2026-03-09T02:30:00-04:00\n");
    assert!(next(&["* * * * * ?"]).ends_with("Z\n"), "the fires do not begin at the present time");
}

#[test]
fn impossible_expressions_are_refused_with_a_caret() {
    let place = Place::new();
    let ran = place.run(&["cron", "next", "0 0 24 * * ?"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (64, ""));
    assert!(
        ran.stderr.contains("\n  0 0 24 * * ?\n      ^^ hours: 24 is too large; allowed are 0 to 23"),
        "{}",
        ran.stderr
    );
    let ran = place.run(&["cron", "next", "-5 * * * * ?", "--count", "2"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (64, ""));
    assert!(ran.stderr.contains("\n  -5 * * * * ?\n  ^ seconds: a number is missing"), "{}", ran.stderr);
    place
        .run(&["cron", "next", "-"])
        .assert_ended(64, &["\n  -\n  ^ \"-\" is not a cron expression", "enabled = false"]);
    place
        .run(&["cron", "next", "@every 5m"])
        .assert_ended(64, &["\n  @every 5m\n  ^^^^^^^^^ @every", "fixed_rate = \"5m\""]);
    place
        .run(&["cron", "next", "0 0 0 13 * FRI"])
        .assert_ended(64, &["--days and (both must match) or --days or (one must match)"]);
    let ran = place.run(&["cron", "next", "0 0 0 31 6 ?"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (64, ""));
    assert!(ran.stderr.contains("\n  0 0 0 31 6 ?\n  ^ no year has such a date"), "{}", ran.stderr);
    place.run(&["cron", "next", "@daily", "--zone", "Mars/Olympus"]).assert_ended(64, &["Mars/Olympus", "IANA"]);
    place
        .run(&["cron", "next", "@daily", "--from", "tomorrow"])
        .assert_ended(64, &["tomorrow", "2026-01-31T00:00:00Z"]);
    place.run(&["cron", "explain", "0 0 0 WL * ?"]).assert_ended(64, &["did you mean LW?"]);
}

#[test]
fn explain_uses_one_language() {
    let (place, english, chinese) = (Place::new(), "At 10:15, Monday to Friday\n", "周一至周五，10:15\n");
    let explain = |variables: &[(&str, &str)], options: &[&str]| {
        let mut command = place.bandog(&[&["cron", "explain", "0 15 10 ? * MON-FRI"], options].concat());
        command.envs(["LC_ALL", "LC_MESSAGES", "LANG"].map(|name| (name, ""))).envs(variables.iter().copied());
        let ran = Ran::from(command);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        ran.stdout
    };
    assert_eq!(explain(&[], &[]), english);
    assert_eq!(explain(&[("LANG", "zh_CN.UTF-8")], &[]), chinese);
    assert_eq!(explain(&[("LC_ALL", "C.UTF-8"), ("LANG", "zh_CN.UTF-8")], &[]), english);
    assert_eq!(explain(&[("LANG", "zh_CN.UTF-8")], &["--lang", "en"]), english);
    assert_eq!(explain(&[], &["--lang", "zh"]), chinese);
}

#[test]
fn five_fields_get_their_meaning_in_a_crontab() {
    let place = Place::new();
    let hint = "Quartz begins with seconds; read by --dialect unix it means: At 15:00, on day 10 of the month";
    place.run(&["cron", "next", "0 15 10 * *"]).assert_ended(64, &["there are only 5 fields", hint]);
    let ran = place.run(&["cron", "next", "0 15 10 * *", "--dialect", "unix", "--from", "2026-01-30T12:00:00Z"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "2026-02-10T15:00:00Z\n"));
}

#[test]
fn a_zone_of_the_machine_that_cannot_be_used_is_reported_with_its_file() {
    let place = Place::new();
    let zones = |folder: &str, zone: &str| {
        let mut command = place.bandog(&["cron", "next", "@daily", "--system-zones", "--zone", zone]);
        command.env("TZDIR", folder);
        Ran::from(command)
    };
    let folder = place.path("zones");
    let folder = folder.to_str().unwrap();
    let ran = zones(folder, "Europe/Berlin");
    ran.assert_ended(64, &[&format!("the folder {folder:?} of the system's zones does not exist"), "TZDIR"]);
    assert!(!ran.stderr.contains("did you mean"), "{ran:?}");
    std::fs::create_dir_all(place.path("zones/Europe")).unwrap();
    for (name, data) in [("Berlin", ""), ("Paris", "sand"), ("Rome", "TZif2")] {
        std::fs::write(place.path("zones/Europe").join(name), data).unwrap();
        let ran = zones(folder, &format!("Europe/{name}"));
        ran.assert_ended(64, &[&format!("the file \"{folder}/Europe/{name}\" cannot be read as a zone")]);
        assert!(!ran.stderr.contains("did you mean"), "{ran:?}");
    }
    zones(folder, "Europe/Berln").assert_ended(64, &["is not in the folder", folder, "did you mean Europe/Berlin?"]);
    let ran = zones(folder, "Europe/Madrid");
    ran.assert_ended(64, &["\"Europe/Madrid\" is not in the folder"]);
    assert!(!ran.stderr.contains("did you mean Europe/Madrid"), "{ran:?}");
    zones(folder, "Europe").assert_ended(64, &["\"Europe\" is not in the folder"]);
    // The local zone of the machine has a file of its own in the folder of many systems.
    std::fs::write(place.path("zones/localtime"), "").unwrap();
    let same_words = "\"localtime\" is not a zone of the IANA table; there is no local zone, because nodes";
    zones(folder, "localtime").assert_ended(64, &[same_words]);
    place.run(&["cron", "next", "@daily", "--zone", "localtime"]).assert_ended(64, &[same_words]);
}

#[test]
fn a_hint_about_a_zone_names_no_zone_that_is_refused() {
    let place = Place::new();
    for (expression, words) in [
        ("CRON_TZ=Bogus/Zone 0 9 * * *", "and use --zone; \"Bogus/Zone\" is not a zone of the IANA table"),
        ("TZ=local 0 9 * * *", "and use --zone; \"local\" is not a zone of the IANA table; there is no local zone"),
        ("TZ=Asia/Tokyo 0 9 * * *", "and write --zone Asia/Tokyo"),
    ] {
        place.run(&["cron", "next", expression]).assert_ended(64, &[words]);
    }
    let ran = place.run(&["cron", "next", "@reboot"]);
    ran.assert_ended(64, &["run the command where the program is started"]);
    assert!(!ran.stderr.contains("Job::"), "{ran:?}");
}
