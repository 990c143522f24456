use super::{faults, refuses};
use crate::locked::expand;

const METHOD: &str = "async fn cancel(&self, id: u64, (shop, _): (u8, u8)) -> Result<()> { Ok(()) }";

/// Checks that the attribute is refused on an ordinary method.
#[track_caller]
fn rejects_attribute(attribute: &str, message: &str, place: &str) {
    refuses(expand, (attribute, METHOD), message, place);
}

/// Checks that an ordinary attribute is refused on this function.
#[track_caller]
fn rejects_function(function: &str, message: &str, place: &str) {
    refuses(expand, ("name = \"orders\"", function), message, place);
}

#[track_caller]
fn accepts(attribute: &str, function: &str) {
    let expanded = expand(attribute.parse().unwrap(), function.parse().unwrap());
    assert!(expanded.is_ok(), "{attribute} on {function}: {:?}", expanded.err());
}

#[test]
fn wrong_keys_are_refused() {
    rejects_attribute("nmae = \"a\"", "unknown key `nmae`; did you mean `name`?", "nmae");
    rejects_attribute("name = \"a\", maxHold = \"1s\"", "unknown key `maxHold`; did you mean `max_hold`?", "maxHold");
    rejects_attribute(
        "name = \"a\", colour = 1",
        "unknown key `colour`; the known keys are `name`, `client`, `wait`, `lease`, `max_hold`, `max_waiters`, \
         `guard`, `shared`, `exclusive`, `fair`, `permits`, `of`",
        "colour",
    );
    rejects_attribute("name = \"a\", name = \"b\"", "`name` is given twice", "name");
    rejects_attribute("name", "`name` has no value: write name = \"…\"", "name");
    rejects_attribute("\"orders\"", "a value must have a key: write name = \"orders\"", "\"orders\"");
    rejects_attribute("", "the lock has no name: write name = \"orders\"", "");
    rejects_attribute(
        "name = \"a\", guard = 5",
        "`guard` must be a name for the guard in the body: write guard = guard",
        "5",
    );
    let all = faults(expand, "nmae = \"a\", leese = \"1s\"", METHOD);
    assert_eq!(all.len(), 2, "all errors must be reported together: {all:?}");
}

// Promise: A4
#[test]
fn wrong_names_are_refused() {
    rejects_attribute("name = \"o-{idd}\"", "`{idd}` names no parameter; did you mean `{id}`?", "\"o-{idd}\"");
    rejects_attribute(
        "name = \"o-{order}\"",
        "`{order}` names no parameter; the parameters are `self`, `id`, `shop`",
        "\"o-{order}\"",
    );
    rejects_attribute(
        "name = \"o-{}\"",
        "`{}` names no parameter; the parameters are `self`, `id`, `shop`",
        "\"o-{}\"",
    );
    rejects_attribute(
        "name = \"o-{id\"",
        "a single brace in \"o-{id\"; write {{ or }} for a brace in the name",
        "\"o-{id\"",
    );
    rejects_attribute("name = \"o-}\"", "a single brace in \"o-}\"; write {{ or }} for a brace in the name", "\"o-}\"");
    let call = "`get()` in `{self.get()}` is not a field; a placeholder is a parameter or a field of a parameter";
    rejects_attribute("name = \"{self.get()}\"", call, "\"{self.get()}\"");
    let width = "`{id:width$}` takes its width from another value; write the width as a number";
    rejects_attribute("name = \"{id:width$}\"", width, "\"{id:width$}\"");
    rejects_attribute("name = \"\"", "the name has 0 bytes; it must have between 1 and 1024", "\"\"");
    rejects_attribute(
        "name = \"a\\n\"",
        "the name has the control character '\\n'; only printable text is allowed",
        "\"a\\n\"",
    );
    let no_parameters = "`{id}` names no parameter; the function has no parameters";
    refuses(expand, ("name = \"{id}\"", "fn f() -> Result<()> {}"), no_parameters, "\"{id}\"");
}

