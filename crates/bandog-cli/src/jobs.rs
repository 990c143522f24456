//! `bandog jobs`: shows and controls the jobs of a store.

mod backfill;
mod cancel;
mod client;
mod forget;
mod history;
mod list;
mod next;
mod nodes;
mod pause;
mod reset;
mod run;
mod show;
mod words;

use clap::Subcommand;

use crate::{exit_code::ExitCode, fault::Fault};

/// Shows the jobs of a store, and runs, pauses and cancels them.
///
/// A store has the jobs of all schedulers that ever ran over it: of `bandog schedule FILE`, and of programs that use
/// the library. The store also keeps each change of a job, and schedulers apply the change within a second.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bandog jobs ls                                  all jobs and their state
  bandog jobs show report                         one job, its runs and its next fires
  bandog jobs run report --wait                   run it now, in addition to its ticks
  bandog jobs pause report --reason 'migration'   and later: bandog jobs resume report
  bandog jobs nodes                               the schedulers, and the pauses
  bandog jobs next                                the next ticks of all jobs
  bandog jobs history report --state failed       failed runs")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Ls(list::Args),
    Show(show::Args),
    Next(next::Args),
    Run(run::Args),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Nodes(nodes::Args),
    History(history::Args),
    Cancel(cancel::Args),
    Backfill(backfill::Args),
    Reset(reset::Args),
    Forget(forget::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    match &args.verb {
        Verb::Ls(args) => list::run(args),
        Verb::Show(args) => show::run(args),
        Verb::Next(args) => next::run(args),
        Verb::Run(args) => run::run(args),
        Verb::Pause(args) => pause::pause(args),
        Verb::Resume(args) => pause::resume(args),
        Verb::Nodes(args) => nodes::run(args),
        Verb::History(args) => history::run(args),
        Verb::Cancel(args) => cancel::run(args),
        Verb::Backfill(args) => backfill::run(args),
        Verb::Reset(args) => reset::run(args),
        Verb::Forget(args) => forget::run(args),
    }
}
