//! Replicas of a PostgreSQL server.

use std::process::Stdio;

use super::PostgresServer;

impl PostgresServer {
    /// Starts a server that replicates this one, with the same settings. The replication is asynchronous, unless this server
    /// gets the setting `synchronous_standby_names` later.
    #[must_use]
    #[track_caller]
    pub fn start_replica(&self) -> Self {
        let replica = Self::without_data(self.args.clone());
        let mut backup = replica.command("pg_basebackup");
        backup.args(["--no-sync", "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast"]);
        backup.args(["--username=postgres", "--port", &self.port().to_string(), "--host"]).arg(&self.dir);
        backup.arg("-D").arg(replica.data()).stdin(Stdio::null());
        let out = backup.output().expect("cannot run pg_basebackup");
        assert!(out.status.success(), "pg_basebackup failed: {}", String::from_utf8_lossy(&out.stderr));
        replica.launch();
        replica
    }

    /// Makes this replica a server of its own, and waits until it accepts writes.
    #[track_caller]
    pub fn promote(&self) {
        assert_eq!(self.sql("postgres", "select pg_promote()"), "t", "the replica was not promoted: {}", self.log());
    }
}
