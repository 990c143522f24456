//! Objects that are read in pages.

use std::collections::VecDeque;

use bandog_core::{
    Error, Result,
    structures::{Bytes, Cursor, Page, Part},
};
use futures_util::stream::{BoxStream, Stream, unfold};

use crate::object::Object;

/// The number of items of a page.
const PAGE: usize = 500;

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
    let state = (object, VecDeque::<Item>::new(), Position::From(Cursor::default()), read);
    Box::pin(unfold(state, move |(object, mut items, mut position, read)| async move {
        loop {
            if let Some(item) = items.pop_front() {
                let item = read(item).map_err(|error| error.at(&object.key));
                return Some((item, (object, items, position, read)));
            }
            let Position::From(cursor) = position else { return None };
            match object.store.structures.page(&object.key, part, &cursor, PAGE).await {
                Ok(page) => {
                    position = page.next.clone().map_or(Position::End, Position::From);
                    items = split(part, page).into();
                }
                Err(error) => return Some((Err(error), (object, items, Position::End, read))),
            }
        }
    }))
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
