//! `bandog schedule FILE --check`: the jobs and the mistakes of a file.

use std::fs;

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
    let six = "in a file seconds come first";
    let rows = [
        (
            "*/5 * * * *",
            format!(
                "there are only 5 fields; {six}: if this is a crontab's line, write `0 */5 * * * ?`, which means: Every 5 minutes"
            ),
        ),
        (
            "0 9 * * 1-5",
            format!(
                "there are only 5 fields; {six}: if this is a crontab's line, write `0 0 9 ? * MON-FRI`, which means: At 09:00"
            ),
        ),
        (
            "30 4 1,15 * *",
            format!(
                "there are only 5 fields; {six}: if this is a crontab's line, write `0 30 4 1,15 * ?`, which means: At 04:30"
            ),
        ),
        (
            "0 0 * * 0,6-7/1",
            format!(
                "there are only 5 fields; {six}: if this is a crontab's line, write `0 0 0 ? * SUN,SAT-SUN/1`, which means: At 00:00"
            ),
        ),
        ("15 10 ? * MON#1", format!("there are only 5 fields; {six}: `0 15 10 ? * MON#1` would mean: At 10:15")),
        ("0 0 13 * 5", format!("there are only 5 fields; {six}, and one day field is ?, as in `0 */5 * * * ?`")),
        ("-", "\"-\" is not a cron expression; Spring uses it to disable a job; write enabled = false".into()),
        (
            "@every  1h 30m",
            "@every is a fixed rate, which a cron expression cannot express; write fixed_rate = \"1h 30m\"".into(),
        ),
        ("@reboot", "a cron expression cannot express; a file cannot express that either".into()),
        ("0 0 0 13 * FRI", "day of week: both day fields are restricted; write ? in one of them; to match".into()),
    ];
    for (expression, message) in rows {
        let ran = check(&Place::new(), format!("[[job]]\nname = 'x'\ncron = '{expression}'\ncommand = 'true'"), &[]);
        ran.assert_ended(64, &[&message]);
        for not_here in ["Job::", "DayMatch", "dialect", "attribute"] {
            assert!(!ran.stderr.contains(not_here), "{}", ran.stderr);
        }
        // The text between backticks is the proposal.
        for written in ran.stderr.split('`').skip(1).step_by(2) {
            check(&Place::new(), format!("[[job]]\nname = 'x'\ncron = '{written}'\ncommand = 'true'"), &[])
                .assert_ended(0, &[]);
        }
    }
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
    place.run(&["schedule", "/"]).assert_ended(64, &["cannot read /: Is a directory"]);
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
    assert!(!place.path("ran").exists());
}
