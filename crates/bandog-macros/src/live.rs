//! `#[derive(bandog::Live)]`: a struct whose values are live objects.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{
    Attribute, Data, DeriveInput, Error, Fields, Ident, LitStr, Result, Type, Visibility, ext::IdentExt, parenthesized,
    punctuated::Punctuated, spanned::Spanned, token::Comma,
};

use crate::{
    none,
    words::{listed, nearest},
};

/// The types of numbers.
const NUMBERS: [&str; 12] = ["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "f32", "f64"];

/// The keys of the attribute on the struct.
#[derive(Default)]
struct Class {
    name: Option<LitStr>,
    index: Vec<Ident>,
    one_slot: bool,
}

/// A field that is not the id.
struct Field<'a> {
    vis: &'a Visibility,
    ident: &'a Ident,
    name: LitStr,
    /// The type, or that in the `Option`.
    of: &'a Type,
    is_optional: bool,
    is_number: bool,
    is_indexed: bool,
}

/// Generates the implementations, the type with a method for each field, and a function for each indexed field.
pub(crate) fn expand(item: TokenStream) -> Result<TokenStream> {
    let item: DeriveInput = syn::parse2(item)?;
    let only = "a live object is a struct with named fields";
    let fields = match &item.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => &fields.named,
            Fields::Unnamed(_) | Fields::Unit => return Err(Error::new(item.ident.span(), only)),
        },
        Data::Enum(data) => return Err(Error::new(data.enum_token.span, only)),
        Data::Union(data) => return Err(Error::new(data.union_token.span, only)),
    };
    if let Some(generic) = item.generics.params.first() {
        let message = "a live object has no generic parameters: other programs use the class, too";
        return Err(Error::new(generic.span(), message));
    }
    let class = class(&item)?;
    let name = class.name.clone().unwrap_or_else(|| LitStr::new(&item.ident.unraw().to_string(), item.ident.span()));
    if name.value().is_empty() || name.value().contains(['{', '}', '*']) {
        let message = "the name of a class is not empty, and contains none of `{`, `}`, `*`";
        return Err(Error::new(name.span(), message));
    }
    let mut id = None;
    let mut others = Vec::new();
    for field in fields {
        // Each field has a name: the struct has named fields.
        let Some(ident) = &field.ident else { continue };
        let of_field = FieldKeys::read(&field.attrs)?;
        if let Some(key) = of_field.id {
            if let Some((first, _)) = id {
                let message = format!("`{first}` is the id already; a live object has one");
                return Err(Error::new(key, message));
            }
            if let Some(name) = of_field.name {
                return Err(Error::new(name.span(), "the id has no name in the store: it is part of the key"));
            }
            id = Some((ident, &field.ty));
            continue;
        }
        let optional = none::first_argument(&field.ty, "Option");
        let of = optional.unwrap_or(&field.ty);
        let name = of_field.name.unwrap_or_else(|| LitStr::new(&ident.unraw().to_string(), ident.span()));
        if name.value() == "redisson_live_object" {
            return Err(Error::new(name.span(), "each live object has a mark of this name"));
        }
        if let Some(Field { ident: first, .. }) =
            others.iter().find(|other: &&Field<'_>| other.name.value() == name.value())
        {
            return Err(Error::new(name.span(), format!("the field `{first}` has this name already")));
        }
        let is_indexed = class.index.iter().any(|index| index == ident);
        let is_number = matches!(of, Type::Path(path)
            if path.path.segments.last().is_some_and(|last| NUMBERS.iter().any(|number| last.ident == number)));
        others.push(Field { vis: &field.vis, ident, name, of, is_optional: optional.is_some(), is_number, is_indexed });
    }
    let Some((id, id_type)) = id else {
        return Err(Error::new(item.ident.span(), "the live object has no id: write #[live(id)] on a field"));
    };
    for index in &class.index {
        if index == id {
            return Err(Error::new(index.span(), "the id needs no index: `load` finds it"));
        }
        if !others.iter().any(|field| field.ident == index) {
            return Err(unknown_index(index, &others));
        }
    }
    Ok(Live { item: &item, name, one_slot: class.one_slot, id, id_type, fields: others }.expand())
}

