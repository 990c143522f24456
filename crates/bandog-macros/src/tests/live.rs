use proc_macro2::TokenStream;

use super::refuses;
use crate::live;

#[track_caller]
fn rejects(item: &str, message: &str, place: &str) {
    let expand = |_: TokenStream, item: TokenStream| live::expand(item);
    refuses(expand, ("", item), message, place);
}

#[test]
fn types_that_cannot_be_live_are_refused() {
    let only = "a live object is a struct with named fields";
    rejects("enum User { A }", only, "enum");
    rejects("union User { a: u8 }", only, "union");
    rejects("struct User(#[live(id)] u64);", only, "User");
    rejects("struct User;", only, "User");
    let generic = "a live object has no generic parameters: other programs use the class, too";
    rejects("struct User<T> { #[live(id)] id: T }", generic, "T");
    rejects("struct User<'a> { #[live(id)] id: &'a str }", generic, "'a");
}

#[test]
fn the_id_is_one_field() {
    rejects("struct User { id: u64 }", "the live object has no id: write #[live(id)] on a field", "User");
    let two = "`a` is the id already; a live object has one";
    rejects("struct User { #[live(id)] a: u64, #[live(id)] b: u64 }", two, "id");
    let name = "the id has no name in the store: it is part of the key";
    rejects("struct User { #[live(id, name = \"x\")] a: u64 }", name, "\"x\"");
}

#[test]
fn wrong_keys_are_refused() {
    let of = |attribute: &str, field: &str| {
        format!("#[live({attribute})] struct User {{ #[live(id)] id: u64, age: u32, {field} }}")
    };
    rejects(&of("nam = \"a\"", ""), "the keys of a live object are `name`, `index`, `one_slot`", "nam");
    rejects(&of("", "#[live(di)] a: u8"), "the keys of a field of a live object are `id`, `name`", "di");
    let brace = "the name of a class is not empty, and contains none of `{`, `}`, `*`";
    rejects(&of("name = \"\"", ""), brace, "\"\"");
    rejects(&of("name = \"{a}\"", ""), brace, "\"{a}\"");
    rejects(&of("index(aeg)", ""), "the struct has no field `aeg`; did you mean `age`?", "aeg");
    rejects(&of("index(colour)", ""), "the struct has no field `colour`; the fields are `age`", "colour");
    rejects(&of("index(id)", ""), "the id needs no index: `load` finds it", "id");
    rejects(&of("index(age, age)", ""), "`age` is given twice", "age");
    rejects(&of("", "#[live(name = \"age\")] years: u8"), "the field `age` has this name already", "\"age\"");
    let mark = "each live object has a mark of this name";
    rejects(&of("", "redisson_live_object: u8"), mark, "redisson_live_object");
}
