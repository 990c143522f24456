//! `#[bandog::scheduled]`: a function that a scheduler runs.

mod check;
mod function;
mod text;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Error, Expr, ExprLit, ItemFn, Lit, LitStr, Result};

use self::{
    check::{KEYS, TRIGGERS, find},
    function::Function,
    text::Text,
};
use crate::{
    keys::{self, Keys},
    words::listed,
};

/// The unchanged function, and a type of the same name that creates the job.
pub(crate) fn expand(attribute: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(function).map_err(|error| {
        Error::new(error.span(), format!("`#[bandog::scheduled]` must be on a function with a body: {error}"))
    })?;
    let texts = read(attribute);
    let shape = Function::read(&function);
    let (texts, shape) = match (texts, shape) {
        (Ok(texts), Ok(shape)) => (texts, shape),
        (Err(mut fault), Err(other)) => {
            fault.combine(other);
            return Err(fault);
        }
        (Err(fault), _) | (_, Err(fault)) => return Err(fault),
    };
    let job = shape.job(&texts);
    Ok(quote!(#function #job))
}

/// Reads the attribute and checks its values. A value with environment variables is checked with their defaults.
fn read(attribute: TokenStream) -> Result<Vec<Text>> {
    let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    let mut keys = Keys::parse(attribute, &known)?;
    let mut texts = Vec::new();
    let mut faults: Vec<Error> = Vec::new();
    for key in &KEYS {
        let Some(value) = keys.take(key.name) else { continue };
        match literal(key.name, value, key.example).and_then(|literal| Text::read(key.name, literal)) {
            Ok(text) => {
                faults.extend(text.check(key.check).err());
                texts.push(text);
            }
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() {
        faults.extend(check_trigger(&texts).err());
    }
    faults.extend(check::cron(&texts).err());
    let mut faults = faults.into_iter();
    let Some(mut fault) = faults.next() else { return Ok(texts) };
    faults.for_each(|other| fault.combine(other));
    Err(fault)
}

/// Reads a value as text. Keys for numbers and for `true` and `false` also accept values without quotes.
fn literal(name: &str, value: Expr, example: &str) -> Result<LitStr> {
    let span = keys::span(&value);
    match (name, value) {
        ("retry" | "revision" | "pause_after", Expr::Lit(ExprLit { lit: Lit::Int(number), .. })) => {
            Ok(LitStr::new(number.base10_digits(), span))
        }
        ("enabled", Expr::Lit(ExprLit { lit: Lit::Bool(truth), .. })) => {
            Ok(LitStr::new(&truth.value.to_string(), span))
        }
        (_, value) => keys::text(name, value, example),
    }
}

/// Checks that the job has one trigger, and only keys that fit this trigger.
fn check_trigger(texts: &[Text]) -> Result<()> {
    let mut triggers = TRIGGERS.iter().filter_map(|name| find(texts, name));
    let Some(trigger) = triggers.next() else {
        let message = format!("the job has no trigger: write one of {}", listed(&TRIGGERS));
        return Err(Error::new(Span::call_site(), message));
    };
    if let Some(other) = triggers.next() {
        let message = format!("a job has one trigger, but this job has `{}` and `{}`", trigger.key, other.key);
        return Err(Error::new(other.span(), message));
    }
    let belongs = |name: &str, to: &[&str]| match find(texts, name) {
        Some(text) if !to.contains(&trigger.key) => {
            let message = format!("`{name}` is only for {}, but this job has `{}`", listed(to), trigger.key);
            Err(Error::new(text.span(), message))
        }
        Some(_) | None => Ok(()),
    };
    for name in ["zone", "dialect", "day_match", "daylight"] {
        belongs(name, &["cron"])?;
    }
    belongs("initial_delay", &["fixed_rate", "fixed_delay"])
}
