//! The options that the commands of the storm share.

use std::path::PathBuf;

use crate::settings::Profile;

/// The options of each command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlayArgs {
    /// The seed of an earlier run, to repeat its calls and its faults. The scheduling of the threads is not repeated
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// The kinds of faults
    #[arg(long, value_enum, default_value_t = Profile::Everything)]
    pub(crate) profile: Profile,
    /// Some outages last for up to 65 s, which is longer than stores remember operations
    #[arg(long)]
    pub(crate) long_outages: bool,
    /// Keeps the whole history in this directory; without this option, the history is kept only after a violation
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Prints one JSON object per store instead of the tables
    #[arg(long)]
    pub(crate) json: bool,
}
