//! `#[bandog::locked]`: a function whose body runs under a lock.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{AttrStyle, Error, Expr, Ident, ItemFn, Result, Type};

use crate::{
    duration,
    keys::{self, Keys},
    kind::{self, Kind},
    none, signature, template,
};

/// The keys that the attribute accepts.
const KEYS: [&str; 12] = [
    "name",
    "client",
    "wait",
    "lease",
    "max_hold",
    "max_waiters",
    "guard",
    "shared",
    "exclusive",
    "fair",
    "permits",
    "of",
];

/// The checked keys of the attribute, and the return type of the function.
struct Locked {
    /// The code of an expression for the lock's name.
    name: TokenStream,
    /// The code of an expression for a reference to the client.
    client: TokenStream,
    kind: Kind,
    wait: Option<Duration>,
    /// The method calls on the handle of the lock, for its kind, `lease`, `max_hold` and `max_waiters`.
    options: TokenStream,
    /// The name by which the body can use the guard.
    guard: Option<Ident>,
    /// The return type of the function.
    returned: Type,
}

/// Generates the function with a new body: it takes the lock, runs the original body, and releases the lock.
pub(crate) fn expand(attribute: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(function).map_err(|error| {
        Error::new(error.span(), format!("`#[bandog::locked]` must be on a function with a body: {error}"))
    })?;
    let locked = Locked::read(attribute, &function)?;
    let ItemFn { attrs, vis, modifiers: _, sig, block } = &function;
    let body = if sig.asyncness.is_some() { locked.waiting(block) } else { locked.blocking(block) };
    let (outer, inner): (Vec<_>, Vec<_>) = attrs.iter().partition(|attr| matches!(attr.style, AttrStyle::Outer));
    Ok(quote!(#(#outer)* #vis #sig { #(#inner)* #body }))
}

impl Locked {
    /// Reads and checks the keys in `attribute`, and the signature of the function.
    fn read(attribute: TokenStream, function: &ItemFn) -> Result<Self> {
        let sig = &function.sig;
        if let Some(constness) = &sig.constness {
            return Err(Error::new(constness.span, "a `const fn` cannot lock, because the compiler can run it"));
        }
        let mut keys = Keys::parse(attribute, &KEYS, &kind::FLAGS)?;
        let params = signature::params(sig);
        let Some(name) = keys.take("name") else {
            return Err(Error::new(Span::call_site(), "the lock has no name: write name = \"orders\""));
        };
        let wait = keys.text("wait", "5s")?;
        let wait = wait.map(|text| duration::read("wait", &text, Duration::ZERO..=duration::LONGEST, "0s and 365d"));
        let kind = Kind::read(&mut keys)?;
        if wait.is_none() {
            none::refuse(function)?;
        }
        Ok(Self {
            name: template::name(name, &params)?,
            client: client(keys.take("client"), &params)?,
            kind,
            wait: wait.transpose()?,
            options: options(kind, &mut keys)?,
            guard: keys.take("guard").map(binding).transpose()?,
            returned: signature::returned(
                sig,
                "a lock can fail, so the function must return `Result<T, E>` with `E: From<bandog::Error>`",
            )?,
        })
    }

    /// Generates the new body of an async function. `block` is the original body.
    fn waiting(&self, block: &syn::Block) -> TokenStream {
        let Self { name, client, options, returned, .. } = self;
        let support = quote!(::bandog::__locked);
        let [handle, guard, value, otherwise] = hygienic(["handle", "guard", "value", "otherwise"]);
        let (bind_guard, lock, make_otherwise) = (self.bind_guard(&guard), self.lock(), self.otherwise());
        let (constructor, arguments) = self.kind.constructor();
        let constructor = Ident::new(constructor, Span::call_site());
        let statements = &block.stmts;
        quote! {
            let #otherwise = #support::#make_otherwise::<#returned>();
            let #handle = #support::#constructor(#client, #name #arguments) #options;
            let #guard = match #otherwise.guard(#handle.#lock.await) {
                ::core::result::Result::Ok(#guard) => #guard,
                ::core::result::Result::Err(#value) => return #value,
            };
            #bind_guard
            let #value = #support::until_lost(#guard.lost(), async move {
                if false {
                    return #support::never::<#returned>(); // Gives the compiler the type of the body.
                }
                #(#statements)*
            });
            let #value = #value.await;
            #support::end(#guard, #value, #otherwise).await
        }
    }

    /// Generates the new body of a function without async. `block` is the original body.
    fn blocking(&self, block: &syn::Block) -> TokenStream {
        let Self { name, client, options, returned, .. } = self;
        let support = quote!(::bandog::__locked);
        let [handle, guard, value, otherwise] = hygienic(["handle", "guard", "value", "otherwise"]);
        let (bind_guard, lock, make_otherwise) = (self.bind_guard(&guard), self.lock(), self.otherwise());
        let (constructor, arguments) = self.kind.constructor();
        let constructor = format_ident!("{constructor}_of_bandog_client");
        quote! {
            let #otherwise = #support::#make_otherwise::<#returned>();
            let #handle = {
                use #support::blocking::Locks as _;
                (#client).#constructor(#name #arguments)
            };
            let #guard = #handle.and_then(|#handle| #handle #options.#lock);
            let #guard = match #otherwise.guard(#guard) {
                ::core::result::Result::Ok(#guard) => #guard,
                ::core::result::Result::Err(#value) => return #value,
            };
            #bind_guard
            let #value = #support::blocking::call(move || -> #returned #block);
            #support::blocking::end(#guard, #value, #otherwise)
        }
    }

    /// Generates the method call on the handle that takes the lock.
    fn lock(&self) -> TokenStream {
        self.kind.lock(self.wait.map(duration::tokens))
    }

    /// The name of the function in `bandog::__locked` that the generated code calls first. The generated code keeps the
    /// result of this call in the variable `otherwise`. If the body did not run, or if the lock was lost, `otherwise`
    /// creates the return value of the locked function. No other function in `bandog::__locked` checks the return type,
    /// so the compiler reports a wrong return type only once.
    fn otherwise(&self) -> TokenStream {
        if self.wait.is_some() { quote!(otherwise_tried) } else { quote!(otherwise) }
    }

    /// Generates a statement that gives the guard a second name: the value of the key `guard`. The body can use the
    /// guard by this name. `None` if the attribute does not have the key. The parameter `guard` is the variable that
    /// has the guard in the generated code.
    fn bind_guard(&self, guard: &Ident) -> Option<TokenStream> {
        self.guard.as_ref().map(|name| quote!(let #name = &#guard;))
    }
}

/// Creates identifiers with the hygiene of the macro: the original body can neither see nor shadow the variables with
/// these names.
fn hygienic<const N: usize>(names: [&str; N]) -> [Ident; N] {
    names.map(|name| Ident::new(name, Span::mixed_site()))
}

/// Generates an expression for a reference to the client. `given` is the value of the key `client`. Without this key,
/// the client is the parameter `client`, or else `self.client`.
fn client(given: Option<Expr>, params: &[Ident]) -> Result<TokenStream> {
    if let Some(client) = given {
        let span = keys::span(&client);
        return Ok(quote_spanned!(span=> &(#client)));
    }
    if let Some(client) = params.iter().find(|param| *param == "client") {
        let span = client.span();
        return Ok(quote_spanned!(span=> &#client));
    }
    if params.iter().any(|param| param == "self") {
        return Ok(quote_spanned!(Span::call_site()=> &self.client));
    }
    let message = "no client: add a parameter `client`, or write client = EXPRESSION";
    Err(Error::new(Span::call_site(), message))
}

/// Generates the method calls on the handle for its kind and for the keys `lease`, `max_hold` and `max_waiters`.
fn options(kind: Kind, keys: &mut Keys) -> Result<TokenStream> {
    let mut calls = kind.option();
    for name in ["lease", "max_hold"] {
        let Some(text) = keys.text(name, "10s")? else { continue };
        let time = duration::tokens(duration::read(name, &text, duration::TTLS, "100ms and 365d")?);
        let call = Ident::new(name, Span::mixed_site());
        calls.extend(quote!(.#call(#time)));
    }
    if let Some(waiters) = keys.take("max_waiters") {
        let waiters = keys::number("max_waiters", &waiters)?;
        calls.extend(quote!(.max_waiters(#waiters)));
    }
    Ok(calls)
}

/// Reads the value of the key `guard`: the name by which the body can use the guard.
fn binding(value: Expr) -> Result<Ident> {
    let span = keys::span(&value);
    let name = match value {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident().cloned(),
        _ => None,
    };
    name.ok_or_else(|| Error::new(span, "`guard` must be a name for the guard in the body: write guard = guard"))
}
