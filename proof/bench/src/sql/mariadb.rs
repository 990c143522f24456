//! The floor on MariaDB.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mysql_async::{Conn, Opts, OptsBuilder, prelude::Queryable as _};
use tokio::sync::Mutex;

use crate::floor::ByHand;

const TABLE: &str = include_str!("mariadb_table.sql");
const CLAIM: &str = include_str!("mariadb_claim.sql");
const RELEASE: &str = include_str!("mariadb_release.sql");

/// Connections. The client prepares each statement once.
pub(super) struct Floor(Vec<Mutex<Conn>>);

impl Floor {
    pub(super) async fn dial(url: &str, connections: usize) -> Self {
        let options =
            OptsBuilder::from_opts(Opts::from_url(url).expect("a URL")).prefer_socket(false).tcp_nodelay(true);
        let mut all = Vec::new();
        for _ in 0..connections {
            let mut connection = Conn::new(options.clone()).await.expect("the server answers");
            connection.query_drop(TABLE).await.expect("the table is created");
            all.push(Mutex::new(connection));
        }
        Self(all)
    }
}

impl ByHand for Floor {
    async fn cycle(&self, task: usize, name: &str) {
        static CYCLES: AtomicU64 = AtomicU64::new(0);
        let mut connection = self.0[task % self.0.len()].lock().await;
        let owner = format!("00000000-0000-8000-8000-000000000000:{}", CYCLES.fetch_add(1, Relaxed));
        connection.exec_drop(CLAIM, (name, &owner)).await.expect("the server answers");
        assert!(connection.affected_rows() > 0, "another client uses the floor's names");
        connection.exec_drop(RELEASE, (name, &owner)).await.expect("the server answers");
        assert_eq!(connection.affected_rows(), 1, "the floor released a lock that it does not hold");
    }
}
