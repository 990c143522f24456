//! A process that is stopped for longer than its lease, between its writes and their commit: the sweep of orders is exact.
//! The tests run on each database, with the helper functions of its `support`.

use std::{env, io::BufRead, time::Duration};

use bandog::{Client, ErrorKind, Guard};
use bandog_sqlx::FenceIn;
use bandog_testkit::{Process, eventually_async};
use sqlx::{Connection, Transaction};

use super::support::{Database, Db, DbConnection, SERVER, open};
use crate::kinds::{SOON, child};

/// The environment variable with the URL of the database. Only child processes have it.
const URL: &str = "BANDOG_SWEEP_URL";
/// The environment variable with the watchdog's ttl of a child.
const WATCHDOG: &str = "BANDOG_SWEEP_WATCHDOG";
/// The test that a child process runs.
const CHILD: &str = "a_child_process_sweeps";
/// The prefix of a child's messages. The test harness prints to the same stream.
const SAYS: &str = "child says: ";
/// The lock of the sweep.
const NAME: &str = "orders";
const ORDERS: u32 = 24;
/// Orders of one transaction.
const BATCH: i64 = 4;
/// Grants to another client while a child is stopped for an hour.
const GRANTS: usize = 3;

/// Returns the goods of some unpaid orders to the stock. The table accepts a second return of the same order, so only the
/// lock prevents it.
async fn write_returns(tx: &mut Transaction<'_, Db>) -> usize {
    let unpaid =
        "select id from orders o where not exists (select 1 from returns r where r.id = o.id) order by id limit";
    let unpaid = format!("{unpaid} {BATCH}");
    let unpaid: Vec<(i32,)> = sqlx::query_as(&unpaid).fetch_all(&mut **tx).await.unwrap();
    for (id,) in &unpaid {
        sqlx::query(&format!("insert into returns values ({id})")).execute(&mut **tx).await.unwrap();
    }
    unpaid.len()
}

/// One step of the sweep under the lock. Returns the number of orders.
async fn sweep(guard: &Guard, connection: &mut DbConnection) -> usize {
    let mut tx = connection.begin().await.unwrap();
    let orders = write_returns(&mut tx).await;
    guard.commit(tx).await.unwrap();
    orders
}

/// The commands of the parent: the child writes, and waits for the next line before its check or before its commit.
#[test]
fn a_child_process_sweeps() {
    let (Ok(url), Ok(watchdog)) = (env::var(URL), env::var(WATCHDOG)) else {
        println!("this is not a child process");
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = bandog::connect(format!("{url}?watchdog={watchdog}&timeout=10s")).await.unwrap();
        let mut connection = open(&url).await;
        let mut commands = std::io::stdin().lock().lines().map(Result::unwrap);
        while let Some(command) = commands.next() {
            let guard = client.mutex(NAME).lock().await.unwrap();
            let mut tx = connection.begin().await.unwrap();
            let orders = write_returns(&mut tx).await;
            let is_checked = command == "check first";
            if is_checked {
                guard.fence_in(&mut tx).await.unwrap();
            }
            println!("{SAYS}written {orders}");
            commands.next().unwrap();
            let committed = if is_checked {
                tx.commit().await.map_err(|error| panic!("{error}"))
            } else {
                guard.commit(tx).await.map_err(|error| error.kind())
            };
            println!("{SAYS}{command} ended with {committed:?}");
        }
    });
}

struct Child(Process);

impl Child {
    fn start(database: &Database, watchdog: &str) -> Self {
        let mut command = child(module_path!(), CHILD);
        Self(Process::spawn(command.env(URL, database.url()).env(WATCHDOG, watchdog)))
    }

    fn says(&self, what: &str) -> String {
        self.0.stdout_line(&format!("{SAYS}{what}"), SOON)
    }
}

fn database_with_orders() -> Database {
    let database = Database::new();
    database.create_orders(ORDERS);
    database
}

/// Each order was returned once.
fn expect_exact(database: &Database) {
    let counts = "select count(*), count(distinct id) from returns";
    assert_eq!(
        SERVER.sql(&database.0, counts),
        format!("{ORDERS}|{ORDERS}"),
        "some orders were returned twice, or never"
    );
}

async fn sweep_all(client: &Client, connection: &mut DbConnection) {
    let guard = client.mutex(NAME).lock().await.unwrap();
    while sweep(&guard, connection).await > 0 {}
    guard.release().await.unwrap();
}

