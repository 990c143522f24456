//! A process with bandog that executes commands: the counterpart of `Neighbour.java`. Arguments: the server's URL, and
//! the ttl of locks in ms.
//!
//! Each line on stdin is a command, its words separated by tabs: number, thread, kind, verb, name, and the arguments of
//! the verb. Each line on stdout is an answer: number, tab, text. Commands of one thread are executed in their order.
//! Commands of different threads are executed in parallel.

use std::{
    collections::HashMap,
    io,
    process::ExitCode,
    sync::mpsc::{SyncSender, sync_channel},
    thread,
    time::Duration,
};

use bandog::{ConnectOptions, blocking::Client};
use worker::{Refusal, Worker};

mod permits;
mod worker;

/// Maximum number of commands that wait for a thread.
const WAITING: usize = 64;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(ttl)) = (args.next(), args.next().and_then(|ttl| ttl.parse().ok())) else {
        eprintln!("usage: bandog-interop URL TTL_MS");
        return ExitCode::from(64);
    };
    match serve(&url, Duration::from_millis(ttl)) {
        // The input has ended, so no further command comes. Locks that are still held expire after their ttl.
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bandog-interop: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Executes commands until the input ends.
fn serve(url: &str, ttl: Duration) -> Result<(), Refusal> {
    let client = ConnectOptions::parse(url)?.watchdog(ttl).connect_blocking()?;
    let mut threads: HashMap<String, SyncSender<Vec<String>>> = HashMap::new();
    println!("ready");
    for line in io::stdin().lines() {
        let words: Vec<String> = line?.split('\t').map(str::to_owned).collect();
        let thread = words.get(1).ok_or("a command has no thread")?.clone();
        threads.entry(thread).or_insert_with(|| start(&client, url)).send(words)?;
    }
    Ok(())
}

/// Starts a thread that executes commands. Returns the sender of its commands.
fn start(client: &Client, url: &str) -> SyncSender<Vec<String>> {
    let (commands, inbox) = sync_channel::<Vec<String>>(WAITING);
    let (client, url) = (client.clone(), url.to_owned());
    thread::spawn(move || {
        let mut worker = Worker::new(client, url);
        for words in inbox {
            let answer = worker.obey(&words[2..]).unwrap_or_else(|error| format!("error {error}"));
            println!("{}\t{answer}", words[0]);
        }
    });
    commands
}
