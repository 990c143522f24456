//! The `bandog` command: runs a program under a distributed lock, runs jobs, and shows locks and jobs.
//!
//! A library, because two programs contain it: `bandog` with all stores, and `bandog-embedded`, which builds in half of the
//! time. It has no other users, so its only function is [`run`].

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the bandog command is for Linux: it terminates a child with the parent-death signal, pidfds and /proc; \
     the library crate `bandog` runs elsewhere too"
);

mod acquire;
mod args;
mod cached; // Keeps the output of a command in a cache.
mod completions;
mod confirm;
mod console;
mod cron;
mod demo;
mod doctor;
mod durations;
mod exec;
mod exit_code;
mod extend;
mod fault;
mod forget;
mod grid; // Reads and writes the objects of programs.
mod holder_text;
mod http;
mod jobs;
mod kept;
mod latch;
mod limit;
mod lock;
mod ls;
mod man;
mod object; // Prints the objects of programs.
mod page; // The command `bandog page`: serves a web page about a store.
mod print;
mod process_tree;
mod push; // Adds elements to a work queue.
mod queue; // Shows and changes a work queue.
mod queues;
mod release;
mod row; // Prints each lock as a row of a table, or as JSON.
mod runtime;
mod schedule;
mod schema;
mod show;
mod signals;
mod store;
mod tasks;
mod torture; // Makes traffic and counts lost locks.
mod work; // Runs a command for each element of a work queue.

/// Runs the command with the arguments of this process. Returns its exit code.
pub fn run() -> std::process::ExitCode {
    let code = args::read().and_then(args::Cli::run).unwrap_or_else(fault::Fault::report);
    console::flush();
    code.into()
}
