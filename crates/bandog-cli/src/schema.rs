//! `bandog schema`: the statements that create the tables of a store.

use bandog::ErrorKind;

use crate::{exit_code::ExitCode, fault::Fault, print, store};

/// Prints the statements that create the tables of a PostgreSQL or MySQL database, and connects to nothing.
///
/// Without them, the first client creates the tables. Use this if an administrator creates tables in your team. On
/// PostgreSQL, the text also grants the needed rights to the user that the URL names.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 printed; 64 the store has no tables that an administrator creates.

Examples:
  bandog schema --print --url postgres://locks@db/shop | psql --set ON_ERROR_STOP=1 -h db -U admin shop
  bandog lock x --url 'postgres://locks@db/shop?create=false' -- true    never creates tables")]
pub(crate) struct Args {
    /// Print the statements.
    #[arg(long, required = true)]
    print: bool,
    #[command(flatten)]
    store: store::Args,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { print: true, store } = args else { return Err(Fault::usage("write --print")) };
    let store = store::Store::of(store)?;
    let text = store.options()?.schema_sql().map_err(|error| match error.kind() {
        ErrorKind::Unsupported => Fault::usage(error.to_string()),
        _ => store.fault(&error),
    })?;
    print::bytes(text.as_bytes())
}
