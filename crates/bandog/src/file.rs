//! Reads the path in a URL of SQLite. Refuses a URL that probably contains a mistake, because SQLite would create the
//! file in an unexpected directory.

use bandog_core::{Error, Result};

/// The path of the database. `place` is the part of the URL after `sqlite:`: a path, or `//` and an absolute path.
pub(crate) fn path(place: &str) -> Result<&str> {
    let path = place.strip_prefix("//").unwrap_or(place);
    if path.is_empty() {
        return Err(Error::misused("the URL sqlite: names no file; write sqlite:PATH"));
    }
    if path.trim() != path {
        return Err(Error::misused(format!(
            "the path in the URL \"sqlite:{place}\" begins or ends with a blank, so it would be another file: remove the \
             blank, or write ./ before a name that begins with one"
        )));
    }
    if let Some(variable) = path.split('/').find(|part| part.starts_with('$') || part.contains("${")) {
        return Err(Error::misused(format!(
            "the path in the URL sqlite:{place} contains {variable}, and no shell has replaced it: write the whole path (no part \
             of it begins with $)"
        )));
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.eq_ignore_ascii_case(":memory:") || path == "memory:" {
        return Err(Error::misused(format!(
            "the URL sqlite:{place} names no file, and processes cannot share a database in memory; write sqlite:PATH, or \
             memory: for locks of one process"
        )));
    }
    if path.starts_with("file:") || path.starts_with(":memory:") {
        return Err(Error::misused(format!(
            "the URL sqlite:{place} is in SQLite's own notation; write sqlite:PATH, or memory: for locks of one process"
        )));
    }
    if let Some((home, rest)) = path.split_once('/').or((path == "~").then_some((path, "locks.db")))
        && home.starts_with('~')
    {
        return Err(Error::misused(format!(
            "the path in the URL sqlite:{place} begins with {home}, which a shell replaces only at the beginning of a word: \
             write the whole path, sqlite:/home/NAME/{rest}, or in a shell \"sqlite:$HOME/{rest}\". For a directory that \
             is called {home}, write sqlite:./{home}/{rest}"
        )));
    }
    if place.starts_with("//") && !path.starts_with('/') {
        return Err(Error::misused(format!(
            "the URL sqlite:{place} has a relative path after //: write sqlite:///{path} for the absolute path /{path}, or \
             sqlite:{path} for a path from the current directory"
        )));
    }
    Ok(path)
}
