//! `bandog schedule`: run the jobs of a file, each tick once in the whole cluster.

mod check;
mod child;
mod entry;
mod file;
pub(crate) mod keep;
mod mistakes;
mod output;
mod program;
mod serve;
mod table;
mod text;

use std::{path::PathBuf, time::Duration};

use self::file::JobFile;
use crate::{
    args,
    exit_code::ExitCode,
    fault::Fault,
    print, runtime,
    store::{self, Store},
};

/// Runs the jobs of a file, each tick once in the whole cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file of jobs, in TOML.
    file: PathBuf,
    /// Only check the file, and print each job with its next fires. No store is asked.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    format: print::Format,
    #[command(flatten)]
    store: store::Args,
    /// How long running commands may go on when bandog is told to stop, before they are ended.
    #[arg(long, value_name = "DUR", value_parser = args::wait, allow_hyphen_values = true, default_value = "30s")]
    drain: Duration,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    // The whole is checked before anything is asked of a store.
    let file = JobFile::read(&args.file)?;
    if args.check {
        return check::print(&file, args.format);
    }
    let store = Store::of(&args.store)?;
    runtime::block_on_with_io(serve::serve(&file, &args.file.display().to_string(), &store, args.drain))
}
