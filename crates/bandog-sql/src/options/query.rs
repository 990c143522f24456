//! The options of a URL before their values are read.

use std::collections::BTreeMap;

use bandog_core::Result;

use super::{
    dialect::Dialect,
    names::{Need, names, need, unknown, wrong},
};

/// The words for an unknown option that must not be shown.
const PART_OF_PASSWORD: &str =
    "an unknown option after password=, which can be a part of the password (in the password, write %26 for &)";
/// The options of a URL that are not read yet.
pub(super) struct Options(BTreeMap<String, String>);

impl Options {
    /// Reads the options. The first unknown name in the order of the URL is refused: the next ones can be parts of its value.
    pub(super) fn read(dialect: Dialect, query: &str) -> Result<Self> {
        let mut options = BTreeMap::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if names(dialect).all(|known| known != name) {
                let shown = format!("the option {name:?}, which is unknown");
                let what = if options.contains_key("password") { PART_OF_PASSWORD } else { &shown };
                return Err(unknown(dialect, what, |_| true));
            }
            if options.insert(name.to_owned(), decoded("value of an option", value)?).is_some() {
                return Err(wrong("has an option twice"));
            }
        }
        Ok(Self(options))
    }

    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|value| !value.is_empty())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Adds an option that the URL has under another name.
    pub(super) fn set(&mut self, name: &str, value: String) -> Result<()> {
        match self.0.insert(name.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(wrong(&format!("has the option {name:?} twice, under two names"))),
        }
    }

    /// Gives an option another name.
    pub(super) fn rename(&mut self, name: &str, other: &str) -> Result<()> {
        match self.0.remove(name) {
            Some(value) => self.set(other, value),
            None => Ok(()),
        }
    }

    /// The value of an option that is `true` or `false`.
    pub(super) fn take_switch(&mut self, name: &str, default: bool) -> Result<bool> {
        match self.take(name).as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(wrong(&format!("has an unknown value of {name:?}; write true or false"))),
        }
    }

    /// Whether the URL says that a pooler is used.
    pub(super) fn take_pooler(&mut self) -> Result<bool> {
        match self.take("pooler").as_deref() {
            None => Ok(false),
            Some("session") => Ok(true),
            Some(_) => Err(wrong("has an unknown value of \"pooler\"; a pooler must be in the mode session")),
        }
    }

    pub(super) fn check_empty(&self, dialect: Dialect) -> Result<()> {
        let Some(name) = self.0.keys().next() else { return Ok(()) };
        let what = match need(dialect, name) {
            Need::Nothing => format!("the option {name:?}, which is not allowed here"),
            Need::With(need) => format!("the option {name:?}, which needs {need}"),
            Need::OtherServer(server) => format!("the option {name:?}, which is for {server} only"),
        };
        Err(unknown(dialect, &what, |other| !self.has(other)))
    }
}

pub(super) fn decoded(what: &str, text: &str) -> Result<String> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8().map(String::from);
    let decoded = decoded.map_err(|_| wrong(&format!("has a {what} that is not UTF-8")))?;
    if decoded.contains('\0') {
        return Err(wrong(&format!("has a {what} with a null character")));
    }
    Ok(decoded)
}
