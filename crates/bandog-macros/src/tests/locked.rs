use super::{faults, refuses};
use crate::locked::expand;

const METHOD: &str = "async fn cancel(&self, id: u64, (shop, _): (u8, u8)) -> Result<()> { Ok(()) }";

/// The attribute is wrong on any method.
#[track_caller]
fn no(attribute: &str, message: &str, place: &str) {
    refuses(expand, (attribute, METHOD), message, place);
}

/// The function is wrong.
#[track_caller]
fn not_on(function: &str, message: &str, place: &str) {
    refuses(expand, ("name = \"orders\"", function), message, place);
}

#[test]
fn keys_that_are_wrong() {
    no("nmae = \"a\"", "unknown key `nmae`; did you mean `name`?", "nmae");
    no("name = \"a\", maxHold = \"1s\"", "unknown key `maxHold`; did you mean `max_hold`?", "maxHold");
    no(
        "name = \"a\", colour = 1",
        "unknown key `colour`; known are `name`, `client`, `wait`, `lease`, `max_hold`, `guard`",
        "colour",
    );
    no("name = \"a\", name = \"b\"", "`name` is said twice", "name");
    no("name", "`name` has no value: write name = \"…\"", "name");
    no("\"orders\"", "a value needs its key: write name = \"orders\"", "\"orders\"");
    no("", "the lock has no name: write name = \"orders\"", "");
    no("name = \"a\", guard = 5", "`guard` takes the name that the guard has in the body: write guard = guard", "5");
    let all = faults(expand, "nmae = \"a\", leese = \"1s\"", METHOD);
    assert_eq!(all.len(), 2, "all are told at once: {all:?}");
}

#[test]
fn names_that_are_wrong() {
    no("name = \"o-{idd}\"", "`{idd}` names no parameter; did you mean `{id}`?", "\"o-{idd}\"");
    no("name = \"o-{order}\"", "`{order}` names no parameter; there are `self`, `id`, `shop`", "\"o-{order}\"");
    no("name = \"o-{}\"", "`{}` names no parameter; there are `self`, `id`, `shop`", "\"o-{}\"");
    no("name = \"o-{id\"", "a brace stands alone in \"o-{id\"; write {{ or }} for one that is meant", "\"o-{id\"");
    no("name = \"o-}\"", "a brace stands alone in \"o-}\"; write {{ or }} for one that is meant", "\"o-}\"");
    let call = "`get()` in `{self.get()}` is no field; a place takes a parameter or fields of one";
    no("name = \"{self.get()}\"", call, "\"{self.get()}\"");
    let width = "`{id:width$}` takes its width from elsewhere; write it as a number";
    no("name = \"{id:width$}\"", width, "\"{id:width$}\"");
    no("name = \"\"", "the name has 0 bytes; it takes 1 to 1024", "\"\"");
    no("name = \"a\\n\"", "the name has the control character '\\n'; only printable text is allowed", "\"a\\n\"");
    let none = "`{id}` names no parameter; the function has none";
    refuses(expand, ("name = \"{id}\"", "fn f() -> Result<()> {}"), none, "\"{id}\"");
}

#[test]
fn durations_that_are_wrong() {
    for (value, message) in [
        ("\"5 parsecs\"", "`wait` is \"5 parsecs\", which is no duration; write 500ms, 10s or 2m"),
        ("\"-1s\"", "`wait` is \"-1s\", which is no duration; write 500ms, 10s or 2m"),
        ("\"\"", "`wait` is \"\", which is no duration; write 500ms, 10s or 2m"),
        ("\"400d\"", "`wait` is \"400d\"; it takes 0s to 365d"),
        ("5", "`wait` takes a text: write wait = \"5s\""),
        ("true", "`wait` takes a text: write wait = \"5s\""),
    ] {
        no(&format!("name = \"a\", wait = {value}"), message, value);
    }
    no("name = \"a\", lease = \"99ms\"", "`lease` is \"99ms\"; it takes 100ms to 365d", "\"99ms\"");
    no("name = \"a\", max_hold = \"0s\"", "`max_hold` is \"0s\"; it takes 100ms to 365d", "\"0s\"");
}

#[test]
fn functions_that_cannot_lock() {
    let fails = "a lock can fail, so the function returns `Result<T, E>` with `E: From<bandog::Error>`";
    not_on("fn f(client: &Client) {}", &format!("{fails}, and this function returns nothing"), "(client: &Client)");
    let nameless = ", and this type has no name: write `async fn`, whose body runs under the lock, or name the type";
    let future = "fn f(client: &Client) -> impl Future<Output = Result<()>> {}";
    not_on(future, &format!("{fails}{nameless}"), "impl Future<Output = Result<()>>");
    not_on("const fn f() -> Result<()> {}", "a `const fn` cannot lock: it may run in the compiler", "const");
    let lost = "no client: name a parameter `client`, or say where it is: client = EXPRESSION";
    not_on("async fn f(id: u64) -> Result<()> {}", lost, "");
    for item in ["struct Shop;", "async fn f(&self) -> Result<()>;"] {
        let found = faults(expand, "name = \"a\"", item);
        assert!(found[0].0.starts_with("`#[bandog::locked]` stands before a function with a body: "), "{found:?}");
    }
}
