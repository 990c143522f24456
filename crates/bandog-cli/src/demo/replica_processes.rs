//! The processes of the replicas.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{fault::DemoFault, replica::Brief};

/// The hidden subcommand that runs a replica.
pub(crate) const SUBCOMMAND: &str = "__replica";

/// Timeout for a replica to finish its present sweep.
const LAST_SWEEP: Duration = Duration::from_secs(3);

/// The running replicas. Dropping this value kills them. If the demo itself is killed, the replicas exit because their
/// standard input closes.
#[derive(Default)]
pub(super) struct ReplicaProcesses {
    replicas: Vec<Child>,
}

impl ReplicaProcesses {
    /// Starts a replica for each configuration.
    pub(super) fn start(briefs: impl Iterator<Item = Brief>) -> Result<Self, DemoFault> {
        let mut processes = Self::default();
        let failed = |source| DemoFault::System("cannot start a replica", source);
        for brief in briefs {
            // This path stays valid even if the program file is replaced.
            let mut command = Command::new("/proc/self/exe");
            command.arg0("bandog").arg(SUBCOMMAND).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut replica = command.spawn().map_err(failed)?;
            let line = serde_json::to_string(&brief).map_err(|source| failed(source.into()))?;
            send(&mut replica, &line);
            processes.replicas.push(replica);
        }
        Ok(processes)
    }

    /// Number of running replicas.
    pub(super) fn running(&mut self) -> usize {
        let running = |replica: &mut Child| matches!(replica.try_wait(), Ok(None));
        self.replicas.iter_mut().map(running).filter(|running| *running).count()
    }

    /// Lets each replica finish its present sweep, and kills the replicas that have not ended at the timeout.
    pub(super) async fn stop(mut self) {
        for replica in &mut self.replicas {
            send(replica, "stop");
        }
        let until = Instant::now() + LAST_SWEEP;
        while self.running() > 0 && Instant::now() < until {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for ReplicaProcesses {
    fn drop(&mut self) {
        // All replicas are killed before the first wait, so the waits are short.
        for replica in &mut self.replicas {
            let _ = replica.kill(); // The replica might have ended already.
        }
        for replica in &mut self.replicas {
            let _ = replica.wait();
        }
    }
}

/// Sends a line to a replica. An error is ignored, because a replica that has ended needs no line.
fn send(replica: &mut Child, line: &str) {
    if let Some(input) = &mut replica.stdin {
        let _ = writeln!(input, "{line}");
    }
}