// Promise: MY22, PG15
#[tokio::test]
async fn a_holder_that_is_stopped_before_the_check_writes_nothing() {
    let database = database_with_orders();
    let mut child = Child::start(&database, "1s");
    child.0.write_line("check last");
    assert!(child.says("written").ends_with(&format!(" {BATCH}")));
    child.0.stop();
    let (client, mut connection) = (database.client("").await, database.connection().await);
    // The lease of the child expires, and this process does the whole work.
    tokio::time::timeout(SOON, sweep_all(&client, &mut connection)).await.unwrap();
    child.0.write_line("go on");
    child.0.cont();
    let said = child.says("check last ended with");
    assert!(said.ends_with(&format!("Err({:?})", ErrorKind::Lost)), "{said}");
    expect_exact(&database);
}

/// The events of the lock while its holder is stopped, besides grants to another client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Grants,
    Forgotten,
    HeldByAnother,
}

/// The lease has expired an hour ago by the time of the database, and the holder does not know it.
// Promise: MY22, PG15
#[tokio::test]
async fn a_holder_that_is_stopped_for_an_hour_writes_nothing() {
    for meanwhile in [Meanwhile::Grants, Meanwhile::Forgotten, Meanwhile::HeldByAnother] {
        let database = database_with_orders();
        let mut child = Child::start(&database, "1h");
        child.0.write_line("check last");
        child.says("written");
        child.0.stop();
        let (client, mut connection) = (database.client("").await, database.connection().await);
        assert!(client.mutex(NAME).try_lock().await.unwrap().is_none(), "the child does not hold the lock");
        database.age_lease(NAME);
        for _ in 0..GRANTS {
            sweep_all(&client, &mut connection).await;
        }
        let next = match meanwhile {
            Meanwhile::Grants => None,
            Meanwhile::Forgotten => {
                assert!(client.forget(NAME).await.unwrap());
                None
            }
            Meanwhile::HeldByAnother => Some(client.mutex(NAME).lock().await.unwrap()),
        };
        child.0.write_line("go on");
        child.0.cont();
        let said = child.says("check last ended with");
        assert!(said.ends_with(&format!("Err({:?})", ErrorKind::Lost)), "{meanwhile:?}: {said}");
        expect_exact(&database);
        assert!(next.is_none_or(|next| !next.is_lost()), "{meanwhile:?}");
    }
}

// Promise: MY22, PG15
#[tokio::test]
async fn a_holder_that_is_stopped_after_the_check_commits_before_the_next_holder() {
    let database = database_with_orders();
    let mut child = Child::start(&database, "1s");
    child.0.write_line("check first");
    assert!(child.says("written").ends_with(&format!(" {BATCH}")));
    child.0.stop();
    let (client, mut connection) = (database.client("").await, database.connection().await);
    database.expired(NAME).await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move {
            sweep_all(&client, &mut connection).await;
        }
    });
    // On a loaded machine, the store can answer later than this limit.
    let ask = async || client.mutex(NAME).try_lock_for(Duration::from_millis(100)).await;
    for _ in 0..5 {
        let other = eventually_async(SOON, ask).await;
        assert!(other.is_none(), "the lock was granted while the transaction was open");
    }
    assert!(!waiting.is_finished());
    child.0.write_line("go on");
    child.0.cont();
    let said = child.says("check first ended with");
    assert!(said.ends_with("Ok(())"), "{said}");
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    expect_exact(&database);
}

/// The control: without the check, the same sweep is wrong.
// Promise: MY22, PG15
#[tokio::test]
async fn without_the_check_a_stopped_holder_returns_orders_twice() {
    let database = database_with_orders();
    let (late, client) = (database.client("").await, database.client("").await);
    let (mut first, mut second) = (database.connection().await, database.connection().await);
    let guard = late.mutex(NAME).lease(Duration::from_millis(300)).lock().await.unwrap();
    let mut tx = first.begin().await.unwrap();
    write_returns(&mut tx).await;
    guard.lost().await;
    tokio::time::timeout(SOON, sweep_all(&client, &mut second)).await.unwrap();
    tx.commit().await.unwrap();
    let twice = SERVER.sql(&database.0, "select count(*) - count(distinct id) from returns");
    assert_eq!(twice, BATCH.to_string());
}
