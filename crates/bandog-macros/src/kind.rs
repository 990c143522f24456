//! The keys of `#[bandog::locked]` that choose the kind of the lock.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Error, Result};

use crate::keys::{self, Keys};

/// The keys that choose a kind and have no value.
pub(crate) const FLAGS: [&str; 3] = ["shared", "exclusive", "fair"];

/// The kind of the lock.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Mutex,
    Fair,
    Read,
    Write,
    Permits { take: u32, of: u32 },
}

impl Kind {
    /// Reads the keys `shared`, `exclusive`, `fair`, `permits` and `of`. More than one kind is an error.
    pub(crate) fn read(keys: &mut Keys) -> Result<Self> {
        let mut kinds = Vec::new();
        for (name, kind) in FLAGS.into_iter().zip([Self::Read, Self::Write, Self::Fair]) {
            kinds.extend(keys.flag(name).map(|span| (name, span, kind)));
        }
        kinds.extend(permits(keys)?.map(|(span, kind)| ("permits", span, kind)));
        match kinds.as_slice() {
            [] => Ok(Self::Mutex),
            [(_, _, kind)] => Ok(*kind),
            [(first, ..), (second, span, _), ..] => {
                Err(Error::new(*span, format!("a lock has one kind: write `{first}` or `{second}`, not both")))
            }
        }
    }

    /// The name of the method of a client that makes the handle, such as `mutex`, and its arguments after the name of
    /// the lock.
    pub(crate) fn constructor(self) -> (&'static str, TokenStream) {
        match self {
            Self::Mutex | Self::Fair => ("mutex", TokenStream::new()),
            Self::Read | Self::Write => ("rwlock", TokenStream::new()),
            Self::Permits { of, .. } => ("semaphore", quote!(, #of)),
        }
    }

    /// The method call on the handle that completes the kind.
    pub(crate) fn option(self) -> TokenStream {
        match self {
            Self::Mutex | Self::Read | Self::Write => TokenStream::new(),
            Self::Fair => quote!(.fair()),
            Self::Permits { take, .. } => quote!(.permits(#take)),
        }
    }

    /// The method call on the handle that takes the lock. `wait` is the code of the maximum wait.
    pub(crate) fn lock(self, wait: Option<TokenStream>) -> TokenStream {
        match (self, wait) {
            (Self::Mutex | Self::Fair, None) => quote!(lock()),
            (Self::Mutex | Self::Fair, Some(wait)) => quote!(try_lock_for(#wait)),
            (Self::Read, None) => quote!(read()),
            (Self::Read, Some(wait)) => quote!(try_read_for(#wait)),
            (Self::Write, None) => quote!(write()),
            (Self::Write, Some(wait)) => quote!(try_write_for(#wait)),
            (Self::Permits { .. }, None) => quote!(acquire()),
            (Self::Permits { .. }, Some(wait)) => quote!(try_acquire_for(#wait)),
        }
    }
}

/// Reads the keys `permits` and `of`. The returned position is the value of `permits`.
fn permits(keys: &mut Keys) -> Result<Option<(Span, Kind)>> {
    let (take, of) = (keys.take("permits"), keys.take("of"));
    match (take, of) {
        (None, None) => Ok(None),
        (Some(take), None) => {
            let message = "`permits` needs the number of all permits: write permits = 2, of = 5";
            Err(Error::new(keys::span(&take), message))
        }
        (None, Some(of)) => {
            Err(Error::new(keys::span(&of), "`of` needs the number of permits to take: write permits = 2, of = 5"))
        }
        (Some(taken), Some(all)) => {
            let (take, of) = (keys::number("permits", &taken)?, keys::number("of", &all)?);
            let span = keys::span(&taken);
            if take > of {
                return Err(Error::new(span, format!("`permits` is {take}, but the semaphore has only {of} permits")));
            }
            Ok(Some((span, Kind::Permits { take, of })))
        }
    }
}
