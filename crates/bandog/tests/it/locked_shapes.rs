//! Functions of many shapes under `#[bandog::locked]`. The main test is that they compile without warnings.
#![deny(warnings, clippy::pedantic)]

use std::{cell::Cell, collections::HashMap, error::Error, fmt::Display, sync::Arc};

use bandog::{Client, Result, blocking, locked};

/// A type whose client is behind a pointer, in a field that is not called `client`.
struct Shop<T> {
    locks: Arc<Client>,
    stock: HashMap<u32, T>,
    last: Option<T>,
}

impl<T: Clone + Send + Sync + 'static> Shop<T> {
    #[locked(name = "stock-{id}", client = self.locks)]
    async fn put(&mut self, id: u32, what: T) -> Result<usize> {
        self.stock.insert(id, what.clone());
        self.last = Some(what);
        Ok(self.stock.len())
    }

    /// Returns a reference into `self`.
    #[locked(name = "stock-{id}", client = self.locks)]
    async fn find(&self, id: u32) -> Result<Option<&T>> {
        Ok(self.stock.get(&id))
    }

    #[locked(name = "stock-{id}", client = self.locks, wait = "1s")]
    async fn lend(&mut self, id: u32) -> Result<Option<&mut T>> {
        Ok(self.stock.get_mut(&id))
    }

    #[locked(name = "stock", client = Client::clone(&self.locks))]
    fn drain(&mut self) -> Result<&mut HashMap<u32, T>> {
        self.last = None;
        Ok(&mut self.stock)
    }

    #[locked(name = "stock", client = self.locks)]
    async fn sell(self: Box<Self>) -> Result<Option<T>> {
        Ok(self.last)
    }
}

trait Report {
    fn write(&self, title: &str) -> Result<String, Box<dyn Error + Send + Sync>>;

    async fn send<A: Display + Sync + ?Sized>(&self, to: &A) -> Result<String>;

    #[locked(name = "report", client = self.at())]
    async fn twice(&self) -> Result<(String, String)>
    where
        Self: Sized,
    {
        Ok((self.send("a").await?, self.send("b").await?))
    }

    fn at(&self) -> Client;
}

struct Printer(Client);

impl Report for Printer {
    #[locked(name = "title-{title}", client = &self.0)]
    fn write(&self, title: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
        if title.is_empty() {
            return Err("no title")?;
        }
        let pages: u32 = title.parse()?;
        Ok(format!("{pages} pages"))
    }

    #[locked(name = "to-{to}", client = self.0)]
    async fn send<A: Display + Sync + ?Sized>(&self, to: &A) -> Result<String> {
        Ok(to.to_string())
    }

    fn at(&self) -> Client {
        self.0.clone()
    }
}

/// Holds a `Cell` across an await. A `Cell` is `Send` but not `Sync`, so the future must still be `Send`.
#[locked(name = "cells")]
async fn moves(client: Client, cell: Cell<u32>, mut count: u32) -> Result<u32> {
    for _ in 0..3 {
        cell.set(cell.get() + count);
        count += 1;
        tokio::task::yield_now().await;
    }
    Ok(cell.get())
}

#[locked(name = "words")]
async fn words(
    client: &Client,
    words: impl Iterator<Item = &str> + Send,
) -> Result<Vec<String>, Box<dyn Error + Send + Sync>> {
    Ok(words.map(str::to_owned).collect())
}

#[locked(name = "shown")]
async fn shown(client: &Client) -> Result<impl Display> {
    Ok("shown")
}

#[locked(name = "shown")]
fn shown_blocking(client: &blocking::Client) -> Result<impl Display + use<>> {
    Ok("shown")
}

/// The names of the parameters are also names of variables in the code that the attribute generates.
#[locked(name = "sum-{value}")]
async fn sum(client: &Client, mutex: u32, guard: u32, value: u32) -> Result<u32> {
    Ok(mutex + guard + value)
}

#[locked(name = "pair-{a}-{b}")]
async fn pair((a, _): (u32, u32), [b, ..]: [u32; 2], client: &Client) -> Result<Box<dyn Display + Send>> {
    if a > b {
        return Ok(Box::new(a));
    }
    Ok(Box::new(format!("{a} and {b}")))
}

#[tokio::test]
async fn locked_functions_of_all_shapes_run() {
    let client = bandog::connect("memory:").await.unwrap();
    let mut shop = Shop { locks: Arc::new(client.clone()), stock: HashMap::new(), last: None };
    assert_eq!(shop.put(1, "apple").await.unwrap(), 1);
    assert_eq!(shop.find(1).await.unwrap(), Some(&"apple"));
    *shop.lend(1).await.unwrap().unwrap() = "pear";
    let mut shop = tokio::task::spawn_blocking(move || {
        assert_eq!(shop.drain().unwrap().remove(&1), Some("pear"));
        shop
    });
    let shop = (&mut shop).await.unwrap();
    assert_eq!(Box::new(shop).sell().await.unwrap(), None);

    let printer = Printer(client.clone());
    assert_eq!(printer.send("a").await.unwrap(), "a");
    assert_eq!(printer.twice().await.unwrap(), ("a".to_owned(), "b".to_owned()));
    let written = tokio::task::spawn_blocking(move || (printer.write("3"), printer.write("x"), printer.write("")));
    let (three, not_a_number, no_title) = written.await.unwrap();
    assert_eq!(three.unwrap(), "3 pages");
    assert!(not_a_number.is_err() && no_title.is_err());

    let moved = tokio::spawn(moves(client.clone(), Cell::new(1), 1));
    assert_eq!(moved.await.unwrap().unwrap(), 7);
    assert_eq!(words(&client, "a b".split(' ')).await.unwrap(), ["a", "b"]);
    assert_eq!(shown(&client).await.unwrap().to_string(), "shown");
    assert_eq!(pair((2, 0), [1, 0], &client).await.unwrap().to_string(), "2");
    assert_eq!(sum(&client, 1, 2, 3).await.unwrap(), 6);
    let threads = client.blocking().unwrap();
    let shown = tokio::task::spawn_blocking(move || shown_blocking(&threads).unwrap().to_string());
    assert_eq!(shown.await.unwrap(), "shown");
}
