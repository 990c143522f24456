//! What a function's signature tells: its parameters, and what it returns.

use proc_macro2::Span;
use syn::{
    Error, FnArg, Ident, Pat, PatIdent, Result, ReturnType, Signature, Type, parse_quote,
    visit::{self, Visit},
    visit_mut::{self, VisitMut},
};

/// The names that a function's parameters bind, `self` among them.
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

/// The type that a function returns, where `what` says why it must return something. Types that have no name, as
/// `impl Display`, are left for the compiler to find.
pub(crate) fn returned(sig: &Signature, what: &str) -> Result<Type> {
    let mut returned = match &sig.output {
        ReturnType::Default => return Err(Error::new(end(sig), format!("{what}, and this function returns nothing"))),
        ReturnType::Type(_, returned) => (**returned).clone(),
    };
    if let Type::ImplTrait(_) = returned {
        let hint = "write `async fn`, whose body runs under the lock, or name the type";
        return Err(Error::new(span(&returned), format!("{what}, and this type has no name: {hint}")));
    }
    Nameless.visit_type_mut(&mut returned);
    Ok(returned)
}

/// Where the parameters of a function end.
fn end(sig: &Signature) -> Span {
    sig.paren_token.span.join()
}

pub(crate) fn span(of: &Type) -> Span {
    syn::spanned::Spanned::span(of)
}

struct Names(Vec<Ident>);

impl<'a> Visit<'a> for Names {
    fn visit_pat(&mut self, pat: &'a Pat) {
        if let Pat::Ident(PatIdent { ident, .. }) = pat {
            self.0.push(ident.clone());
        }
        visit::visit_pat(self, pat);
    }
}

struct Nameless;

impl VisitMut for Nameless {
    fn visit_type_mut(&mut self, part: &mut Type) {
        if let Type::ImplTrait(_) = part {
            *part = parse_quote!(_);
        }
        visit_mut::visit_type_mut(self, part);
    }
}
