//! The `bandog` command: run a program under a distributed lock, and look at who holds what.

mod args;
mod completions;
mod demo;
mod doctor;
mod exec;
mod exit_code;
mod fault;
mod lock;
mod ls;
mod man;
mod person;
mod print;
mod release;
mod row;
mod runtime;
mod show;
mod signals;
mod store;
mod voice;

fn main() -> std::process::ExitCode {
    args::read().and_then(args::Cli::run).unwrap_or_else(fault::Fault::tell).into()
}
