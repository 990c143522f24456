//! `#[bandog::cached]` on functions of every shape.

use std::{
    fmt::Display,
    sync::atomic::{AtomicU32, Ordering::SeqCst},
};

use bandog::{
    Error, Result,
    grid::{
        ClientGrid, Grid,
        codec::{Decode, Encode, TextJson},
    },
};

/// An error of a program.
#[derive(Debug)]
enum ShopError {
    Database(String),
    Store(Error),
}

impl Display for ShopError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Database(text) => f.write_str(text),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl From<Error> for ShopError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

async fn grid() -> Grid {
    bandog::connect("memory:").await.unwrap().grid()
}

/// The number of calls of a body.
static CALLS: [AtomicU32; 10] = [const { AtomicU32::new(0) }; 10];

fn called(body: usize) -> u32 {
    CALLS[body].fetch_add(1, SeqCst) + 1
}

#[bandog::cached(name = "number-{sku}", fresh = "1m", stale = "1h", skip = "name")]
async fn number(grid: &Grid, sku: u32, name: &str) -> Result<String, ShopError> {
    tokio::task::yield_now().await;
    if sku == 0 {
        return Err(ShopError::Database(format!("no {name}")));
    }
    Ok(format!("{name} {}", called(0)))
}

#[tokio::test]
async fn a_function_runs_once_for_its_arguments() {
    let grid = grid().await;
    assert_eq!(number(&grid, 5, "a").await.unwrap(), "a 1");
    assert_eq!(number(&grid, 5, "b").await.unwrap(), "a 1");
    assert_eq!(number(&grid, 6, "b").await.unwrap(), "b 2");
    number::invalidate(&grid, &5).await.unwrap();
    assert_eq!(number(&grid, 5, "c").await.unwrap(), "c 3");
    for _ in 0..2 {
        let Err(ShopError::Database(text)) = number(&grid, 0, "d").await else {
            panic!("the error is not that of the body")
        };
        assert_eq!(text, "no d");
    }
}

#[tokio::test]
async fn callers_that_wait_get_the_text_of_the_error() {
    let grid = grid().await;
    let (first, second) = tokio::join!(number(&grid, 0, "x"), number(&grid, 0, "x"));
    let texts = [first, second].map(|result| result.unwrap_err().to_string());
    assert!(texts.contains(&"no x".to_owned()), "{texts:?}");
    assert!(texts.iter().all(|text| text.contains("no x")), "{texts:?}");
}

#[derive(Clone)]
struct Shop {
    grid: Grid,
    prefix: String,
}

impl Shop {
    #[bandog::cached(name = "price-{self.prefix}-{sku}", fresh = "1m", none = "1m", near = 10)]
    async fn price(&self, sku: u32) -> Result<Option<u32>> {
        let call = called(1);
        Ok((sku > 0).then_some(call))
    }

    #[bandog::cached(name = "any-{key}", grid = self.grid)]
    async fn any<T: Display + Send + Sync + Clone + 'static>(&self, key: T) -> String {
        format!("{key} {}", called(2))
    }
}

#[tokio::test]
async fn methods_and_generic_ones_are_cached() {
    let shop = Shop { grid: grid().await, prefix: "north".to_owned() };
    let other = Shop { prefix: "south".to_owned(), ..shop.clone() };
    assert_eq!((shop.price(1).await.unwrap(), shop.price(1).await.unwrap()), (Some(1), Some(1)));
    assert_eq!(other.price(1).await.unwrap(), Some(2));
    assert_eq!((shop.price(0).await.unwrap(), shop.price(0).await.unwrap()), (None, None));
    assert_eq!(CALLS[1].load(SeqCst), 3, "the absence is cached");
    shop.invalidate_price(&1).await.unwrap();
    assert_eq!((shop.price(1).await.unwrap(), other.price(1).await.unwrap()), (Some(4), Some(2)));
    assert_eq!(
        (shop.any("a").await, shop.any("a").await, shop.any(5).await),
        ("a 1".into(), "a 1".into(), "5 2".into())
    );
    shop.invalidate_any(&"a").await.unwrap();
    assert_eq!(shop.any("a").await, "a 3");
}

#[bandog::cached(name = "optional-{key}", cache = "process", none = "1m")]
async fn optional(key: String) -> Option<u32> {
    let call = called(3);
    (!key.is_empty()).then_some(call)
}

#[bandog::cached(name = "blocking-{key}", cache = "process")]
fn blocking(key: u32) -> Result<u32, ShopError> {
    std::thread::yield_now();
    if key == 0 { Err(ShopError::Database("no".to_owned())) } else { Ok(called(4)) }
}

#[bandog::cached(name = "plain", cache = "process")]
fn plain() -> u32 {
    called(5)
}

#[tokio::test]
async fn a_process_caches_without_a_store() {
    assert_eq!((optional("a".into()).await, optional("a".into()).await), (Some(1), Some(1)));
    assert_eq!((optional(String::new()).await, optional(String::new()).await), (None, None));
    assert_eq!(CALLS[3].load(SeqCst), 2);
    optional::invalidate(&"a".to_owned()).await.unwrap();
    assert_eq!(optional("a".into()).await, Some(3));
}

