//! The function that a job runs, and the code that creates the job.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{
    Attribute, Error, FnArg, Ident, ItemFn, PatType, Result, ReturnType, Token, Type, TypeReference, Visibility,
};

use super::text::Text;
use crate::signature;

/// The parts of the function that the generated code needs.
pub(crate) struct Function<'a> {
    name: &'a Ident,
    vis: &'a Visibility,
    /// The `#[cfg]` attributes of the function. The generated items must have the same attributes.
    conditions: Vec<&'a Attribute>,
    is_async: bool,
    params: Vec<Param<'a>>,
    /// The return type of the function.
    returned: TokenStream,
}

/// A parameter of the function. The type of the parameter is `given`, or a reference to `given`.
struct Param<'a> {
    /// The `&` of the parameter's type. `None` if the parameter is taken by value.
    reference: Option<&'a Token![&]>,
    /// The type of the value that the scheduler gives to this parameter.
    given: &'a Type,
}

impl<'a> Function<'a> {
    /// Reads the parts of a function, and checks that the function can be a job.
    pub(crate) fn read(function: &'a ItemFn) -> Result<Self> {
        let sig = &function.sig;
        if let Some(constness) = &sig.constness {
            return Err(Error::new(constness.span, "a job cannot be a `const fn`"));
        }
        if let Some(generic) = sig.generics.params.first() {
            let message = "a job cannot have generic parameters, because a scheduler cannot choose them";
            return Err(Error::new(syn::spanned::Spanned::span(generic), message));
        }
        let params = sig.inputs.iter().map(|input| match input {
            FnArg::Typed(PatType { ty, .. }) => Ok(match &**ty {
                Type::Reference(TypeReference { and_token, lifetime: None, mutability: None, elem, .. }) => {
                    Param { reference: Some(and_token), given: elem }
                }
                given => Param { reference: None, given },
            }),
            FnArg::Receiver(receiver) => Err(Error::new(
                receiver.self_token.span,
                "a job must be a free function: take its values as `Shared<T>`, and give them to `Scheduler::share`",
            )),
        });
        Ok(Self {
            name: &sig.ident,
            vis: &function.vis,
            conditions: function.attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect(),
            is_async: sig.asyncness.is_some(),
            params: params.collect::<Result<_>>()?,
            returned: returned(&sig.output)?,
        })
    }

    /// Generates two things. The first is a type, which has the same name as the function. The associated function
    /// `job()` of this type returns the job. The second is an entry in the program's list of jobs. `texts` are the
    /// values of the attribute's keys.
    pub(crate) fn job(&self, texts: &[Text]) -> TokenStream {
        let Self { name, vis, conditions, .. } = self;
        let support = quote!(::bandog::schedule::__declared);
        let (job_name, values) = (name.to_string(), texts.iter().map(Text::tokens));
        let docs = format!("The job that [`{name}()`] is declared as.");
        let declaring = Ident::new("declaring", Span::mixed_site());
        let run = self.run(&declaring);
        quote! {
            #[doc = #docs]
            #[allow(non_camel_case_types)]
            #(#conditions)*
            #vis enum #name {}

            #(#conditions)*
            impl #name {
                #[doc = "The job with the settings of its attribute, for `Scheduler::job`. `Scheduler::declared` adds it without this call."]
                #vis fn job() -> ::bandog::schedule::Job {
                    #[allow(unused_mut)]
                    let mut #declaring = #support::Declaring::new(#job_name, &[#(#values),*]);
                    #run
                }
            }

            #(#conditions)*
            #support::submit! {
                ::bandog::schedule::Declared { make: #name::job }
            }
        }
    }

    /// Generates the code that sets the body of the job. When the job runs, the body gets a value for each parameter of
    /// the function, and calls the function with these values. `declaring` is the variable that creates the job.
    fn run(&self, declaring: &Ident) -> TokenStream {
        let Self { name, params, returned, .. } = self;
        let support = quote!(::bandog::schedule::__declared);
        // Creates a variable name for each parameter: `take_0`, `take_1` and so on.
        let numbered = |word: &str| -> Vec<Ident> {
            (0..params.len()).map(|at| format_ident!("{word}_{at}", span = Span::mixed_site())).collect()
        };
        // In the generated code, the function `take_0` gets the value of the first parameter from a run, and `value_0`
        // is this value.
        let (takes, values) = (numbered("take"), numbered("value"));
        let types = params.iter().map(|param| param.given);
        let references = params.iter().map(|param| param.reference);
        // The parameter of the generated body: all that a run gives to the function.
        let given = Ident::new("given", Span::mixed_site());
        let call = quote!(#name(#(#references #values),*));
        let (run, end) = if self.is_async {
            (quote!(run), quote!(async move { #support::ended::<#returned>(#call.await) }))
        } else {
            (quote!(run_blocking), quote!(#support::ended::<#returned>(#call)))
        };
        quote! {
            #(let #takes = #declaring.takes::<#types>();)*
            #declaring.#run(move |#given| {
                #(let #values = #takes(#given);)*
                #end
            })
        }
    }
}

/// The return type of a job's function. It is an error if the function returns an `impl Trait`.
fn returned(output: &ReturnType) -> Result<TokenStream> {
    match output {
        ReturnType::Default => Ok(quote!(())),
        ReturnType::Type(_, returned) => match &**returned {
            Type::ImplTrait(_) => {
                let message =
                    "a job must return nothing or `Result<(), E>`; write `async fn` instead of returning a future";
                Err(Error::new(signature::span(returned), message))
            }
            returned => Ok(quote!(#returned)),
        },
    }
}
