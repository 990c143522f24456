//! The `bandog` command: run a program under a distributed lock, and look at who holds what.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the bandog command is for Linux: it ends a child by its parent-death signal, by pidfds and by /proc; \
     the library crate `bandog` is not bound to it"
);

mod args;
mod completions;
mod cron;
mod demo;
mod doctor;
mod exec;
mod exit_code;
mod family;
mod fault;
mod http;
mod jobs;
mod lock;
mod ls;
mod man;
mod page;
mod person;
mod print;
mod release;
mod row;
mod runtime;
mod schedule;
mod show;
mod signals;
mod store;
mod voice;

fn main() -> std::process::ExitCode {
    let code = args::read().and_then(args::Cli::run).unwrap_or_else(fault::Fault::tell);
    voice::flush();
    code.into()
}
