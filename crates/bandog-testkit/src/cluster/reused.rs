//! Clusters that the tests of a process use one after another, because a start takes seconds.

use std::ops::Deref;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::RedisCluster;
use crate::redis::RedisServer;

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
    /// Removes the directories of the servers when this process ends.
    _cleaner: Child,
}

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
        // A value in a static is never dropped. So another process removes the directories. It waits until the pipe of its
        // input closes, which is the end of this process, and repeats while a server still writes a file.
        let mut cleaner = Command::new("sh");
        cleaner.args(["-c", r#"read -r _; until rm -rf -- "$@"; do :; done"#, "sh"]);
        cleaner.args(cluster.iter().map(RedisServer::directory)).stdin(Stdio::piped());
        let cleaner = cleaner.spawn().expect("cannot start a shell");
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
