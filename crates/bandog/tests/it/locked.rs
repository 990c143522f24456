//! The behaviour of functions under `#[bandog::locked]`.

use std::{
    cell::Cell,
    fmt,
    future::pending,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    time::Duration,
};

use bandog::{
    Client, ErrorKind, Result,
    backend::{Clock, Memory},
    blocking, locked,
};
use tokio::{sync::Barrier, task::JoinSet};

/// A client whose time a test can pause.
fn paused_client() -> Client {
    let options = Client::options().clock(Clock::tokio()).on_current_runtime();
    options.over(Memory::new(Clock::tokio())).unwrap()
}

fn blocking_client() -> blocking::Client {
    blocking::connect("memory:").unwrap()
}

// Promise: A1
#[tokio::test]
async fn calls_of_a_locked_function_run_one_at_a_time() {
    struct Shop {
        client: Client,
        within: AtomicU32,
        most: AtomicU32,
    }
    impl Shop {
        #[locked(name = "orders")]
        async fn sweep(&self) -> Result<()> {
            let within = self.within.fetch_add(1, SeqCst) + 1;
            self.most.fetch_max(within, SeqCst);
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            self.within.fetch_sub(1, SeqCst);
            Ok(())
        }
    }
    let client = bandog::connect("memory:").await.unwrap();
    let shop = Arc::new(Shop { client, within: AtomicU32::new(0), most: AtomicU32::new(0) });
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let shop = Arc::clone(&shop);
        calls.spawn(async move { shop.sweep().await });
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap().unwrap();
    }
    assert_eq!(shop.most.load(SeqCst), 1);
}

#[tokio::test]
async fn the_name_of_the_lock_contains_parameters_and_their_fields() {
    struct Order {
        id: u32,
        shop: (&'static str, u8),
    }
    struct Desk {
        client: Client,
        hall: String,
    }
    const ALL: &str = "all orders";
    impl Desk {
        #[locked(name = "{self.hall}/{order.shop.0}-{order.id:04}-{{{count}}}", guard = guard)]
        async fn named(&self, order: &Order, count: usize) -> Result<String> {
            Ok(guard.key().to_string())
        }

        #[locked(name = ALL, guard = held)]
        async fn whole(&self) -> Result<String> {
            Ok(held.key().to_string())
        }

        #[locked(name = self.hall.to_uppercase(), guard = held)]
        async fn loud(&self) -> Result<String> {
            Ok(held.key().to_string())
        }
    }
    let desk = Desk { client: bandog::connect("memory:").await.unwrap(), hall: "north".to_owned() };
    let order = Order { id: 42, shop: ("berlin", 1) };
    assert_eq!(desk.named(&order, 3).await.unwrap(), "north/berlin-0042-{3}");
    assert_eq!(desk.whole().await.unwrap(), ALL);
    assert_eq!(desk.loud().await.unwrap(), "NORTH");
    assert_eq!(order.shop.1, 1);
}

#[tokio::test]
async fn an_empty_name_at_run_time_is_an_error() {
    #[locked(name = "{id}")]
    async fn work(client: &Client, id: &str) -> Result<()> {
        Ok(())
    }
    let client = bandog::connect("memory:").await.unwrap();
    assert_eq!(work(&client, "").await.unwrap_err().kind(), ErrorKind::Misused);
}

// Promise: A3
#[tokio::test]
async fn if_the_lock_is_busy_the_call_returns_none_without_running_the_body() {
    #[locked(name = "orders", wait = "0s")]
    async fn sweep(client: &Client) -> Result<Option<u32>> {
        Ok(Some(7))
    }
    let client = bandog::connect("memory:").await.unwrap();
    assert_eq!(sweep(&client).await.unwrap(), Some(7));
    let guard = client.mutex("orders").lock().await.unwrap();
    assert_eq!(sweep(&client).await.unwrap(), None);
    guard.release().await.unwrap();
    assert_eq!(sweep(&client).await.unwrap(), Some(7));
}

// Promise: A3
#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_busy_lock_as_long_as_the_key_wait_says() {
    #[locked(name = "orders", wait = "5s")]
    async fn sweep(client: &Client) -> Result<Option<()>> {
        Ok(Some(()))
    }
    let client = paused_client();
    let guard = client.mutex("orders").lock().await.unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(sweep(&client).await.unwrap(), None);
    assert_eq!(began.elapsed().as_secs(), 5);
    drop(guard);
    assert_eq!(sweep(&client).await.unwrap(), Some(()));
}

/// Sets a flag when it is dropped.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

// Promise: A2
#[tokio::test(start_paused = true)]
async fn the_body_is_dropped_when_the_lock_is_lost() {
    #[locked(name = "orders", lease = "10s")]
    async fn sweep(client: &Client, flag: SetOnDrop) -> Result<()> {
        let _flag = flag;
        pending().await
    }
    let (client, dropped) = (paused_client(), Arc::new(AtomicBool::new(false)));
    let began = tokio::time::Instant::now();
    let error = sweep(&client, SetOnDrop(Arc::clone(&dropped))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().contains("orders"), "{error}");
    assert!(dropped.load(SeqCst));
    assert_eq!(began.elapsed().as_secs(), 9, "the loss comes before the lease expires, by a hundredth of the lease");
}

