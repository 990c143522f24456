//! `bandog schedule FILE --check`: the jobs and the mistakes of a file.

use std::{fs, os::unix::fs::symlink};

use serde_json::Value;

use crate::help::{Place, Ran};

const GOOD: &str = r#"
[[job]]
name = "report"
cron = "0 15 10 ? * MON-FRI"
zone = "Europe/Berlin"
command = ["true", "a b"]
timeout = "10m"
env = { TOKEN = "hunter2" }

[[job]]
name = "off"
fixed_rate = "5s"
command = "true"
enabled = false
"#;

fn check(place: &Place, text: impl AsRef<[u8]>, options: &[&str]) -> Ran {
    fs::write(place.path("jobs.toml"), text).unwrap();
    place.run(&[&["schedule", "jobs.toml", "--check"], options].concat())
}

#[test]
fn the_jobs_of_a_correct_file_are_printed() {
    let place = Place::new();
    let ran = check(&place, GOOD, &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "report: At 10:15, Monday to Friday (Europe/Berlin)");
    assert_eq!(lines[1].matches("T10:15:00+0").count(), 3, "{}", lines[1]);
    assert_eq!(lines[2], "  command true \"a b\"");
    assert_eq!(lines[3], "  policy  overlap skip, catch_up once, misfire_grace 1m, on_crash abandon, timeout 10m");
    assert_eq!(lines[4..6], ["off: Every 5s (UTC)", "  next    never: it is not enabled"]);
    assert!(!place.path("state").exists(), "a store was created");
}

#[test]
fn json_output_has_one_object_per_line() {
    let place = Place::new();
    let ran = check(&place, GOOD, &["--json"]);
    assert!(!ran.stdout.contains("hunter2"), "a value of the environment is printed");
    let rows: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [report, off] = &rows[..] else { panic!("{ran:?}") };
    assert_eq!((&report["name"], &report["zone"]), (&"report".into(), &"Europe/Berlin".into()));
    assert_eq!(report["trigger"], "cron 0 15 10 ? * MON-FRI");
    assert_eq!(report["next"].as_array().unwrap().len(), 3);
    assert_eq!((&report["timeout_ms"], &report["env"]), (&600_000.into(), &Value::from(vec!["TOKEN"])));
    assert_eq!((&off["enabled"], &off["next"]), (&false.into(), &Value::from(Vec::<Value>::new())));
}

#[test]
fn the_example_of_the_docs_is_a_correct_file() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command.md");
    let page = fs::read_to_string(page).unwrap();
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let ran = check(&Place::new(), example, &["--json"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 4), "{ran:?}");
    let keys: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    for key in ["name", "cron", "command", "env", "lease", "retry", "enabled"] {
        assert!(keys.contains(&key), "{key}");
    }
}

#[test]
fn hints_about_cron_can_be_followed_in_a_file() {
    let unix = "there are only 5 fields; Quartz begins with seconds; read by dialect = \"unix\" it means: ";
    let rows = [
        ("*/5 * * * *", format!("{unix}Every 5 minutes")),
        ("0 9 * * 1-5", format!("{unix}At 09:00, Monday to Friday")),
        ("15 10 ? * MON#1", "there are only 5 fields; needed are second minute hour".into()),
        ("0 0 13 * 5", format!("{unix}At 00:00")),
        ("-", "\"-\" is not a cron expression; Spring uses it to disable a job; write enabled = false".into()),
        (
            "@every  1h 30m",
            "@every is a fixed rate, which a cron expression cannot express; write fixed_rate = \"1h 30m\"".into(),
        ),
        ("@reboot", "a cron expression cannot express; run the command where the program is started".into()),
        ("@reboot /usr/bin/warm", "a cron expression cannot express; run the command where the program is".into()),
        ("0 0 0 13 * FRI", "both day fields are restricted; write ? in one of them, or choose a rule: day_match = \"and\"".into()),
        (
            "CRON_TZ=Asia/Shanghai 0 9 * * *",
            "an expression has no variables; the zone is a setting of its own: remove this word, and write zone = \"Asia/Shanghai\"".into(),
        ),
    ];
    for (expression, message) in rows {
        let ran = check(&Place::new(), format!("[[job]]\nname = 'x'\ncron = '{expression}'\ncommand = 'true'"), &[]);
        ran.assert_ended(64, &[&message]);
        for not_here in ["Job::", "DayMatch::", "Dialect::", "attribute"] {
            assert!(!ran.stderr.contains(not_here), "{}", ran.stderr);
        }
    }
}

