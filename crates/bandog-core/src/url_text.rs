//! The text of a URL, as files of secrets and of variables give it.

use crate::{Error, Result};

/// The URL without the white space around it. Secrets, files and variables often end in a line feed, and with it, the path
/// or the host would be another one.
///
/// # Errors
/// `Misused`: there are quotes around the URL, or it contains a control character or an invisible one. The message does not
/// contain the URL, because its password could be in it.
pub fn url_text(url: &str) -> Result<&str> {
    let url = url.trim();
    let quote = [url.chars().next(), url.chars().next_back()].into_iter().flatten().find(|c| is_quote(*c));
    if let Some(quote) = quote {
        return Err(Error::misused(format!(
            "the URL begins or ends with the quote {quote}: remove the quotes (files of variables are often read without a \
             shell, which would remove them)"
        )));
    }
    let Some((at, found)) = url.chars().enumerate().find(|(_, c)| c.is_control() || is_invisible(*c)) else {
        return Ok(url);
    };
    let name = match found {
        '\n' => "a line feed".to_owned(),
        '\r' => "a carriage return".to_owned(),
        '\t' => "a tab".to_owned(),
        _ if found.is_control() => format!("the control character {}", found.escape_unicode()),
        _ => format!("the invisible character {}", found.escape_unicode()),
    };
    Err(Error::misused(format!(
        "the URL has {name} inside, as its character number {}: remove it (in a password, write %0A for a line feed)",
        at + 1
    )))
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`' | '\u{2018}'..='\u{201f}' | '\u{ab}' | '\u{bb}')
}

/// Whether a text with this character looks like the text without it.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_around_a_url_is_removed_and_inside_it_stays() {
        for url in ["sqlite:/d/my l.db\n", "\r\n\tsqlite:/d/my l.db \r\n", "sqlite:/d/my l.db\u{a0}\u{2028}"] {
            assert_eq!(url_text(url).unwrap(), "sqlite:/d/my l.db");
        }
        assert_eq!(url_text(" \n").unwrap(), "");
    }

    #[test]
    fn quotes_and_control_characters_are_refused_without_showing_the_url() {
        for (url, words) in [
            ("\"redis://:hunter2@db\"\n", "the quote \""),
            ("'redis://:hunter2@db'", "the quote '"),
            ("redis://:hunter2@db\"", "the quote \""),
            ("\u{201c}redis://:hunter2@db\u{201d}", "the quote \u{201c}"),
            ("redis://:hunter2\n@db", "a line feed inside, as its character number 17"),
            ("redis://:hunter2@db\r\nredis://b", "a carriage return"),
            ("redis://:hunter2@d\tb", "a tab"),
            ("redis://:hunter2@db\0", "the control character \\u{0}"),
            ("\u{feff}redis://:hunter2@db", "the invisible character \\u{feff}"),
            ("redis://:hunter2@db\u{200b}", "the invisible character \\u{200b}"),
        ] {
            let text = url_text(url).unwrap_err().to_string();
            assert!(text.contains(words) && !text.contains("hunter2"), "{text}");
        }
    }
}
