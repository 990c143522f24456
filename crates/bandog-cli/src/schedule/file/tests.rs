use std::{ffi::OsString, time::Duration};

use bandog::schedule::{CatchUp, Job, OnCrash, Overlap, Retry, Scope, StoreDown};

use super::*;
use crate::schedule::entry::Trigger;

const GOOD: &str = r#"
[pool]
size = 4

[[job]]
name = "report"
cron = "0 15 10 ? * MON-FRI"
zone = "Europe/Berlin"
command = ["./report.sh", "--fast", "ä b"]
overlap = "queue(10)"
catch_up = "all(3)"
misfire_grace = "2m"
on_crash = "retry"
timeout = "10m"
lease = "15s"
retry = "3 from 1s to 1m"
jitter = "5s"
[job.env]
A = "1"
"b c" = ""

[[job]]
name = "poll"
fixed_rate = "5s"
initial_delay = "1m"
command = "curl -s x | wc"
retry = 2

[[job]]
name = "clean"
fixed_delay = "1h 30m"
command = '''
a
b'''
enabled = false

[[job]]
name = "once"
at = 2030-01-31T01:00:00+01:00
command = ["true"]
"#;

fn read(text: &str) -> Result<JobFile, String> {
    JobFile::parse("jobs.toml", &Text::new(text)).map_err(|fault| fault.to_string())
}

/// Reads a job that has a name, a command, and these lines. Returns the message about the job's mistakes.
fn refused(lines: &str) -> String {
    read(&format!("[[job]]\nname = \"x\"\ncommand = \"true\"\n{lines}\n")).unwrap_err()
}

#[track_caller]
fn assert_lines(text: &str, lines: &[&str]) {
    assert_eq!(text.lines().collect::<Vec<_>>(), lines, "\n{text}");
}

