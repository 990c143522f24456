//! A lock's name with places for a function's parameters: `order-{id}`, `{self.shop}/{order.id:08}`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Error, Expr, ExprLit, Ident, Lit, LitInt, LitStr, Result};

use crate::words::nearest;

/// How long a lock's name may be, in bytes.
const LONGEST: usize = 1024;

/// An expression whose value is the name. `params` are the names that places may begin with.
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

/// The text with its places emptied, and what belongs there.
fn split(text: &str, params: &[Ident]) -> std::result::Result<(String, Vec<String>), String> {
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        return Err(format!("the name has the control character {control:?}; only printable text is allowed"));
    }
    if text.is_empty() || text.len() > LONGEST {
        return Err(format!("the name has {} bytes; it takes 1 to {LONGEST}", text.len()));
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
            return Err(format!("a brace stands alone in {text:?}; write {{{{ or }}}} for one that is meant"));
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

/// A place is a parameter or a field of one.
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
        return Err(format!("`{odd}` in `{{{path}}}` is no field; a place takes a parameter or fields of one"));
    }
    if how.contains('$') {
        return Err(format!("`{{{path}:{how}}}` takes its width from elsewhere; write it as a number"));
    }
    Ok(())
}

/// `order.id` as tokens that stand where the literal stands.
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
