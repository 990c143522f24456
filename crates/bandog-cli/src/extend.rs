//! `bandog extend`: extends the lease of a lock that `bandog acquire` has taken.

use std::time::Duration;

use bandog::{Key, Token};

use crate::{
    durations,
    exit_code::ExitCode,
    fault::Fault,
    release, runtime,
    store::{self, Store},
};

/// Extends the lease of a lock that `bandog acquire` has taken: from now on, it lasts for at least --lease.
///
/// A lease is never shortened. If the token does not hold the lock any more, nothing is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 the lease is extended; 75 the token does not hold the lock; 64 wrong name, token or URL; 69 the store does \
not answer or does not exist; 77 the store refuses the request.

Examples:
  bandog extend deploy --token \"$TOKEN\" --lease 1h || exit")]
pub(crate) struct Args {
    /// The lock's name; write a name that begins with `-` after `--`.
    name: String,
    /// The token that `bandog acquire` has printed.
    #[arg(long, value_name = "TOKEN")]
    token: Token,
    /// The time for which the lock is held from now on: 100ms to 365d.
    #[arg(long, value_name = "DUR", value_parser = durations::lease, allow_hyphen_values = true)]
    lease: Duration,
    #[command(flatten)]
    store: store::Args,
}

/// Extends the lease.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { name, token, lease, store } = args;
    let store = Store::of(store)?;
    Key::new(name).map_err(|error| store.fault(&error))?;
    let is_extended = runtime::block_on(async {
        let Some(client) = store.connect_existing().await? else { return Ok(false) };
        client.extend_detached(name, token, *lease).await.map_err(|error| store.fault(&error))
    })?;
    if is_extended { Ok(ExitCode::Done) } else { Err(release::not_held(name, &store)) }
}