#[test]
fn functions_without_async_are_cached() {
    assert_eq!((blocking(1).unwrap(), blocking(1).unwrap(), blocking(2).unwrap()), (1, 1, 2));
    blocking::invalidate(&1).unwrap();
    assert_eq!(blocking(1).unwrap(), 3);
    assert_eq!(blocking(0).unwrap_err().to_string(), "no");
    assert_eq!((plain(), plain()), (1, 1));
    plain::invalidate().unwrap();
    assert_eq!(plain(), 2);
}

#[bandog::cached(name = "outer-{key}", cache = "process")]
fn outer(key: u32) -> Result<u32, ShopError> {
    Ok(blocking(key)? + 100)
}

#[bandog::cached(name = "endless-{key}", cache = "process")]
fn endless(key: u32) -> Result<u32, ShopError> {
    if key > 10 { endless(key) } else { endless(key + 1) }
}

#[bandog::cached(name = "panics", cache = "process")]
fn panics() -> u32 {
    panic!("on purpose")
}

#[tokio::test]
async fn functions_without_async_work_on_threads_of_tokio() {
    let call = || tokio::task::spawn_blocking(|| (blocking(21).unwrap(), blocking(21).unwrap(), outer(21).unwrap()));
    let (first, again, outer_of_it) = call().await.unwrap();
    assert_eq!((first, again, outer_of_it), (first, first, first + 100));
    let removed = tokio::task::spawn_blocking(|| blocking::invalidate(&21)).await.unwrap();
    removed.unwrap();
    assert_ne!(call().await.unwrap().0, first);
    let error = tokio::task::spawn_blocking(|| endless(1)).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("calls itself"), "{error}");
    assert!(tokio::task::spawn_blocking(panics).await.unwrap_err().is_panic());
}

#[bandog::cached(name = "secret-{tenant}/{key}")]
async fn secret(grid: &Grid, tenant: &str, key: &str) -> String {
    format!("{tenant} has {key}")
}

#[bandog::cached(name = "typed-{key}")]
async fn typed<T>(grid: &Grid, key: u8) -> T
where
    T: From<u8> + Clone + Send + Sync + 'static,
    TextJson: Encode<T> + Decode<T>,
{
    T::from(u8::try_from(called(6)).unwrap() + key)
}

#[tokio::test]
async fn different_arguments_have_different_entries() {
    let grid = grid().await;
    let parts = [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c"), ("a/b/c", ""), ("", "a/b/c")];
    for _ in 0..2 {
        for (tenant, key) in parts {
            assert_eq!(secret(&grid, tenant, key).await, format!("{tenant} has {key}"));
        }
    }
    secret::invalidate(&grid, "a", "b/c").await.unwrap();
    let (first, other): (u32, u64) = (typed(&grid, 1).await, typed(&grid, 1).await);
    assert_eq!((first, other), (2, 3));
    assert_eq!((typed::<u32>(&grid, 1).await, typed::<u64>(&grid, 1).await), (2, 3));
    typed::invalidate::<u32>(&grid, &1).await.unwrap();
    assert_eq!((typed::<u32>(&grid, 1).await, typed::<u64>(&grid, 1).await), (4, 3));
}

#[bandog::cached(name = "near-{key}", near = 100)]
async fn near(grid: &Grid, key: u32) -> u32 {
    CALLS[7].load(SeqCst)
}

#[tokio::test]
async fn copies_are_kept_between_calls_and_not_used_after_a_removal() {
    let grid = grid().await;
    for round in 0..1000 {
        CALLS[7].store(round, SeqCst);
        near::invalidate(&grid, &1).await.unwrap();
        for _ in 0..3 {
            assert_eq!(near(&grid, 1).await, round);
        }
    }
    let stats = grid.cache::<String, u32>("near").unwrap().stats();
    assert!(stats.near_hits >= 1000 && stats.loads >= 1000, "{stats:?}");
}

mod customers {
    #[bandog::cached(name = "user-{id}", fresh = "1m", cache = "process")]
    pub(super) async fn user(id: String) -> bandog::Result<String> {
        Ok(format!("customer {id}"))
    }
}

mod employees {
    #[bandog::cached(name = "user-{id}", fresh = "1m", cache = "process")]
    pub(super) async fn user(id: String) -> bandog::Result<String> {
        Ok(format!("employee {id}"))
    }

    #[bandog::cached(name = "user-{id}", fresh = "1m", cache = "process")]
    pub(super) async fn number(id: u32) -> u32 {
        id + 1
    }
}

/// A cache belongs to one function: another one with its name gives no value of it.
#[tokio::test]
async fn a_second_function_with_the_name_of_a_cache_is_refused() {
    for _ in 0..2 {
        assert_eq!(customers::user("7".to_owned()).await.unwrap(), "customer 7");
        let refused = employees::user("7".to_owned()).await.unwrap_err();
        let text = refused.to_string();
        assert_eq!(refused.kind(), bandog::ErrorKind::Misused, "{text}");
        assert!(["customers::user", "employees::user", "\"user\""].iter().all(|part| text.contains(part)), "{text}");
        // One that returns no `Result` runs each time.
        assert_eq!(employees::number(7).await, 8);
    }
    assert!(employees::user::invalidate(&"7".to_owned()).await.is_err());
    customers::user::invalidate(&"7".to_owned()).await.unwrap();
}
