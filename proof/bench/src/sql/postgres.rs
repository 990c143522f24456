//! The floor on PostgreSQL.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio_postgres::{Client, NoTls, Statement};

use crate::floor::ByHand;

const TABLE: &str = include_str!("postgres_table.sql");
const CLAIM: &str = include_str!("postgres_claim.sql");
const RELEASE: &str = include_str!("postgres_release.sql");

/// Connections with prepared statements.
pub(super) struct Floor(Vec<(Client, Statement, Statement)>);

impl Floor {
    pub(super) async fn dial(url: &str, connections: usize) -> Self {
        let mut all = Vec::new();
        for _ in 0..connections {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server answers");
            tokio::spawn(connection);
            client.batch_execute(TABLE).await.expect("the table is created");
            let claim = client.prepare(CLAIM).await.expect("a statement");
            let release = client.prepare(RELEASE).await.expect("a statement");
            all.push((client, claim, release));
        }
        Self(all)
    }
}

impl ByHand for Floor {
    async fn cycle(&self, task: usize, name: &str) {
        static CYCLES: AtomicU64 = AtomicU64::new(0);
        let (client, claim, release) = &self.0[task % self.0.len()];
        let owner = format!("00000000-0000-8000-8000-000000000000:{}", CYCLES.fetch_add(1, Relaxed));
        let granted = client.query(claim, &[&name, &owner]).await.expect("the server answers");
        assert_eq!(granted.len(), 1, "another client uses the floor's names");
        let freed = client.execute(release, &[&name, &owner]).await.expect("the server answers");
        assert_eq!(freed, 1, "the floor released a lock that it does not hold");
    }
}
