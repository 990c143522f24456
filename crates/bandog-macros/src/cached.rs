//! `#[bandog::cached]`: a function whose values are cached.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{
    Error, FnArg, GenericParam, Ident, ItemFn, LitStr, Pat, PatType, Receiver, ReceiverKind, Result, ReturnType,
    Signature, Type, TypeReference,
    visit::{self, Visit},
};

use crate::{
    duration,
    keys::{self, Keys},
    none, signature, template,
};

/// The keys that the attribute accepts.
const KEYS: [&str; 10] = ["name", "grid", "cache", "fresh", "stale", "none", "wait", "near", "max_age", "skip"];

/// The checked keys of the attribute, and the function.
struct Cached<'a> {
    function: &'a ItemFn,
    /// The code of an expression for a reference to the grid.
    grid: TokenStream,
    /// The name of the cache: the beginning of the key `name`.
    cache: LitStr,
    /// The code of an expression for the key of the entry.
    key: TokenStream,
    /// The method calls on the handle of the cache.
    options: TokenStream,
    receiver: Option<&'a Receiver>,
    params: Vec<Param<'a>>,
    /// The function in `bandog::__cached` for the return type.
    call: &'static str,
}

/// A parameter that is not `self`.
struct Param<'a> {
    name: &'a Ident,
    /// The type, or the type behind the reference.
    of: &'a Type,
    is_reference: bool,
    /// Whether the grid or the key of the entry needs it.
    is_needed: bool,
}

/// Generates the function with a new body, which asks the cache, a function with the original body, and the function that
/// removes an entry.
pub(crate) fn expand(attribute: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(function).map_err(|error| {
        Error::new(error.span(), format!("`#[bandog::cached]` must be on a function with a body: {error}"))
    })?;
    Ok(Cached::read(attribute, &function)?.expand())
}

