//! The errors of a refused login. Their messages show the URL that the user should write instead.

use bandog_core::{
    Error,
    ErrorKind::{Denied, Unavailable, Unsupported},
};
use redis::{RedisError, ServerError};

use crate::{options::Options, refusal};

/// The error if the server refuses the user or the password.
pub(super) fn wrong(options: &Options) -> Error {
    let (store, Login { default, named }) = (options.store(), Login::of(options));
    if !options.login.is_in_url() {
        let message = format!(
            "{store} refuses {}; the current ones are needed there, because they are read for each connection",
            options.login.blamed()
        );
        return Error::new(Denied, message).about_login();
    }
    let message = if options.login.user().is_some() {
        // A URL with a user only might have its password in the place of the user.
        format!(
            "{store} refuses this user or password; in the URL, write {named}, or {default} for the user \"default\""
        )
    } else {
        format!(
            "{store} refuses this password; in the URL, write {default} for the user \"default\", {named} for another user"
        )
    };
    Error::new(Denied, format!("{message}. In the URL, @ : / ? # and % of a password are %40 %3A %2F %3F %23 and %25"))
        .about_login()
}

/// The error if the server does not have the third version of Redis's protocol. Bandog needs its push messages.
pub(super) fn no_resp3(store: &str) -> Error {
    let message = format!("{store} has no RESP3 (the command HELLO): use Redis 6.0 or later, or a service that has it");
    Error::new(Unsupported, message)
}

/// The error if the server requires a login and the URL has none.
fn missing(options: &Options) -> Error {
    let (store, Login { default, named }) = (options.store(), Login::of(options));
    Error::new(
        Denied,
        format!("{store} requires a password; in the URL, write {default}, or {named} for a user of the server's ACL"),
    )
    .about_login()
}

/// The error if the server has answered the login with an error.
pub(super) fn refused(options: &Options, error: RedisError) -> Error {
    let store = options.store();
    // If the server refuses SELECT, the redis crate replaces the error of the server by its own error, which has no
    // code.
    if error.to_string().contains("refused to switch database") {
        return Error::new(Denied, format!("{store} refuses this database")).caused_by(error);
    }
    match ServerError::try_from(error) {
        Ok(error) if error.code() == "NOAUTH" => missing(options).caused_by(error),
        Ok(error) if error.code() == "WRONGPASS" => wrong(options).caused_by(error),
        Ok(error) if refusal::is_unknown_command(&error, "HELLO") => no_resp3(&store).caused_by(error),
        Ok(error) => refusal::handshake_error(&store, &error),
        Err(error) => Error::new(Unavailable, format!("{store} refuses the login")).caused_by(error),
    }
}

/// The advice about the login in the URL.
struct Login {
    /// For the user "default".
    default: &'static str,
    /// For another user.
    named: &'static str,
}

impl Login {
    /// The login at the server of these options. The URL can have several hosts, and has one login for all of them.
    fn of(options: &Options) -> Self {
        if options.is_sentinel {
            return Self {
                default: "?sentinel_password=PASSWORD",
                named: "?sentinel_user=USER&sentinel_password=PASSWORD",
            };
        }
        Self { default: ":PASSWORD@ directly after ://", named: "USER:PASSWORD@ directly after ://" }
    }
}
