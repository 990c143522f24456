//! The keys between the parentheses of an attribute: `key = value`, separated by commas.

use proc_macro2::{Span, TokenStream};
use syn::{
    Error, Expr, ExprLit, Ident, Lit, LitStr, Result, Token,
    parse::{Parse, ParseStream, Parser},
    punctuated::Punctuated,
};

use crate::words::{listed, nearest};

/// The keys of one attribute, with their values. The value of a key without a value is its own name. A method that reads a key also removes the key from this list.
pub(crate) struct Keys(Vec<(Ident, Expr)>);

impl Keys {
    /// Parses the keys. The keys in `flags` have no value, and all other keys have one. A key that is not in `known` is
    /// an error, and a key that is given twice is an error. The returned error combines the errors of all keys.
    pub(crate) fn parse(tokens: TokenStream, known: &[&str], flags: &[&str]) -> Result<Self> {
        let keys = Punctuated::<Key, Token![,]>::parse_terminated.parse2(tokens)?;
        let keys: Vec<_> = keys.into_iter().collect();
        let mut faults = keys.iter().enumerate().filter_map(|(at, Key(name, value))| {
            let text = name.to_string();
            if !known.contains(&text.as_str()) {
                return Some(unknown(name, known));
            }
            let fault = |message| Some(Error::new(name.span(), message));
            match (flags.contains(&text.as_str()), value) {
                (true, Some(_)) => return fault(format!("`{name}` takes no value: write {name}")),
                (false, None) => return fault(format!("`{name}` has no value: write {name} = \"…\"")),
                (true, None) | (false, Some(_)) => {}
            }
            let twice = keys.iter().take(at).any(|Key(earlier, _)| earlier == name);
            twice.then(|| Error::new(name.span(), format!("`{name}` is given twice")))
        });
        if let Some(mut fault) = faults.next() {
            faults.for_each(|other| fault.combine(other));
            return Err(fault);
        }
        drop(faults);
        let with_value = |Key(name, value)| {
            let value = value.unwrap_or_else(|| syn::parse_quote!(#name));
            (name, value)
        };
        Ok(Self(keys.into_iter().map(with_value).collect()))
    }

    /// Removes the key `name` and returns its value. `None` if the attribute does not have the key.
    pub(crate) fn take(&mut self, name: &str) -> Option<Expr> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Removes the key `name`, which has no value. `None` if the attribute does not have the key.
    pub(crate) fn flag(&mut self, name: &str) -> Option<Span> {
        self.take(name).map(|key| span(&key))
    }

    /// Removes the key `name` and returns its value, which must be a text. `None` if the attribute does not have the
    /// key. `example` is a correct value, which the error message shows.
    pub(crate) fn text(&mut self, name: &str, example: &str) -> Result<Option<LitStr>> {
        self.take(name).map(|value| text(name, value, example)).transpose()
    }
}

/// The name of one key, and its value if it has one.
struct Key(Ident, Option<Expr>);

impl Parse for Key {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(LitStr) {
            let text: LitStr = input.parse()?;
            return Err(Error::new(text.span(), format!("a value must have a key: write name = {:?}", text.value())));
        }
        let name: Ident = input.parse()?;
        let value = input.parse::<Option<Token![=]>>()?.map(|_| input.parse()).transpose()?;
        Ok(Self(name, value))
    }
}

/// Converts the value of the key `name` into a string literal. A value that is not a string literal is an error.
/// `example` is a correct value, which the error message shows.
pub(crate) fn text(name: &str, value: Expr, example: &str) -> Result<LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text),
        other => Err(Error::new(span(&other), format!("`{name}` takes a text: write {name} = {example:?}"))),
    }
}

/// The value of the key `name`, which must be a number from 1.
pub(crate) fn number(name: &str, value: &Expr) -> Result<u32> {
    let number = match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse().ok(),
        _ => None,
    };
    number.filter(|number| *number > 0).ok_or_else(|| {
        Error::new(span(value), format!("`{name}` takes a number from 1 to {}: write {name} = 5", u32::MAX))
    })
}

/// The error about the key `name`, which is not in `known`.
fn unknown(name: &Ident, known: &[&str]) -> Error {
    let given = name.to_string();
    let hint = match nearest(&given, known) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("the known keys are {}", listed(known)),
    };
    Error::new(name.span(), format!("unknown key `{given}`; {hint}"))
}

/// The position of an expression in the source. With a stable compiler, the result can be only the position of the
/// expression's first token.
pub(crate) fn span(expr: &Expr) -> Span {
    syn::spanned::Spanned::span(expr)
}
