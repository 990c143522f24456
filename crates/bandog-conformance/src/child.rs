//! Child processes of a test. A child process runs the same test binary as its parent, and has one client.

use std::{env, fs, io::BufRead, path::PathBuf, process::Command, time::Duration};

use bandog_core::Error;
use bandog_sync::{Client, Guard, SharedHold};
use bandog_testkit::Process;

use crate::{
    Can, Unkept, World,
    kit::{MAX_WAIT, NAME},
    record_kit,
};

/// The name of the test that a child process runs. Some laws start the test binary again as a child process, with this
/// name as an argument.
pub const CHILD: &str = "child_of_the_laws";
/// The environment variable with the address of the store. Only child processes have this variable.
const ADDRESS: &str = "BANDOG_LAWS_ADDRESS";
/// The environment variable with the ttl of the child's holds, in milliseconds.
const TTL: &str = "BANDOG_LAWS_TTL_MS";
/// The prefix of the child's messages to its parent. The prefix is needed because the test harness prints to the same
/// stream.
const SAYS: &str = "child says: ";

/// A child process. The parent sends commands to the child with [`Child::send`], and waits for the answers of the child
/// with [`Child::says`].
pub(crate) struct Child {
    process: Process,
    /// The path of a file with a counter, which several children increase.
    counter: PathBuf,
}

impl Child {
    /// Starts a child process with a client for the store of this world. The holds of this client have this ttl.
    pub(crate) fn start<W: World>(world: &W, ttl: Duration) -> Can<Self> {
        let address = world.address()?;
        let mut command = Command::new(env::current_exe().expect("the path of this binary is unknown"));
        command.args(["--exact", CHILD, "--nocapture", "--test-threads=1"]);
        command.env(ADDRESS, address).env(TTL, ttl.as_millis().to_string());
        let process = Process::spawn(&command);
        let counter = env::temp_dir().join(format!("bandog-laws-{}", process.pid()));
        Ok(Self { process, counter })
    }

    pub(crate) fn send(&mut self, command: &str) {
        self.process.write_line(command);
    }

    /// Waits for a message of the child that begins with this text, and returns the rest of the message.
    pub(crate) fn says(&self, what: &str) -> String {
        self.says_within(MAX_WAIT, what)
    }

    /// As [`Child::says`], for a message that may take longer.
    pub(crate) fn says_within(&self, limit: Duration, what: &str) -> String {
        let head = format!("{SAYS}{what}");
        let line = self.process.stdout_line(&head, limit);
        line.split_once(&head).map(|(_, rest)| rest.trim().to_owned()).unwrap_or_default()
    }

    /// Returns true if the child has already sent this message.
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

    /// Makes a file with a counter that begins at zero, and returns the path of the file.
    pub(crate) fn make_counter(&self) -> PathBuf {
        fs::write(&self.counter, "0").expect("cannot write the file of the counter");
        self.counter.clone()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Most children have no counter, and then this call fails.
        let _ = fs::remove_file(&self.counter);
    }
}

/// If this process is a child process of a law, executes the commands that the parent process sends. Otherwise, this
/// function does nothing. The macro [`crate::conformance`] makes a test that calls this function, and a child process
/// runs only this test.
pub fn serve<W: World>() {
    let (Ok(address), Ok(ttl)) = (env::var(ADDRESS), env::var(TTL)) else {
        println!("this is not a child process");
        return;
    };
    let ttl = Duration::from_millis(ttl.parse().expect("the ttl is not a number of milliseconds"));
    let backend = match W::backend_at(&address) {
        Ok(backend) => backend,
        Err(Unkept::Cannot(why)) => panic!("child processes are not supported: {why}"),
        Err(Unkept::Partly(rest)) => panic!("child processes are supported in part: {rest}"),
        Err(Unkept::Failed(error)) => panic!("{error}"),
    };
    let client = Client::options().watchdog(ttl).over(backend).expect("cannot make a client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("cannot make a runtime");
    runtime.block_on(run_commands(&client));
}

/// Reads commands from stdin, one command in each line, and executes them.
async fn run_commands(client: &Client) {
    let mut held: Option<Guard<SharedHold>> = None;
    for command in std::io::stdin().lock().lines() {
        let command = command.expect("cannot read a command");
        let words: Vec<_> = command.split(' ').collect();
        match words[..] {
            ["lock"] => held = Some(report(client.mutex(NAME).lock().await.map(Guard::into))),
            ["fair"] => held = Some(report(client.mutex(NAME).fair().lock().await.map(Guard::into))),
            ["read"] => held = Some(report(client.rwlock(NAME).read().await)),
            ["permits", take, of] => {
                let number = |word: &str| word.parse().expect("the word is not a number");
                held = Some(report(client.semaphore(NAME, number(of)).permits(number(take)).acquire().await));
            }
            ["check"] => println!("{SAYS}checked {}", state_of(held.as_ref())),
            ["release"] => match release_held(held.take()).await {
                Ok(()) => println!("{SAYS}released"),
                Err(error) => println!("{SAYS}not released {:?}", error.kind()),
            },
            ["add", times, file] => {
                for _ in 0..times.parse().expect("the second word is not a number") {
                    add_one(client, file).await.expect("cannot add to the counter");
                }
                println!("{SAYS}added");
            }
            ["notify"] => {
                record_kit::add_one_notifying(client).await.expect("cannot swap the record");
                println!("{SAYS}notified");
            }
            ["count_down"] => {
                client.latch(NAME).count_down().await.expect("the latch can be counted down");
                println!("{SAYS}counted");
            }
            // The name of the slot can contain spaces.
            ["swap", times, ref slot @ ..] => {
                for before in 0..times.parse().expect("the second word is not a number") {
                    record_kit::add_one(client, &slot.join(" "), before).await.expect("cannot swap the record");
                }
                println!("{SAYS}swapped");
            }
            ["exit"] => std::process::exit(0),
            _ => panic!("unknown command {command:?}"),
        }
    }
}

/// Reports the fence of a new guard to the parent. If the lock is lost later, another thread reports the loss.
fn report(guard: Result<Guard<SharedHold>, Error>) -> Guard<SharedHold> {
    let guard = guard.expect("cannot take the lock");
    let lost = guard.lost();
    // While this process waits for the next command, its runtime is blocked. So another thread with its own runtime
    // waits for the loss.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("cannot make a runtime");
        runtime.block_on(lost);
        println!("{SAYS}loss");
    });
    println!("{SAYS}locked {}", guard.fence());
    guard
}

/// The state of the lock, as this process sees it.
fn state_of(guard: Option<&Guard<SharedHold>>) -> &'static str {
    match guard {
        Some(guard) if guard.is_lost() => "lost",
        Some(_) => "held",
        None => "free",
    }
}

/// Releases the guard. Panics if there is no guard.
async fn release_held(guard: Option<Guard<SharedHold>>) -> Result<(), Error> {
    guard.expect("there is no guard to release").release().await
}

/// Takes the lock, and adds one to the counter in the file. This function pauses between reading and writing. So if two
/// processes held the lock at the same time, an addition would be lost.
async fn add_one(client: &Client, file: &str) -> Result<(), Error> {
    let guard = client.mutex(NAME).lock().await?;
    let read: u32 =
        fs::read_to_string(file).expect("cannot read the counter").parse().expect("the counter is not a number");
    tokio::time::sleep(Duration::from_millis(1)).await;
    fs::write(file, (read + 1).to_string()).expect("cannot write the counter");
    guard.release().await
}
