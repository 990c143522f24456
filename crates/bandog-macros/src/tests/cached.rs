use super::{faults, refuses};
use crate::cached::expand;

const FUNCTION: &str = "async fn price(grid: &Grid, sku: u32) -> Result<f64> { Ok(1.0) }";

#[track_caller]
fn rejects_attribute(attribute: &str, message: &str, place: &str) {
    refuses(expand, (attribute, FUNCTION), message, place);
}

#[track_caller]
fn rejects_function(function: &str, message: &str, place: &str) {
    refuses(expand, ("name = \"price-{sku}\"", function), message, place);
}

#[test]
fn wrong_keys_are_refused() {
    rejects_attribute("", "the cache has no name: write name = \"price-{sku}\"", "");
    rejects_attribute("name = \"p\", frsh = \"1m\"", "unknown key `frsh`; did you mean `fresh`?", "frsh");
    rejects_attribute("name = 5", "`name` takes a text: write name = \"price-{sku}\"", "5");
    rejects_attribute("name = \"p-{sko}\"", "`{sko}` names no parameter; did you mean `{sku}`?", "\"p-{sko}\"");
    let message = "\"{sku}\" must begin with the name of the cache: \"price-{sku}\"";
    rejects_attribute("name = \"{sku}\"", message, "\"{sku}\"");
    let message = "`fresh` is \"soon\", which is not a duration; write 500ms, 10s or 2m";
    rejects_attribute("name = \"p-{sku}\", fresh = \"soon\"", message, "\"soon\"");
    rejects_attribute(
        "name = \"p-{sku}\", fresh = \"0s\"",
        "`fresh` is \"0s\"; it must be between 1ms and 365d",
        "\"0s\"",
    );
    let message = "`near` takes a number from 1 to 4294967295: write near = 5";
    rejects_attribute("name = \"p-{sku}\", near = 0", message, "0");
    let message = "`sku` is not in the name of the cache, so calls that differ in it would get the same value: write {sku} in \
                   the name, or skip = \"sku\" if the value does not depend on it";
    rejects_attribute("name = \"p\"", message, "sku");
    let message = "`sko` in `skip` is no parameter";
    rejects_attribute("name = \"p-{sku}\", skip = \"sko\"", message, "\"sko\"");
    let message = "two placeholders of \"{sku}{grid}\" touch; write a character between them";
    rejects_attribute("name = \"p-{sku}{grid}\"", message, "\"p-{sku}{grid}\"");
    let message = "`cache` is \"process\" or is left out";
    rejects_attribute("name = \"p\", cache = \"redis\"", message, "\"redis\"");
    let message = "`none` is for a function that returns an `Option` or `Result<Option<T>, E>`";
    rejects_attribute("name = \"p-{sku}\", none = \"1s\"", message, "\"1s\"");
}

#[test]
fn functions_that_cannot_be_cached_are_refused() {
    let owned = "a cached value cannot be borrowed; return an owned value";
    rejects_function("fn f(grid: &Grid, sku: u32) -> &'static str { \"\" }", owned, "&");
    let changes = "a cached function cannot change its parameters, because its body does not run in each call";
    rejects_function("fn f(grid: &Grid, sku: &mut u32) -> u32 { 1 }", changes, "mut");
    let changes = "a cached method cannot change `self`, because its body does not run in each call";
    rejects_function("fn f(&mut self, sku: u32) -> u32 { 1 }", changes, "mut");
    let name = "a parameter of a cached function must be a name";
    rejects_function("fn f(grid: &Grid, sku: u32, (a, b): (u8, u8)) -> u32 { 1 }", name, "(a, b)");
    let grid = "no grid: add a parameter `grid`, write grid = EXPRESSION, or cache = \"process\"";
    rejects_function("fn f(sku: u32) -> u32 { 1 }", grid, "");
    let nothing = "a cached function must return a value, but this function returns nothing";
    rejects_function("fn f(grid: &Grid, sku: u32) {}", nothing, "(grid: &Grid, sku: u32)");
    let constant = "a `const fn` cannot be cached, because the compiler can run it";
    rejects_function("const fn f(grid: &Grid, sku: u32) -> u32 { 1 }", constant, "const");
    let found = faults(expand, "name = \"p\"", "struct Shop;");
    assert!(found[0].0.starts_with("`#[bandog::cached]` must be on a function with a body: "), "{found:?}");
}
