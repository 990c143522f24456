//! A replica with a job of bandog. It is a process of its own, so that a scene can kill it.

use std::io::{self, BufRead, Write};
use std::process::Command;
use std::time::Duration;

use bandog::schedule::{Job, OnCrash, Run, Scheduler};
use bandog_testkit::Process;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::Result;
use crate::service::TTL;

/// Timeout of a step of a replica.
const PATIENCE: Duration = Duration::from_secs(60);

/// A step of the job, which the process prints.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    Begun,
    Sent,
}

impl Event {
    fn word(self) -> &'static str {
        match self {
            Self::Begun => "= begun ",
            Self::Sent => "= sent ",
        }
    }
}

/// A replica, as the scene sees it.
pub(crate) struct Node {
    pub(crate) name: &'static str,
    process: Process,
}

impl Node {
    pub(crate) fn start(name: &'static str, url: &str) -> Self {
        let program = std::env::current_exe().unwrap_or_else(|_| "bandog-why".into());
        let mut command = Command::new(program);
        command.args(["--node", url]);
        Self { name, process: Process::spawn(&command) }
    }

    /// Waits until the scheduler of this process has started.
    pub(crate) fn wait_until_ready(&mut self) {
        self.process.stdout_line("= ready", PATIENCE);
    }

    /// Waits for a step of the job, and returns its tick.
    pub(crate) fn wait_for(&mut self, event: Event) -> Result<String> {
        let line = self.process.stdout_line(event.word(), PATIENCE);
        let tick = line.strip_prefix(event.word()).ok_or("an incomplete line of a replica")?;
        Ok(format!("tick {tick}"))
    }

    /// Whether a step of the job was done.
    pub(crate) fn has(&self, event: Event) -> bool {
        self.process.stdout().iter().any(|line| line.starts_with(event.word()))
    }

    /// Lets the run of this replica send its report.
    pub(crate) fn send_report(&mut self) {
        self.process.write_line("send");
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
        self.process.wait(PATIENCE);
    }
}

/// The process of a replica: its job begins a report, and sends it when a line comes from the standard input.
pub(crate) fn serve(url: &str) -> Result {
    let runtime = Runtime::new()?;
    let (sender, allowed) = watch::channel(false);
    let running = runtime.block_on(async {
        let client = bandog::connect(url).await?;
        let job = Job::once("report").on_crash(OnCrash::Retry).lease(TTL).run(move |run: Run| {
            let mut allowed = allowed.clone();
            async move {
                println!("{}{}", Event::Begun.word(), run.tick());
                allowed.wait_for(|allowed| *allowed).await.map_err(|error| error.to_string())?;
                println!("{}{}", Event::Sent.word(), run.tick());
                Ok::<(), String>(())
            }
        });
        Scheduler::over(&client).job(job).start().await
    })?;
    println!("= ready");
    io::stdout().flush()?;
    for line in io::stdin().lock().lines() {
        line?;
        sender.send_replace(true);
    }
    Ok(runtime.block_on(running.stop())?)
}
