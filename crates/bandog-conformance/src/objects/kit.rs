//! Helper functions of the laws of objects.

use std::{
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use bandog_core::{
    ClientId, Error, ErrorKind, Key, OperationId, PORTION, Portion,
    structures::{
        Action, Bytes, Cursor, End, ListOp, ObjectOp, Once, Op, Page, Part, Reply, Source, Structure, Structures,
        TakeOp, TakenElement,
    },
};

use super::ObjectWorld;

/// The store of a law, and the names in it.
pub(super) struct Store<'a, W> {
    world: &'a W,
    structures: Arc<dyn Structures>,
}

/// The bytes of a text.
pub(super) fn b(text: &str) -> Bytes {
    text.as_bytes().to_vec()
}

/// The bytes of texts.
pub(super) fn all<const N: usize>(texts: [&str; N]) -> Vec<Bytes> {
    texts.map(b).to_vec()
}

/// The answer with an integer.
pub(super) fn int(number: i64) -> Reply {
    Reply::Int(number)
}

/// The answer with these bytes.
pub(super) fn some(text: &str) -> Reply {
    Reply::Bytes(Some(b(text)))
}

/// The answer without bytes.
pub(super) const NONE: Reply = Reply::Bytes(None);

pub(super) const YES: Reply = Reply::Flag(true);
pub(super) const NO: Reply = Reply::Flag(false);

/// A new id of an operation.
pub(super) fn once(remember: Duration) -> Once {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let id = OperationId { client: ClientId::random(), number: NUMBER.fetch_add(1, Relaxed) };
    Once { id, remember, forget_before: 0 }
}

impl<'a, W: ObjectWorld> Store<'a, W> {
    pub(super) fn of(world: &'a W) -> Self {
        Self { world, structures: world.structures() }
    }

    pub(super) fn structures(&self) -> &Arc<dyn Structures> {
        &self.structures
    }

    pub(super) fn key(&self, name: &str) -> Key {
        self.world.key(name)
    }

    pub(super) fn op(&self, name: &str, action: impl Into<Action>) -> Op {
        Op::new(&self.key(name), action)
    }

    /// The result of one operation.
    pub(super) async fn try_run(&self, name: &str, action: impl Into<Action>) -> Result<Reply, Error> {
        let mut replies = self.structures.run(&[self.op(name, action)]).await;
        assert_eq!(replies.len(), 1, "each operation has one answer");
        replies.remove(0)
    }

    /// The answer to an operation that must succeed.
    pub(super) async fn run(&self, name: &str, action: impl Into<Action>) -> Reply {
        let action = action.into();
        let text = format!("{action:?}");
        self.try_run(name, action).await.unwrap_or_else(|error| panic!("{text} failed: {error}"))
    }

    /// The kind of the error of an operation that must fail. It must not have been applied.
    pub(super) async fn refused(&self, name: &str, action: impl Into<Action>) -> ErrorKind {
        let action = action.into();
        let text = format!("{action:?}");
        let error = self.try_run(name, action).await.expect_err(&text);
        assert!(!error.maybe_applied(), "{text}: {error}");
        error.kind()
    }

    /// All items of an object, page by page, and the number of pages.
    pub(super) async fn pages(&self, name: &str, part: Part, about: usize) -> (Page, usize) {
        let (mut all, mut pages) = (Page { items: Vec::new(), scores: Vec::new(), next: Some(Cursor::default()) }, 0);
        while let Some(cursor) = all.next.take() {
            let page = self
                .structures
                .page(&self.key(name), part, &cursor, Portion::new(about, PORTION))
                .await
                .expect("a page");
            all.items.extend(page.items);
            all.scores.extend(page.scores);
            all.next = page.next;
            pages += 1;
        }
        (all, pages)
    }

    /// Deletes the object that has this part.
    pub(super) async fn delete(&self, name: &str, part: Part) {
        let structure = match part {
            Part::Entries | Part::Fields(_) | Part::Live => Structure::Map,
            Part::Timed => Structure::TimedMap,
            Part::Members => Structure::Set,
            Part::Elements => Structure::List,
            Part::Scored => Structure::Sorted,
        };
        assert_eq!(self.run(name, Action::Object(structure, ObjectOp::Delete)).await, YES);
    }

    pub(super) async fn exists(&self, name: &str, structure: Structure) -> bool {
        self.run(name, Action::Object(structure, ObjectOp::Exists)).await == YES
    }

    /// Adds elements at the end of a list.
    pub(super) async fn push<const N: usize>(&self, name: &str, elements: [&str; N]) {
        self.run(name, ListOp::Push { end: End::Back, elements: all(elements), once: None }).await;
    }

    /// All elements of a list.
    pub(super) async fn list(&self, name: &str) -> Vec<String> {
        let elements = self.run(name, ListOp::Slice(0, -1)).await.list().expect("elements");
        elements.into_iter().map(|element| String::from_utf8(element).expect("a text")).collect()
    }

    /// Takes elements.
    pub(super) async fn take(&self, name: &str, from: Source, at_most: u32, lease: Duration) -> Vec<TakenElement> {
        let take = TakeOp::Take { from, at_most, bytes: 1 << 20, lease, once: once(LONG), done: Vec::new() };
        self.run(name, take).await.taken().expect("elements").0
    }
}

/// Reads the next elements.
pub(super) fn peek(from: Source, at_most: u32) -> TakeOp {
    TakeOp::Peek { from, skip: 0, at_most, bytes: u32::MAX }
}

/// A time that is longer than any law.
pub(super) const LONG: Duration = Duration::from_secs(600);

/// The front of a list.
pub(super) const FRONT: Source = Source::List(End::Front);