/// The error of an index of a field that does not exist.
fn unknown_index(index: &Ident, fields: &[Field<'_>]) -> Error {
    let names: Vec<String> = fields.iter().map(|field| field.ident.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let hint = match nearest(&index.to_string(), &names) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("the fields are {}", listed(&names)),
    };
    Error::new(index.span(), format!("the struct has no field `{index}`; {hint}"))
}

/// Reads the attributes on the struct.
fn class(item: &DeriveInput) -> Result<Class> {
    let mut class = Class::default();
    for attribute in live(&item.attrs) {
        attribute.parse_nested_meta(|key| {
            if key.path.is_ident("name") {
                class.name = Some(key.value()?.parse()?);
            } else if key.path.is_ident("one_slot") {
                class.one_slot = true;
            } else if key.path.is_ident("index") {
                let names;
                parenthesized!(names in key.input);
                for name in Punctuated::<Ident, Comma>::parse_terminated(&names)? {
                    if class.index.contains(&name) {
                        return Err(Error::new(name.span(), format!("`{name}` is given twice")));
                    }
                    class.index.push(name);
                }
            } else {
                return Err(key.error("the keys of a live object are `name`, `index`, `one_slot`"));
            }
            Ok(())
        })?;
    }
    Ok(class)
}

/// The keys of the attribute on a field.
#[derive(Default)]
struct FieldKeys {
    id: Option<Span>,
    name: Option<LitStr>,
}

impl FieldKeys {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut keys = Self::default();
        for attribute in live(attributes) {
            attribute.parse_nested_meta(|key| {
                if key.path.is_ident("id") {
                    keys.id = Some(key.path.span());
                } else if key.path.is_ident("name") {
                    keys.name = Some(key.value()?.parse()?);
                } else {
                    return Err(key.error("the keys of a field of a live object are `id`, `name`"));
                }
                Ok(())
            })?;
        }
        Ok(keys)
    }
}

fn live(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("live"))
}

/// The checked struct.
struct Live<'a> {
    item: &'a DeriveInput,
    name: LitStr,
    one_slot: bool,
    id: &'a Ident,
    id_type: &'a Type,
    fields: Vec<Field<'a>>,
}

