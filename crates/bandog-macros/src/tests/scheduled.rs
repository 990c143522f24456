use super::{faults, refuses};
use crate::scheduled::expand;

const FUNCTION: &str = "async fn report(run: Run) -> Result<(), Error> { Ok(()) }";

/// The attribute is wrong on any function.
#[track_caller]
fn no(attribute: &str, message: &str, place: &str) {
    refuses(expand, (attribute, FUNCTION), message, place);
}

/// A key has this wrong value.
#[track_caller]
fn not(key: &str, value: &str, what: &str) {
    let place = format!("{value:?}");
    let trigger = if matches!(key, "fixed_rate" | "fixed_delay" | "at" | "cron") {
        ""
    } else if key == "initial_delay" {
        "fixed_rate = \"1s\", "
    } else {
        "cron = \"@daily\", "
    };
    no(&format!("{trigger}{key} = {value:?}"), &format!("`{key}` is {value:?}{what}"), &place);
}

#[track_caller]
fn yes(attribute: &str) {
    if let Err(fault) = expand(attribute.parse().unwrap(), FUNCTION.parse().unwrap()) {
        panic!("{attribute}: {fault}");
    }
}

#[test]
fn a_wrong_expression_is_shown_with_a_caret_under_the_column() {
    let picture = "`cron` is no expression of the quartz dialect\n\n\
                   0 0 25 * * ?\n    ^^ hours: 25 is too large; allowed are 0 to 23";
    no("cron = \"0 0 25 * * ?\"", picture, "\"0 0 25 * * ?\"");
    no("cron = \"${REPORT:0 0 25 * * ?}\"", picture, "\"${REPORT:0 0 25 * * ?}\"");
    let both = faults(expand, "cron = \"0 0 0 13 * FRI\"", FUNCTION);
    let settings = "day_match = \"and\" (both must match) or day_match = \"or\" (one must match)";
    assert!(both[0].0.ends_with(settings), "{both:?}");
    let five = faults(expand, "cron = \"0 15 10 * *\"", FUNCTION);
    assert!(five[0].0.ends_with("read by dialect = \"unix\" it means: At 15:00, on day 10 of the month"), "{five:?}");
    let unix = faults(expand, "cron = \"0 0 9 ? * MON\", dialect = \"unix\"", FUNCTION);
    assert!(unix[0].0.starts_with("`cron` is no expression of the unix dialect\n\n0 0 9 ? * MON\n"), "{unix:?}");
}

#[test]
fn expressions_that_are_right() {
    for attribute in [
        "cron = \"0 15 10 ? * MON-FRI\", zone = \"Asia/Shanghai\"",
        "cron = \"*/5 * * * *\", dialect = \"unix\"",
        "cron = \"-\"",
        "cron = \"${app.report.cron:-}\"",
        "cron = \"${REPORT}\", dialect = \"${DIALECT}\", zone = \"${ZONE:UTC}\"",
        "cron = \"0 0 0 13 * FRI\", day_match = \"and\", daylight = \"elapsed\"",
        "cron = \"0 0 0 13 * FRI\", day_match = \"${DAYS}\"",
        "cron = \"@daily\", scope = \"each_node\", revision = 2, pause_after = 3, grace = \"0s\"",
        "cron = \"@daily\", scope = \"${SCOPE:cluster}\", revision = \"${REVISION:0}\", pause_after = \"3\"",
        "cron = \"@daily\", retry = \"3 from 1s to 1m within 10m until next tick\"",
        "cron = \"@daily\", retry = \"3 to 1m until next tick\"",
        "fixed_rate = \"-\"",
        "fixed_rate = \"${EVERY:5s}\", initial_delay = \"0s\"",
        "at = \"2026-12-31T23:59:00+01:00\"",
        "fixed_delay = \"1m\", overlap = \"queue(10)\", catch_up = \"all(3)\", retry = 3, enabled = false",
        "fixed_rate = \"1ms\", overlap = \"allow(3)\", retry = \"3 from 1s to 1m\", on_crash = \"retry\"",
        "cron = \"@daily\", on_crash = \"retry(3)\"",
    ] {
        yes(attribute);
    }
}

