//! The token of the page, from a file or the environment.

use std::{
    env,
    fs::File,
    io::{self, Read},
    path::Path,
};

use bandog_page::Token;

use crate::fault::Fault;

/// The variable with the token. Commands of jobs do not inherit this variable.
pub(crate) const VARIABLE: &str = "BANDOG_HTTP_TOKEN";

/// Maximum number of bytes that are read from the file. This is enough for the longest token and some whitespace.
const MOST: u64 = 1024;

/// Reads the token from the file, or else from the environment. None if neither is set.
pub(super) fn read(file: Option<&Path>) -> Result<Option<Token>, Fault> {
    if let Some(path) = file {
        let text = text(path).map_err(|error| Fault::usage(format!("cannot read a token from {path:?}: {error}")))?;
        return checked(text.trim(), &format!("{path:?}")).map(Some);
    }
    match env::var(VARIABLE) {
        Ok(token) => checked(&token, VARIABLE).map(Some),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(Fault::usage(format!("{VARIABLE} is not UTF-8"))),
    }
}

/// Parses a token. `place` is the file or the variable of the token, for the error.
fn checked(token: &str, place: &str) -> Result<Token, Fault> {
    Token::new(token).map_err(|error| Fault::usage(format!("{place}: {error}")))
}

fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MOST).read_to_string(&mut text)?;
    Ok(text)
}
