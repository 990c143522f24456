//! Objects that are read in pages.

use std::collections::VecDeque;

use bandog_core::{
    Error, Portions, Result,
    structures::{Bytes, Cursor, Page, Part},
};
use futures_util::stream::{BoxStream, Stream, unfold};

use crate::object::Object;

/// The number of items of a page.
pub(crate) const PAGE: usize = 500;
/// Maximum number of requests for a page. Each one after an answer that did not come in time asks for less.
const MAX_ATTEMPTS: u32 = 4;

/// An item of a page: the bytes, the bytes of the value of an entry, and the score.
pub(crate) type Item = (Bytes, Option<Bytes>, Option<f64>);

/// Where a stream is.
enum Position {
    From(Cursor),
    End,
}

/// Reads all items of a part of an object. An item that cannot be read is one error, and the stream continues. An error of
/// the store ends the stream.
pub(crate) fn stream<T: 'static>(
    object: &Object,
    part: Part,
    read: impl Fn(Item) -> Result<T> + Send + 'static,
) -> BoxStream<'static, Result<T>> {
    let object = object.clone();
    let state = (object, VecDeque::<Item>::new(), Position::From(Cursor::default()), Portions::default(), read);
    Box::pin(unfold(state, move |(object, mut items, mut position, mut portions, read)| async move {
        loop {
            if let Some(item) = items.pop_front() {
                let item = read(item).map_err(|error| error.at(&object.key));
                return Some((item, (object, items, position, portions, read)));
            }
            let Position::From(cursor) = position else { return None };
            let page = in_time(&mut portions, |portions| {
                let (object, cursor) = (object.clone(), cursor.clone());
                async move { object.store.structures.page(&object.key, part, &cursor, portions.next(PAGE)).await }
            });
            match page.await {
                Ok(page) => {
                    position = page.next.clone().map_or(Position::End, Position::From);
                    items = split(part, page).into();
                }
                Err(error) => return Some((Err(error), (object, items, Position::End, portions, read))),
            }
        }
    }))
}

/// Reads a page. If the answer does not come in time, asks for a smaller one: a slow wire carries that.
pub(crate) async fn in_time<P, F>(portions: &mut Portions, read: impl Fn(Portions) -> F) -> Result<P>
where
    F: Future<Output = Result<P>>,
{
    for _ in 1..MAX_ATTEMPTS {
        match read(*portions).await {
            // An answer was awaited. Without a connection, a smaller page does not come either.
            Err(error) if error.maybe_applied() => portions.failed(),
            Err(error) => return Err(error),
            Ok(page) => {
                portions.answered();
                return Ok(page);
            }
        }
    }
    read(*portions).await
}

fn split(part: Part, page: Page) -> Vec<Item> {
    let mut bytes = page.items.into_iter();
    let mut scores = page.scores.into_iter();
    let mut items = Vec::new();
    while let Some(first) = bytes.next() {
        let value = if matches!(part, Part::Entries | Part::Timed) { bytes.next() } else { None };
        items.push((first, value, scores.next()));
    }
    items
}

/// The first items of a stream.
pub(crate) async fn first<T>(stream: impl Stream<Item = Result<T>>, at_most: usize) -> Result<Vec<T>> {
    use futures_util::StreamExt;
    let mut stream = std::pin::pin!(stream);
    let mut items = Vec::new();
    while items.len() < at_most {
        match stream.next().await {
            Some(item) => items.push(item?),
            None => break,
        }
    }
    Ok(items)
}

/// The value of an entry.
pub(crate) fn value(item: Option<Bytes>) -> Result<Bytes> {
    item.ok_or_else(|| Error::new(bandog_core::ErrorKind::Corrupt, "an entry of the store has no value"))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use bandog_core::{ErrorKind, PORTION};

    use super::*;

    /// Reads a page over a wire that carries this number of bytes in time. Returns the bytes of each request.
    async fn read(portions: &mut Portions, carries: usize, late: &Error) -> (Result<()>, Vec<usize>) {
        let asked = Mutex::new(Vec::new());
        let page = in_time(portions, |portions| {
            let (_, bytes) = portions.next(PAGE).left();
            asked.lock().unwrap().push(bytes);
            std::future::ready(if bytes > carries { Err(late.clone()) } else { Ok(()) })
        });
        (page.await, asked.into_inner().unwrap())
    }

    #[tokio::test]
    async fn a_page_that_does_not_come_in_time_is_asked_for_again_and_smaller() {
        let late = Error::unavailable("no answer").ambiguous();
        let mut portions = Portions::default();
        let (page, asked) = read(&mut portions, 100_000, &late).await;
        assert!(page.is_ok() && asked == [PORTION, PORTION / 4, PORTION / 16], "{asked:?}");
        let (page, asked) = read(&mut portions, PORTION, &late).await;
        assert!(page.is_ok() && asked == [PORTION / 8], "it does not begin with a whole one again: {asked:?}");
        let (page, asked) = read(&mut Portions::default(), 0, &late).await;
        assert!(page.is_err() && asked.len() == 4, "it ends: {asked:?}");
        let refused = Error::new(ErrorKind::Denied, "no");
        let (page, asked) = read(&mut Portions::default(), 0, &refused).await;
        assert!(page.is_err() && asked.len() == 1, "a refusal is final: {asked:?}");
    }
}