impl Live<'_> {
    fn expand(&self) -> TokenStream {
        let (class, codec, at, indexed) = (self.class(), self.codec(), self.at(), self.indexed());
        quote!(#class #codec #at #indexed)
    }

    /// The implementation of the trait that every codec has.
    fn class(&self) -> TokenStream {
        let Self { item, name, one_slot, id, id_type, fields } = self;
        let (of, at) = (&item.ident, self.at_name());
        let fields = fields.iter().map(|Field { name, is_number, is_indexed, .. }| {
            let index = match (is_indexed, is_number) {
                (false, _) => quote!(::core::option::Option::None),
                (true, true) => quote!(::core::option::Option::Some(::bandog::grid::__live::FieldIndex::Numbers)),
                (true, false) => quote!(::core::option::Option::Some(::bandog::grid::__live::FieldIndex::Values)),
            };
            quote!(::bandog::grid::__live::LiveField { name: #name, index: #index })
        });
        quote! {
            impl ::bandog::grid::Live for #of {
                type Id = #id_type;
                type At<C: ::bandog::grid::__live::Codec> = #at<C>;

                const CLASS: ::bandog::grid::__live::LiveClass = ::bandog::grid::__live::LiveClass {
                    name: #name,
                    one_slot: #one_slot,
                    fields: &[#(#fields),*],
                };

                fn id(&self) -> &#id_type {
                    &self.#id
                }
            }
        }
    }

    /// The implementation of the trait that the codecs have that can write and read each field.
    fn codec(&self) -> TokenStream {
        let Self { item, id, id_type, fields, .. } = self;
        let (of, live) = (&item.ident, quote!(::bandog::grid::__live));
        let types: Vec<_> = fields.iter().map(|field| field.of).collect();
        let writes = fields.iter().map(|Field { ident, of, is_optional, is_number, .. }| {
            let value = match is_optional {
                true => quote!(self.#ident.as_ref()),
                false => quote!(::core::option::Option::Some(&self.#ident)),
            };
            let write = if *is_number { format_ident!("number") } else { format_ident!("value") };
            quote!(to.#write::<#of>(#value)?)
        });
        let reads = fields.iter().map(|Field { ident, name, of, is_optional, .. }| match is_optional {
            true => quote!(#ident: from.optional::<#of>()?),
            false => quote!(#ident: from.required::<#of>(#name)?),
        });
        quote! {
            impl<C> #live::LiveAs<C> for #of
            where
                C: #live::Codec + #live::Encode<str> + #live::Encode<#id_type> + #live::Decode<#id_type>,
                C::Keys: #live::Encode<str> + #live::Encode<#id_type> + #live::Decode<#id_type>,
                #(C: #live::Encode<#types> + #live::Decode<#types>,)*
            {
                fn write_name(name: &str, to: &mut #live::FieldWriter<'_, C>) -> ::bandog::Result<#live::Bytes> {
                    to.name(name)
                }

                fn write_mark(text: &str, to: &mut #live::FieldWriter<'_, C>) -> ::bandog::Result<#live::Bytes> {
                    to.mark(text)
                }

                fn write_id(
                    id: &#id_type,
                    to: &mut #live::FieldWriter<'_, C>,
                ) -> ::bandog::Result<#live::WrittenId> {
                    to.id::<#id_type>(id)
                }

                fn read_member(bytes: &[u8], from: &#live::FieldReader<'_, C>) -> ::bandog::Result<#id_type> {
                    from.member::<#id_type>(bytes)
                }

                fn read_id(bytes: &[u8], from: &#live::FieldReader<'_, C>) -> ::bandog::Result<#id_type> {
                    from.id::<#id_type>(bytes)
                }

                #[allow(unused_variables)]
                fn write(
                    &self,
                    to: &mut #live::FieldWriter<'_, C>,
                ) -> ::bandog::Result<::std::vec::Vec<#live::WrittenField>> {
                    ::core::result::Result::Ok(::std::vec![#(#writes),*])
                }

                #[allow(unused_variables)]
                fn read(id: #id_type, from: &mut #live::FieldReader<'_, C>) -> ::bandog::Result<Self> {
                    ::core::result::Result::Ok(Self { #id: id, #(#reads),* })
                }
            }
        }
    }

    /// The type with a method for each field.
    fn at(&self) -> TokenStream {
        let (at, vis, live) = (self.at_name(), &self.item.vis, quote!(::bandog::grid::__live));
        let docs = format!("The fields of one [`{}`] in the store.", self.item.ident);
        let methods = self.fields.iter().enumerate().map(|(position, field)| {
            let Field { vis, ident, of, is_optional, is_number, .. } = field;
            let docs = format!("The field `{ident}` in the store.");
            let presence = if *is_optional { quote!(#live::Optional) } else { quote!(#live::Required) };
            let (handle, make) = match is_number {
                true => (format_ident!("NumberAt"), format_ident!("number")),
                false => (format_ident!("FieldAt"), format_ident!("field")),
            };
            quote! {
                #[doc = #docs]
                #[allow(dead_code)]
                #vis fn #ident(&self) -> ::bandog::grid::#handle<#of, C, #presence> {
                    self.0.#make(#position)
                }
            }
        });
        quote! {
            #[doc = #docs]
            #[derive(::core::fmt::Debug, ::core::clone::Clone)]
            #vis struct #at<C>(#live::LiveAt<C>);

            impl<C> ::core::convert::From<#live::LiveAt<C>> for #at<C> {
                fn from(at: #live::LiveAt<C>) -> Self {
                    Self(at)
                }
            }

            impl<C: #live::Codec> #at<C> {
                #(#methods)*
            }
        }
    }

    /// The functions of the indexed fields.
    fn indexed(&self) -> TokenStream {
        let of = &self.item.ident;
        let functions = self.fields.iter().filter(|field| field.is_indexed).map(|field| {
            let Field { vis, ident, name, of, is_optional, is_number, .. } = field;
            let docs = format!("The indexed field `{ident}`, for a search.");
            let get = match is_optional {
                true => quote!(|object: &Self| object.#ident.as_ref()),
                false => quote!(|object: &Self| ::core::option::Option::Some(&object.#ident)),
            };
            let kind = if *is_number { format_ident!("NumberField") } else { format_ident!("ValueField") };
            quote! {
                #[doc = #docs]
                #[allow(dead_code)]
                #vis fn #ident() -> ::bandog::grid::#kind<Self, #of> {
                    ::bandog::grid::#kind::__new(#name, #get)
                }
            }
        });
        quote! {
            impl #of {
                #(#functions)*
            }
        }
    }

    fn at_name(&self) -> Ident {
        format_ident!("{}At", self.item.ident)
    }
}