#[test]
fn values_that_are_wrong() {
    not("cron", "0 0 0 31 6 ?", ", which never fires");
    not("zone", "Mars/Olympus", ", which is not a zone of the IANA table; write Europe/Berlin or UTC");
    not("dialect", "quarz", "; did you mean \"quartz\"? It takes `quartz`, `spring`, `unix`");
    not("day_match", "And", "; did you mean \"and\"? It takes `and`, `or`");
    not("daylight", "elapse", "; did you mean \"elapsed\"? It takes `pinned`, `elapsed`, `skip`");
    not("scope", "node", "; it takes `cluster`, `each_node`");
    not("revision", "-1", "; it takes a number from 0");
    not("pause_after", "0", "; it takes a number from 1");
    not("grace", "5", ", which is no duration; write 500ms, 10s or 2m");
    not("fixed_rate", "0s", "; it takes 1ms to 365d");
    not("fixed_rate", "-5s", ", which is no duration; write 500ms, 10s or 2m");
    not("fixed_delay", "5", ", which is no duration; write 500ms, 10s or 2m");
    not("fixed_delay", "366d", "; it takes 1ms to 365d");
    not("initial_delay", "soon", ", which is no duration; write 500ms, 10s or 2m");
    not("lease", "1ms", "; it takes 100ms to 365d");
    not("timeout", "0s", "; it takes 1ms to 365d");
    not("at", "tomorrow", ", which is no instant; write 2026-12-31T23:59:00Z or 2026-12-31T23:59:00+01:00");
    let overlap = "takes `skip`, `queue`, `queue(10)`, `allow(3)` or `replace`";
    not("overlap", "skp", &format!("; did you mean \"skip\"? It {overlap}"));
    not("overlap", "allow", &format!("; it {overlap}"));
    not("overlap", "queue(0)", &format!("; it {overlap}"));
    not("catch_up", "all(x)", "; it takes `skip`, `once` or `all(10)`");
    let on_crash = "takes `retry`, `retry(3)` or `abandon`";
    not("on_crash", "panic", &format!("; it {on_crash}"));
    not("on_crash", "retry(0)", &format!("; it {on_crash}"));
    not("on_crash", "retri", &format!("; did you mean \"retry\"? It {on_crash}"));
    for text in ["often", "", "3 from", "3 from soon", "3 to 1m from 1s", "3 until", "3 until next tick now"] {
        not("retry", text, "; it takes `3`, `3 from 1s to 1m`, `3 within 10m` or `3 until next tick`");
    }
    not("enabled", "yes", "; it takes `true`, `false`");
    not("name", "", "; a job's name has 1 to 200 bytes without control characters");
}

#[test]
fn places_for_the_environment_that_are_wrong() {
    let end = "`${` has no end in \"${REPORT\"; write ${NAME} or ${NAME:default}";
    no("cron = \"${REPORT\"", end, "\"${REPORT\"");
    no("cron = \"${}\"", "\"\" names no variable; write ${NAME} or ${NAME:default}", "\"${}\"");
    no("cron = \"${A B}\"", "\"A B\" names no variable; write ${NAME} or ${NAME:default}", "\"${A B}\"");
}

#[test]
fn keys_that_do_not_go_together() {
    no("", "nothing says when it runs: write one of `cron`, `fixed_rate`, `fixed_delay`, `at`", "");
    no(
        "cron = \"@daily\", fixed_rate = \"5s\"",
        "a job has one trigger, and this one has `cron` and `fixed_rate`",
        "\"5s\"",
    );
    no("fixed_rate = \"5s\", zone = \"UTC\"", "`zone` belongs to `cron`, and this job has `fixed_rate`", "\"UTC\"");
    no(
        "cron = \"@daily\", initial_delay = \"5s\"",
        "`initial_delay` belongs to `fixed_rate`, `fixed_delay`, and this job has `cron`",
        "\"5s\"",
    );
    no("at = \"-\", daylight = \"skip\"", "`daylight` belongs to `cron`, and this job has `at`", "\"skip\"");
    no("cron = \"@daily\", revision = true", "`revision` takes a text: write revision = \"2\"", "true");
    no("fixedRate = \"5s\"", "unknown key `fixedRate`; did you mean `fixed_rate`?", "fixedRate");
    no("corn = \"@daily\"", "unknown key `corn`; did you mean `cron`?", "corn");
    no("cron = 5", "`cron` takes a text: write cron = \"0 15 10 ? * MON-FRI\"", "5");
    no("\"@daily\"", "a value needs its key: write name = \"@daily\"", "\"@daily\"");
}

#[test]
fn functions_that_cannot_be_jobs() {
    let not_on = |function, message, place| refuses(expand, ("fixed_rate = \"5s\"", function), message, place);
    let free = "a job is a free function: take what it needs as `Shared<T>`, and give it to `Scheduler::share`";
    not_on("async fn f(&self) {}", free, "self");
    let generic = "a job has no generic parameters: nothing would say what they are";
    not_on("async fn f<T: Send>(run: Run) {}", generic, "T: Send");
    not_on("async fn f<'a>(run: &'a Run) {}", generic, "'a");
    not_on("const fn f() {}", "a job is no `const fn`", "const");
    let future = "a job returns nothing or `Result<(), E>`; a future is what an `async fn` makes by itself";
    not_on("fn f() -> impl Future<Output = ()> { g() }", future, "impl Future<Output = ()>");
    let all = faults(expand, "fixed_rate = \"0s\", jitter = \"x\"", "const fn f() {}");
    assert_eq!(all.len(), 3, "all are told at once: {all:?}");
}
