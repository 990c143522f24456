//! Stops a scheduler when the process receives a signal to end.

use std::{io, pin::pin};

use bandog_core::{Error, ErrorKind, Result};

use crate::Running;

impl Running {
    /// Waits until the process receives a signal to end. Then stops the scheduler as [`Running::stop`] does. Call this
    /// at the end of `main`. The signals are TERM, which systemd, Docker and Kubernetes send, and INT (Ctrl-C). On
    /// Windows, the signal is Ctrl-C. A second signal ends the drain (the time that the stop leaves to runs). Then the
    /// remaining runs are cancelled, and dropped after their grace.
    ///
    /// From the first poll of this future on, these signals do not end the process by themselves, not even after the
    /// future has resolved. A process manager kills a process some time after the first signal. This time should be
    /// longer than the drain and the grace of the jobs together. In Kubernetes, this time is
    /// `terminationGracePeriodSeconds`, which is 30 s by default. The default of the drain is 30 s too.
    ///
    /// # Errors
    /// As [`Running::stop`]; `Unsupported` if the system has no signals.
    ///
    /// # Panics
    /// If the runtime has no I/O driver. The runtime of `#[tokio::main]` has this driver.
    ///
    /// # Cancel safety
    /// Dropping the future drops this value. So the scheduler stops without a drain.
    ///
    /// ```no_run
    /// use bandog::schedule::{Job, Run, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let sweep = Job::cron("sweep", "0/10 * * * * ?").run(async |run: Run| println!("{}", run.tick()));
    /// Scheduler::new().job(sweep).start().await?.until_signal().await
    /// # }
    /// ```
    pub async fn until_signal(self) -> Result<()> {
        let mut signals = Signals::subscribe().map_err(|error| {
            Error::new(ErrorKind::Unsupported, "the system has no signals").during("until_signal").caused_by(error)
        })?;
        signals.next().await;
        let mut ended = pin!(self.end(self.drain));
        tokio::select! {
            result = &mut ended => return result,
            () = signals.next() => self.end_drain(),
        }
        ended.await
    }
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn subscribe() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn subscribe() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) {
        // The stream never ends.
        let _ = self.0.recv().await;
    }
}
