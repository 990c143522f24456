//! The token that a request for an action needs.

use std::fmt;

use bandog_core::{Error, Result};
use subtle::ConstantTimeEq;

/// Minimum length of a token. A shorter token could be guessed.
const LEAST: usize = 16;
/// Maximum length of a token.
const MOST: usize = 256;

/// A shell command that makes a token, for error messages.
const MAKE: &str = "head -c 24 /dev/urandom | base64";

/// The secret that a request for an action on a job needs ([`crate::Page::token`]).
///
/// The time that a comparison takes depends only on the length of the token, so it shows nothing about the characters.
/// A token is never printed.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A token of 16 to 256 visible ASCII characters.
    ///
    /// ```
    /// use bandog_page::Token;
    /// assert!(Token::new("correct-horse-battery-staple").is_ok());
    /// assert!(Token::new("short").is_err());
    /// ```
    ///
    /// # Errors
    /// Any other text is refused with `ErrorKind::Misused`.
    pub fn new(token: &str) -> Result<Self> {
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::misused(format!(
                "the token has characters that are not visible ASCII; make one with: {MAKE}"
            )));
        }
        match token.len() {
            LEAST..=MOST => Ok(Self(token.to_owned())),
            length => Err(Error::misused(format!(
                "the token has {length} characters; {LEAST} to {MOST} are allowed; make one with: {MAKE}"
            ))),
        }
    }

    /// Whether `given` is this token.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}