#[test]
fn wrong_durations_are_refused() {
    for (value, message) in [
        ("\"5 parsecs\"", "`wait` is \"5 parsecs\", which is not a duration; write 500ms, 10s or 2m"),
        ("\"-1s\"", "`wait` is \"-1s\", which is not a duration; write 500ms, 10s or 2m"),
        ("\"\"", "`wait` is \"\", which is not a duration; write 500ms, 10s or 2m"),
        ("\"400d\"", "`wait` is \"400d\"; it must be between 0s and 365d"),
        ("5", "`wait` takes a text: write wait = \"5s\""),
        ("true", "`wait` takes a text: write wait = \"5s\""),
    ] {
        rejects_attribute(&format!("name = \"a\", wait = {value}"), message, value);
    }
    rejects_attribute(
        "name = \"a\", lease = \"99ms\"",
        "`lease` is \"99ms\"; it must be between 100ms and 365d",
        "\"99ms\"",
    );
    rejects_attribute(
        "name = \"a\", max_hold = \"0s\"",
        "`max_hold` is \"0s\"; it must be between 100ms and 365d",
        "\"0s\"",
    );
}

#[test]
fn wrong_kinds_are_refused() {
    let example = "write permits = 2, of = 5";
    for (kind, message, place) in [
        ("shared = true", "`shared` takes no value: write shared", "shared"),
        ("shared, exclusive", "a lock has one kind: write `shared` or `exclusive`, not both", "exclusive"),
        ("fair, permits = 1, of = 2", "a lock has one kind: write `fair` or `permits`, not both", "1"),
        ("fair, fair", "`fair` is given twice", "fair"),
        ("fiar", "unknown key `fiar`; did you mean `fair`?", "fiar"),
        ("permits = 2", &format!("`permits` needs the number of all permits: {example}"), "2"),
        ("of = 5", &format!("`of` needs the number of permits to take: {example}"), "5"),
        ("permits = 6, of = 5", "`permits` is 6, but the semaphore has only 5 permits", "6"),
        ("permits = 0, of = 5", "`permits` takes a number from 1 to 4294967295: write permits = 5", "0"),
        ("max_waiters = 0", "`max_waiters` takes a number from 1 to 4294967295: write max_waiters = 5", "0"),
        ("permits = 1, of = \"5\"", "`of` takes a number from 1 to 4294967295: write of = 5", "\"5\""),
    ] {
        rejects_attribute(&format!("name = \"a\", {kind}"), message, place);
    }
}

#[test]
fn functions_that_cannot_lock_are_refused() {
    let fails = "a lock can fail, so the function must return `Result<T, E>` with `E: From<bandog::Error>`";
    rejects_function(
        "fn f(client: &Client) {}",
        &format!("{fails}, but this function returns nothing"),
        "(client: &Client)",
    );
    let nameless = ", but this type has no name: write `async fn`, whose body runs under the lock, or name the type";
    let future = "fn f(client: &Client) -> impl Future<Output = Result<()>> {}";
    rejects_function(future, &format!("{fails}{nameless}"), "impl Future<Output = Result<()>>");
    rejects_function(
        "const fn f() -> Result<()> {}",
        "a `const fn` cannot lock, because the compiler can run it",
        "const",
    );
    let no_client = "no client: add a parameter `client`, or write client = EXPRESSION";
    rejects_function("async fn f(id: u64) -> Result<()> {}", no_client, "");
    for item in ["struct Shop;", "async fn f(&self) -> Result<()>;"] {
        let found = faults(expand, "name = \"a\"", item);
        assert!(found[0].0.starts_with("`#[bandog::locked]` must be on a function with a body: "), "{found:?}");
    }
}

/// Without `wait` the lock is never busy. A body that may have a `None` of its own is accepted.
#[test]
fn an_option_whose_none_can_never_come_is_refused() {
    let message = "this function never returns `Ok(None)`: without `wait`, the call waits until the lock is free. Write \
                   wait = \"0s\" if `Ok(None)` means that the lock is busy, or return `Result<T, E>`";
    for body in ["Ok(Some(1))", "work().await?; if done() { return Err(x) } Ok(Some(work().await?))"] {
        let function = format!("async fn f(client: &Client) -> bandog::Result<Option<u64>> {{ {body} }}");
        refuses(expand, ("name = \"orders\"", &function), message, "Option<u64>");
        accepts("name = \"orders\", wait = \"0s\"", &function);
    }
    for body in [
        "find().await",
        "Ok(None)",
        "Ok(found)",
        "if none() { return Ok(None) } Ok(Some(1))",
        "todo!()",
        "or_none!(x); Ok(Some(1))",
    ] {
        let function = format!("async fn f(client: &Client) -> Result<Option<u64>> {{ {body} }}");
        accepts("name = \"orders\"", &function);
    }
    accepts("name = \"orders\"", "async fn f(client: &Client) -> Result<Vec<u64>> { Ok(vec![1]) }");
}