#[tokio::test(start_paused = true)]
async fn a_renewed_lock_is_lost_after_its_maximum_hold_time() {
    #[locked(name = "orders", max_hold = "2m")]
    async fn sweep(client: &Client) -> Result<()> {
        pending().await
    }
    let began = tokio::time::Instant::now();
    assert_eq!(sweep(&paused_client()).await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(began.elapsed() <= Duration::from_secs(120) && began.elapsed() > Duration::from_secs(110));
}

#[tokio::test]
async fn closing_the_client_drops_the_body() {
    #[locked(name = "orders")]
    async fn sweep(client: &Client, begun: Arc<Barrier>) -> Result<()> {
        begun.wait().await;
        pending().await
    }
    let (client, begun) = (bandog::connect("memory:").await.unwrap(), Arc::new(Barrier::new(2)));
    let (swept, ()) = tokio::join!(sweep(&client, Arc::clone(&begun)), async {
        begun.wait().await;
        client.close().await.unwrap();
    });
    assert_eq!(swept.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(sweep(&client, begun).await.unwrap_err().kind(), ErrorKind::Closed);
}

// Promise: A1
#[tokio::test]
async fn dropping_a_call_releases_the_lock() {
    #[locked(name = "orders")]
    async fn sweep(client: &Client, begun: &Barrier) -> Result<()> {
        begun.wait().await;
        pending().await
    }
    let (client, begun) = (bandog::connect("memory:").await.unwrap(), Barrier::new(2));
    tokio::select! {
        _ = sweep(&client, &begun) => unreachable!("the body waits forever"),
        _ = begun.wait() => {}
    }
    client.mutex("orders").lock().await.unwrap().release().await.unwrap();
}

// Promise: A1
#[tokio::test]
async fn an_error_of_the_body_is_returned_and_the_lock_is_released() {
    #[derive(Debug)]
    enum Fault {
        Empty,
        Lock(bandog::Error),
    }
    impl From<bandog::Error> for Fault {
        fn from(error: bandog::Error) -> Self {
            Self::Lock(error)
        }
    }
    impl fmt::Display for Fault {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{self:?}")
        }
    }
    #[locked(name = "orders")]
    async fn sweep(client: &Client, orders: &[u32]) -> Result<u32, Fault> {
        let first = orders.first().ok_or(Fault::Empty)?;
        if *first == 0 {
            return Err(Fault::Empty);
        }
        Ok(*first)
    }
    let client = bandog::connect("memory:").await.unwrap();
    assert!(matches!(sweep(&client, &[]).await, Err(Fault::Empty)));
    assert!(matches!(sweep(&client, &[0]).await, Err(Fault::Empty)));
    assert!(matches!(sweep(&client, &[5]).await, Ok(5)));
    client.close().await.unwrap();
    assert!(matches!(sweep(&client, &[5]).await, Err(Fault::Lock(error)) if error.kind() == ErrorKind::Closed));
}

#[test]
fn without_async_a_nested_call_gets_the_lock_that_its_thread_holds() {
    struct Shop {
        client: blocking::Client,
        depth: Cell<u32>,
    }
    impl Shop {
        #[locked(name = "orders", guard = guard)]
        fn sweep(&self, down: u32) -> Result<u64> {
            assert!(self.client.show("orders")?.is_held());
            self.depth.set(self.depth.get() + 1);
            if down > 0 {
                assert_eq!(self.sweep(down - 1)?, guard.fence().get());
            }
            Ok(guard.fence().get())
        }
    }
    let shop = Shop { client: blocking_client(), depth: Cell::new(0) };
    assert!(shop.sweep(2).unwrap() > 0);
    assert_eq!(shop.depth.get(), 3);
    assert!(shop.client.show("orders").unwrap().owner().is_none());
}

#[test]
fn without_async_a_call_returns_none_if_the_lock_is_busy() {
    #[locked(name = "orders", wait = "10ms")]
    fn sweep(client: &blocking::Client) -> Result<Option<()>> {
        Ok(Some(()))
    }
    let client = blocking_client();
    let guard = client.mutex("orders").lock().unwrap();
    std::thread::scope(|threads| {
        assert_eq!(threads.spawn(|| sweep(&client)).join().unwrap().unwrap(), None);
    });
    guard.release().unwrap();
    assert_eq!(sweep(&client).unwrap(), Some(()));
}

// Promise: A2
#[test]
fn without_async_a_lost_lock_is_an_error_when_the_body_ends() {
    #[locked(name = "orders", lease = "100ms", guard = guard)]
    fn sweep(client: &blocking::Client) -> Result<u32> {
        guard.lost().wait()?;
        Ok(7)
    }
    assert_eq!(sweep(&blocking_client()).unwrap_err().kind(), ErrorKind::Lost);
}

// Promise: A1
#[test]
fn without_async_a_body_that_panics_releases_the_lock() {
    #[locked(name = "orders")]
    fn sweep(client: &blocking::Client) -> Result<()> {
        panic!("on purpose");
    }
    let client = blocking_client();
    std::thread::scope(|threads| assert!(threads.spawn(|| sweep(&client)).join().is_err()));
    client.mutex("orders").lock().unwrap().release().unwrap();
}

#[tokio::test]
async fn a_function_without_async_is_refused_in_async_code_and_runs_in_spawn_blocking() {
    #[locked(name = "orders")]
    fn sweep(client: &Client) -> Result<u32> {
        Ok(7)
    }
    let client = bandog::connect("memory:").await.unwrap();
    assert_eq!(sweep(&client).unwrap_err().kind(), ErrorKind::Misused);
    assert_eq!(tokio::task::spawn_blocking(move || sweep(&client)).await.unwrap().unwrap(), 7);
}
