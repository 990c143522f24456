//! A process with rslock that executes commands for plain locks, as `main.rs` does with bandog. Arguments: the server's
//! URL, and the ttl of locks in ms.

use std::{collections::HashMap, error::Error, io, process::ExitCode, sync::mpsc, thread, time::Duration};

use bandog_interop::counter::Counter;
use rslock::{Lock, LockError, LockManager};
use tokio::runtime::{self, Runtime};

type Refusal = Box<dyn Error + Send + Sync>;

/// Maximum number of commands that wait for a thread.
const WAITING: usize = 64;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(ttl)) = (args.next(), args.next().and_then(|ttl| ttl.parse().ok())) else {
        eprintln!("usage: bandog-interop-rslock URL TTL_MS");
        return ExitCode::from(64);
    };
    match serve(&url, Duration::from_millis(ttl)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bandog-interop-rslock: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Executes commands until the input ends.
fn serve(url: &str, ttl: Duration) -> Result<(), Refusal> {
    let mut threads: HashMap<String, mpsc::SyncSender<Vec<String>>> = HashMap::new();
    println!("ready");
    for line in io::stdin().lines() {
        let words: Vec<String> = line?.split('\t').map(str::to_owned).collect();
        let thread = words.get(1).ok_or("a command has no thread")?.clone();
        threads.entry(thread).or_insert_with(|| start(url, ttl)).send(words)?;
    }
    Ok(())
}

/// Starts a thread that executes commands. Returns the sender of its commands.
fn start(url: &str, ttl: Duration) -> mpsc::SyncSender<Vec<String>> {
    let (commands, inbox) = mpsc::sync_channel::<Vec<String>>(WAITING);
    let manager = LockManager::new(vec![url]);
    thread::spawn(move || {
        let Ok(runtime) = runtime::Builder::new_current_thread().enable_all().build() else { return };
        let mut worker = Worker { runtime, manager, ttl, held: HashMap::new() };
        for words in inbox {
            let answer = worker.obey(&words[2..]).unwrap_or_else(|error| format!("error {error}"));
            println!("{}\t{answer}", words[0]);
        }
    });
    commands
}

/// One thread, and the locks that it holds, by their names.
struct Worker {
    runtime: Runtime,
    manager: LockManager,
    ttl: Duration,
    held: HashMap<String, Lock>,
}

impl Worker {
    /// Executes a command: kind, verb, name, and the arguments of the verb.
    fn obey(&mut self, words: &[String]) -> Result<String, Refusal> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ["lock", verb, name, args @ ..] = &words[..] else { return Err("rslock has plain locks only".into()) };
        match *verb {
            "lock" => {
                let lock = self.lock(name)?;
                self.held.insert((*name).to_owned(), lock);
                Ok("held".into())
            }
            "try" => match self.runtime.block_on(self.manager.lock(*name, self.ttl)) {
                Ok(lock) => {
                    self.held.insert((*name).to_owned(), lock);
                    Ok("held".into())
                }
                Err(LockError::Unavailable) => Ok("busy".into()),
                Err(error) => Err(error.into()),
            },
            "unlock" => {
                let lock = self.held.remove(*name).ok_or("this thread does not hold the lock")?;
                self.runtime.block_on(lock.release());
                Ok("freed".into())
            }
            "count" => {
                let [path, times] = args else { return Err("a command has too few arguments".into()) };
                let counter = Counter::open(path)?;
                for _ in 0..times.parse::<u32>()? {
                    let lock = self.lock(name)?;
                    counter.add(0)?;
                    self.runtime.block_on(lock.release());
                }
                Ok((*times).to_owned())
            }
            _ => Err(format!("unknown verb {verb}").into()),
        }
    }

    /// Waits until this thread holds the lock.
    fn lock(&self, name: &str) -> Result<Lock, LockError> {
        Ok(self.runtime.block_on(self.manager.acquire(name, self.ttl))?.lock)
    }
}