#[test]
fn a_file_has_all_settings_of_the_library() {
    let keys = [
        "cron = '0 9 13 * FRI'\ndialect = 'unix'\nday_match = 'and'\ndaylight = 'skip'",
        "window = '2h'\ngrace = '7s'\npause_after = 3\nrevision = 4\nscope = 'each_node'\nstore_down = 'fail_open'",
    ];
    let file = format!("[[job]]\nname = 'x'\ncommand = 'true'\n{}", keys.join("\n"));
    let ran = check(&Place::new(), &file, &["--json"]);
    ran.assert_ended(0, &[]);
    let job: serde_json::Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    let found = ["window_ms", "grace_ms", "pause_after", "revision"].map(|key| job[key].as_u64().unwrap());
    assert_eq!(found, [7_200_000, 7_000, 3, 4]);
    assert_eq!((job["scope"].as_str(), job["store_down"].as_str()), (Some("each_node"), Some("fail_open")));
    // Fridays that are a 13th, and no other day.
    let days = job["next"].as_array().unwrap().iter().map(|day| day.as_str().unwrap()[8..10].to_owned());
    assert!(days.clone().count() > 1 && days.clone().all(|day| day == "13"), "{job}");
    for (setting, words) in [
        ("fixed_rate = '1s'\ndialect = 'unix'", "dialect is for cron only"),
        ("fixed_rate = '1s'\npause_after = 0", "pause_after takes a number from 1 to"),
        ("fixed_rate = '1s'\nscope = 'node'", "scope"),
        ("cron = '@daily'\nday_match = 'xor'", "allowed are and, or"),
    ] {
        check(&Place::new(), format!("[[job]]\nname = 'x'\ncommand = 'true'\n{setting}"), &[])
            .assert_ended(64, &[words]);
    }
}

#[test]
fn a_file_can_use_the_zones_of_the_machine() {
    let (place, job) =
        (Place::new(), "[[job]]\nname = 'x'\ncommand = 'true'\ncron = '0 0 9 * * ?'\nzone = 'Asia/Here'");
    fs::create_dir_all(place.path("zones/Asia")).unwrap();
    // A zone of an administrator, which the built-in table does not have: nine hours ahead of UTC.
    let mut zone = b"TZif2".to_vec();
    zone.extend([0; 15]);
    let counts = |at: u8| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, at];
    zone.extend(counts(4));
    zone.extend([0, 0, 0x7e, 0x90, 0, 0, b'H', b'S', b'T', 0]);
    zone.extend(b"TZif2");
    zone.extend([0; 15]);
    zone.extend(counts(4));
    zone.extend([0, 0, 0x7e, 0x90, 0, 0, b'H', b'S', b'T', 0]);
    zone.extend(b"\nHST-9\n");
    fs::write(place.path("zones/Asia/Here"), zone).unwrap();
    fs::write(place.path("jobs.toml"), format!("zones = 'system'\n{job}")).unwrap();
    let here = |args: &[&str]| {
        let mut command = place.bandog(args);
        command.env("TZDIR", place.path("zones"));
        Ran::from(command)
    };
    let ran = here(&["schedule", "jobs.toml", "--check", "--json"]);
    ran.assert_ended(0, &[]);
    assert!(ran.stdout.contains("T09:00:00+09:00"), "{ran:?}");
    let ran = here(&["cron", "next", "0 0 9 * * ?", "--zone", "Asia/Here", "--system-zones"]);
    assert!(ran.stdout.contains("T09:00:00+09:00"), "{ran:?}");
    check(&place, job, &[]).assert_ended(64, &["is not a zone of the IANA table"]);
    check(&place, format!("zones = 'mine'\n{job}"), &[]).assert_ended(64, &["\"built-in\" or \"system\""]);
}

#[test]
fn a_jitter_of_more_than_half_a_period_is_a_warning() {
    let words = "its jitter of 40m is more than half of the shortest time between two ticks, 1h";
    for (trigger, jitter, warns) in [
        ("cron = '0 0 * * * ?'", "40m", true),
        ("fixed_rate = '1h'", "40m", true),
        ("cron = '0 0 * * * ?'", "30m", false),
        ("fixed_delay = '1h'", "40m", false),
    ] {
        let ran =
            check(&Place::new(), format!("[[job]]\nname = 'x'\ncommand = 'true'\n{trigger}\njitter = '{jitter}'"), &[]);
        ran.assert_ended(0, &[]);
        assert_eq!(ran.stderr.contains(words), warns, "{trigger}: {ran:?}");
    }
}

