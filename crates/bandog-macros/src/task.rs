//! `#[bandog::task]`: a function that an executor runs.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Error, FnArg, Ident, ItemFn, LitStr, Pat, PatType, Result, ReturnType, Type};

use crate::{
    duration,
    keys::{self, Keys},
    none,
};

/// The keys that the attribute accepts.
const KEYS: [&str; 3] = ["name", "deliveries", "timeout"];

/// Generates a type with the name of the function, which makes calls and the handler.
pub(crate) fn expand(attribute: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(function).map_err(|error| {
        Error::new(error.span(), format!("`#[bandog::task]` must be on a function with a body: {error}"))
    })?;
    let ItemFn { attrs, vis, sig, block, .. } = &function;
    if sig.asyncness.is_none() {
        return Err(Error::new(sig.fn_token.span, "a task is an `async fn`; call blocking code in `spawn_blocking`"));
    }
    if let Some(generic) = sig.generics.params.first() {
        let span = syn::spanned::Spanned::span(generic);
        return Err(Error::new(span, "a task has no generic parameters: its arguments come from another program"));
    }
    let mut keys = Keys::parse(attribute, &KEYS, &[])?;
    let name = match keys.text("name", "charge")? {
        Some(name) if name.value().trim().is_empty() => return Err(Error::new(name.span(), "the task has no name")),
        Some(name) => name,
        None => LitStr::new(&sig.ident.to_string(), sig.ident.span()),
    };
    let options = options(&mut keys)?;
    let Params { run, args, state } = params(sig)?;
    let (task, names) = (&sig.ident, state.iter().map(|(name, _)| name).collect::<Vec<_>>());
    let parameters = state.iter().map(|(name, of)| quote!(#name: #of));
    let (args_type, args_value) = match &args {
        Some(of) => (quote!(#of), quote!(args)),
        None => (quote!(()), quote!()),
    };
    let run_value = run.then(|| quote!(run,));
    let args_value = args.is_some().then(|| quote!(#args_value,));
    let (result, wrap) = match &sig.output {
        ReturnType::Default => (quote!(()), true),
        ReturnType::Type(_, of) => match none::first_argument(of, "Result") {
            Some(result) => (quote!(#result), false),
            None => (quote!(#of), true),
        },
    };
    let mut body = sig.clone();
    body.ident = format_ident!("__run_{}", sig.ident);
    let body_name = &body.ident;
    let work = quote!(#body_name(#run_value #args_value #(#names),*).await);
    let work = if wrap { quote!(::core::result::Result::<_, ::std::convert::Infallible>::Ok(#work)) } else { work };
    let with_docs = format!("A call of the task `{}`, for an executor.", name.value());
    let on_docs = format!("Runs the task `{}`. The values are cloned for each run.", name.value());
    let (docs, others): (Vec<_>, Vec<_>) = attrs.iter().partition(|attr| attr.path().is_ident("doc"));
    let conditions = attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect::<Vec<_>>();
    let (with_argument, with_value) = match &args {
        Some(of) => (quote!(args: &#of), quote!(args)),
        None => (quote!(), quote!(&())),
    };
    Ok(quote! {
        #(#docs)*
        #[allow(non_camel_case_types)]
        #(#conditions)*
        #vis enum #task {}

        #(#conditions)*
        impl #task {
            /// The name of the task.
            pub const NAME: &'static str = #name;

            #[doc = #with_docs]
            #vis fn with(#with_argument) -> ::bandog::work::TaskCall<#result> {
                ::bandog::work::TaskCall::new(#name, #with_value)
            }

            #[doc = #on_docs]
            #vis fn on(#(#parameters),*) -> ::bandog::work::TaskHandler {
                #(#others)*
                #body #block
                ::bandog::work::TaskHandler::new(#name, move |run: ::bandog::work::TaskRun, args: #args_type| {
                    #(let #names = ::core::clone::Clone::clone(&#names);)*
                    async move {
                        let (_, _) = (&run, &args);
                        #work
                    }
                })
                #options
            }
        }
    })
}

/// The method calls on the handler.
fn options(keys: &mut Keys) -> Result<TokenStream> {
    let mut calls = TokenStream::new();
    if let Some(deliveries) = keys.take("deliveries") {
        let deliveries = keys::number("deliveries", &deliveries)?;
        calls.extend(quote!(.deliveries(#deliveries)));
    }
    if let Some(text) = keys.text("timeout", "2m")? {
        let time = duration::read("timeout", &text, Duration::from_millis(1)..=duration::LONGEST, "1ms and 365d")?;
        let time = duration::tokens(time);
        calls.extend(quote!(.timeout(#time)));
    }
    Ok(calls)
}

/// The parameters of a task: the run, the arguments of a call, and the values of the program.
struct Params<'a> {
    run: bool,
    args: Option<&'a Type>,
    state: Vec<(&'a Ident, &'a Type)>,
}

fn params(sig: &syn::Signature) -> Result<Params<'_>> {
    let mut params = Params { run: false, args: None, state: Vec::new() };
    for (at, input) in sig.inputs.iter().enumerate() {
        let PatType { pat, ty, .. } = match input {
            FnArg::Receiver(receiver) => {
                let message = "a task has no `self`; give it the value as a parameter behind the arguments";
                return Err(Error::new(receiver.self_token.span, message));
            }
            FnArg::Typed(given) => given,
        };
        if let Type::Reference(reference) = &**ty {
            let message = "a parameter of a task is owned, because it comes from another program or is cloned";
            return Err(Error::new(reference.and_token.span, message));
        }
        if at == 0 && is_run(ty) {
            params.run = true;
        } else if params.args.is_none() {
            params.args = Some(&**ty);
        } else if let Pat::Ident(name) = &**pat {
            params.state.push((&name.ident, &**ty));
        } else {
            return Err(Error::new(syn::spanned::Spanned::span(pat), "this parameter of a task must be a name"));
        }
    }
    Ok(params)
}

fn is_run(of: &Type) -> bool {
    matches!(of, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "TaskRun"))
}