#[test]
fn all_keys_of_a_file_are_read() {
    let file = read(GOOD).unwrap();
    assert_eq!(file.pool().get(), 4);
    let [report, poll, clean, once] = &file.jobs[..] else { panic!("{file:?}") };
    assert!(
        matches!(&report.trigger, Trigger::Cron(cron) if cron.text() == "0 15 10 ? * MON-FRI" && cron.zone().name() == "Europe/Berlin")
    );
    assert_eq!(report.command, ["./report.sh", "--fast", "ä b"].map(OsString::from));
    assert_eq!(report.env, [("A", "1"), ("b c", "")].map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!((report.overlap, report.catch_up), ("queue(10)".parse().unwrap(), "all(3)".parse().unwrap()));
    let secs = Duration::from_secs;
    assert_eq!((report.misfire_grace, report.jitter), (secs(120), secs(5)));
    assert_eq!((report.timeout, report.lease), (Some(secs(600)), Some(secs(15))));
    assert_eq!((report.on_crash, report.retry), (OnCrash::Retry, Retry::times(3)));
    assert!(matches!(poll.trigger, Trigger::FixedRate(period) if period == secs(5)));
    assert_eq!((poll.initial_delay, poll.retry), (secs(60), Retry::times(2)));
    assert_eq!(poll.command, ["sh", "-c", "curl -s x | wc"].map(OsString::from));
    assert!(matches!(clean.trigger, Trigger::FixedDelay(delay) if delay == secs(5400)));
    assert!(!clean.enabled && poll.enabled);
    assert!(matches!(once.trigger, Trigger::At(time) if time.to_string() == "2030-01-31T00:00:00Z"));
}

#[test]
fn missing_keys_have_the_defaults_of_jobs() {
    let file = read("job = [{ name = 'x', fixed_delay = '1s', command = ['true'] }]").unwrap();
    assert_eq!(file.pool(), NonZeroUsize::MIN);
    let [job] = &file.jobs[..] else { panic!("{file:?}") };
    assert_eq!((job.overlap, job.catch_up, job.on_crash), (Overlap::Skip, CatchUp::Once, OnCrash::Abandon));
    assert_eq!((job.retry, job.misfire_grace), (Retry::times(0), Duration::from_secs(60)));
    assert_eq!((job.timeout, job.lease, job.enabled), (None, None, true));
    assert_eq!((job.initial_delay, job.jitter), (Duration::ZERO, Duration::ZERO));
    // The defaults are those of the library.
    let mut plain = format!("{:?}", Job::fixed_delay("x", Duration::from_secs(1)));
    assert_eq!(format!("{:?}", job.job()), plain);
    let rate = &read("job = [{ name = 'x', fixed_rate = '1s', command = ['true'] }]").unwrap().jobs[0];
    plain = format!("{:?}", Job::fixed_rate("x", Duration::from_secs(1)));
    assert_eq!(format!("{:?}", rate.job()), plain);
}

#[test]
fn a_job_has_the_defaults_of_the_file_for_the_keys_that_it_does_not_set() {
    let text = r#"
[defaults]
zone = "Asia/Tokyo"
dialect = "unix"
directory = "/srv/shop"
timeout = "10m"
retry = 2
overlap = "queue(3)"
env = { A = "1", B = "2" }

[[job]]
name = "report"
cron = "0 9 * * *"
command = "true"

[[job]]
name = "poll"
fixed_rate = "5s"
directory = "/tmp"
retry = 0
env = { B = "3", C = "4" }
command = "true"
"#;
    let file = read(text).unwrap();
    let [report, poll] = &file.jobs[..] else { panic!("{file:?}") };
    assert!(
        matches!(&report.trigger, Trigger::Cron(cron) if cron.zone().name() == "Asia/Tokyo" && cron.text() == "0 9 * * *")
    );
    let directories = [report, poll].map(|job| job.directory.as_ref().unwrap().to_str().unwrap());
    assert_eq!(directories, ["/srv/shop", "/tmp"]);
    assert_eq!([report.timeout, poll.timeout], [Some(Duration::from_secs(600)); 2]);
    assert_eq!([report.retry, poll.retry], [Retry::times(2), Retry::times(0)]);
    assert_eq!([report.overlap, poll.overlap], ["queue(3)".parse().unwrap(); 2]);
    let env = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(report.env, env(&[("A", "1"), ("B", "2")]));
    assert_eq!(poll.env, env(&[("A", "1"), ("B", "3"), ("C", "4")]));
}

#[test]
fn a_mistake_in_the_defaults_is_reported_once() {
    let jobs = "[[job]]\nname = 'x'\nfixed_rate = '1s'\ncommand = 'true'\n\n[[job]]\nname = 'y'\nfixed_rate = '1s'\ncommand = 'true'\n";
    let with = |defaults: &str| read(&format!("[defaults]\n{defaults}\n\n{jobs}"));
    assert_lines(
        &with("timeout = 5").unwrap_err(),
        &[
            "jobs.toml has 1 mistake",
            "  line 2, column 11: timeout has no unit; write it like \"5s\"",
            "    timeout = 5",
            "              ^",
        ],
    );
    for (defaults, words) in [
        ("command = 'true'", "[defaults] has no key \"command\"; known keys are on_failure, zone, directory, overlap"),
        ("tmeout = '1s'", "[defaults] has no key \"tmeout\"; did you mean timeout?"),
        ("directory = ''", "directory takes the path of a directory"),
        ("env = 1", "env is a number"),
    ] {
        let message = with(defaults).unwrap_err();
        assert!(message.contains("1 mistake") && message.contains(words), "{message}");
    }
    assert!(read(&format!("defaults = 1\n{jobs}")).unwrap_err().contains("write a table [defaults]"));
    assert!(with("").is_ok() && with("zone = 'Asia/Tokyo'\ndaylight = 'skip'").is_ok(), "not all jobs have a zone");
}

#[test]
fn the_job_has_all_settings_of_its_entry() {
    let settings = [
        "overlap = 'queue(2)'\ncatch_up = 'all(3)'\nmisfire_grace = '2m'\non_crash = 'retry'\ntimeout = '10m'",
        "lease = '15s'\nretry = 3\njitter = '2s'\nwindow = '2h'\ngrace = '7s'\npause_after = 3\nrevision = 4",
        "scope = 'each_node'\nstore_down = 'fail_open'\nenabled = false",
    ];
    let file =
        read(&format!("[[job]]\nname = 'x'\nfixed_delay = '1h'\ncommand = 'true'\n{}", settings.join("\n"))).unwrap();
    let secs = Duration::from_secs;
    let job = Job::fixed_delay("x", secs(3600)).overlap("queue(2)".parse().unwrap());
    let job = job.catch_up("all(3)".parse().unwrap()).misfire_grace(secs(120)).on_crash(OnCrash::Retry);
    let job = job.timeout(secs(600)).lease(secs(15)).retry(Retry::times(3)).jitter(secs(2)).window(secs(7200));
    // A command that ignores TERM has the grace, and its run a second more.
    let job = job.grace(secs(8)).pause_after(3).revision(4);
    let job = job.scope(Scope::EachNode).store_down(StoreDown::FailOpen).disabled();
    assert_eq!(format!("{:?}", file.jobs[0].job()), format!("{job:?}"));
}

#[test]
fn all_mistakes_are_reported_at_once_with_their_positions() {
    let text = "[pool]\nsize = 0\n\n[[job]]\nnam = \"ü\"\ncron = \"0 0 24 * * ?\"\n\n[[job]]\nname = \"y\"\ncron = '0 0 9 ? * MONX' # late\ncommand = [\"ü\", 3]\n\n[[job]]\nname = \"y\"\ncommand = \"true\"\nfixed_rate = 5\n";
    assert_lines(
        &read(text).unwrap_err(),
        &[
            "jobs.toml has 9 mistakes",
            "  line 2, column 8: size takes a number from 1 to 10000",
            "    size = 0",
            "           ^",
            "  line 4, column 1: this job has no name",
            "    [[job]]",
            "    ^^^^^^^",
            "  line 4, column 1: this job has no command",
            "    [[job]]",
            "    ^^^^^^^",
            "  line 5, column 1: this job has no key \"nam\"; did you mean name?",
            "    nam = \"ü\"",
            "    ^^^",
            "  line 6, column 13: hours: 24 is too large; allowed are 0 to 23",
            "    cron = \"0 0 24 * * ?\"",
            "                ^^",
            "  line 10, column 19: day of week: MONX is not a day of the week; did you mean MON?",
            "    cron = '0 0 9 ? * MONX' # late",
            "                      ^^^^",
            "  line 11, column 17: this is a number; write each word of the command in quotation marks",
            "    command = [\"ü\", 3]",
            "                    ^",
            "  line 14, column 8: the job in line 9, column 8 has the name \"y\" already",
            "    name = \"y\"",
            "           ^^^",
            "  line 16, column 14: fixed_rate has no unit; write it like \"5s\"",
            "    fixed_rate = 5",
            "                 ^",
        ],
    );
}

#[test]
fn every_kind_of_mistake_has_its_message() {
    let cases = [
        ("", "line 1, column 1: the job \"x\" has no trigger; add one of cron, fixed_rate, fixed_delay, at"),
        ("cron = \"@daily\"\nat = \"x\"", "line 5, column 1: the job \"x\" has cron already; keep one of the two"),
        ("cron = \"@daily\"\nat = \"x\"", "line 5, column 6: "),
        ("cron = \"0 0 0 31 6 ?\"", "line 4, column 8: this expression can never fire"),
        ("cron = \"\"", "line 4, column 9: "),
        ("cron = \"0 0 24 * *\\u0020?\"", "line 4, column 8: hours: 24 is too large"),
        ("cron = '''0 0 24 * * ?'''", "line 4, column 15: hours: 24 is too large"),
        ("cron = 3", "line 4, column 8: cron is a number; write a text in quotation marks"),
        ("cron = \"@daily\"\nzone = \"Mars/Olympus\"", "line 5, column 8: \"Mars/Olympus\" is not a zone"),
        ("at = \"tomorrow\"\nzone = \"UTC\"", "line 5, column 1: zone is for cron only"),
        ("at = \"tomorrow\"", "line 4, column 6: "),
        ("at = 2026-01-31T00:00:00", "line 4, column 6: "),
        ("at = 2026-01-31", "line 4, column 6: "),
        ("at = 3", "line 4, column 6: at is a number; write an instant like 2026-01-31T00:00:00Z"),
        ("fixed_rate = \"0s\"", "line 4, column 14: fixed_rate = \"0s\" must be between 1ms and 365d"),
        ("fixed_delay = \"-5s\"", "line 4, column 15: fixed_delay = \"-5s\" is no duration; write it like 500ms"),
        ("fixed_delay = \"366d\"", "line 4, column 15: fixed_delay = \"366d\" must be between 1ms and 365d"),
        ("fixed_delay = true", "line 4, column 15: fixed_delay is true or false; write it like \"2s\""),
        ("cron = \"@daily\"\ninitial_delay = \"1s\"", "line 5, column 1: initial_delay is for fixed_rate"),
        ("overlap = \"never\"", "line 4, column 11: overlap = \"never\" is unknown; write skip, queue, queue(10)"),
        (
            "overlap = \"queue(0)\"",
            "line 4, column 11: overlap = \"queue(0)\": the number must be between 1 and 4294967295",
        ),
        ("overlap = \"queue(-1)\"", "line 4, column 11: overlap = \"queue(-1)\" is unknown"),
        ("overlap = \"allow(100000000000)\"", ": the number must be between 1 and 4294967295"),
        ("catch_up = \"all(4294967296)\"", ": the number must be between 1 and 4294967295"),
        ("catch_up = \"all\"", "line 4, column 12: catch_up = \"all\" is unknown; write skip, once or all(10)"),
        (
            "on_crash = \"again\"",
            "line 4, column 12: on_crash = \"again\" is unknown; write retry, retry(3) or abandon",
        ),
        ("retry = -1", "line 4, column 9: retry takes a number from 0 to 4294967295"),
        ("retry = 99999999999", "line 4, column 9: retry takes a number from 0 to 4294967295"),
        (
            "retry = \"99999999999 from 1s\"",
            "retry = \"99999999999 from 1s\": the number must be between 0 and 4294967295",
        ),
        ("retry = \"often\"", "line 4, column 9: retry = \"often\" is unknown; write 3,"),
        ("lease = \"1ms\"", "line 4, column 9: lease = \"1ms\" must be between 100ms and 365d"),
        ("timeout = \"0s\"", "line 4, column 11: timeout = \"0s\" must be between 1ms and 365d"),
        ("enabled = \"yes\"", "line 4, column 11: enabled is a text; write true or false"),
        ("env = [\"A=1\"]", "line 4, column 7: env is a list; write env = { NAME = \"text\" }"),
        ("env = { A = 1 }", "line 4, column 13: A is a number; write a text in quotation marks"),
        (
            "env = { \"A=B\" = \"\" }",
            "line 4, column 9: the name of a variable must have at least one character and no =",
        ),
        ("env = { BANDOG_JOB = \"\" }", "line 4, column 9: variables that begin with BANDOG_ are reserved for bandog"),
        ("fixedRate = \"1s\"", "line 4, column 1: the job \"x\" has no key \"fixedRate\"; did you mean fixed_rate?"),
        ("misfire-grace = \"1s\"", "did you mean misfire_grace?"),
        ("colour = 1", "the job \"x\" has no key \"colour\"; known keys are name, cron,"),
        ("name = \"y\"", "line 4, column 1: duplicate key"),
        ("[jobs]", "line 4, column 2: the file has no key \"jobs\"; did you mean job?"),
        ("[pool]", ""),
        ("[pool]\nsize = 3.0", "line 5, column 8: size takes a number from 1 to 10000"),
        ("[pool]\nsiz = 3", "line 5, column 1: [pool] has no key \"siz\"; did you mean size?"),
    ];
    for (lines, words) in cases {
        let message = refused(lines);
        assert!(message.contains(words), "{lines}\n{message}");
    }
    let command =
        |command: &str| read(&format!("[[job]]\nname = \"x\"\nat = 2030-01-01T00:00:00Z\n{command}")).unwrap_err();
    for (text, words) in [
        ("", "line 1, column 1: the job \"x\" has no command"),
        ("command = \" \"", "line 4, column 11: command is empty"),
        ("command = []", "line 4, column 11: command has no program"),
        ("command = [\"\"]", "line 4, column 11: command has no program"),
        ("command = [\"a\", \"\\u0000\"]", "a word of a command cannot contain a zero byte"),
        (
            "command = 3",
            "line 4, column 11: command is a number; write [\"program\", \"word\"], or a text for the shell",
        ),
    ] {
        let message = command(text);
        assert!(message.contains(words), "{text}\n{message}");
    }
    for (text, words) in [
        ("", "the file has no [[job]]"),
        ("job = []", "the file has no [[job]]"),
        ("[job]\nname = \"x\"", "write two brackets, [[job]]"),
        ("job = [1]", "line 1, column 8: a job is a table, and this is a number"),
        ("pool = 3", "line 1, column 8: pool is a number; write a table [pool] with size"),
        ("[[job]]\nname = \"\"", "line 2, column 8: a name must have 1 to 200 bytes without control characters"),
        ("[[job]]\nname = \"a\\tb\"", "line 2, column 8: a name must have 1 to 200 bytes"),
        ("[[job]]\nname = 1", "line 2, column 8: name is a number; write a text in quotation marks"),
    ] {
        let message = read(text).unwrap_err();
        assert!(message.contains(words), "{text}\n{message}");
    }
}

#[test]
fn a_table_with_a_syntax_error_has_no_other_mistakes() {
    let text = "[[job]]\nname = \"a\"\ncommand = tru e\n\n[[job]]\nname = \"b\"\ncommand = \"true\"\nat = \"x\"\n";
    let message = read(text).unwrap_err();
    assert!(message.starts_with("jobs.toml has 2 mistakes\n  line 3, column 11: "), "{message}");
    assert!(message.contains("\n  line 8, column 6: "), "{message}");
    let message = read("[[job]]\nname = \"x\"\ncommand = [\nat = \"2030\"\n").unwrap_err();
    for line in 1..=5 {
        assert!(message.matches(&format!("line {line}, ")).count() <= 1, "{message}");
    }
}

#[test]
fn a_long_line_is_shown_around_the_place() {
    let message = refused(&format!("command = [{}\"ß\", 3]", "\"ä\", ".repeat(200)).replace("command", "env"));
    let [_, line, carets] = message.lines().skip(1).take(3).collect::<Vec<_>>()[..] else { panic!("{message}") };
    assert!(line.chars().count() <= 104 && carets.chars().count() <= 104, "{message}");
    let message =
        read(&format!("[[job]]\nname = \"x\"\nat = 2030-01-01T00:00:00Z\ncommand = [{}3]", "\"ä\", ".repeat(200)))
            .unwrap_err();
    let lines: Vec<_> = message.lines().collect();
    let column = lines[3].chars().count() - 1;
    assert_eq!(lines[2].chars().nth(column), Some('3'), "{message}");
}

#[test]
fn many_mistakes_are_counted_and_the_first_are_reported() {
    let message =
        read(&"[[job]]\nname = \"x\"\nat = 2030-01-01T00:00:00Z\ncommand = \"true\"\n".repeat(1000)).unwrap_err();
    assert!(message.starts_with("jobs.toml has 999 mistakes\n") && message.ends_with("\n  and 949 more"), "{message}");
}

/// Damages a correct file at random places: removes text, repeats text, or inserts other text.
// Promise: S7
#[test]
fn damaged_files_do_not_make_the_parser_panic() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let pieces = [
        "\"",
        "'",
        "'''",
        "[",
        "]",
        "{",
        "}",
        "=",
        ",",
        ".",
        "#",
        "\n",
        "\r",
        "\0",
        "ü",
        "\u{202e}",
        "1",
        "-",
        "0x",
        "[[job]]\n",
        "\\u",
    ];
    for round in 0..20_000 {
        let mut text: Vec<char> = GOOD.chars().collect();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..=text.len());
            let end = (at + random.usize(..30)).min(text.len());
            match random.u8(..4) {
                0 => drop(text.drain(at..end)),
                1 => drop(text.splice(at..at, random.choice(pieces).unwrap().chars())),
                2 => drop(text.splice(at..at, text[at..end].to_vec())),
                _ => drop(text.splice(at..end, random.choice(pieces).unwrap().chars())),
            }
        }
        let text: String = text.into_iter().collect();
        if let Err(panic) =
            std::panic::catch_unwind(|| read(&text).map(|file| file.jobs.iter().for_each(|job| drop(job.job()))))
        {
            panic!("seed {seed}, round {round}: {panic:?}\n{text}");
        }
    }
}

#[test]
fn fuzz_job_files() {
    let words = [
        "[[job]]",
        "[job.env]",
        "[pool]",
        "size = 0",
        "name = ",
        "cron = ",
        "fixed_rate = ",
        "at = ",
        "zone = ",
        "true",
        "\"5s\"",
        "\"\"\"",
        "'''",
        "1979-05-27T07:32:00Z",
        "0x1f",
        "inf",
        "\\u0000",
        "{ a = 1 }",
        "# x",
        "\r",
    ];
    bandog_testkit::fuzz::texts("job files", &[GOOD, "[[job]]\nname = \"x\"\ncommand = \"true\"\n"], &words, |text| {
        match read(text) {
            Ok(file) => {
                assert!(!file.jobs.is_empty(), "a file without a job was accepted");
                true
            }
            Err(message) => {
                assert!(message.contains("jobs.toml"), "the message does not name the file: {message}");
                false
            }
        }
    });
}
