//! `#[bandog::remote]`: a trait whose methods run in another program.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{
    Error, FnArg, Ident, ItemTrait, LitStr, Pat, Receiver, ReceiverKind, Result, ReturnType, TraitItem, TraitItemFn,
    Type,
};

use crate::{keys::Keys, none};

/// A method of the trait.
struct Method<'a> {
    of: &'a TraitItemFn,
    names: Vec<&'a Ident>,
    types: Vec<&'a Type>,
    value: &'a Type,
    error: &'a Type,
}

/// Generates the trait, its client and its service.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let item: ItemTrait = syn::parse2(item)
        .map_err(|error| Error::new(error.span(), format!("`#[bandog::remote]` must be on a trait: {error}")))?;
    let mut keys = Keys::parse(attribute, &["name"], &[])?;
    let Some(name) = keys.text("name", "stock.v1")? else {
        return Err(Error::new(Span::call_site(), "the service has no name: write name = \"stock.v1\""));
    };
    if let Some(generic) = item.generics.params.first() {
        let span = syn::spanned::Spanned::span(generic);
        return Err(Error::new(span, "a remote trait has no generic parameters: its calls come from other programs"));
    }
    let methods = item.items.iter().map(method).collect::<Result<Vec<_>>>()?;
    let given_trait = the_trait(&item, &methods);
    let client = client(&item, &name, &methods);
    let service = service(&item, &name, &methods);
    Ok(quote!(#given_trait #client #service))
}

fn method(item: &TraitItem) -> Result<Method<'_>> {
    let TraitItem::Fn(of) = item else {
        return Err(Error::new(syn::spanned::Spanned::span(item), "a remote trait has methods only"));
    };
    let sig = &of.sig;
    let refused = |span: Span, message: &str| Err(Error::new(span, message));
    if sig.asyncness.is_none() {
        return refused(sig.fn_token.span, "a remote method is an `async fn`");
    }
    if let Some(generic) = sig.generics.params.first() {
        return refused(syn::spanned::Spanned::span(generic), "a remote method has no generic parameters");
    }
    let mut inputs = sig.inputs.iter();
    match inputs.next() {
        Some(FnArg::Receiver(Receiver { kind: ReceiverKind::Reference(_, _, None), .. })) => {}
        _ => return refused(sig.ident.span(), "a remote method takes `&self`"),
    }
    let (mut names, mut types) = (Vec::new(), Vec::new());
    for input in inputs {
        let FnArg::Typed(given) = input else { continue };
        let Pat::Ident(name) = &*given.pat else {
            return refused(syn::spanned::Spanned::span(&given.pat), "a parameter of a remote method is a name");
        };
        if let Type::Reference(reference) = &*given.ty {
            return refused(
                reference.and_token.span,
                "a parameter of a remote method is owned: it comes from another program",
            );
        }
        names.push(&name.ident);
        types.push(&*given.ty);
    }
    let ReturnType::Type(_, returned) = &sig.output else {
        return refused(sig.ident.span(), "a remote method returns `Result<T, E>`, whose error travels, too");
    };
    let both = none::first_argument(returned, "Result").zip(second_argument(returned));
    let Some((value, error)) = both else {
        return refused(
            syn::spanned::Spanned::span(returned),
            "a remote method returns `Result<T, E>`, whose error travels, too",
        );
    };
    Ok(Method { of, names, types, value, error })
}

/// The second generic argument of a type.
fn second_argument(of: &Type) -> Option<&Type> {
    let Type::Path(path) = of else { return None };
    let syn::PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else { return None };
    match arguments.args.iter().nth(1)? {
        syn::GenericArgument::Type(argument) => Some(argument),
        _ => None,
    }
}

/// The trait, whose futures can be sent to other threads.
fn the_trait(item: &ItemTrait, methods: &[Method<'_>]) -> TokenStream {
    let ItemTrait { attrs, vis, ident, .. } = item;
    let methods = methods.iter().map(|Method { of, names, types, value, error }| {
        let (attrs, name, receiver) = (&of.attrs, &of.sig.ident, of.sig.inputs.first());
        quote! {
            #(#attrs)*
            fn #name(#receiver, #(#names: #types),*)
                -> impl ::core::future::Future<Output = ::core::result::Result<#value, #error>> + ::core::marker::Send;
        }
    });
    quote! {
        #(#attrs)*
        #vis trait #ident: ::core::marker::Send + ::core::marker::Sync + 'static {
            #(#methods)*
        }
    }
}

fn client(item: &ItemTrait, name: &LitStr, methods: &[Method<'_>]) -> TokenStream {
    let (vis, client) = (&item.vis, format_ident!("{}Client", item.ident));
    let docs = format!("Calls [`{}`] in another program.", item.ident);
    let methods = methods.iter().map(|Method { of, names, types, value, error }| {
        let (attrs, name, text) = (&of.attrs, &of.sig.ident, of.sig.ident.to_string());
        quote! {
            #(#attrs)*
            #vis async fn #name(&self, #(#names: #types),*)
                -> ::core::result::Result<#value, ::bandog::work::CallError<#error>>
            {
                self.0.call(#text, (#(#names,)*)).await
            }
        }
    });
    quote! {
        #[doc = #docs]
        #[derive(::core::fmt::Debug, ::core::clone::Clone)]
        #vis struct #client(::bandog::work::RemoteCalls);

        impl #client {
            /// A client of the service. This does no I/O.
            ///
            /// # Errors
            /// `ErrorKind::Unsupported`: the store has no work queues.
            #vis fn over(client: &::bandog::Client) -> ::bandog::Result<Self> {
                ::bandog::work::RemoteCalls::of(client, #name).map(Self)
            }

            /// The time after which a call fails. Default: 5 s.
            #[must_use]
            #vis fn within(self, time: ::core::time::Duration) -> Self {
                Self(self.0.within(time))
            }

            #(#methods)*
        }
    }
}

fn service(item: &ItemTrait, name: &LitStr, methods: &[Method<'_>]) -> TokenStream {
    let (vis, of, service) = (&item.vis, &item.ident, format_ident!("{}Service", item.ident));
    let docs = format!("Makes a service of an implementation of [`{of}`].");
    let arms = methods.iter().map(|Method { of: method, names, types, .. }| {
        let (name, text) = (&method.sig.ident, method.sig.ident.to_string());
        quote! {
            #text => ::core::option::Option::Some(::bandog::work::__remote::answer(payload, move |(#(#names,)*): (#(#types,)*)| {
                async move { #of::#name(&*service, #(#names),*).await }
            })),
        }
    });
    quote! {
        #[doc = #docs]
        #[derive(::core::fmt::Debug)]
        #vis enum #service {}

        impl #service {
            #[doc = #docs]
            #vis fn of<S: #of>(service: S) -> ::bandog::work::Service {
                let service = ::std::sync::Arc::new(service);
                ::bandog::work::Service::new(#name, ::std::sync::Arc::new(move |method, payload| {
                    let service = ::std::sync::Arc::clone(&service);
                    match method {
                        #(#arms)*
                        _ => ::core::option::Option::None,
                    }
                }))
            }
        }
    }
}
