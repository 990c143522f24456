use super::refuses;
use crate::{remote, task};

#[track_caller]
fn rejects_task(attribute: &str, function: &str, message: &str, place: &str) {
    refuses(task::expand, (attribute, function), message, place);
}

#[track_caller]
fn rejects_remote(attribute: &str, item: &str, message: &str, place: &str) {
    refuses(remote::expand, (attribute, item), message, place);
}

#[test]
fn functions_that_cannot_be_tasks_are_refused() {
    let sync = "a task is an `async fn`; call blocking code in `spawn_blocking`";
    rejects_task("", "fn charge(cents: u32) {}", sync, "fn");
    let generic = "a task has no generic parameters: its arguments come from another program";
    rejects_task("", "async fn charge<T>(cents: T) {}", generic, "T");
    let this = "a task has no `self`; give it the value as a parameter behind the arguments";
    rejects_task("", "async fn charge(&self, cents: u32) {}", this, "self");
    let owned = "a parameter of a task is owned, because it comes from another program or is cloned";
    rejects_task("", "async fn charge(cents: u32, shop: &Shop) {}", owned, "&");
    let name = "this parameter of a task must be a name";
    rejects_task("", "async fn charge(cents: u32, (a, b): (u8, u8)) {}", name, "(a, b)");
    let function = "async fn charge(cents: u32) {}";
    rejects_task("nam = \"a\"", function, "unknown key `nam`; did you mean `name`?", "nam");
    rejects_task("name = \" \"", function, "the task has no name", "\" \"");
    let number = "`deliveries` takes a number from 1 to 4294967295: write deliveries = 5";
    rejects_task("deliveries = 0", function, number, "0");
    let time = "`timeout` is \"soon\", which is not a duration; write 500ms, 10s or 2m";
    rejects_task("timeout = \"soon\"", function, time, "\"soon\"");
}

#[test]
fn traits_that_cannot_be_remote_are_refused() {
    let of = |method: &str| format!("trait Stock {{ {method} }}");
    let name = "name = \"stock.v1\"";
    rejects_remote("", &of(""), "the service has no name: write name = \"stock.v1\"", "");
    let generic = "a remote trait has no generic parameters: its calls come from other programs";
    rejects_remote(name, "trait Stock<T> {}", generic, "T");
    rejects_remote(name, &of("type A;"), "a remote trait has methods only", "type A;");
    rejects_remote(name, &of("fn a(&self) -> Result<(), ()>;"), "a remote method is an `async fn`", "fn");
    rejects_remote(name, &of("async fn a() -> Result<(), ()>;"), "a remote method takes `&self`", "a");
    rejects_remote(name, &of("async fn a(&mut self) -> Result<(), ()>;"), "a remote method takes `&self`", "a");
    let owned = "a parameter of a remote method is owned: it comes from another program";
    rejects_remote(name, &of("async fn a(&self, b: &str) -> Result<(), ()>;"), owned, "&");
    let result = "a remote method returns `Result<T, E>`, whose error travels, too";
    rejects_remote(name, &of("async fn a(&self);"), result, "a");
    rejects_remote(name, &of("async fn a(&self) -> u32;"), result, "u32");
    rejects_remote(name, &of("async fn a(&self) -> io::Result<u32>;"), result, "io::Result<u32>");
}
