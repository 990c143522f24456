//! Replicas of the service on a real PostgreSQL and a real Redis, one of which is killed or stopped.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use bandog_testkit::{PostgresServer, Process, RedisServer, eventually};

/// Timeout for expected events. A test reaches it only if it fails.
const SOON: Duration = Duration::from_secs(90);

/// The server of all tests, each of which has a database. At the end of the process, its janitor stops it.
static POSTGRES: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

/// The stores of some replicas.
struct Stores {
    database: String,
    redis: RedisServer,
}

impl Stores {
    fn new() -> Self {
        let database = POSTGRES.new_database();
        POSTGRES.sql(&database, "grant create on schema public to locks");
        Self { database, redis: RedisServer::start() }
    }

    fn url(&self) -> String {
        format!("postgres://{}@127.0.0.1:{}/{}", PostgresServer::LOCKS, POSTGRES.port(), self.database)
    }

    fn sql(&self, statement: &str) -> String {
        POSTGRES.sql(&self.database, statement)
    }

    /// Starts a replica on a free port.
    fn replica(&self) -> Replica {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bandog-example-axum-orders"));
        command.env("DATABASE_URL", self.url()).env("CACHE_URL", self.redis.url()).env("PORT", "0");
        let process = Process::spawn(&command);
        let line = process.stdout_line("http://127.0.0.1:", SOON);
        let port = line.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        Replica { process, port }
    }

    /// Creates a product, and this number of orders of it. Returns the ids of the orders.
    fn orders(&self, count: usize) -> Vec<i64> {
        self.sql("insert into products values ('apple', 250, 100)");
        (0..count)
            .map(|_| self.sql("insert into orders (sku) values ('apple') returning id").parse().unwrap())
            .collect()
    }

    /// Checks that each of these orders is paid, was charged once, and has one receipt, which may come later.
    fn check_paid(&self, orders: &[i64]) {
        let ids = orders.iter().map(i64::to_string).collect::<Vec<_>>().join("\n");
        eventually(SOON, || self.sql("select count(distinct order_id) from receipts") == orders.len().to_string());
        assert_eq!(self.sql("select order_id from receipts order by 1"), ids, "the orders of the receipts");
        assert_eq!(self.sql("select order_id from charges order by 1"), ids, "the orders that were charged");
        assert_eq!(self.sql("select id from orders where state = 'paid' order by 1"), ids, "the paid orders");
    }
}

/// A process of the service.
struct Replica {
    process: Process,
    port: u16,
}

impl Replica {
    fn get(&self, path: &str) -> (u16, String) {
        request(self.port, "GET", path, "").expect("the replica answers")
    }

    /// The number of a metric without labels.
    fn metric(&self, name: &str) -> Option<String> {
        let (_, text) = self.get("/metrics");
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned))
    }
}

#[test]
fn an_order_is_paid_once_however_many_requests_there_are() {
    let stores = Stores::new();
    let replicas = [stores.replica(), stores.replica()];
    let orders = stores.orders(3);
    let paid: BTreeSet<i64> = thread::scope(|scope| {
        let calls = orders.iter().flat_map(|id| (0..6).map(move |number| (*id, number % 2)));
        let calls: Vec<_> = calls
            .map(|(id, replica)| {
                let port = replicas[replica].port;
                scope.spawn(move || pay(&[port], id).contains("is paid").then_some(id))
            })
            .collect();
        let paid: Vec<_> = calls.into_iter().filter_map(|call| call.join().expect("a call")).collect();
        assert!(paid.len() <= orders.len(), "two requests have paid one order: {paid:?}");
        paid.into_iter().collect()
    });
    assert!(paid.iter().all(|id| orders.contains(id)));
    stores.check_paid(&orders);
    assert_eq!(request(replicas[0].port, "POST", "/orders/999/pay", "").unwrap().0, 404);
}

