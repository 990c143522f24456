//! The effect of renewals on PostgreSQL's table of leases: whether they stay HOT (no index changes), and how much it
//! grows.

use std::time::Duration;

use bandog_testkit::PostgresServer;
use serde_json::json;

use super::{DATABASE, SERVERS};
use crate::{
    cycles::Engine,
    held::{self, core_percent},
    kinds::Kind,
    measure::Workers,
    report::{Report, Wanted},
};

/// The ttl of the holds. They are renewed after each third of it.
const TTL: Duration = Duration::from_secs(1);
/// The ttl of a usual hold, which has as many renewals in an hour as these holds have in two minutes.
const USUAL_TTL: Duration = Duration::from_secs(30);
/// The time in which a session reports its statistics.
const STATISTICS: Duration = Duration::from_secs(2);

/// The state of the table of leases.
struct Table {
    updates: f64,
    hot: f64,
    dead: f64,
    vacuums: f64,
    /// Sizes in bytes.
    heap: f64,
    index: f64,
}

impl Table {
    fn of(server: &PostgresServer) -> Self {
        let columns = "n_tup_upd, n_tup_hot_upd, n_dead_tup, autovacuum_count, \
                       pg_relation_size(relid), pg_indexes_size(relid)";
        let table = "pg_stat_user_tables where schemaname = 'bandog' and relname = 'bandog_lease'";
        let row = server.sql(DATABASE, &format!("select {columns} from {table}"));
        let numbers: Vec<f64> = row.split('|').map(|number| number.trim().parse().expect("a number")).collect();
        let [updates, hot, dead, vacuums, heap, index] = numbers[..] else { panic!("other columns: {row}") };
        Self { updates, hot, dead, vacuums, heap, index }
    }
}

/// As many renewals of each lock as an hour of usual holds has, with the autovacuum of the server as it is by default.
pub(crate) fn bloat(report: &mut Report) {
    let Some(server) = SERVERS[0].postgres() else { return };
    let (locks, span) = (report.size.pick(1_000, 50), report.size.pick(3600, 60) * TTL / 30);
    let url = format!("{}?watchdog={}ms", SERVERS[0].url(), TTL.as_millis());
    let (before, after, lost, share) = Workers::Two.runtime().block_on(async {
        let client = Engine::OwnThread.connect(&url).await;
        let guards = held::take(&client, Kind::Mutex, locks).await;
        // A rewrite of the table removes what the claims and other parts have left.
        server.sql(DATABASE, "vacuum full bandog.bandog_lease");
        tokio::time::sleep(STATISTICS).await;
        let before = Table::of(server);
        let share = core_percent(span).await;
        let after = Table::of(server);
        let lost = guards.iter().filter(|guard| guard.is_lost()).count();
        drop(guards);
        client.close().await.expect("closed");
        (before, after, lost, share)
    });
    let (updates, hot) = (after.updates - before.updates, after.hot - before.hot);
    let hot_percent = 100.0 * hot / updates;
    report.raw(json!({"what": "sql-bloat", "locks": locks, "ttl_ms": TTL.as_millis(), "seconds": span.as_secs_f64(),
        "lost": lost, "core_percent": share, "updates": updates, "hot_updates": hot, "hot_percent": hot_percent,
        "dead_rows": after.dead, "autovacuums": after.vacuums - before.vacuums,
        "heap_bytes_before": before.heap, "heap_bytes_after": after.heap,
        "index_bytes_before": before.index, "index_bytes_after": after.index}));
    let kib = |bytes: f64| bytes / 1024.0;
    let figure = format!("PostgreSQL, {locks} locks and {:.0} renewals of each", updates / locks as f64);
    let sizes = format!(
        "table {:.0} to {:.0} KiB, index {:.0} to {:.0} KiB",
        kib(before.heap),
        kib(after.heap),
        kib(before.index),
        kib(after.index)
    );
    let hour = format!("an hour with a ttl of {} s has {}", USUAL_TTL.as_secs(), 3 * 3600 / USUAL_TTL.as_secs());
    report.row(&figure, format!("{hot_percent:.1} % HOT, {sizes}, {lost} lost"), hour, "");
    report.judge(&format!("{figure}: percent HOT"), Wanted::AtLeast(90.0), Some(hot_percent));
    report.judge(&format!("{figure}: lost"), Wanted::AtMost(0.0), Some(lost as f64));
}
