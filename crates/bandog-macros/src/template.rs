//! A lock's name with placeholders for the function's parameters: `order-{id}`, `{self.shop}/{order.id:08}`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Error, Expr, ExprLit, Ident, Lit, LitInt, LitStr, Result};

use crate::words::nearest;

/// Maximum length of a lock's name, in bytes.
const LONGEST: usize = 1024;

/// An expression whose value is the name. Each placeholder must begin with a name of `params`.
pub(crate) fn name(value: Expr, params: &[Ident]) -> Result<TokenStream> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => literal(&text, params),
        other => Ok(quote!(#other)),
    }
}

fn literal(text: &LitStr, params: &[Ident]) -> Result<TokenStream> {
    let (format, places) = split(&text.value(), params).map_err(|fault| Error::new(text.span(), fault))?;
    let span = text.span();
    let format = LitStr::new(&format, span);
    if places.is_empty() {
        return Ok(quote!(#text));
    }
    let places = places.iter().map(|place| path(place, span));
    Ok(quote_spanned!(span=> ::std::format!(#format, #(#places),*)))
}

/// Splits a text into a format string with empty placeholders, such as `order-{}`, and their contents.
fn split(text: &str, params: &[Ident]) -> std::result::Result<(String, Vec<String>), String> {
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        return Err(format!("the name has the control character {control:?}; only printable text is allowed"));
    }
    if text.is_empty() || text.len() > LONGEST {
        return Err(format!("the name has {} bytes; it must have between 1 and {LONGEST}", text.len()));
    }
    let (mut format, mut places, mut rest) = (String::new(), Vec::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, brace) = rest.split_at(at);
        format.push_str(before);
        if let Some(after) = brace.strip_prefix("{{").or_else(|| brace.strip_prefix("}}")) {
            format.push_str(&brace[..2]);
            rest = after;
            continue;
        }
        let Some((place, after)) = brace.strip_prefix('{').and_then(|inside| inside.split_once('}')) else {
            return Err(format!("a single brace in {text:?}; write {{{{ or }}}} for a brace in the name"));
        };
        let (path, how) = place.split_once(':').map_or((place, ""), |(path, how)| (path, how));
        check(path, how, params)?;
        format.push_str(&if how.is_empty() { "{}".to_owned() } else { format!("{{:{how}}}") });
        places.push(path.to_owned());
        rest = after;
    }
    format.push_str(rest);
    Ok((format, places))
}

/// Checks that a placeholder is a parameter or a field of one.
fn check(path: &str, how: &str, params: &[Ident]) -> std::result::Result<(), String> {
    let mut parts = path.split('.');
    let root = parts.next().unwrap_or_default();
    let known: Vec<_> = params.iter().map(ToString::to_string).collect();
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    if !known.contains(&root) {
        let hint = match nearest(root, &known) {
            Some(meant) => format!("did you mean `{{{meant}}}`?"),
            None if known.is_empty() => "the function has none".to_owned(),
            None => format!("there are {}", crate::words::listed(&known)),
        };
        return Err(format!("`{{{path}}}` names no parameter; {hint}"));
    }
    let is_index = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(odd) = parts.find(|part| syn::parse_str::<Ident>(part).is_err() && !is_index(part)) {
        return Err(format!("`{odd}` in `{{{path}}}` is not a field; a placeholder is a parameter or a field of one"));
    }
    if how.contains('$') {
        return Err(format!("`{{{path}:{how}}}` takes its width from another value; write the width as a number"));
    }
    Ok(())
}

/// A placeholder such as `order.id` as tokens with the span of the literal, so that the compiler's errors point at it.
fn path(place: &str, span: Span) -> TokenStream {
    let mut parts = place.split('.');
    let root = Ident::new(parts.next().unwrap_or_default(), span);
    parts.fold(quote!(#root), |path, part| {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            let index = LitInt::new(part, span);
            return quote_spanned!(span=> #path.#index);
        }
        let field = Ident::new(part, span);
        quote_spanned!(span=> #path.#field)
    })
}
