//! Laws of what one answer may have: items and bytes.

use bandog_core::{
    PORTION, Portion,
    structures::{
        Action, Bytes, Cursor, End, EntryId, Expiry, JournalOp, Keep, Life, ListOp, MapOp, Page, Part, SetOp, SortedOp,
        Source, TakeEnd, TakeOp, TimedOp,
    },
};

use super::{
    ObjectWorld,
    kit::{FRONT, LONG, Store, b},
    take::settle,
};

/// The bytes of an item: five of them fit into a page.
const LENGTH: usize = 200 * 1024;
/// The number of items.
const ITEMS: u8 = 40;

/// Items that differ in each byte.
fn items() -> Vec<Bytes> {
    (0..ITEMS).map(|number| vec![number; LENGTH]).collect()
}

/// The pages of an object that has these items. Each has at most a portion of bytes beside what is at one place of the store, for
/// which the cursors of some stores have no positions.
async fn bounded<W: ObjectWorld>(store: &Store<'_, W>, part: Part, at_one_place: usize) -> Vec<Page> {
    let (mut pages, mut from) = (Vec::new(), Some(Cursor::default()));
    while let Some(cursor) = from {
        let about = Portion::new(1_000, PORTION);
        let page = store.structures().page(&store.key("x"), part, &cursor, about).await.expect("a page");
        let bytes = page.items.iter().map(Vec::len).sum::<usize>();
        assert!(bytes <= PORTION + at_one_place * LENGTH, "{part:?}: {bytes} bytes");
        from = page.next.clone();
        pages.push(page);
    }
    assert!(pages.len() >= usize::from(ITEMS) * LENGTH / (PORTION + at_one_place * LENGTH), "{part:?}");
    pages
}

/// Law 401: a page of a list or a sorted set has at most a megabyte, and all pages together have all items in their order. An item
/// that is longer than a page is a page of its own.
pub async fn pages_in_order_are_limited_in_bytes<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    for part in [Part::Elements, Part::Scored] {
        let mut written = items();
        written.insert(7, vec![255; PORTION + 1]);
        for (number, item) in written.iter().cloned().enumerate() {
            let write: Action = match part {
                Part::Elements => ListOp::Push { end: End::Back, elements: vec![item], once: None }.into(),
                _ => SortedOp::Insert(vec![(number as f64, item)]).into(),
            };
            store.run("x", write).await;
        }
        let pages = bounded(&store, part, 1).await;
        for page in &pages {
            let bytes = page.items.iter().map(Vec::len).sum::<usize>();
            assert!(bytes <= PORTION || page.items.len() == 1, "{part:?}: {} items", page.items.len());
        }
        assert!(pages.iter().flat_map(|page| &page.items).eq(&written), "{part:?}");
        let about = Portion::new(1_000, LENGTH * 5 / 2);
        let page = store.structures().page(&store.key("x"), part, &Cursor::default(), about).await.expect("a page");
        assert!(page.items == written[..2], "{part:?}: a caller may ask for less");
        store.delete("x", part).await;
    }
}

/// Law 402: a page of a map, a set or a timed map has about a megabyte, and all pages together have all items.
pub async fn pages_without_an_order_are_limited_in_bytes<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    for part in [Part::Members, Part::Entries, Part::Timed, Part::Fields(None)] {
        for (number, item) in items().into_iter().enumerate() {
            let field = b(&number.to_string());
            let write: Action = match part {
                Part::Members => SetOp::Insert(vec![item]).into(),
                Part::Timed => {
                    let put = TimedOp::Entries(MapOp::Put(vec![(field, item)]), Life::default());
                    Action::Timed(Expiry::Operations, put)
                }
                Part::Fields(_) => MapOp::Put(vec![(item, b("value"))]).into(),
                _ => MapOp::Put(vec![(field, item)]).into(),
            };
            store.run("x", write).await;
        }
        let mut read: Vec<Bytes> = bounded(&store, part, 5).await.into_iter().flat_map(|page| page.items).collect();
        read.retain(|item| item.len() == LENGTH);
        read.sort();
        read.dedup();
        assert!(read == items(), "{part:?}: {} items", read.len());
        store.delete("x", part).await;
    }
}

/// Law 403: a range of a journal has at most the bytes that the caller asks for, but at least one entry.
pub async fn journal_ranges_are_limited_in_bytes<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    for entry in items() {
        store.run("j", JournalOp::Append { entries: vec![entry], keep: Keep::All, once: None }).await;
    }
    let range = async |from, at_most, bytes: usize| {
        let bytes = u32::try_from(bytes).expect("a small number");
        let range = JournalOp::Range { from, to: EntryId::MAX, at_most, bytes };
        store.run("j", range).await.entries().expect("entries")
    };
    let (mut read, mut from) = (Vec::new(), EntryId::MIN);
    loop {
        let page = range(from, 1_000, PORTION).await;
        let Some((last, _)) = page.last() else { break };
        from = last.next();
        assert!(page.len() <= PORTION / LENGTH, "{} entries", page.len());
        read.extend(page.into_iter().map(|(_, bytes)| bytes));
    }
    assert!(read == items(), "{} entries", read.len());
    assert_eq!(range(EntryId::MIN, 1_000, 0).await.len(), 1);
    assert_eq!(range(EntryId::MIN, 3, PORTION).await.len(), 3);
}

/// Law 404: the next elements of a queue or a group can be read in parts, with at most the bytes that the caller asks for, but at
/// least one element. Those that come again are the first ones.
pub async fn next_elements_are_limited_in_bytes<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    for entry in items() {
        store.run("l", ListOp::Push { end: End::Back, elements: vec![entry.clone()], once: None }).await;
        store.run("j", JournalOp::Append { entries: vec![entry], keep: Keep::All, once: None }).await;
    }
    for (name, from) in [("l", FRONT), ("j", Source::Group("g".into()))] {
        let taken = store.take(name, from.clone(), 3, LONG).await;
        store.run(name, settle(from.clone(), &taken, TakeEnd::Again)).await;
        let peek = async |skip: usize, at_most, bytes: usize| {
            let [skip, bytes] = [skip, bytes].map(|number| u32::try_from(number).expect("a small number"));
            let peek = TakeOp::Peek { from: from.clone(), skip, at_most, bytes };
            store.run(name, peek).await.list().expect("elements")
        };
        let mut read = Vec::new();
        loop {
            let page = peek(read.len(), 1_000, PORTION).await;
            assert!(page.len() <= PORTION / LENGTH, "{name}: {} elements", page.len());
            if page.is_empty() {
                break;
            }
            read.extend(page);
        }
        assert!(read == items(), "{name}: {} elements", read.len());
        assert_eq!((peek(2, 1_000, 0).await.len(), peek(1, 4, PORTION).await.len()), (1, 4), "{name}");
    }
}
