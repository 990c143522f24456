//! The kinds of locks of functions under `#[bandog::locked]`.

use bandog::{Client, ErrorKind, Result, blocking, locked};

/// The kind and the number of holders of the lock.
async fn seen(client: &Client, name: &str) -> (&'static str, usize) {
    let row = client.show(name).await.unwrap();
    (row.kind.unwrap().name(), row.holders.len())
}

#[locked(name = "catalogue", shared)]
async fn read(client: &Client) -> Result<(&'static str, usize)> {
    assert!(client.rwlock("catalogue").try_write().await?.is_none());
    Ok(seen(client, "catalogue").await)
}

#[locked(name = "catalogue", exclusive, wait = "0s", guard = guard)]
async fn write(client: &Client) -> Result<Option<(&'static str, usize)>> {
    assert!(client.rwlock("catalogue").try_read().await?.is_none() && !guard.is_lost());
    Ok(Some(seen(client, "catalogue").await))
}

#[locked(name = "orders", fair, max_hold = "10s")]
async fn fair(client: &Client) -> Result<(&'static str, usize)> {
    Ok(seen(client, "orders").await)
}

#[locked(name = "gpu", permits = 2, of = 5, wait = "0s")]
async fn train(client: &Client) -> Result<Option<(&'static str, usize)>> {
    Ok(Some(seen(client, "gpu").await))
}

#[locked(name = "catalogue", exclusive, guard = guard)]
fn write_blocking(client: &blocking::Client) -> Result<u64> {
    assert!(!guard.is_lost());
    Ok(guard.fence().get())
}

#[locked(name = "catalogue", shared, wait = "1s")]
fn read_blocking(client: &blocking::Client) -> Result<Option<()>> {
    Ok(client.rwlock("catalogue").try_read()?.map(drop))
}

#[locked(name = "gpu", permits = 2, of = 2, lease = "10s")]
fn train_blocking(client: &blocking::Client) -> Result<bool> {
    Ok(client.semaphore("gpu", 2).try_acquire()?.is_none())
}

#[locked(name = "report", max_waiters = 1)]
async fn report(client: &Client) -> Result<()> {
    Ok(())
}

#[locked(name = "report", fair, wait = "1h", max_waiters = 1)]
fn report_blocking(client: &blocking::Client) -> Result<Option<()>> {
    Ok(Some(()))
}

/// One call waits, and each further call is refused at once.
#[tokio::test]
async fn a_call_behind_max_waiters_is_refused() {
    let client = bandog::connect("memory:").await.unwrap();
    let guard = client.mutex("report").lock().await.unwrap();
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { report(&client).await }
    });
    while client.health().await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(report(&client).await.unwrap_err().kind(), ErrorKind::Overloaded);
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap();
    report(&client).await.unwrap();
    let blocking = client.blocking().unwrap();
    let ended = tokio::task::spawn_blocking(move || report_blocking(&blocking)).await.unwrap();
    assert_eq!(ended.unwrap(), Some(()));
}

#[tokio::test]
async fn each_kind_is_taken_as_this_kind() {
    let client = bandog::connect("memory:").await.unwrap();
    let reader = client.rwlock("catalogue").read().await.unwrap();
    assert_eq!(read(&client).await.unwrap().0, "read-write");
    assert_eq!(write(&client).await.unwrap(), None, "a reader holds the lock");
    reader.release().await.unwrap();
    assert_eq!(write(&client).await.unwrap(), Some(("read-write", 1)));
    assert_eq!(fair(&client).await.unwrap(), ("fair", 1));
    let three = client.semaphore("gpu", 5).permits(3).acquire().await.unwrap();
    assert_eq!(train(&client).await.unwrap(), Some(("semaphore", 2)));
    let one = client.semaphore("gpu", 5).acquire().await.unwrap();
    assert_eq!(train(&client).await.unwrap(), None, "only one permit is free");
    drop((one, three));
}

#[test]
fn each_kind_is_taken_without_async() {
    let client = blocking::connect("memory:").unwrap();
    assert!(write_blocking(&client).unwrap() > 0);
    assert!(read_blocking(&client).unwrap().is_some());
    assert!(train_blocking(&client).unwrap());
}