impl<'a> Cached<'a> {
    /// Reads and checks the keys in `attribute`, and the signature of the function.
    fn read(attribute: TokenStream, function: &'a ItemFn) -> Result<Self> {
        let sig = &function.sig;
        if let Some(constness) = &sig.constness {
            return Err(Error::new(constness.span, "a `const fn` cannot be cached, because the compiler can run it"));
        }
        let mut keys = Keys::parse(attribute, &KEYS, &[])?;
        let names = signature::params(sig);
        let Some(name) = keys.text("name", "price-{sku}")? else {
            return Err(Error::new(Span::call_site(), "the cache has no name: write name = \"price-{sku}\""));
        };
        let (cache, key) = split(&name)?;
        let key = match key.value().is_empty() {
            true => quote!(""),
            false => template::distinct(&key, &names, &quote!(::bandog::__cached::part))?,
        };
        let key = with_types(key, sig);
        let grid = grid(&mut keys, &names)?;
        let needed = Needed::of(&quote!(#key #grid));
        let mut params = Vec::new();
        let mut receiver = None;
        for input in &sig.inputs {
            match input {
                FnArg::Receiver(given) => receiver = Some(checked_receiver(given)?),
                FnArg::Typed(given) => params.push(Param::read(given, &needed)?),
            }
        }
        all_named(&params, &mut keys)?;
        let call = shape(sig)?;
        if !call.ends_with("option")
            && let Some(none) = keys.take("none")
        {
            let message = "`none` is for a function that returns an `Option` or `Result<Option<T>, E>`";
            return Err(Error::new(keys::span(&none), message));
        }
        Ok(Self { function, grid, cache, key, options: options(&mut keys)?, receiver, params, call })
    }

    fn expand(&self) -> TokenStream {
        let ItemFn { attrs, vis, sig, block, .. } = self.function;
        let support = quote!(::bandog::__cached);
        let Self { grid, cache, key, options, call, .. } = self;
        let [handle, key_of, this] = ["handle", "key", "this"].map(|name| Ident::new(name, Span::mixed_site()));
        let owned: Vec<_> =
            (0..self.params.len()).map(|at| format_ident!("owned_{at}", span = Span::mixed_site())).collect();
        let own = self.params.iter().zip(&owned).map(|(Param { name, is_reference, .. }, owned)| match is_reference {
            true => quote!(let #owned = ::std::borrow::ToOwned::to_owned(#name);),
            false => quote!(let #owned = #name;),
        });
        let arguments =
            self.params.iter().zip(&owned).map(|(Param { of, is_reference, .. }, owned)| match is_reference {
                true => quote!(::std::borrow::Borrow::<#of>::borrow(&#owned)),
                false => quote!(#owned),
            });
        let (own_this, this_argument) = match self.receiver {
            Some(Receiver { kind: ReceiverKind::Reference(..), .. }) => {
                (quote!(let #this = ::std::borrow::ToOwned::to_owned(self);), quote!(&#this,))
            }
            Some(_) => (quote!(let #this = self;), quote!(#this,)),
            None => (quote!(), quote!()),
        };
        let mut body = sig.clone();
        body.ident = format_ident!("__uncached_{}", sig.ident);
        let (body_name, types) = (&body.ident, types(sig));
        // The grid and the parts of the name may be used by the attribute only.
        let uncached = quote!(#[allow(unused_variables)] #body #block);
        let prefix = self.receiver.map(|_| quote!(Self::));
        let (inside, beside) = match self.receiver {
            Some(_) => (quote!(), quote!(#[doc(hidden)] #uncached)),
            None => (uncached, quote!()),
        };
        let call = format_ident!("{call}");
        let work = quote!(#prefix #body_name #types (#this_argument #(#arguments),*));
        let run = match sig.asyncness {
            Some(_) => quote!(#support::#call(#handle, #key_of, async move { #work.await }).await),
            None => quote!(#support::blocking::#call(#handle, #key_of, move || #work)),
        };
        let (invalidate, place) = (self.invalidate(), self.place());
        let check = match &sig.output {
            ReturnType::Type(_, of) if self.call == "value" => quote! {
                {
                    #[allow(unused_imports)]
                    use #support::OfValue as _;
                    let () = #support::Returned::<#of>::CHECK;
                }
            },
            _ => quote!(),
        };
        quote! {
            #(#attrs)*
            #vis #sig {
                #inside
                #check
                let #handle = #support::cache(#grid, #cache, #place).map(|#handle| #handle #options);
                let #key_of = ::std::string::String::from(#key);
                #own_this
                #(#own)*
                #run
            }
            #beside
            #invalidate
        }
    }

    /// The place of the function, for errors and to tell it from others.
    fn place(&self) -> TokenStream {
        let name = self.function.sig.ident.to_string();
        let at = quote!(" (", ::std::file!(), ":", ::std::line!(), ")");
        quote!(::std::concat!(::std::module_path!(), "::", #name, #at))
    }

    /// The function that removes an entry: `price::invalidate(&sku)` beside a function, and `invalidate_price(&self, sku)`
    /// beside a method.
    fn invalidate(&self) -> TokenStream {
        let ItemFn { attrs, vis, sig, .. } = self.function;
        let support = quote!(::bandog::__cached);
        let Self { grid, cache, key, .. } = self;
        let conditions: Vec<_> = attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect();
        let needed = self.params.iter().filter(|param| param.is_needed);
        let needed = needed.map(|Param { name, of, .. }| quote!(#name: &#of));
        let (generics, bounds) = (&sig.generics.params, &sig.generics.where_clause);
        let generics = (!generics.is_empty()).then(|| quote!(<#generics>));
        let name = &sig.ident;
        let docs = format!("Removes the cached value of [`{name}`] for these arguments. No load that runs is cached.");
        let place = self.place();
        let (asyncness, receiver) = (&sig.asyncness, self.receiver.map(|receiver| quote!(#receiver,)));
        let remove = match asyncness {
            Some(_) => quote!(#support::remove(#support::cache(#grid, #cache, #place), #key).await),
            None => quote!(#support::blocking::remove(#support::cache(#grid, #cache, #place), #key)),
        };
        let function = |function: Ident| {
            quote! {
                #[doc = #docs]
                #(#conditions)*
                #vis #asyncness fn #function #generics (#receiver #(#needed),*) -> ::bandog::Result<()> #bounds {
                    #remove
                }
            }
        };
        if self.receiver.is_some() {
            return function(format_ident!("invalidate_{name}"));
        }
        let invalidate = function(format_ident!("invalidate"));
        let docs = format!("The cache of [`{name}()`].");
        quote! {
            #[doc = #docs]
            #[allow(non_camel_case_types)]
            #(#conditions)*
            #vis enum #name {}

            #(#conditions)*
            impl #name {
                #invalidate
            }
        }
    }
}

impl<'a> Param<'a> {
    fn read(PatType { pat, ty, .. }: &'a PatType, needed: &Needed) -> Result<Self> {
        let Pat::Ident(name) = &**pat else {
            let span = syn::spanned::Spanned::span(pat);
            return Err(Error::new(span, "a parameter of a cached function must be a name"));
        };
        let (of, is_reference) = match &**ty {
            Type::Reference(TypeReference { mutability: Some(mutability), .. }) => {
                let message =
                    "a cached function cannot change its parameters, because its body does not run in each call";
                return Err(Error::new(mutability.span, message));
            }
            Type::Reference(TypeReference { elem, .. }) => (&**elem, true),
            of => (of, false),
        };
        Ok(Self { name: &name.ident, of, is_reference, is_needed: needed.0.contains(&name.ident) })
    }
}

/// Checks that each parameter is a part of the name, or is skipped: without that, calls that differ in it would get the same
/// value.
fn all_named(params: &[Param<'_>], keys: &mut Keys) -> Result<()> {
    let skip = keys.text("skip", "db, clock")?;
    let text = skip.as_ref().map(LitStr::value).unwrap_or_default();
    let skipped: Vec<_> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    for name in &skipped {
        if !params.iter().any(|param| param.name == name) {
            let span = skip.as_ref().map_or_else(Span::call_site, LitStr::span);
            return Err(Error::new(span, format!("`{name}` in `skip` is no parameter")));
        }
    }
    let forgotten = params.iter().find(|param| !param.is_needed && !skipped.iter().any(|name| param.name == name));
    match forgotten {
        Some(Param { name, .. }) => Err(Error::new(
            name.span(),
            format!(
                "`{name}` is not in the name of the cache, so calls that differ in it would get the same value: write \
                 {{{name}}} in the name, or skip = \"{name}\" if the value does not depend on it"
            ),
        )),
        None => Ok(()),
    }
}

/// The key with the generic types and constants of the function, on which the value may depend.
fn with_types(key: TokenStream, sig: &Signature) -> TokenStream {
    let parts: Vec<_> = sig
        .generics
        .params
        .iter()
        .filter_map(|param| match param {
            GenericParam::Type(syn::TypeParam { ident, .. }) => Some(quote!(::std::any::type_name::<#ident>())),
            GenericParam::Const(syn::ConstParam { ident, .. }) => Some(quote!(#ident)),
            GenericParam::Lifetime(_) => None,
        })
        .collect();
    if parts.is_empty() {
        return key;
    }
    let format = format!("{{}}{}", " {}".repeat(parts.len()));
    quote!(::std::format!(#format, #key, #(#parts),*))
}

fn checked_receiver(receiver: &Receiver) -> Result<&Receiver> {
    match &receiver.kind {
        ReceiverKind::Reference(_, _, Some(mutability)) => {
            let message = "a cached method cannot change `self`, because its body does not run in each call";
            Err(Error::new(mutability.span, message))
        }
        _ => Ok(receiver),
    }
}

/// The identifiers of an expression.
struct Needed(Vec<Ident>);

impl Needed {
    fn of(code: &TokenStream) -> Self {
        let mut found = Vec::new();
        let mut rest: Vec<_> = code.clone().into_iter().collect();
        while let Some(token) = rest.pop() {
            match token {
                proc_macro2::TokenTree::Ident(name) => found.push(name),
                proc_macro2::TokenTree::Group(group) => rest.extend(group.stream()),
                _ => {}
            }
        }
        Self(found)
    }
}

/// The name of the cache, which is the text before the first placeholder, and the template of the key of the entry.
fn split(name: &LitStr) -> Result<(LitStr, LitStr)> {
    let text = name.value();
    let at = text.find('{').unwrap_or(text.len());
    let cache = text[..at].trim_end_matches(['-', ':', '/', '.', '_', ' ']);
    if cache.is_empty() {
        return Err(Error::new(
            name.span(),
            format!("{text:?} must begin with the name of the cache: \"price-{{sku}}\""),
        ));
    }
    let key = &text[at..];
    Ok((LitStr::new(cache, name.span()), LitStr::new(key, name.span())))
}

/// Generates an expression for a reference to the grid.
fn grid(keys: &mut Keys, names: &[Ident]) -> Result<TokenStream> {
    if let Some(cache) = keys.text("cache", "process")? {
        if cache.value() != "process" {
            return Err(Error::new(cache.span(), "`cache` is \"process\" or is left out"));
        }
        return Ok(quote!(::bandog::__cached::process()));
    }
    if let Some(grid) = keys.take("grid") {
        let span = keys::span(&grid);
        return Ok(quote_spanned!(span=> &(#grid)));
    }
    if let Some(grid) = names.iter().find(|name| *name == "grid") {
        let span = grid.span();
        return Ok(quote_spanned!(span=> &#grid));
    }
    if names.iter().any(|name| name == "self") {
        return Ok(quote_spanned!(Span::call_site()=> &self.grid));
    }
    let message = "no grid: add a parameter `grid`, write grid = EXPRESSION, or cache = \"process\"";
    Err(Error::new(Span::call_site(), message))
}

/// Generates the method calls on the handle.
fn options(keys: &mut Keys) -> Result<TokenStream> {
    let mut calls = TokenStream::new();
    for name in ["fresh", "stale", "none", "wait", "max_age"] {
        let Some(text) = keys.text(name, "1m")? else { continue };
        let time = duration::read(name, &text, Duration::from_millis(1)..=duration::LONGEST, "1ms and 365d")?;
        let (call, time) = (Ident::new(name, Span::mixed_site()), duration::tokens(time));
        calls.extend(quote!(.#call(#time)));
    }
    if let Some(near) = keys.take("near") {
        let near = keys::number("near", &near)?;
        calls.extend(quote!(.near(#near as usize)));
    }
    Ok(calls)
}

/// The function in `bandog::__cached` for this return type.
fn shape(sig: &Signature) -> Result<&'static str> {
    let what = "a cached function must return a value";
    let returned = signature::returned(sig, what)?;
    if let ReturnType::Type(_, given) = &sig.output {
        let mut found = Borrowed(None);
        found.visit_type(given);
        if let Some(span) = found.0 {
            return Err(Error::new(span, "a cached value cannot be borrowed; return an owned value"));
        }
    }
    Ok(match (none::first_argument(&returned, "Result"), none::first_argument(&returned, "Option")) {
        (Some(value), _) if none::first_argument(value, "Option").is_some() => "result_option",
        (Some(_), _) => "result",
        (None, Some(_)) => "option",
        (None, None) => "value",
    })
}

/// Finds the first reference in a type.
struct Borrowed(Option<Span>);

impl<'a> Visit<'a> for Borrowed {
    fn visit_type_reference(&mut self, part: &'a TypeReference) {
        self.0.get_or_insert(part.and_token.span);
        visit::visit_type_reference(self, part);
    }
}

/// The generic types and constants of the function, as arguments of a call.
fn types(sig: &Signature) -> TokenStream {
    let names = sig.generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(of) => Some(&of.ident),
        GenericParam::Const(of) => Some(&of.ident),
        GenericParam::Lifetime(_) => None,
    });
    let names: Vec<_> = names.collect();
    if names.is_empty() { TokenStream::new() } else { quote!(::<#(#names),*>) }
}
