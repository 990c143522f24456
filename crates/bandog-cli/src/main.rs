//! The `bandog` command: run a program under a distributed lock, and look at who holds what.

mod args;
mod demo;
mod exec;
mod exit_code;
mod fault;
mod lock;
mod ls;
mod person;
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
