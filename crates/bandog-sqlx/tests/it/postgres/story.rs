//! Order services on one PostgreSQL, under kills, stops, cuts and restarts: the goods of each unpaid order return to the
//! stock exactly once, because each effect and its element commit together.

use std::{
    env,
    io::Read,
    thread,
    time::{Duration, Instant},
};

use bandog::work::{Backoff, ClientWork, Delivery, WorkQueue};
use bandog_sqlx::{DoneIn, PushIn};
use bandog_testkit::{PostgresServer, Process, Wire};
use sqlx::{PgPool, postgres::PgPoolOptions};

use crate::kinds::child;

/// The environment variable with the URL of the database. Only the processes of services have it.
const URL: &str = "BANDOG_STORY_URL";
/// The test that the process of a service runs.
const SERVICE: &str = "a_service_takes_and_closes_orders";
/// The environment variable that makes the story long.
const LONG: &str = "BANDOG_TEST_LONG";

/// Services, orders, and pause between two faults.
const SHORT: (usize, i64, Duration) = (4, 2_000, Duration::from_millis(300));
const LONG_STORY: (usize, i64, Duration) = (10, 1_000_000, Duration::from_secs(1));
/// The time after which a story that does not end has failed.
const MAX_TIME: Duration = Duration::from_secs(300);
const MAX_LONG_TIME: Duration = Duration::from_secs(7_200);

/// Orders of one transaction.
const BATCH: i64 = 20;
/// Different goods.
const GOODS: i64 = 500;
const LEASE: Duration = Duration::from_secs(1);
/// Time for which a service is stopped. It is longer than the lease.
const STOPPED: Duration = Duration::from_millis(1_500);

/// The tables. An order can be taken or returned twice, so only bandog prevents it.
const TABLES: &str = "
    create table stock (good bigint primary key, pieces bigint not null);
    create table orders (id bigint not null);
    create table returns (id bigint not null);
    create sequence order_number;
    grant all on all tables in schema public to locks;
    grant all on all sequences in schema public to locks;
    insert into stock select good, 1000000 from generate_series(0, 499) good;
    create table plan (orders bigint not null);
    grant select on plan to locks;";

type Done = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Takes some new orders, which are never paid: their goods leave the stock, and each is pushed into the queue. Returns whether
/// there may be more.
async fn take_orders(pool: &PgPool, queue: &WorkQueue<i64>) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let mut tx = pool.begin().await?;
    let next =
        "select n from (select nextval('order_number') as n from generate_series(1, $1)) o, plan where n <= orders";
    let ids: Vec<i64> = sqlx::query_scalar(next).bind(BATCH).fetch_all(&mut *tx).await?;
    if ids.is_empty() {
        return Ok(false);
    }
    // In the order of the goods, so that two services do not wait for each other.
    let mut goods: Vec<i64> = ids.iter().map(|id| id % GOODS).collect();
    goods.sort_unstable();
    for good in goods {
        sqlx::query("update stock set pieces = pieces - 1 where good = $1").bind(good).execute(&mut *tx).await?;
    }
    sqlx::query("insert into orders select unnest($1::bigint[])").bind(&ids).execute(&mut *tx).await?;
    queue.push_all(&ids).push_in(&mut tx).await?;
    tx.commit().await?;
    Ok(true)
}

/// Returns the goods of an order to the stock.
async fn close(pool: &PgPool, order: &Delivery<i64>) -> Done {
    let mut tx = pool.begin().await?;
    sqlx::query("insert into returns values ($1)").bind(**order).execute(&mut *tx).await?;
    sqlx::query("update stock set pieces = pieces + 1 where good = $1").bind(**order % GOODS).execute(&mut *tx).await?;
    order.done_in(&mut tx).await?;
    tx.commit().await?;
    Ok(())
}

