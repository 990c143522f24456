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

/// Returns the unchanged function, followed by a generated type with the same name. This type creates the job.
pub(crate) fn expand(attribute: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(function).map_err(|error| {
        Error::new(error.span(), format!("`#[bandog::scheduled]` must be on a function with a body: {error}"))
    })?;
    let texts = read(attribute);
    // `Function::read` also checks that the function can be a job.
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

/// Reads the attribute and checks its values. If a value contains environment variables, the check replaces each
/// variable by its default.
fn read(attribute: TokenStream) -> Result<Vec<Text>> {
    let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    let mut keys = Keys::parse(attribute, &known, &[])?;
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

/// Converts the value of the key `name` into a text. A key whose value is a number, and the key `enabled`, also accept
/// a value without quotes. `example` is a correct value, which the error message shows.
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

/// Checks that the job has exactly one trigger, and that each key of the job is allowed with this trigger.
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
    // Checks one key: if the job has the key `name`, the trigger of the job must be in `to`.
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
