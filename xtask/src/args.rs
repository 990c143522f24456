//! The command line of the task runner.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Runs bandog's tests, checks and benchmarks.
///
/// It needs cargo and a C compiler. If a task needs other programs, it checks for them, and installs them or prints how
/// to install them.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Run all tests, including doctests, on memory and on real servers. The long proofs are `prove`.
    ///
    /// The tests start their own servers on free ports, and stop them. If a server program is missing, it is installed
    /// with apt-get. As root or with CI=true, this happens without a question. On a terminal, the task asks first.
    Test {
        /// Run only the tests that need no server, and print which tests are left out.
        #[arg(long, conflicts_with = "java")]
        embedded: bool,
        /// Also run the shorter tests with Java (see `interop`), if a JDK and Maven are installed.
        #[arg(long)]
        java: bool,
        /// Run only the tests that the changes since a commit can affect, and the laws on memory. Changes that are not
        /// committed count. Without REV, the commit of the last recorded run of all tests (.ci/full-run.json). All tests
        /// run if Cargo.lock, the toolchain, core, testkit or conformance has changed, or if the history lacks the commit.
        #[arg(long, value_name = "REV", num_args = 0..=1, conflicts_with = "embedded")]
        since: Option<Option<String>>,
        /// Print the tests of `--since` with their seconds in the recorded run, and run nothing. REV can be A..B.
        #[arg(long, requires = "since")]
        list: bool,
        /// If all tests pass, record this in .ci/full-run.json, for `--since`.
        #[arg(long, conflicts_with_all = ["embedded", "since"])]
        record: bool,
    },
    /// Run the long proofs: storms on all stores, programs that end in every way, all parts of the bench, all tests with
    /// Java.
    ///
    /// At the end, the tests of a backend run again on each server that BANDOG_TEST_SERVERS names, as with `servers`.
    Prove {
        /// If all proofs hold, record this in .ci/full-run.json.
        #[arg(long)]
        record: bool,
    },
    /// Check the formatting and the rules of the project, and run the tests that the changes since the branch upstream can
    /// affect.
    PrePush {
        /// Make git do so before each push, with a hook; check nothing now.
        #[arg(long)]
        install: bool,
    },
    /// Check formatting, clippy and docs, which a change must pass in addition to the tests.
    Check,
    /// Check what a release needs in addition to the tests, and create its files; without `--dry-run`, print what to do.
    ///
    /// The checks: versions, changelog, licences, advisories, old toolchains, other systems, packages. The files, in
    /// target/release-dry-run: an archive with the command, a Debian package, a bill of materials, checksums. Nothing is
    /// published. All steps run, also after a failure, and a table shows their results.
    ///
    /// It needs rustup, a network and a clean working tree. If a step lacks a program, the exit code is 69 and the table
    /// shows how to install it. With CI=true, it is installed.
    Release {
        /// Run the steps.
        #[arg(long)]
        dry_run: bool,
        /// Print the results as JSON.
        #[arg(long, requires = "dry_run")]
        json: bool,
        /// Run only the steps whose names contain this text. Can be repeated.
        #[arg(long = "step", value_name = "TEXT", requires = "dry_run")]
        steps: Vec<String>,
    },
    /// Build a Debian package of the command with cargo-deb, and check its files: target/xtask/deb.
    ///
    /// It builds the command with the profile `dist`. With CI=true, it installs cargo-deb if it is missing.
    Deb {
        /// Also install the package below a directory of its own, run the command there, and remove the package.
        #[arg(long = "try")]
        attempt: bool,
    },
    /// Run the tests of the backends on the servers that BANDOG_TEST_SERVERS names, and on nothing else.
    ///
    /// The variable has paths of redis-server, valkey-server, mysqld or postgres, separated by colons.
    Servers {
        /// Also run on the Redis or Valkey server of this container image, such as `redis:8-bookworm`; needs Docker. The
        /// program is copied out of the image, and runs on this machine. Can be repeated.
        #[arg(long = "image", value_name = "IMAGE")]
        images: Vec<String>,
    },
    /// Measure bandog and the floor (the same scripts without bandog) in one run. With `--short`, only check that every
    /// part still ends, as in the tests.
    Bench {
        /// Arguments of the benchmark; try `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measure other lock libraries together with bandog, in a separate workspace; with `queues` as the first argument, other
    /// libraries of work queues.
    Peers {
        /// Arguments of the benchmark; try `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measure all kinds of locks beside Redisson and Curator, jobs beside ShedLock and Quartz, and the mutex beside an older build.
    /// Print which figures are reached; needs a JDK and Maven.
    ///
    /// It takes about a quarter of an hour, and nothing else must run on the machine. The raw figures go to proof/bench/runs.
    Compare {
        /// An older build of the benchmark: the program target/release/bandog-bench of another commit [default: the
        /// mutex is not compared].
        #[arg(long)]
        old: Option<PathBuf>,
        /// Arguments of the benchmark, such as the parts to measure; try `cargo xtask bench --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Make random calls on locks under faults, and check the history of the calls; try `cargo xtask storm --help`.
    #[command(disable_help_flag = true)]
    Storm {
        /// Arguments of the storm.
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
    /// End real programs in every possible way, and check how each program exits; try `cargo xtask exits --help`.
    #[command(disable_help_flag = true)]
    Exits {
        /// Arguments of the test program.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Test the same locks from Rust and from Java, with Redisson, Curator and ShedLock; needs a JDK and Maven.
    Interop {
        /// Arguments of the tests, such as a part of the names of the tests to run.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Test programs of an older version and of this one on one store; builds the older one, and needs the history of git.
    Older {
        /// Arguments of the tests, such as a part of the names of the tests to run.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Write target/guarantees-tests.md: the tests behind each promise of the pages, from the comments above the tests.
    ///
    /// It fails if a promise has no test, or if a comment stands above no test or names no promise.
    Promises {
        /// Write nothing, and only check.
        #[arg(long)]
        check: bool,
    },
    /// Run the laws on every backend, and generate docs/guarantees-laws.md from their results.
    ///
    /// A full test run compares its results with the page.
    Laws {
        /// Run and change nothing, and fail if the page does not have every law and every backend.
        #[arg(long)]
        check: bool,
    },
    /// Build the book in English and Chinese with mdBook, and check its links: target/book/html.
    ///
    /// It prints the Chinese pages whose English page has changed since they were translated. With CI=true, it installs
    /// mdBook if it is missing.
    Book,
    /// Test the page of `bandog schedule` in a headless Chromium; needs Chromium and redis-server.
    Page {
        /// Make new pictures for the docs.
        #[arg(long)]
        pictures: bool,
        /// Arguments of the tests, such as a part of the names of the tests to run.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

const EXAMPLES: &str = "Examples:
  cargo xtask test              all tests; installs redis-server if this is allowed
  cargo xtask test --embedded   the tests that need no server
  cargo xtask test --since main the tests that the changes since main can affect
  cargo xtask pre-push --install check each push before it leaves
  cargo xtask prove             the long proofs, in some minutes
  cargo xtask storm redis       a million calls on Redis under faults, checked
  cargo xtask compare --old OLD all kinds of locks beside Redisson, Curator and an older build
  cargo xtask exits --each 2000 two thousand exits of each kind
  cargo xtask fuzz              a million random inputs for each parser
  cargo xtask laws              the laws on all backends, and the page with the results
  cargo xtask page              the page in a real browser
  cargo xtask book              the book, in English and Chinese
  cargo xtask check             formatting, clippy, docs
  cargo xtask deb --try         a Debian package, installed for a trial
  cargo xtask release --dry-run the checks and files of docs/RELEASING.md
  cargo test -p bandog-core     plain cargo works too, once the servers are installed";
