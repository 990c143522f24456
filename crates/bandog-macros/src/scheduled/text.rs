//! A value that can contain environment variables: `${REPORT_CRON:0 0 6 * * ?}`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Error, LitStr, Result};

/// The value of a key of the attribute. The value is a text, and is split into pieces.
pub(crate) struct Text {
    /// The name of the key.
    pub(crate) key: &'static str,
    /// The text as it is in the source.
    literal: LitStr,
    /// The pieces, in the order of the text.
    pieces: Vec<Piece>,
}

/// A piece of a text.
enum Piece {
    /// Plain text.
    Text(String),
    /// An environment variable.
    Variable { name: String, default: Option<String> },
}

impl Text {
    /// Splits the text `literal` of the key `key`.
    pub(crate) fn read(key: &'static str, literal: LitStr) -> Result<Self> {
        let pieces = split(&literal.value()).map_err(|fault| Error::new(literal.span(), fault))?;
        Ok(Self { key, literal, pieces })
    }

    /// The position of the text in the source.
    pub(crate) fn span(&self) -> Span {
        self.literal.span()
    }

    /// The text, in which each variable is replaced by its default. `None` if a variable has no default.
    pub(crate) fn known(&self) -> Option<String> {
        self.pieces.iter().map(Piece::known).collect()
    }

    /// Calls `check` with the text, in which each variable is replaced by its default. If a variable has no default,
    /// this method checks nothing. Such a text is checked when the scheduler starts.
    pub(crate) fn check(&self, check: fn(&str) -> std::result::Result<(), String>) -> Result<()> {
        let Some(text) = self.known() else { return Ok(()) };
        check(&text).map_err(|what| Error::new(self.span(), format!("`{}` is {text:?}{what}", self.key)))
    }

    /// Generates Rust code for the text: the name of the key and the pieces, as in `("cron", &[Piece::Text("…")])`.
    pub(crate) fn tokens(&self) -> TokenStream {
        let (key, pieces) = (self.key, self.pieces.iter().map(Piece::tokens));
        quote!((#key, &[#(#pieces),*]))
    }
}

impl Piece {
    /// The plain text, or the default of the variable. `None` if the variable has no default.
    fn known(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Variable { default, .. } => default.as_deref(),
        }
    }

    /// Generates Rust code for the piece.
    fn tokens(&self) -> TokenStream {
        let piece = quote!(::bandog::schedule::__declared::Piece);
        match self {
            Self::Text(text) => quote!(#piece::Text(#text)),
            Self::Variable { name, default: Some(default) } => {
                quote!(#piece::Variable(#name, ::core::option::Option::Some(#default)))
            }
            Self::Variable { name, default: None } => quote!(#piece::Variable(#name, ::core::option::Option::None)),
        }
    }
}

/// Splits a text into its pieces. If the text is wrong, returns the message of the compile error.
fn split(text: &str) -> std::result::Result<Vec<Piece>, String> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    // `before` is the plain text before `${`, and `place` is the text after it.
    while let Some((before, place)) = rest.split_once("${") {
        let Some((inside, after)) = place.split_once('}') else {
            return Err(format!("`${{` has no end in {text:?}; write ${{NAME}} or ${{NAME:default}}"));
        };
        let (name, default) = match inside.split_once(':') {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (inside, None),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!("{name:?} names no variable; write ${{NAME}} or ${{NAME:default}}"));
        }
        pieces.extend(Some(Piece::Text(before.to_owned())).filter(|_| !before.is_empty()));
        pieces.push(Piece::Variable { name: name.to_owned(), default });
        rest = after;
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}
