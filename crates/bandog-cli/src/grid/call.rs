//! What all verbs have: the name and the options, the grid, and the exit code of an error.

use std::ffi::OsString;

use bandog::grid::{ClientGrid, Grid};
use clap::ValueEnum;

use super::{codec::Codec, output::Output, words::Words};
use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print::{self, Format},
    runtime,
    store::{self, Store},
};

/// The name, the verb and its arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Of<V: ValueEnum + Send + Sync + 'static> {
    /// The name of the object; write a name that begins with `-` after `--`.
    pub(super) name: String,
    /// What to do.
    #[arg(value_enum)]
    pub(super) verb: V,
    /// The arguments of the verb; write those that begin with `-` after `--`.
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    pub(super) words: Vec<OsString>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// The options of each type.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// The form of keys, values and elements.
    #[arg(long, value_enum, default_value_t = Codec::Text)]
    pub(super) codec: Codec,
    #[command(flatten)]
    pub(super) store: store::Args,
    #[command(flatten)]
    pub(super) format: Format,
}

/// The limit of a list.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Limit {
    /// Print at most this number of results of a list.
    #[arg(long = "limit", value_name = "N")]
    limit: Option<usize>,
}

impl Limit {
    /// The maximum number of results that a list prints.
    pub(super) fn get(self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }
}

/// An error of a command.
#[derive(Debug)]
pub(super) enum Trouble {
    Store(bandog::Error),
    Print(std::io::Error),
    Fault(Fault),
}

impl From<bandog::Error> for Trouble {
    fn from(error: bandog::Error) -> Self {
        Self::Store(error)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Print(error)
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// An object, the arguments of a verb, and where results are printed.
pub(super) struct Call<'a> {
    pub(super) grid: Grid,
    pub(super) name: &'a str,
    pub(super) words: Words<'a>,
    pub(super) output: Output,
}

/// Applies a verb, and returns the exit code of its results.
pub(super) fn apply<V: ValueEnum + Send + Sync + 'static>(
    of: &Of<V>,
    verb: impl AsyncFnOnce(&mut Call<'_>) -> Result<(), Trouble>,
) -> Result<ExitCode, Fault> {
    let Of { name, words, common: Common { codec, store, format }, .. } = of;
    let name_of_verb = of.verb.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let store = Store::of(store)?;
    let client = store.object_client()?;
    let mut call = Call {
        grid: client.grid(),
        name,
        words: Words::new(words, *codec, name_of_verb),
        output: Output::new(name, *codec, *format),
    };
    runtime::block_on_with_io(async {
        let applied = verb(&mut call).await;
        call.end(applied, &store)
    })
}

impl Call<'_> {
    /// The exit code of a verb that was applied.
    fn end(self, applied: Result<(), Trouble>, store: &Store) -> Result<ExitCode, Fault> {
        let ended = applied.and_then(|()| Ok(self.output.end()?));
        ended.or_else(|trouble| trouble.report(store))
    }
}

impl Trouble {
    /// The exit code of this error.
    pub(super) fn report(self, store: &Store) -> Result<ExitCode, Fault> {
        match self {
            Self::Store(error) if error.maybe_applied() => {
                Err(store.fault(&error).with_line("the operation may have been applied"))
            }
            Self::Store(error) => Err(store.fault(&error)),
            Self::Print(error) => print::done(Err(error)),
            Self::Fault(fault) => Err(fault),
        }
    }
}
