//! The replicas' processes, seen from the demo.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{fault::Fault, replica::Brief};

/// The hidden subcommand that runs a replica.
pub(crate) const SUBCOMMAND: &str = "__replica";

/// How long a replica may take to finish the sweep at hand.
const LAST_SWEEP: Duration = Duration::from_secs(3);

/// Running replicas. They are killed if the half is dropped, and end by themselves if the demo is killed, since their
/// standard input ends with it.
#[derive(Default)]
pub(super) struct Staff {
    replicas: Vec<Child>,
}

impl Staff {
    pub(super) fn hire(briefs: impl Iterator<Item = Brief>) -> Result<Self, Fault> {
        let mut staff = Self::default();
        let failed = |source| Fault::System("cannot start a replica", source);
        for brief in briefs {
            // The link stays good when the program's file is replaced meanwhile.
            let mut command = Command::new("/proc/self/exe");
            command.arg0("bandog").arg(SUBCOMMAND).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut replica = command.spawn().map_err(failed)?;
            let line = serde_json::to_string(&brief).map_err(|source| failed(source.into()))?;
            tell(&mut replica, &line);
            staff.replicas.push(replica);
        }
        Ok(staff)
    }

    /// How many still run.
    pub(super) fn running(&mut self) -> usize {
        let running = |replica: &mut Child| matches!(replica.try_wait(), Ok(None));
        self.replicas.iter_mut().map(running).filter(|running| *running).count()
    }

    /// Lets each finish the sweep at hand, and kills who has not ended after a while.
    pub(super) async fn dismiss(mut self) {
        for replica in &mut self.replicas {
            tell(replica, "stop");
        }
        let until = Instant::now() + LAST_SWEEP;
        while self.running() > 0 && Instant::now() < until {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Staff {
    fn drop(&mut self) {
        // All are killed before the first is waited for; after that the wait is short.
        for replica in &mut self.replicas {
            let _ = replica.kill(); // It may have ended.
        }
        for replica in &mut self.replicas {
            let _ = replica.wait();
        }
    }
}

/// A replica that has ended hears nothing, and whoever counts the running ones sees it.
fn tell(replica: &mut Child, line: &str) {
    if let Some(input) = &mut replica.stdin {
        let _ = writeln!(input, "{line}");
    }
}
