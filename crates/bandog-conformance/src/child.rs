//! A holder in a process of its own: the test binary, started again.

use std::{env, fs, io::BufRead, path::PathBuf, process::Command, time::Duration};

use bandog_core::Error;
use bandog_sync::{Client, Guard};
use bandog_testkit::Process;

use crate::{
    Can, Unkept, World,
    kit::{NAME, PATIENCE},
    record_kit,
    run::CHILD,
};

/// Where the store is; set in children only.
const ADDRESS: &str = "BANDOG_LAWS_ADDRESS";
/// The child's ttl in milliseconds.
const TTL: &str = "BANDOG_LAWS_TTL_MS";
/// What the child says begins with this, since the test harness prints to the same stream.
const SAYS: &str = "child says: ";

/// A child that does as it is told.
pub(crate) struct Child {
    process: Process,
    /// A file that children may count in.
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

    pub(crate) fn tell(&mut self, order: &str) {
        self.process.write_line(order);
    }

    /// Waits until it says this, and gives what follows.
    pub(crate) fn says(&self, what: &str) -> String {
        let head = format!("{SAYS}{what}");
        let line = self.process.stdout_line(&head, PATIENCE);
        line.split_once(&head).map(|(_, rest)| rest.trim().to_owned()).unwrap_or_default()
    }

    /// Whether it has said this.
    pub(crate) fn heard(&self, what: &str) -> bool {
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

    /// The file that children may count in, at zero.
    pub(crate) fn counter(&self) -> PathBuf {
        fs::write(&self.counter, "0").expect("a file to count in");
        self.counter.clone()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Most children never count.
        let _ = fs::remove_file(&self.counter);
    }
}

/// Plays a child process, if this is one; the test that [`crate::conformance`] makes for it calls this.
pub fn serve<W: World>() {
    let (Ok(address), Ok(ttl)) = (env::var(ADDRESS), env::var(TTL)) else {
        println!("this is not a child process");
        return;
    };
    let ttl = Duration::from_millis(ttl.parse().expect("milliseconds"));
    let backend = match W::backend_at(&address) {
        Ok(backend) => backend,
        Err(Unkept::Cannot(why)) => panic!("no children here: {why}"),
        Err(Unkept::Failed(error)) => panic!("{error}"),
    };
    let client = Client::options().watchdog(ttl).over(backend).expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(obey(&client));
}

async fn obey(client: &Client) {
    let mut held = None;
    for order in std::io::stdin().lock().lines() {
        let order = order.expect("an order");
        let words: Vec<_> = order.split(' ').collect();
        match words[..] {
            ["lock"] => held = Some(lock(client).await),
            ["look"] => println!("{SAYS}looked {}", standing(held.as_ref())),
            ["release"] => match give_back(held.take()).await {
                Ok(()) => println!("{SAYS}released"),
                Err(error) => println!("{SAYS}not released {:?}", error.kind()),
            },
            ["add", times, file] => {
                for _ in 0..times.parse().expect("a number") {
                    add_one(client, file).await.expect("the lock can be had");
                }
                println!("{SAYS}added");
            }
            ["ring"] => {
                record_kit::ring(client).await.expect("the record can be swapped");
                println!("{SAYS}rung");
            }
            ["swap", times, ref slot @ ..] => {
                for done in 0..times.parse().expect("a number") {
                    record_kit::add_one(client, &slot.join(" "), done).await.expect("the record can be swapped");
                }
                println!("{SAYS}swapped");
            }
            ["exit"] => std::process::exit(0),
            _ => panic!("what is {order:?}?"),
        }
    }
}

async fn lock(client: &Client) -> Guard {
    let guard = client.mutex(NAME).lock().await.expect("the lock can be had");
    let lost = guard.lost();
    // Orders are read by blocking the runtime, so whoever waits for the loss is on another.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(lost);
        println!("{SAYS}told");
    });
    println!("{SAYS}locked {}", guard.fence());
    guard
}

fn standing(guard: Option<&Guard>) -> &'static str {
    match guard {
        Some(guard) if guard.is_lost() => "lost",
        Some(_) => "held",
        None => "free",
    }
}

async fn give_back(guard: Option<Guard>) -> Result<(), Error> {
    guard.expect("a guard to give back").release().await
}

/// Reads, waits a little and writes: what two do at once loses an addition.
async fn add_one(client: &Client, file: &str) -> Result<(), Error> {
    let guard = client.mutex(NAME).lock().await?;
    let read: u32 = fs::read_to_string(file).expect("the counter").parse().expect("a number");
    tokio::time::sleep(Duration::from_millis(1)).await;
    fs::write(file, (read + 1).to_string()).expect("the counter");
    guard.release().await
}