#[test]
fn a_folder_has_the_jobs_of_its_files() {
    let place = Place::new();
    fs::create_dir(place.path("jobs")).unwrap();
    let check = || place.run(&["schedule", "jobs", "--check"]);
    check().assert_ended(64, &["the folder jobs has no file whose name ends in .toml"]);
    let write = |name: &str, text: &str| fs::write(place.path("jobs").join(name), text).unwrap();
    let job = |name: &str| format!("[[job]]\nname = '{name}'\nfixed_rate = '1s'\ncommand = 'true'\n");
    write("b.toml", &job("second"));
    write("a.toml", &format!("[pool]\nsize = 3\n[defaults]\ntimeout = '5s'\n{}", job("first")));
    write("note.txt", "no TOML");
    let ran = check();
    ran.assert_ended(0, &[]);
    let names: Vec<_> =
        ran.stdout.lines().filter(|line| !line.starts_with(' ')).map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!(ran.stdout.matches("timeout 5s").count(), 1, "the defaults are those of their file: {}", ran.stdout);
    write("c.toml", &job("first"));
    check().assert_ended(64, &["jobs/c.toml has the job \"first\", and so has jobs/a.toml; rename one"]);
    write("c.toml", &format!("[pool]\nsize = 4\n{}", job("third")));
    check().assert_ended(64, &["jobs/c.toml has a [pool], and so has jobs/a.toml; keep one"]);
    write("c.toml", "x");
    check().assert_ended(64, &["jobs/c.toml has 1 mistake"]);
    // Editors write hidden files. A link that leads nowhere is a mistake.
    fs::rename(place.path("jobs/c.toml"), place.path("jobs/.c.toml")).unwrap();
    symlink("user@host.4711", place.path("jobs/.#a.toml")).unwrap();
    check().assert_ended(0, &[]);
    symlink("absent.toml", place.path("jobs/d.toml")).unwrap();
    check().assert_ended(64, &["cannot read jobs/d.toml: it is a symbolic link to absent.toml: No such file"]);
}

#[test]
fn a_missing_command_is_a_warning() {
    let place = Place::new();
    fs::write(place.path("text"), "").unwrap();
    for (command, words) in [("\"nowhere/to/be\"", "no such command"), ("\"./text\"", "the command is not executable")]
    {
        let ran = check(&place, format!("[[job]]\nname = 'x'\nfixed_rate = '1s'\ncommand = [{command}]"), &[]);
        ran.assert_ended(0, &["bandog: x: ", words, command.trim_matches('"')]);
    }
}

// Promise: S7
#[test]
fn all_mistakes_of_a_file_are_reported_with_line_and_column() {
    let place = Place::new();
    let text = "[[job]]\nname = \"x\"\ncron = \"0 0 24 * * ?\"\ncomand = \"true\"\n";
    let ran = check(&place, text, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (64, ""));
    let message = "bandog: jobs.toml has 3 mistakes
  line 1, column 1: the job \"x\" has no command
    [[job]]
    ^^^^^^^
  line 3, column 13: hours: 24 is too large; allowed are 0 to 23
    cron = \"0 0 24 * * ?\"
                ^^
  line 4, column 1: the job \"x\" has no key \"comand\"; did you mean command?
    comand = \"true\"
    ^^^^^^
";
    assert_eq!(ran.stderr, message);
    // Without --check the result is the same, and no store is created.
    place.run(&["schedule", "jobs.toml"]).assert_ended(64, &[message]);
    assert!(!place.path("state").exists());
}

#[test]
fn a_file_that_cannot_be_read_is_reported() {
    let place = Place::new();
    check(&place, "", &[]).assert_ended(64, &["line 1, column 1: the file has no [[job]]"]);
    check(&place, b"[[job]]\nname = \"\xff\"", &[]).assert_ended(64, &["line 2, column 9: this is not UTF-8"]);
    check(&place, "\u{feff}[[job]]\r\nname = 'x'\r\nat = 2000-01-01T00:00:00Z\r\ncommand = 'true'\r\n", &[])
        .assert_ended(0, &[]);
    place.run(&["schedule", "none.toml"]).assert_ended(64, &["cannot read none.toml: No such file"]);
    place.run(&["schedule", "/"]).assert_ended(64, &["the folder / has no file whose name ends in .toml"]);
    place.run(&["schedule", "/dev/zero"]).assert_ended(64, &["cannot read /dev/zero: it is longer than 32 MiB"]);
    place.run(&["schedule"]).assert_ended(64, &["<FILE>"]);
}

#[test]
fn an_impossible_store_is_refused_before_a_job_runs() {
    let place = Place::new();
    fs::write(place.path("jobs.toml"), "[[job]]\nname = 'x'\nfixed_rate = '1s'\ncommand = 'touch ran'\n").unwrap();
    place.run(&["schedule", "jobs.toml", "--url", "memory:"]).assert_ended(64, &["exists in one process only"]);
    place
        .run(&["schedule", "jobs.toml", "--url", "redis://:hunter2@127.0.0.1:1"])
        .assert_ended(69, &["redis://:***@127.0.0.1:1"]);
    place.run(&["schedule", "jobs.toml", "--url", "ftp://x"]).assert_ended(64, &["ftp"]);
    place.run(&["schedule", "jobs.toml", "--drain", "long"]).assert_ended(64, &["--drain"]);
    let forms = "[possible values: prefixed, plain, json]";
    place.run(&["schedule", "jobs.toml", "--output", "bogus"]).assert_ended(64, &["--output", forms]);
    assert!(!place.path("ran").exists());
}
