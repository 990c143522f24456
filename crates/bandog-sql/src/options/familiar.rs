//! The options that other clients of a database know. The `DATABASE_URL` of a service can have them.

use bandog_core::Result;

use super::{
    dialect::Dialect,
    names::{OTHER_NAMES, without_effect, wrong},
    query::Options,
};

/// Options without an effect here whose value is a whole number in each client, and the unit. Another value is a mistake.
const NUMBERS: &[(&str, &str)] = &[
    ("connect_timeout", "whole seconds"),
    ("keepalives", "0 or 1"),
    ("keepalives_count", "a whole number"),
    ("keepalives_idle", "whole seconds"),
    ("keepalives_interval", "whole seconds"),
    ("tcp_user_timeout", "whole milliseconds"),
];

/// Removes the options that have no effect here, and gives the others the names that bandog knows.
///
/// # Errors
/// An option requires what bandog does not have.
pub(super) fn translate(dialect: Dialect, options: &mut Options) -> Result<()> {
    for (name, form) in NUMBERS {
        // The value can be a part of a password, so it is not shown.
        if options.take(name).is_some_and(|value| value.trim().parse::<i32>().is_err()) {
            return Err(wrong(&format!("has a value of {name:?} that is not a number; write {form}")));
        }
    }
    for name in without_effect(dialect) {
        options.take(name);
    }
    for (name, known) in OTHER_NAMES {
        options.rename(name, known)?;
    }
    if let Some(word) = options.take("sslmode") {
        options.set("sslmode", ssl_mode(&word).to_owned())?;
    }
    for name in ["ssl", "useSSL", "tls"] {
        let Some(word) = options.take(name) else { continue };
        options.set("sslmode", ssl_mode(&word).to_owned())?;
    }
    if options.take("requireSSL").is_some_and(|word| word == "true") {
        options.set("sslmode", "require".to_owned())?;
    }
    if let Some(name) = options.take("fallback_application_name")
        && !options.has("application_name")
    {
        options.set("application_name", name)?;
    }
    match options.take("target_session_attrs").as_deref() {
        None | Some("any" | "read-write" | "primary" | "master") => {}
        Some(
            "read-only" | "standby" | "prefer-standby" | "secondary" | "slave" | "preferSecondary" | "preferSlave"
            | "preferStandby",
        ) => {
            return Err(wrong("asks for a server that refuses writes; locks need target_session_attrs=read-write"));
        }
        Some(_) => {
            return Err(wrong("has an unknown value of \"target_session_attrs\"; write read-write, primary or any"));
        }
    }
    match options.take("channel_binding").as_deref() {
        None | Some("disable" | "prefer") => {}
        Some("require") => {
            return Err(wrong("has channel_binding=require, which this client does not have; write prefer"));
        }
        Some(_) => return Err(wrong("has an unknown value of \"channel_binding\"; write disable or prefer")),
    }
    match options.take("gssencmode").as_deref() {
        None | Some("disable" | "prefer") => Ok(()),
        Some(_) => {
            Err(wrong("has an unknown value of \"gssencmode\"; this client has no GSSAPI, write disable or prefer"))
        }
    }
}

/// The `sslmode` of a word that other clients use. Unknown words stay as they are.
fn ssl_mode(word: &str) -> &str {
    match word.to_ascii_lowercase().as_str() {
        "false" | "disabled" | "disable" => "disable",
        "preferred" | "prefer" | "allow" => "prefer",
        "true" | "required" | "require" => "require",
        "verify_ca" | "verify-ca" => "verify-ca",
        "verify_identity" | "verify-full" => "verify-full",
        _ => word,
    }
}
