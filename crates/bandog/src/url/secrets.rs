//! Prints URLs without their passwords and other secrets.

use super::{
    login::is_port,
    option_names,
    scheme::{is_local, is_scheme},
};

/// The options with passwords: of sentinels, and of databases.
const SECRETS: [&str; 2] = ["sentinel_password=", "password="];

/// The URL with `***` for its password and other secrets. The result can be shown to people and written to logs.
///
/// Without a password, the text in the place of the user is hidden, too: in URLs of Redis, it is often the password. It is
/// shown for the databases and ZooKeeper, and with a `password_file`.
///
/// ```
/// assert_eq!(bandog::admin::redact("redis://app:secret@db:6379/2"), "redis://app:***@db:6379/2");
/// assert_eq!(bandog::admin::redact("redis://secret@db"), "redis://***@db");
/// ```
pub fn redact(url: &str) -> String {
    without_password(url, ":***")
}

/// The URL without its password, for the environment of a child process. A text that [`redact`] hides is removed.
///
/// ```
/// assert_eq!(bandog::admin::without_secrets("redis://app:secret@db"), "redis://app@db");
/// assert_eq!(bandog::admin::without_secrets("redis://secret@db"), "redis://db");
/// ```
pub fn without_secrets(url: &str) -> String {
    without_password(url, "")
}

/// The URL in which `instead` replaces the password and the colon before the password.
fn without_password(url: &str, instead: &str) -> String {
    let url = &without_named_secret(url);
    let scheme = scheme_of(url);
    if is_local(scheme) {
        // These URLs have no password, but the name of a file can look like a password. Another URL might follow.
        let other = url.match_indices("://").map(|(at, _)| at).find(|at| *at > scheme.len());
        return other.map_or(url.to_owned(), |at| format!("{}://***", &url[..at]));
    }
    let url = &without_unencoded_secret(url, instead);
    // An `@` in a password should be written as `%40`. If it was not, the password ends at the last `@` of the URL.
    let Some((head, place)) = url.rsplit_once('@') else { return without_suspicious_port(url, instead) };
    let place = without_unknown_options(scheme_of(url), place, instead);
    let Some((scheme, login)) = head.split_once("://") else {
        // This is not a valid URL, so any text before the `@` might be the password.
        let scheme = head.split_once(':').map_or("", |(scheme, _)| scheme);
        return format!("{scheme}:***@{place}");
    };
    match login.split_once(':') {
        Some((user, _)) if user.is_empty() && instead.is_empty() => format!("{scheme}://{place}"),
        Some((user, _)) => format!("{scheme}://{user}{instead}@{place}"),
        None if names_a_user(scheme, login, &place) => format!("{scheme}://{login}@{place}"),
        None if instead.is_empty() => format!("{scheme}://{place}"),
        None => format!("{scheme}://***@{place}"),
    }
}

/// Whether a login without a password is a user. Otherwise it might be a password, as other clients of Redis accept it.
/// `place` is the part of the URL after the `@`.
fn names_a_user(scheme: &str, login: &str, place: &str) -> bool {
    // Other text might be before the URL.
    let scheme = scheme.rsplit([' ', '=', ':', ',', ';']).next().unwrap_or(scheme);
    let has_users = ["postgres", "mysql", "mariadb", "zookeeper"].iter().any(|store| starts_with_word(scheme, store));
    let is_path = login.starts_with('/') && scheme.to_ascii_lowercase().ends_with("+unix");
    let has_file = place.split(['?', '&']).skip(1).any(|option| option.starts_with("password_file="));
    has_users || is_path || has_file || login.is_empty()
}

/// Hides the end of a text from the value of a secret on, if the text is not written as a URL: settings with blanks,
/// commas or semicolons between them, or the words of a command. Where such a value ends is not known.
fn without_named_secret(url: &str) -> String {
    const WORDS: [&str; 6] = ["password", "passwd", "pwd", "pass", "secret", "token"];
    let has_scheme = is_scheme(scheme_of(url));
    // The options of a URL with hosts are hidden one by one.
    let is_option = |sign: char| has_scheme && !is_local(scheme_of(url)) && matches!(sign, '?' | '&');
    let is_between = |sign: &char| sign.is_whitespace() || matches!(sign, ',' | ';' | '?' | '&' | '/');
    let secret = url.match_indices('=').find_map(|(at, _)| {
        let name_at =
            url[..at].char_indices().rev().find(|(_, c)| is_between(c)).map(|(at, sign)| (at + sign.len_utf8(), sign));
        let (start, sign) = name_at.unwrap_or((0, ' '));
        let name = url[start..at].trim().to_ascii_lowercase();
        (WORDS.iter().any(|word| name.ends_with(word)) && !is_option(sign)).then_some(at + 1)
    });
    // In the words of a command, each of them can be a password.
    let blank = url.find(char::is_whitespace).filter(|_| !has_scheme).map(|at| at + 1);
    match secret.into_iter().chain(blank).min() {
        Some(at) => format!("{}***", &url[..at]),
        None => url.to_owned(),
    }
}

