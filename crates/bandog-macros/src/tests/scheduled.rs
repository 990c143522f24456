use super::{faults, refuses};
use crate::scheduled::expand;

const FUNCTION: &str = "async fn report(run: Run) -> Result<(), Error> { Ok(()) }";

/// Checks that the attribute is refused on an ordinary function.
#[track_caller]
fn rejects_attribute(attribute: &str, message: &str, place: &str) {
    refuses(expand, (attribute, FUNCTION), message, place);
}

/// Checks that this value of a key is refused. `what` is the error without its beginning, "`key` is "value"".
#[track_caller]
fn rejects_value(key: &str, value: &str, what: &str) {
    let place = format!("{value:?}");
    let trigger = if matches!(key, "fixed_rate" | "fixed_delay" | "at" | "cron") {
        ""
    } else if key == "initial_delay" {
        "fixed_rate = \"1s\", "
    } else {
        "cron = \"@daily\", "
    };
    rejects_attribute(&format!("{trigger}{key} = {value:?}"), &format!("`{key}` is {value:?}{what}"), &place);
}

/// Checks that the attribute is accepted.
#[track_caller]
fn accepts(attribute: &str) {
    if let Err(fault) = expand(attribute.parse().unwrap(), FUNCTION.parse().unwrap()) {
        panic!("{attribute} is refused: {fault}");
    }
}

// Promise: A4
#[test]
fn a_wrong_expression_is_shown_with_a_caret_under_the_column() {
    let picture = "`cron` is no expression of the quartz dialect\n\n\
                   0 0 25 * * ?\n    ^^ hours: 25 is too large; allowed are 0 to 23";
    rejects_attribute("cron = \"0 0 25 * * ?\"", picture, "\"0 0 25 * * ?\"");
    rejects_attribute("cron = \"${REPORT:0 0 25 * * ?}\"", picture, "\"${REPORT:0 0 25 * * ?}\"");
    let restricted_days = faults(expand, "cron = \"0 0 0 13 * FRI\"", FUNCTION);
    let settings = "day_match = \"and\" (both must match) or day_match = \"or\" (one must match)";
    assert!(restricted_days[0].0.ends_with(settings), "{restricted_days:?}");
    let five_fields = faults(expand, "cron = \"0 15 10 * *\"", FUNCTION);
    assert!(
        five_fields[0].0.ends_with("read by dialect = \"unix\" it means: At 15:00, on day 10 of the month"),
        "{five_fields:?}"
    );
    let unix = faults(expand, "cron = \"0 0 9 ? * MON\", dialect = \"unix\"", FUNCTION);
    assert!(unix[0].0.starts_with("`cron` is no expression of the unix dialect\n\n0 0 9 ? * MON\n"), "{unix:?}");
}

#[test]
fn right_attributes_are_accepted() {
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
        accepts(attribute);
    }
}

// Promise: A4
#[test]
fn wrong_values_are_refused() {
    rejects_value("cron", "0 0 0 31 6 ?", ", which never fires");
    rejects_value("zone", "Mars/Olympus", ", which is not a zone of the IANA table; write Europe/Berlin or UTC");
    rejects_value("dialect", "quarz", "; did you mean \"quartz\"? Allowed are `quartz`, `spring`, `unix`");
    rejects_value("day_match", "And", "; did you mean \"and\"? Allowed are `and`, `or`");
    rejects_value("daylight", "elapse", "; did you mean \"elapsed\"? Allowed are `pinned`, `elapsed`, `skip`");
    rejects_value("scope", "node", "; allowed are `cluster`, `each_node`");
    rejects_value("revision", "-1", "; it must be a number from 0");
    rejects_value("pause_after", "0", "; it must be a number from 1");
    rejects_value("grace", "5", ", which is not a duration; write 500ms, 10s or 2m");
    rejects_value("fixed_rate", "0s", "; it must be between 1ms and 365d");
    rejects_value("fixed_rate", "-5s", ", which is not a duration; write 500ms, 10s or 2m");
    rejects_value("fixed_delay", "5", ", which is not a duration; write 500ms, 10s or 2m");
    rejects_value("fixed_delay", "366d", "; it must be between 1ms and 365d");
    rejects_value("initial_delay", "soon", ", which is not a duration; write 500ms, 10s or 2m");
    rejects_value("lease", "1ms", "; it must be between 100ms and 365d");
    rejects_value("timeout", "0s", "; it must be between 1ms and 365d");
    rejects_value(
        "at",
        "tomorrow",
        ", which is not an instant; write 2026-12-31T23:59:00Z or 2026-12-31T23:59:00+01:00",
    );
    let overlap = "are `skip`, `queue`, `queue(10)`, `allow(3)`, `replace`";
    rejects_value("overlap", "skp", &format!("; did you mean \"skip\"? Allowed {overlap}"));
    rejects_value("overlap", "allow", &format!("; allowed {overlap}"));
    rejects_value("overlap", "queue(0)", &format!("; allowed {overlap}"));
    rejects_value("catch_up", "all(x)", "; allowed are `skip`, `once`, `all(10)`");
    let on_crash = "are `retry`, `retry(3)`, `abandon`";
    rejects_value("on_crash", "panic", &format!("; allowed {on_crash}"));
    rejects_value("on_crash", "retry(0)", &format!("; allowed {on_crash}"));
    rejects_value("on_crash", "retri", &format!("; did you mean \"retry\"? Allowed {on_crash}"));
    for text in ["often", "", "3 from", "3 from soon", "3 to 1m from 1s", "3 until", "3 until next tick now"] {
        rejects_value("retry", text, "; allowed are `3`, `3 from 1s to 1m`, `3 within 10m`, `3 until next tick`");
    }
    rejects_value("enabled", "yes", "; allowed are `true`, `false`");
    rejects_value("name", "", "; a job's name has 1 to 200 bytes without control characters");
}

