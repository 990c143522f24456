//! A replica of the service with bandog. It is a process of its own, so that a scene can stop and kill it.

use std::io::{self, BufRead, Write};
use std::process::Command;
use std::time::Duration;

use bandog::{ConnectOptions, Guard, SqlStatement};
use bandog_testkit::Process;
use tokio::runtime::Runtime;

use crate::shop_in_sql;
use crate::stage::Stage;
use crate::{Result, say};

/// The ttl of the locks. The default is 30 s, which is long for a reader who waits.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// Timeout of an answer of a replica.
const PATIENCE: Duration = Duration::from_secs(60);

/// A replica, as the scene sees it.
pub(crate) struct Service<'a> {
    name: &'static str,
    stage: &'a Stage,
    process: Process,
}

impl<'a> Service<'a> {
    /// A process for each name, all on one store.
    pub(crate) fn several<const N: usize>(stage: &'a Stage, url: &str, names: [&'static str; N]) -> [Self; N] {
        names.map(|name| {
            let program = std::env::current_exe().unwrap_or_else(|_| "bandog-why".into());
            let mut command = Command::new(program);
            command.args(["--replica", url]);
            Self { name, stage, process: Process::spawn(&command) }
        })
    }

    /// `client.mutex("orders").lock()`. Returns the fence.
    pub(crate) fn lock(&mut self) -> Result<u64> {
        let answer = self.ask("lock")?;
        let fence = answer.parse().map_err(|_| format!("{}: {answer}", self.name))?;
        say!(self.stage, self.name, "lock() -> fence {fence}");
        self.stage.granted(fence);
        Ok(fence)
    }

    /// `try_lock_for(time)`. Returns whether the replica has got the lock.
    pub(crate) fn attempt(&mut self, time: Duration) -> Result<bool> {
        let answer = self.ask(&format!("try {}", time.as_millis()))?;
        say!(self.stage, self.name, "try_lock_for({time:?}) -> {answer}");
        Ok(answer != "None")
    }

    /// `guard.is_lost()`.
    pub(crate) fn is_lost(&mut self) -> Result<bool> {
        let answer = self.ask("lost")?;
        say!(self.stage, self.name, "guard.is_lost() -> {answer}");
        Ok(answer == "true")
    }

    /// `guard.release()`.
    pub(crate) fn release(&mut self) -> Result {
        let answer = self.ask("release")?;
        if answer == "Err(Lost)" {
            self.stage.reported_loss();
        }
        say!(self.stage, self.name, "release() -> {answer}");
        Ok(())
    }

    /// `guard.fence_sql()`: the statement that checks the lock. The replica keeps it.
    pub(crate) fn fence_sql(&mut self) -> Result {
        let answer = self.ask("check")?;
        say!(self.stage, self.name, "guard.fence_sql() -> {answer}");
        Ok(())
    }

    /// A transaction that closes order 7 and returns its stock. Its last statement is the check of the lock. Returns whether
    /// it was committed.
    pub(crate) fn commit(&mut self) -> Result<bool> {
        let answer = self.ask("commit")?;
        say!(self.stage, self.name, "begin; update orders …; update stock …; the check; commit -> {answer}");
        Ok(answer == "committed")
    }

    /// Stops the process with a signal (SIGSTOP).
    pub(crate) fn pause(&self) {
        self.process.stop();
        say!(self.stage, self.name, "is paused, with all its threads (SIGSTOP)");
    }

    /// Continues the process.
    pub(crate) fn wake(&self) {
        self.process.cont();
        say!(self.stage, self.name, "continues");
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
        self.process.wait(PATIENCE);
    }

    fn ask(&mut self, question: &str) -> Result<String> {
        self.process.write_line(question);
        let line = self.process.stdout_line("= ", PATIENCE);
        let answer = line.trim_start_matches("= ");
        match answer.strip_prefix("fault: ") {
            Some(fault) => Err(format!("{}: {question}: {fault}", self.name).into()),
            None => Ok(answer.to_owned()),
        }
    }
}

/// The process of a replica: executes the lines of its standard input, and prints an answer to each.
pub(crate) fn serve(url: &str) -> Result {
    let runtime = Runtime::new()?;
    let client = runtime.block_on(ConnectOptions::parse(url)?.watchdog(TTL).connect())?;
    let orders = client.mutex("orders");
    let (mut guard, mut check): (Option<Guard>, Option<SqlStatement>) = (None, None);
    for line in io::stdin().lock().lines() {
        let line = line?;
        let answer = match line.split_once(' ').unwrap_or((&line, "")) {
            ("lock", _) => runtime.block_on(orders.lock()).map(|locked| fence(&mut guard, Some(locked))),
            ("try", time) => {
                let time = Duration::from_millis(time.parse()?);
                runtime.block_on(orders.try_lock_for(time)).map(|locked| fence(&mut guard, locked))
            }
            ("lost", _) => Ok(guard.as_ref().is_some_and(Guard::is_lost).to_string()),
            ("check", _) => match &guard {
                Some(guard) => runtime.block_on(guard.fence_sql()).map(|sql| {
                    check = Some(sql);
                    "the statement that checks the lock".into()
                }),
                None => Ok("no lock".into()),
            },
            ("commit", _) => Ok(match &check {
                Some(check) => runtime.block_on(shop_in_sql::close_order(url, check))?,
                None => "no check".into(),
            }),
            _ => Ok(match guard.take().map(|guard| runtime.block_on(guard.release())) {
                Some(Err(error)) => format!("Err({:?})", error.kind()),
                Some(Ok(())) | None => "Ok(())".into(),
            }),
        };
        println!("= {}", answer.unwrap_or_else(|error| format!("fault: {error}")));
        io::stdout().flush()?;
    }
    Ok(())
}

/// Keeps the guard, and returns its fence as a text.
fn fence(kept: &mut Option<Guard>, locked: Option<Guard>) -> String {
    *kept = locked;
    kept.as_ref().map_or("None".into(), |guard| guard.fence().to_string())
}