/// Hides the end of the URL from an option with a password on, if this password might contain characters that should have
/// been encoded. Then the end of the password is not known.
fn without_unencoded_secret(url: &str, instead: &str) -> String {
    let Some((start, secret)) = secret_option(url) else { return url.to_owned() };
    let has_unknown = options_after(&url[start + 1..]).any(|name| !option_names::is_known(scheme_of(url), name));
    if !has_unknown && unencoded_secret(url).is_none() {
        return url.to_owned();
    }
    if instead.is_empty() { url[..start].to_owned() } else { format!("{}{secret}***", &url[..=start]) }
}

/// The name of an option with a password, if this password contains `@`, `#` or `?`, which should have been encoded.
pub(super) fn unencoded_secret(url: &str) -> Option<&'static str> {
    let (start, secret) = secret_option(url)?;
    url[start + 1..].contains(['@', '#', '?']).then_some(secret)
}

/// The first option with a password: the position of the sign before it, and its name.
fn secret_option(url: &str) -> Option<(usize, &'static str)> {
    let at = |sign: &str, secret: &'static str| Some((url.find(&format!("{sign}{secret}"))?, secret));
    let [of_sentinels, of_databases] = SECRETS;
    let is_database = ["postgres", "mysql", "mariadb"].iter().any(|scheme| starts_with_word(url, scheme));
    // In any URL, the end of a password with one of these signs is not known.
    let has_signs = |rest: &str| rest.contains(['@', '#', '?']);
    let is_open = ["?password=", "&password="]
        .iter()
        .any(|option| url.split_once(option).is_some_and(|(_, rest)| has_signs(rest)));
    [Some(of_sentinels), (is_database || is_open).then_some(of_databases)]
        .into_iter()
        .flatten()
        .flat_map(|secret| ["?", "&"].map(|sign| at(sign, secret)))
        .flatten()
        .min()
}

/// The names of the options after the first one.
fn options_after(query: &str) -> impl Iterator<Item = &str> {
    let others = query.split('&').skip(1).filter(|option| !option.is_empty());
    others.map(|option| option.split_once('=').map_or(option, |(name, _)| name))
}

/// The scheme of the URL, as it is written. Empty if the URL has none.
fn scheme_of(url: &str) -> &str {
    url.split_once(':').map_or("", |(scheme, _)| scheme)
}

/// Whether the URL starts with this word, in any case.
fn starts_with_word(url: &str, word: &str) -> bool {
    url.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Hides a possible password in a URL without an `@`. If the text at the place of the port is not a number, this text
/// might be a password, and the user might have mistyped the `@` after it.
fn without_suspicious_port(url: &str, instead: &str) -> String {
    let url = without_unknown_options(scheme_of(url), url, instead);
    let Some((scheme, rest)) = url.split_once("://") else { return without_suspicious_login(url) };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (hosts, tail) = rest.split_at(end);
    let mut shown = Vec::new();
    for host in hosts.split(',') {
        match host.split_once(':') {
            // The `@` after a password was encoded, too.
            _ if host.contains("%40") => {
                shown.push("***".to_owned());
                break;
            }
            Some((name, port)) if !host.starts_with('[') && !port.bytes().all(|byte| byte.is_ascii_digit()) => {
                // A password can contain a comma, so the next hosts are hidden, too.
                shown.push(format!("{name}:***"));
                break;
            }
            Some(_) | None => shown.push(host.to_owned()),
        }
    }
    format!("{scheme}://{}{tail}", shown.join(","))
}

/// Hides a possible password in a text without `://`. The text might be `user:password`, unless its first word is a
/// known scheme or a port follows the colon.
fn without_suspicious_login(url: String) -> String {
    const KNOWN: [&str; 5] = ["redis", "rediss", "valkey", "valkeys", "zookeeper"];
    let is_known = |head: &str| {
        let (server, way) = head.split_once('+').unwrap_or((head, ""));
        KNOWN.iter().any(|scheme| server.eq_ignore_ascii_case(scheme))
            && ["", "unix", "sentinel", "cluster", "quorum", "tls"].iter().any(|known| way.eq_ignore_ascii_case(known))
    };
    match url.split_once(':') {
        Some((head, rest)) if is_scheme(head) && !is_known(head) && !is_port(rest) && !rest.is_empty() => {
            format!("{head}:***")
        }
        Some(_) | None => url,
    }
}

/// Hides the values of unknown options, because these values might be secrets. An unknown name after such a value is hidden,
/// too: it might be the rest of a secret with a `&`. If `instead` is empty, options with passwords are removed: with `***` as
/// its value, a reader of the URL would send `***` as the password.
fn without_unknown_options(scheme: &str, place: &str, instead: &str) -> String {
    let Some((path, query)) = place.split_once('?') else { return place.to_owned() };
    // A `#` that was not encoded might be a part of a secret.
    let (query, fragment) = query.split_once('#').map_or((query, ""), |(query, _)| (query, "#***"));
    let mut hides_names = false;
    let shown = query.split('&').filter_map(|option| match option.split_once('=') {
        Some((name @ ("sentinel_password" | "password"), _)) => {
            hides_names |= name == "password";
            (!instead.is_empty()).then(|| format!("{name}=***"))
        }
        Some((name, _)) if option_names::is_known(scheme, name) => Some(option.to_owned()),
        Some(_) | None if hides_names && !option.is_empty() => Some("***".to_owned()),
        Some((name, _)) => {
            hides_names = true;
            Some(format!("{name}=***"))
        }
        None => Some(option.to_owned()),
    });
    format!("{path}?{}{fragment}", shown.collect::<Vec<_>>().join("&"))
}