#[test]
fn wrong_environment_variables_are_refused() {
    let end = "`${` has no end in \"${REPORT\"; write ${NAME} or ${NAME:default}";
    rejects_attribute("cron = \"${REPORT\"", end, "\"${REPORT\"");
    rejects_attribute("cron = \"${}\"", "\"\" names no variable; write ${NAME} or ${NAME:default}", "\"${}\"");
    rejects_attribute("cron = \"${A B}\"", "\"A B\" names no variable; write ${NAME} or ${NAME:default}", "\"${A B}\"");
}

#[test]
fn keys_that_do_not_fit_the_trigger_are_refused() {
    rejects_attribute("", "the job has no trigger: write one of `cron`, `fixed_rate`, `fixed_delay`, `at`", "");
    rejects_attribute(
        "cron = \"@daily\", fixed_rate = \"5s\"",
        "a job has one trigger, but this job has `cron` and `fixed_rate`",
        "\"5s\"",
    );
    rejects_attribute(
        "fixed_rate = \"5s\", zone = \"UTC\"",
        "`zone` is only for `cron`, but this job has `fixed_rate`",
        "\"UTC\"",
    );
    rejects_attribute(
        "cron = \"@daily\", initial_delay = \"5s\"",
        "`initial_delay` is only for `fixed_rate`, `fixed_delay`, but this job has `cron`",
        "\"5s\"",
    );
    rejects_attribute(
        "at = \"-\", daylight = \"skip\"",
        "`daylight` is only for `cron`, but this job has `at`",
        "\"skip\"",
    );
    rejects_attribute("cron = \"@daily\", revision = true", "`revision` takes a text: write revision = \"2\"", "true");
    rejects_attribute("fixedRate = \"5s\"", "unknown key `fixedRate`; did you mean `fixed_rate`?", "fixedRate");
    rejects_attribute("corn = \"@daily\"", "unknown key `corn`; did you mean `cron`?", "corn");
    rejects_attribute("cron = 5", "`cron` takes a text: write cron = \"0 15 10 ? * MON-FRI\"", "5");
    rejects_attribute("\"@daily\"", "a value must have a key: write name = \"@daily\"", "\"@daily\"");
}

#[test]
fn functions_that_cannot_be_jobs_are_refused() {
    let rejects_function =
        |function, message, place| refuses(expand, ("fixed_rate = \"5s\"", function), message, place);
    let free = "a job must be a free function: take its values as `Shared<T>`, and give them to `Scheduler::share`";
    rejects_function("async fn f(&self) {}", free, "self");
    let generic = "a job cannot have generic parameters, because a scheduler cannot choose them";
    rejects_function("async fn f<T: Send>(run: Run) {}", generic, "T: Send");
    rejects_function("async fn f<'a>(run: &'a Run) {}", generic, "'a");
    rejects_function("const fn f() {}", "a job cannot be a `const fn`", "const");
    let future = "a job must return nothing or `Result<(), E>`; write `async fn` instead of returning a future";
    rejects_function("fn f() -> impl Future<Output = ()> { g() }", future, "impl Future<Output = ()>");
    let all = faults(expand, "fixed_rate = \"0s\", jitter = \"x\"", "const fn f() {}");
    assert_eq!(all.len(), 3, "all errors must be reported together: {all:?}");
}
