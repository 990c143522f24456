//! A client in a child process, which runs the test binary again.

use std::{env, fs, io::BufRead, path::PathBuf, process::Command, time::Duration};

use bandog_core::Error;
use bandog_sync::{Client, Guard};
use bandog_testkit::Process;

use crate::{
    Can, Unkept, World,
    kit::{MAX_WAIT, NAME},
    record_kit,
    run::CHILD,
};

/// The address of the store. It is set in child processes only.
const ADDRESS: &str = "BANDOG_LAWS_ADDRESS";
/// The child's ttl in milliseconds.
const TTL: &str = "BANDOG_LAWS_TTL_MS";
/// The prefix of the child's messages. The prefix is needed because the test harness prints to the same stream.
const SAYS: &str = "child says: ";

/// A child process. It executes commands, which [`Child::send`] sends, and prints messages, which [`Child::says`]
/// awaits.
pub(crate) struct Child {
    process: Process,
    /// A file with a counter, which several children increase.
    counter: PathBuf,
}

impl Child {
    pub(crate) fn start<W: World>(world: &W, ttl: Duration) -> Can<Self> {
        let address = world.address()?;
        let mut command = Command::new(env::current_exe().expect("this binary"));
        command.args(["--exact", CHILD, "--nocapture", "--test-threads=1"]);
        command.env(ADDRESS, address).env(TTL, ttl.as_millis().to_string());
        let process = Process::spawn(&command);
        let counter = env::temp_dir().join(format!("bandog-laws-{}", process.pid()));
        Ok(Self { process, counter })
    }

    pub(crate) fn send(&mut self, command: &str) {
        self.process.write_line(command);
    }

    /// Waits for a message that begins with this text, and returns the rest.
    pub(crate) fn says(&self, what: &str) -> String {
        let head = format!("{SAYS}{what}");
        let line = self.process.stdout_line(&head, MAX_WAIT);
        line.split_once(&head).map(|(_, rest)| rest.trim().to_owned()).unwrap_or_default()
    }

    /// Whether the child has already sent this message.
    pub(crate) fn has_said(&self, what: &str) -> bool {
        self.process.stdout().iter().any(|line| line.contains(&format!("{SAYS}{what}")))
    }

    pub(crate) fn kill(&self) {
        self.process.kill();
    }

    pub(crate) fn stop(&self) {
        self.process.stop();
    }

    pub(crate) fn go_on(&self) {
        self.process.cont();
    }

    /// The file with the counter, set to zero.
    pub(crate) fn counter(&self) -> PathBuf {
        fs::write(&self.counter, "0").expect("a file for the counter");
        self.counter.clone()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Most children have no counter.
        let _ = fs::remove_file(&self.counter);
    }
}

/// Runs the commands of the parent process, if this process is a child of a law. [`crate::conformance`] makes the test
/// that calls this function.
pub fn serve<W: World>() {
    let (Ok(address), Ok(ttl)) = (env::var(ADDRESS), env::var(TTL)) else {
        println!("this is not a child process");
        return;
    };
    let ttl = Duration::from_millis(ttl.parse().expect("milliseconds"));
    let backend = match W::backend_at(&address) {
        Ok(backend) => backend,
        Err(Unkept::Cannot(why)) => panic!("child processes are not supported: {why}"),
        Err(Unkept::Partly(rest)) => panic!("child processes are supported in part: {rest}"),
        Err(Unkept::Failed(error)) => panic!("{error}"),
    };
    let client = Client::options().watchdog(ttl).over(backend).expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run_commands(&client));
}

async fn run_commands(client: &Client) {
    let mut held = None;
    for command in std::io::stdin().lock().lines() {
        let command = command.expect("a command");
        let words: Vec<_> = command.split(' ').collect();
        match words[..] {
            ["lock"] => held = Some(lock(client).await),
            ["check"] => println!("{SAYS}checked {}", state_of(held.as_ref())),
            ["release"] => match release_held(held.take()).await {
                Ok(()) => println!("{SAYS}released"),
                Err(error) => println!("{SAYS}not released {:?}", error.kind()),
            },
            ["add", times, file] => {
                for _ in 0..times.parse().expect("a number") {
                    add_one(client, file).await.expect("the lock can be taken");
                }
                println!("{SAYS}added");
            }
            ["notify"] => {
                record_kit::add_one_notifying(client).await.expect("the record can be swapped");
                println!("{SAYS}notified");
            }
            ["swap", times, ref slot @ ..] => {
                for done in 0..times.parse().expect("a number") {
                    record_kit::add_one(client, &slot.join(" "), done).await.expect("the record can be swapped");
                }
                println!("{SAYS}swapped");
            }
            ["exit"] => std::process::exit(0),
            _ => panic!("unknown command {command:?}"),
        }
    }
}

async fn lock(client: &Client) -> Guard {
    let guard = client.mutex(NAME).lock().await.expect("the lock can be taken");
    let lost = guard.lost();
    // This process blocks its runtime while it reads commands. So another thread with its own runtime waits for the
    // loss.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(lost);
        println!("{SAYS}loss");
    });
    println!("{SAYS}locked {}", guard.fence());
    guard
}

fn state_of(guard: Option<&Guard>) -> &'static str {
    match guard {
        Some(guard) if guard.is_lost() => "lost",
        Some(_) => "held",
        None => "free",
    }
}

async fn release_held(guard: Option<Guard>) -> Result<(), Error> {
    guard.expect("a guard to release").release().await
}

/// Adds one to the counter while it holds the lock. The function pauses between reading and writing, so that an
/// addition is lost if two processes do this at the same time.
async fn add_one(client: &Client, file: &str) -> Result<(), Error> {
    let guard = client.mutex(NAME).lock().await?;
    let read: u32 = fs::read_to_string(file).expect("the counter").parse().expect("a number");
    tokio::time::sleep(Duration::from_millis(1)).await;
    fs::write(file, (read + 1).to_string()).expect("the counter");
    guard.release().await
}
