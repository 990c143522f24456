//! Remote services.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bandog::{
    testing::Store,
    work::{CallError, ClientWork, Phase, RemoteCalls, WorkQueue},
};
use bandog_testkit::eventually_async;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::kit::SECOND;

#[bandog::remote(name = "stock.v1")]
trait Stock {
    async fn double(&self, number: u32) -> Result<u32, String>;
    async fn pair(&self, first: String, second: Option<u8>) -> Result<(String, Option<u8>), String>;
    async fn nothing(&self) -> Result<(), String>;
    async fn endless(&self) -> Result<(), String>;
    async fn panics(&self) -> Result<(), String>;
}

#[derive(Default)]
struct Shop {
    /// The calls of `endless` whose futures were dropped.
    dropped: Arc<AtomicU32>,
    begun: Arc<AtomicU32>,
}

struct Counts(Arc<AtomicU32>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Stock for Shop {
    async fn double(&self, number: u32) -> Result<u32, String> {
        tokio::time::sleep(Duration::from_millis(u64::from(number % 50))).await;
        if number == 13 { Err("unlucky".to_owned()) } else { Ok(number * 2) }
    }

    async fn pair(&self, first: String, second: Option<u8>) -> Result<(String, Option<u8>), String> {
        Ok((first, second))
    }

    async fn nothing(&self) -> Result<(), String> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn endless(&self) -> Result<(), String> {
        let _counts = Counts(self.dropped.clone());
        self.begun.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }

    async fn panics(&self) -> Result<(), String> {
        panic!("on purpose")
    }
}

#[tokio::test(start_paused = true)]
async fn each_call_gets_its_own_answer() {
    let store = Store::new();
    let servers: Vec<_> =
        (0..3).map(|_| StockService::of(Shop::default()).serve(&store.client(), 8).unwrap()).collect();
    let clients: Vec<_> = (0..4).map(|_| StockClient::over(&store.client()).unwrap().within(SECOND * 60)).collect();
    let calls = (0..1000_u32).map(|number| {
        let client = &clients[number as usize % 4];
        async move {
            match client.double(number).await {
                Ok(answer) => assert_eq!(answer, number * 2),
                Err(CallError::Refused(error)) => assert_eq!((number, error.as_str()), (13, "unlucky")),
                Err(error) => panic!("{number}: {error}"),
            }
        }
    });
    join_all(calls).await;
    assert_eq!(clients[0].pair("a".into(), None).await.unwrap(), ("a".to_owned(), None));
    assert_eq!(clients[0].pair(String::new(), Some(7)).await.unwrap(), (String::new(), Some(7)));
    clients[0].nothing().await.unwrap();
    for server in servers {
        server.stop().await.unwrap();
    }
}

// Promise: W9
#[tokio::test(start_paused = true)]
async fn a_call_without_a_server_is_never_begun() {
    let store = Store::new();
    let client = StockClient::over(&store.client()).unwrap().within(SECOND);
    let begun = Instant::now();
    let error = client.nothing().await.unwrap_err();
    assert!(matches!(error, CallError::NoServer), "{error}");
    assert!((SECOND..SECOND * 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    let shop = Shop::default();
    let count = shop.begun.clone();
    let server = StockService::of(shop).serve(&store.client(), 1).unwrap();
    tokio::time::sleep(SECOND * 10).await;
    assert_eq!(count.load(Ordering::SeqCst), 0);
    server.stop().await.unwrap();
}

// Promise: W9
#[tokio::test(start_paused = true)]
async fn a_late_call_is_cancelled() {
    let store = Store::new();
    let shop = Shop::default();
    let (dropped, begun) = (shop.dropped.clone(), shop.begun.clone());
    let server = StockService::of(shop).serve(&store.client(), 4).unwrap();
    let client = StockClient::over(&store.client()).unwrap().within(SECOND);
    let error = client.endless().await.unwrap_err();
    assert!(matches!(error, CallError::Late), "{error}");
    eventually_async(SECOND * 60, async || dropped.load(Ordering::SeqCst) == 1).await;
    // A caller that goes away cancels its call, too.
    let client = client.within(SECOND * 600);
    let call = tokio::time::timeout(SECOND * 2, client.endless());
    assert!(call.await.is_err());
    assert_eq!(begun.load(Ordering::SeqCst), 2);
    eventually_async(SECOND * 60, async || dropped.load(Ordering::SeqCst) == 2).await;
    server.stop().await.unwrap();
    let queue: WorkQueue<String> = store.client().work_queue("stock.v1").unwrap();
    let counts = queue.status().await.unwrap().counts;
    assert_eq!(counts.values().sum::<u64>(), 0, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn lost_calls_leave_nothing() {
    let store = Store::new();
    let server = StockService::of(Shop::default()).serve(&store.client(), 4).unwrap();
    let client = StockClient::over(&store.client()).unwrap();
    let error = client.panics().await.unwrap_err();
    assert!(matches!(&error, CallError::Lost(error) if error.contains("on purpose")), "{error}");
    let newer = RemoteCalls::of(&store.client(), "stock.v1").unwrap();
    let error = newer.call::<_, (), String>("newer", (1_u8,)).await.unwrap_err();
    assert!(matches!(&error, CallError::Lost(error) if error.contains("newer")), "{error}");
    let error = newer.call::<_, u32, String>("double", ("no number",)).await.unwrap_err();
    assert!(matches!(&error, CallError::Lost(_)), "{error}");
    let queue: WorkQueue<String> = store.client().work_queue("stock.v1").unwrap();
    eventually_async(SECOND * 60, async || queue.status().await.unwrap().count(Phase::Dead) == 0).await;
    server.stop().await.unwrap();
}

/// The call of a server that ends is lost: another server does not begin it again.
#[tokio::test(start_paused = true)]
async fn a_call_is_begun_once_also_if_its_server_is_dropped() {
    let store = Store::new();
    let shops = [Shop::default(), Shop::default()];
    let begun = [shops[0].begun.clone(), shops[1].begun.clone()];
    let all = || begun.iter().map(|begun| begun.load(Ordering::SeqCst)).sum::<u32>();
    let [first, second] = shops.map(|shop| StockService::of(shop).serve(&store.client(), 1).unwrap());
    let client = StockClient::over(&store.client()).unwrap().within(SECOND * 600);
    let call = tokio::spawn(async move { client.endless().await });
    eventually_async(SECOND * 60, async || all() == 1).await;
    let (runs, other) = if begun[0].load(Ordering::SeqCst) == 1 { (first, second) } else { (second, first) };
    drop(runs);
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(&error, CallError::Lost(error) if error.contains("has ended")), "{error}");
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(all(), 1);
    other.stop().await.unwrap();
}

/// Also calls that wait in the program for a free slot.
#[tokio::test(start_paused = true)]
async fn no_call_is_begun_after_its_time() {
    let store = Store::new();
    let server = StockService::of(Shop::default()).serve(&store.client(), 1).unwrap();
    let client = StockClient::over(&store.client()).unwrap().within(SECOND / 10);
    client.double(1).await.unwrap(); // It takes elements in advance now.
    let ends = join_all((0..10).map(|_| client.double(30))).await;
    assert!(ends.iter().filter(|end| end.is_ok()).count() >= 3, "{ends:?}");
    assert!(ends.iter().any(|end| matches!(end, Err(CallError::NoServer))), "{ends:?}");
    server.stop().await.unwrap();
    // A caller that has died cancels nothing.
    let calls: WorkQueue<(String, u64, ())> = store.client().work_queue("stock.v1").unwrap();
    calls.push(&("nothing".to_owned(), 100, ())).await.unwrap();
    tokio::time::sleep(SECOND).await;
    let shop = Shop::default();
    let begun = shop.begun.clone();
    let server = StockService::of(shop).serve(&store.client(), 1).unwrap();
    let left = async || calls.status().await.unwrap().counts.values().sum::<u64>();
    eventually_async(SECOND * 60, async || left().await == 0).await;
    assert_eq!(begun.load(Ordering::SeqCst), 0);
    server.stop().await.unwrap();
}
