//! Clusters that the tests of a process use one after another, because a start takes seconds.

use std::ffi::OsStr;
use std::ops::Deref;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::RedisCluster;
use crate::redis::RedisServer;

/// Removes its arguments when its input closes. It repeats while a server still writes a file, at most for some seconds.
const REMOVE: &str = r#"
read -r _
tries=0
until rm -rf -- "$@" 2>/dev/null || [ "$tries" -ge 50 ]; do sleep 0.1; tries=$((tries + 1)); done
"#;

/// The clusters that no test uses now. There are at most as many clusters as tests that run at the same time.
static UNUSED: Mutex<Vec<Reusable>> = Mutex::new(Vec::new());

/// A cluster with three masters that only this test uses now. A later test of the same process can use it again.
///
/// When the value is dropped, all data, scripts and connections are removed. If the test has failed, or has called
/// [`ReusedCluster::retire`], the cluster is stopped instead.
///
/// This dereferences to a [`RedisCluster`].
///
/// ```no_run
/// use bandog_testkit::ReusedCluster;
/// let cluster = ReusedCluster::take();
/// println!("{}", cluster.operator_url());
/// ```
#[derive(Debug)]
pub struct ReusedCluster {
    /// None while the value is dropped.
    reusable: Option<Reusable>,
    password: String,
    is_retired: AtomicBool,
}

#[derive(Debug)]
struct Reusable {
    cluster: RedisCluster,
    /// It is dropped after the cluster, which has removed the directories then.
    _cleaner: Cleaner,
}

/// A process that removes directories when this process ends.
#[derive(Debug)]
struct Cleaner(Child);

impl ReusedCluster {
    /// Takes a cluster that no other test uses, or starts one.
    ///
    /// The user `operator` has a new password. So a client of an earlier test that has not ended yet cannot connect.
    #[must_use]
    #[track_caller]
    pub fn take() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let reusable = unused.unwrap_or_else(Reusable::start);
        let (_, password) = operator();
        let password = format!("{password}{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        reusable.cluster.iter().for_each(|node| node.set_operator_password(&password));
        Self { reusable: Some(reusable), password, is_retired: AtomicBool::new(false) }
    }

    /// The URL of the cluster, with the user [`RedisServer::OPERATOR`].
    #[must_use]
    pub fn operator_url(&self) -> String {
        self.url().replace("://", &format!("://{}:{}@", operator().0, self.password))
    }

    /// The cluster is stopped after this test. A test calls this if it stops or restarts nodes.
    pub fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }
}

/// The name and the first password of [`RedisServer::OPERATOR`].
fn operator() -> (&'static str, &'static str) {
    RedisServer::OPERATOR.split_once(':').expect("a name and a password")
}

impl Reusable {
    #[track_caller]
    fn start() -> Self {
        let cluster = RedisCluster::start(3, 0);
        let cleaner = Cleaner::start(cluster.iter().map(RedisServer::directory));
        Self { cluster, _cleaner: cleaner }
    }

    /// Removes everything that a test has left. Returns whether the cluster serves.
    fn clean(&self) -> bool {
        let is_served = self.cluster.iter().all(RedisServer::is_running) && self.cluster.is_ok();
        is_served
            && self.cluster.iter().all(|node| {
                node.kill_clients();
                let commands = [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"], &["CONFIG", "RESETSTAT"]];
                commands.iter().all(|command| node.cmd(command).text() == "OK")
            })
    }
}

impl Cleaner {
    /// A value in a static is never dropped. So another process removes the directories. It waits until the pipe of its
    /// input closes, which is the end of this process or the drop of this value.
    fn start(directories: impl IntoIterator<Item: AsRef<OsStr>>) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", REMOVE, "sh"]).args(directories).stdin(Stdio::piped());
        Self(shell.spawn().expect("cannot start a shell"))
    }
}

/// Without the wait, a zombie would stay. [`REMOVE`] limits the wait.
impl Drop for Cleaner {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Deref for ReusedCluster {
    type Target = RedisCluster;

    fn deref(&self) -> &RedisCluster {
        &self.reusable.as_ref().expect("the value is not dropped yet").cluster
    }
}

impl Drop for ReusedCluster {
    fn drop(&mut self) {
        let reusable = self.reusable.take().filter(|_| !self.is_retired.load(Ordering::Relaxed));
        if !std::thread::panicking()
            && let Some(reusable) = reusable.filter(Reusable::clean)
        {
            UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(reusable);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn a_cleaner_removes_directories_and_leaves_no_process() {
        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("data");
        std::fs::create_dir(&directory).expect("a directory");
        let cleaner = Cleaner::start([&directory]);
        let pid = cleaner.0.id();
        drop(cleaner);
        assert!(!directory.exists());
        assert_eq!(process::state(pid), None);
    }

    /// `rm` refuses to remove this directory.
    #[test]
    fn a_cleaner_gives_up() {
        let cleaner = Cleaner::start(["."]);
        let pid = cleaner.0.id();
        drop(cleaner);
        assert_eq!(process::state(pid), None);
    }
}
