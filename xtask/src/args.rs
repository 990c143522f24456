//! What the task runner understands.

use clap::{Parser, Subcommand};

/// Runs bandog's tests, checks and benchmarks.
///
/// It needs cargo and a C compiler; what else a task needs it finds out and installs, or says how.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Run all tests, doctests included, on memory and on real servers.
    ///
    /// Servers are started by the tests themselves, on free ports, and die with them.
    /// A server program that is missing is installed with apt-get: without a question as root or with CI=true, after a question on a terminal.
    /// The tests of the Redis backend then run again on each further server that BANDOG_TEST_SERVERS names, as paths with a colon between them.
    Test {
        /// Run only what needs no server, and say what is left out.
        #[arg(long)]
        embedded: bool,
    },
    /// Check formatting, clippy and docs: what a change has to pass beside its tests.
    Check,
    /// Check what a release needs beside its tests: licences, advisories, versions, old toolchains, other systems, packages.
    ///
    /// It needs rustup and a network; what else is missing it says at the end, with how to get it.
    ReleaseCheck,
    /// Measure in one run: ours, the floor, the peers. With `--short` it only checks that every part still ends, as
    /// the tests do.
    Bench {
        /// Handed to the benchmark; try `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measure what users would pick instead, in a workspace of its own so that its dependencies never touch ours.
    Peers {
        /// Handed to the benchmark; try `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Random traffic on locks under faults, with a history that is checked; try `cargo xtask storm --help`.
    #[command(disable_help_flag = true)]
    Storm {
        /// Handed to the storm.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Try every parser of untrusted text with random inputs, in a release build.
    ///
    /// `cargo xtask test` runs the same tests with a few thousand fixed inputs for each parser.
    Fuzz {
        /// Number of inputs for each parser.
        #[arg(long, default_value_t = 1_000_000)]
        inputs: u32,
        /// Repeat the inputs of an earlier run, which printed this number.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// End real programs in every way, and check that each exits in time; try `cargo xtask exits --help`.
    #[command(disable_help_flag = true)]
    Exits {
        /// Handed to the harness.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Hold, await and hand over the same locks from Rust and from Java's Redisson; needs a JDK and Maven.
    Interop {
        /// Handed to the tests, such as a part of the names of those to run.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Generate docs/guarantees-tests.md from docs/GUARANTEES.md and xtask/promises.txt.
    Promises {
        /// Change nothing; fail if the page is not up to date, or if a test that is named does not exist.
        #[arg(long)]
        check: bool,
    },
    /// Use the page of `bandog schedule` in a Chromium without a window; needs one, and a redis-server.
    Page {
        /// Make the pictures of the docs anew.
        #[arg(long)]
        pictures: bool,
        /// Handed to the tests, such as a part of the names of those to run.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

const EXAMPLES: &str = "Examples:
  cargo xtask test              everything; installs redis-server if it may
  cargo xtask test --embedded   no server needed
  cargo xtask storm redis       a million calls on Redis under faults, checked
  cargo xtask exits --each 2000 two thousand exits of each kind
  cargo xtask fuzz              a million random inputs for each parser
  cargo xtask page              the page in a real browser
  cargo xtask check             formatting, clippy, docs
  cargo xtask release-check     what docs/RELEASING.md asks for
  cargo test -p bandog-core     plain cargo works too, once the servers are installed";
