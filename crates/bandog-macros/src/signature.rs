//! The signature of a function: the names of its parameters, and its return type.

use proc_macro2::Span;
use syn::{
    Error, FnArg, Ident, Pat, PatIdent, Result, ReturnType, Signature, Type, parse_quote,
    visit::{self, Visit},
    visit_mut::{self, VisitMut},
};

/// The names of a function's parameters, including `self`. If a parameter is a pattern, these are the names that the
/// pattern binds.
pub(crate) fn params(sig: &Signature) -> Vec<Ident> {
    let mut names = Names(Vec::new());
    for input in &sig.inputs {
        match input {
            FnArg::Receiver(receiver) => names.0.push(Ident::new("self", receiver.self_token.span)),
            FnArg::Typed(param) => names.visit_pat(&param.pat),
        }
    }
    names.0
}

/// The return type of a function. It is an error if the function has no return type or returns an `impl Trait`. `what`
/// is the text with which the error message begins. An `impl Trait` that is a part of the return type becomes `_`,
/// because the compiler must infer this part.
pub(crate) fn returned(sig: &Signature, what: &str) -> Result<Type> {
    let mut returned = match &sig.output {
        ReturnType::Default => return Err(Error::new(end(sig), format!("{what}, but this function returns nothing"))),
        ReturnType::Type(_, returned) => (**returned).clone(),
    };
    if let Type::ImplTrait(_) = returned {
        let hint = "write `async fn`, whose body runs under the lock, or name the type";
        return Err(Error::new(span(&returned), format!("{what}, but this type has no name: {hint}")));
    }
    InferImplTraits.visit_type_mut(&mut returned);
    Ok(returned)
}

/// The position of the parameter list in the source. An error about a missing return type is shown at this position.
fn end(sig: &Signature) -> Span {
    sig.paren_token.span.join()
}

/// The position of a type in the source.
pub(crate) fn span(of: &Type) -> Span {
    syn::spanned::Spanned::span(of)
}

/// Collects the names that a pattern binds.
struct Names(Vec<Ident>);

impl<'a> Visit<'a> for Names {
    fn visit_pat(&mut self, pat: &'a Pat) {
        if let Pat::Ident(PatIdent { ident, .. }) = pat {
            self.0.push(ident.clone());
        }
        visit::visit_pat(self, pat);
    }
}

/// Replaces each `impl Trait` in a type by `_`.
struct InferImplTraits;

impl VisitMut for InferImplTraits {
    fn visit_type_mut(&mut self, part: &mut Type) {
        if let Type::ImplTrait(_) = part {
            *part = parse_quote!(_);
        }
        visit_mut::visit_type_mut(self, part);
    }
}
