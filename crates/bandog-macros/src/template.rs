//! A lock's name with placeholders for the function's parameters: `order-{id}`, `{self.shop}/{order.id:08}`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Error, Expr, ExprLit, Ident, Lit, LitInt, LitStr, Result};

use crate::words::nearest;

/// Maximum length of a lock's name, in bytes.
const LONGEST: usize = 1024;

/// Generates the code of an expression for the lock's name. `value` is the value of the key `name`: a text with or
/// without placeholders, or any other expression. Each placeholder must begin with a name in `params`.
pub(crate) fn name(value: Expr, params: &[Ident]) -> Result<TokenStream> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => literal(&text, params),
        other => Ok(quote!(#other)),
    }
}

/// Generates the code for a name that is a text. The code is a call of `format!` if the text has placeholders, or else
/// the text itself.
fn literal(text: &LitStr, params: &[Ident]) -> Result<TokenStream> {
    let (format, placeholders, _) = split(&text.value(), params).map_err(|fault| Error::new(text.span(), fault))?;
    let span = text.span();
    let format = LitStr::new(&format, span);
    if placeholders.is_empty() {
        return Ok(quote!(#text));
    }
    // From here on, a placeholder is only the path, such as `order.id`. `split` has removed the format specification.
    let placeholders = placeholders.iter().map(|Placeholder { path: placeholder, .. }| path(placeholder, span));
    Ok(quote_spanned!(span=> ::std::format!(#format, #(#placeholders),*)))
}

/// As [`literal`], for a name whose parts must not run together: each placeholder is wrapped by the function `wrap`, which
/// takes a reference to it and the characters between the placeholders. One with a format specification is left as it is.
pub(crate) fn distinct(text: &LitStr, params: &[Ident], wrap: &TokenStream) -> Result<TokenStream> {
    let fault = |fault| Error::new(text.span(), fault);
    let (format, placeholders, between) = split(&text.value(), params).map_err(fault)?;
    if placeholders.len() < 2 {
        return literal(text, params);
    }
    if placeholders[1..].iter().any(|placeholder| !placeholder.is_apart) {
        return Err(fault(format!("two placeholders of {:?} touch; write a character between them", text.value())));
    }
    let span = text.span();
    let format = LitStr::new(&format, span);
    let wrapped = placeholders.iter().map(|placeholder| {
        let path = path(&placeholder.path, span);
        match placeholder.has_format {
            true => path,
            false => quote_spanned!(span=> #wrap(&#path, #between)),
        }
    });
    Ok(quote_spanned!(span=> ::std::format!(#format, #(#wrapped),*)))
}

/// A placeholder of a name.
struct Placeholder {
    /// The parameter, or a field of it.
    path: String,
    /// Whether it has a format specification.
    has_format: bool,
    /// Whether a character stands between it and the placeholder before.
    is_apart: bool,
}

/// Splits a text into a format string for `format!`, the placeholders, and the characters that stand between them. A placeholder consists of a
/// path and, after a colon, an optional format specification. The path is removed from the format string, and the
/// format specification stays in it. For example, `order-{order.id:08}` becomes the format string `order-{:08}` and the
/// path `order.id`.
fn split(text: &str, params: &[Ident]) -> std::result::Result<(String, Vec<Placeholder>, String), String> {
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        return Err(format!("the name has the control character {control:?}; only printable text is allowed"));
    }
    if text.is_empty() || text.len() > LONGEST {
        return Err(format!("the name has {} bytes; it must have between 1 and {LONGEST}", text.len()));
    }
    let (mut format, mut placeholders, mut rest) = (String::new(), Vec::new(), text);
    let (mut between, mut is_apart) = (String::new(), false);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, brace) = rest.split_at(at);
        format.push_str(before);
        between.push_str(before);
        is_apart |= !before.is_empty();
        if let Some(after) = brace.strip_prefix("{{").or_else(|| brace.strip_prefix("}}")) {
            format.push_str(&brace[..2]);
            between.push_str(&brace[..1]);
            is_apart = true;
            rest = after;
            continue;
        }
        let Some((placeholder, after)) = brace.strip_prefix('{').and_then(|inside| inside.split_once('}')) else {
            return Err(format!("a single brace in {text:?}; write {{{{ or }}}} for a brace in the name"));
        };
        let (path, format_spec) =
            placeholder.split_once(':').map_or((placeholder, ""), |(path, format_spec)| (path, format_spec));
        check(path, format_spec, params)?;
        format.push_str(&if format_spec.is_empty() { "{}".to_owned() } else { format!("{{:{format_spec}}}") });
        placeholders.push(Placeholder { path: path.to_owned(), has_format: !format_spec.is_empty(), is_apart });
        is_apart = false;
        rest = after;
    }
    format.push_str(rest);
    between.push_str(rest);
    Ok((format, placeholders, between))
}

/// Checks a placeholder: `path` must be a parameter or a field of a parameter, and `format_spec` (the part after the
/// colon) must not take its width from another value.
fn check(path: &str, format_spec: &str, params: &[Ident]) -> std::result::Result<(), String> {
    let mut parts = path.split('.');
    let root = parts.next().unwrap_or_default();
    let known: Vec<_> = params.iter().map(ToString::to_string).collect();
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    if !known.contains(&root) {
        let hint = match nearest(root, &known) {
            Some(meant) => format!("did you mean `{{{meant}}}`?"),
            None if known.is_empty() => "the function has no parameters".to_owned(),
            None => format!("the parameters are {}", crate::words::listed(&known)),
        };
        return Err(format!("`{{{path}}}` names no parameter; {hint}"));
    }
    let is_index = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(odd) = parts.find(|part| syn::parse_str::<Ident>(part).is_err() && !is_index(part)) {
        return Err(format!(
            "`{odd}` in `{{{path}}}` is not a field; a placeholder is a parameter or a field of a parameter"
        ));
    }
    if format_spec.contains('$') {
        return Err(format!(
            "`{{{path}:{format_spec}}}` takes its width from another value; write the width as a number"
        ));
    }
    Ok(())
}

/// Generates the code of an expression for a path. `placeholder` is a path such as `order.id`, without a format
/// specification. `span` is the position of the lock's name in the source. The generated tokens have this position, so
/// the compiler's errors point at the lock's name.
fn path(placeholder: &str, span: Span) -> TokenStream {
    let mut parts = placeholder.split('.');
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