#[test]
fn a_killed_replica_loses_no_payment_and_no_receipt() {
    let stores = Stores::new();
    let (killed, other) = (stores.replica(), stores.replica());
    let orders = stores.orders(40);
    thread::scope(|scope| {
        for part in orders.chunks(10) {
            let ports = [killed.port, other.port];
            scope.spawn(move || part.iter().for_each(|id| drop(pay(&ports, *id))));
        }
        eventually(SOON, || stores.sql("select count(*) >= 8 from orders where state = 'paid'") == "t");
        killed.process.kill(); // some of its requests are in the middle
    });
    stores.check_paid(&orders);
}

#[test]
fn a_new_price_is_seen_by_all_replicas_at_once() {
    let stores = Stores::new();
    let (one, other) = (stores.replica(), stores.replica());
    stores.orders(0);
    let old = r#"{"sku":"apple","cents":250}"#;
    assert_eq!((one.get("/products/apple"), other.get("/products/apple")), ((200, old.into()), (200, old.into())));
    assert_eq!(request(one.port, "PUT", "/products/apple/cents", "300").unwrap().0, 200);
    let new = old.replace("250", "300");
    assert_eq!((other.get("/products/apple"), one.get("/products/apple")), ((200, new.clone()), (200, new)));
    assert_eq!(other.get("/products/pear").0, 404);

    assert_eq!(request(other.port, "POST", "/orders", "apple").unwrap(), (200, "1\n".into()));
    assert_eq!(stores.sql("select stock from products"), "99");
    let (status, page) = one.get("/bandog/");
    assert!(status == 200 && page.contains("<html"), "{status} {page}");
    assert!(
        one.get("/metrics").1.contains("bandog_cache_misses_total{cache=\"products\"}"),
        "the metrics of the cache"
    );
}

#[test]
fn an_unpaid_order_is_closed_once() {
    let stores = Stores::new();
    let replicas = [stores.replica(), stores.replica()];
    let orders = stores.orders(5);
    stores.sql("update orders set due = now() - interval '1 minute' where id > 2");
    eventually(SOON, || stores.sql("select count(*) from orders where state = 'closed'") == "3");
    assert_eq!(stores.sql("select stock from products"), "103");
    let (status, text) = request(replicas[0].port, "POST", &format!("/orders/{}/pay", orders[4]), "").unwrap();
    assert_eq!((status, text.as_str()), (409, "order 5 is closed\n"));
    assert_eq!(stores.sql("select count(*) from charges"), "0");
}

#[test]
fn an_open_request_is_answered_before_the_replica_ends() {
    let stores = Stores::new();
    let mut replica = stores.replica();
    let id = stores.orders(1)[0];
    // The program of the test has the lock of the order.
    let client = bandog::blocking::connect(stores.url()).unwrap();
    let guard = client.mutex(format!("order-{id}")).lock().unwrap();
    let port = replica.port;
    let open = thread::spawn(move || request(port, "POST", &format!("/orders/{id}/pay"), "").unwrap());
    eventually(SOON, || replica.metric("bandog_waiting").is_some_and(|waiting| waiting == "1"));
    replica.process.term();
    eventually(SOON, || TcpStream::connect(("127.0.0.1", port)).is_err()); // it accepts no new requests
    guard.release().unwrap();
    let (status, text) = open.join().expect("an answer");
    assert_eq!((status, text), (200, format!("order {id} is paid\n")));
    assert!(replica.process.wait(SOON).success());

    let _next = stores.replica(); // sends the receipt, if the first one has not sent it
    stores.check_paid(&[id]);
}

/// Pays an order at one of these ports. After an error, the next port is used.
fn pay(ports: &[u16], id: i64) -> String {
    let start = Instant::now();
    for port in ports.iter().cycle() {
        match request(*port, "POST", &format!("/orders/{id}/pay"), "") {
            Ok((200, text)) => return text,
            other => assert!(start.elapsed() < SOON, "order {id} cannot be paid: {other:?}"),
        }
    }
    unreachable!("there is a port")
}

/// Sends a request, and returns the status and the body of the answer.
fn request(port: u16, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(SOON))?;
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    status.zip(body).ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, answer))
}
