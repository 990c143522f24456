//! The errors of wrong attributes, and the places at which they point. Errors that only the compiler can find are
//! tested by the `compile_fail` examples in the docs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod cached;
mod fuzz;
mod live;
mod locked;
mod scheduled;
mod work;

use proc_macro2::TokenStream;

/// The function that expands an attribute: `locked::expand` or `scheduled::expand`.
type Expand = fn(TokenStream, TokenStream) -> syn::Result<TokenStream>;

/// Expands this attribute on this function, which must fail. Returns all errors, each with the source text at which the
/// error points.
fn faults(expand: Expand, attribute: &str, function: &str) -> Vec<(String, String)> {
    let fault = match expand(attribute.parse().unwrap(), function.parse().unwrap()) {
        Ok(made) => panic!("{attribute} is accepted, and expands to {made}"),
        Err(fault) => fault,
    };
    let with_source_text = |fault: syn::Error| (fault.to_string(), fault.span().source_text().unwrap_or_default());
    fault.into_iter().map(with_source_text).collect()
}

/// Checks that this attribute on this function has exactly one error, with this message, at this place.
#[track_caller]
fn refuses(expand: Expand, (attribute, function): (&str, &str), message: &str, place: &str) {
    let found = faults(expand, attribute, function);
    assert_eq!(found, [(message.to_owned(), place.to_owned())], "{attribute} on {function}");
}
