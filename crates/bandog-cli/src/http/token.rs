//! The token that those show who may act.

use std::{
    env, fmt,
    fs::File,
    io::{self, Read},
    path::Path,
};

use subtle::ConstantTimeEq;

use crate::fault::Fault;

/// The variable that holds the token; no job's command may inherit it.
pub(crate) const VARIABLE: &str = "BANDOG_HTTP_TOKEN";

/// Shorter ones can be guessed.
const LEAST: usize = 16;
const MOST: usize = 256;

/// A secret: it is compared in a time that tells nothing but its length, and never printed.
pub(super) struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The token of the file, else of the environment, if there is one.
    pub(super) fn read(file: Option<&Path>) -> Result<Option<Self>, Fault> {
        if let Some(path) = file {
            let text =
                text(path).map_err(|error| Fault::usage(format!("cannot read a token from {path:?}: {error}")))?;
            return Self::new(text.trim(), &format!("the token in {path:?}")).map(Some);
        }
        match env::var(VARIABLE) {
            Ok(token) => Self::new(&token, &format!("the token in {VARIABLE}")).map(Some),
            Err(env::VarError::NotPresent) => Ok(None),
            Err(env::VarError::NotUnicode(_)) => Err(Fault::usage(format!("{VARIABLE} is not UTF-8"))),
        }
    }

    pub(super) fn new(token: &str, what: &str) -> Result<Self, Fault> {
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Fault::usage(format!(
                "{what} has characters that are not visible ASCII; make one with: {MAKE}"
            )));
        }
        match token.len() {
            LEAST..=MOST => Ok(Self(token.to_owned())),
            length => Err(Fault::usage(format!(
                "{what} has {length} characters; {LEAST} to {MOST} are allowed; make one with: {MAKE}"
            ))),
        }
    }

    /// Whether this is the token.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

const MAKE: &str = "head -c 24 /dev/urandom | base64";

/// The text of a file, of which more than a token needs is not read.
fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(4 * MOST as u64).read_to_string(&mut text)?;
    Ok(text)
}
