//! A cron daemon for one machine: several processes over one SQLite file, so that one of them may be killed.

use std::{env, error::Error, path::PathBuf, time::Duration};

use bandog::schedule::{Run, Scheduler, Shared};
use rusqlite::Connection;

type BoxError = Box<dyn Error + Send + Sync>;

/// Maximum wait for another process that writes the table of runs.
const BUSY: Duration = Duration::from_secs(30);

/// The table of runs, in a file of its own. It stands for the effects of the jobs.
struct Runs(PathBuf);

impl Runs {
    fn open(path: PathBuf) -> rusqlite::Result<Self> {
        let db = Connection::open(&path)?;
        db.busy_timeout(BUSY)?;
        db.execute_batch("create table if not exists runs (job text, tick text, fence integer, pid integer)")?;
        Ok(Self(path))
    }

    /// Writes a row for this run. A call of SQLite blocks its thread, so it has a thread of its own.
    async fn write(&self, run: &Run) -> Result<(), BoxError> {
        let (path, job, tick) = (self.0.clone(), run.name().to_owned(), run.tick().to_string());
        let fence = i64::try_from(run.fence().get())?; // greater with each claim of a job
        let write = move || {
            let db = Connection::open(path)?;
            db.busy_timeout(BUSY)?;
            db.execute("insert into runs values (?1, ?2, ?3, ?4)", (job, tick, fence, std::process::id()))
        };
        tokio::task::spawn_blocking(write).await??;
        Ok(())
    }
}

/// A job of each second. Beside a run whose process was killed, the next ones run.
#[bandog::scheduled(cron = "* * * * * ?", overlap = "allow(8)", on_crash = "retry", lease = "3s")]
async fn rotate(run: Run, runs: Shared<Runs>) -> Result<(), BoxError> {
    runs.write(&run).await
}

/// A job of each night.
#[bandog::scheduled(cron = "0 30 2 * * ?", zone = "Europe/Berlin", on_crash = "retry", retry = 3)]
async fn backup(run: Run, runs: Shared<Runs>) -> Result<(), BoxError> {
    runs.write(&run).await
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init(); // prints what bandog logs
    let args: Vec<_> = env::args().skip(1).collect();
    let [store, runs] = &args[..] else { return Err("usage: bandog-example-cron-sqlite STORE.db RUNS.db".into()) };
    let runs = Runs::open(runs.into())?;
    let client = bandog::connect(format!("sqlite:{store}")).await?;
    let running = Scheduler::over(&client).share(runs).declared().start().await?;
    println!("ready");
    running.until_signal().await?; // TERM or Ctrl-C; runs that have begun are finished
    Ok(client.close().await?)
}
