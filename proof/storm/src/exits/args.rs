//! The command line.

use clap::Subcommand;

use super::cell::Cell;

/// Ends real programs in every possible way, and checks how each program exits.
///
/// A program must exit in time, with the right exit code and without a busy thread. A cell is one kind of exit: one
/// combination of an engine (own-thread, current-runtime), a runtime and the way in which the runtime ends
/// (multi-thread, current-thread, shutdown-background, shutdown-timeout, none), a store (memory, sqlite, redis,
/// redis-killed, redis-stopped) and a way in which the program ends (dropped, released, forgotten, ...). Each child
/// process plays one cell.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExitsArgs {
    // `None` for the parent process, which starts the programs.
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
    /// Number of times that each cell is played
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) each: usize,
    /// Number of times that the cell current-runtime, multi-thread, redis, dropped is played, in which exits once hung
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub(crate) suspect: usize,
    /// Play only the cells whose name contains this text
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub(crate) only: String,
    /// Play nothing; print the names of all cells, and how many combinations are left out for which reason
    #[arg(long)]
    pub(crate) list: bool,
}

const EXAMPLES: &str = "Examples:
  cargo xtask exits                                   1,000 exits of the cell that once hung, and 20 of each other
  cargo xtask exits --each 2000                       a long run
  cargo xtask exits --only redis-stopped/waiting      some of the cells
  cargo xtask exits --list                            all cells

The exit code is 0 when every child exited as expected, else 1.";

#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Play one cell in this process.
    #[command(hide = true)]
    Play(PlayArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct PlayArgs {
    #[command(flatten)]
    pub(crate) cell: Cell,
    /// The store's URL.
    #[arg(long)]
    pub(crate) url: String,
    /// The number of this exit. The keys of the program in the store begin with this number.
    #[arg(long)]
    pub(crate) number: usize,
    /// The id of the process that started this program.
    #[arg(long)]
    pub(crate) parent: u32,
}