/// A service: it takes orders, and closes those of all services, until its input ends.
#[test]
fn a_service_takes_and_closes_orders() {
    let Ok(url) = env::var(URL) else {
        println!("this is not the process of a service");
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = bandog::ConnectOptions::parse(format!("{url}?watchdog=2s&timeout=2s")).unwrap();
        let client = options.connect_lazy().unwrap();
        let pool = PgPoolOptions::new().max_connections(8).acquire_timeout(Duration::from_secs(2));
        let pool = pool.connect_lazy(&format!("{url}?sslmode=disable")).unwrap();
        let queue: WorkQueue<i64> = client.work_queue("unpaid").unwrap();
        let workers = queue.workers(6).lease(LEASE).deliveries(1_000);
        let workers = workers.backoff(Backoff::fixed(Duration::from_millis(20)).unwrap());
        let workers = workers.run({
            let pool = pool.clone();
            move |order: Delivery<i64>| {
                let pool = pool.clone();
                async move { close(&pool, &order).await }
            }
        });
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        let orders = async {
            loop {
                match take_orders(&pool, &queue).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        orders.await;
        ended.await.unwrap().unwrap();
        // After a fault, the server may not answer in time.
        let _ = workers.stop().await;
        let _ = client.close().await;
    });
}

/// A service, and its way to the server.
struct Service {
    process: Process,
    wire: Wire,
    database: String,
}

impl Service {
    fn start(server: &PostgresServer, database: &str) -> Self {
        let wire = server.wire();
        Self { process: Self::spawn(&wire, database), wire, database: database.to_owned() }
    }

    fn spawn(wire: &Wire, database: &str) -> Process {
        let url = PostgresServer::url_at(wire.port(), database);
        let mut command = child(module_path!(), SERVICE);
        Process::spawn(command.env(URL, url))
    }

    fn restart(&mut self) {
        self.process.kill();
        self.process = Self::spawn(&self.wire, &self.database);
    }
}

/// One fault after another.
fn harm(round: usize, server: &PostgresServer, services: &mut [Service]) {
    let (number, count) = (round / 2, services.len());
    let service = &mut services[number % count];
    match round % 8 {
        0 | 4 => service.restart(),
        1 | 5 => service.wire.cut(),
        2 => {
            service.process.stop();
            thread::sleep(STOPPED);
            service.process.cont();
        }
        3 => {
            service.wire.drop_replies(true);
            thread::sleep(Duration::from_millis(300));
            service.wire.drop_replies(false);
            service.wire.cut();
        }
        6 => server.end_sessions(&service.database),
        _ => {
            server.kill();
            server.restart();
        }
    }
}

#[test]
fn the_goods_of_each_unpaid_order_return_once() {
    let is_long = env::var(LONG).is_ok_and(|long| long == "1");
    let ((count, orders, pause), limit) = if is_long { (LONG_STORY, MAX_LONG_TIME) } else { (SHORT, MAX_TIME) };
    let server = PostgresServer::start();
    let database = server.new_database();
    server.sql(&database, &format!("{TABLES} insert into plan values ({orders})"));
    let mut services: Vec<_> = (0..count).map(|_| Service::start(&server, &database)).collect();
    let (start, mut last) = (Instant::now(), Instant::now());
    // An open transaction may have taken the last orders.
    let is_closed = "select (select last_value from order_number) >= (select orders from plan) and not exists (
        select from bandog.bandog_work) and not exists (select from pg_stat_activity where usename = 'locks'
        and datname = current_database() and xact_start is not null)";
    // A table that is not there yet, or a server that is not up yet, is an error.
    let is_closed = || server.try_sql(&database, is_closed).is_ok_and(|closed| closed == "t");
    for round in 0.. {
        thread::sleep(pause);
        harm(round, &server, &mut services);
        // The second answer has the elements of a transaction that has committed during the first one.
        if is_closed() && is_closed() {
            println!("{orders} orders, {count} services, {} faults, {:?}", round + 1, start.elapsed());
            break;
        }
        if last.elapsed() > Duration::from_secs(30) {
            last = Instant::now();
            let state =
                server.try_sql(&database, "select last_value, (select count(*) from returns) from order_number");
            println!("{:?}: {round} faults, orders and returns: {state:?}", start.elapsed());
            // A server that is killed every few seconds does not get to it by itself.
            let _ = server.try_sql(&database, "vacuum analyze");
        }
        assert!(start.elapsed() < limit, "the orders are not closed");
    }
    for service in &mut services {
        service.process.close_stdin();
    }
    for service in &mut services {
        assert!(service.process.wait(Duration::from_secs(60)).success());
    }
    let sql = |query: &str| server.sql(&database, query);
    // The orders of a transaction that was rolled back have numbers, and were never taken.
    let taken = "select count(*) = count(distinct id) and count(*) > (select orders from plan) / 2 from orders";
    assert_eq!(sql(taken), "t");
    assert_eq!(sql("(table orders except all table returns) union all (table returns except all table orders)"), "");
    assert_eq!(sql("select * from stock where pieces <> 1000000"), "", "the stock is wrong");
}
