//! Laws of journals and their groups.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use bandog_core::{
    Notifier,
    structures::{
        Action, EntryId, GroupRow, JournalOp, Keep, ObjectOp, Op, Reply, Source, Start, Structure, TakeEnd, TakeOp,
    },
};
use tokio::time::sleep;

use super::{
    ObjectWorld,
    kit::{LONG, NO, Store, YES, all, b, int, once, peek},
    take::{queue, settle, texts},
};
use crate::kit::until;

fn group(name: &str) -> Source {
    Source::Group(name.into())
}

fn open(name: &str, start: Start) -> JournalOp {
    JournalOp::OpenGroup(name.into(), start)
}

async fn append<W: ObjectWorld, const N: usize>(store: &Store<'_, W>, entries: [&str; N]) -> Vec<EntryId> {
    let append = JournalOp::Append { entries: all(entries), keep: Keep::All, once: None };
    store.run("j", append).await.entry_ids().expect("ids")
}

/// The entries of the journal.
async fn entries<W: ObjectWorld>(store: &Store<'_, W>) -> Vec<String> {
    let range = JournalOp::Range { from: EntryId::MIN, to: EntryId::MAX, at_most: 1_000, bytes: u32::MAX };
    let entries = store.run("j", range).await.entries().expect("entries");
    entries.into_iter().map(|(_, bytes)| String::from_utf8(bytes).expect("a text")).collect()
}

/// Takes the next entries of a group as texts, and ends them.
async fn done<W: ObjectWorld>(store: &Store<'_, W>, name: &str) -> Vec<String> {
    let taken = store.take("j", group(name), 99, LONG).await;
    store.run("j", settle(group(name), &taken, TakeEnd::Done)).await;
    texts(&taken)
}

/// Law 268: entries stay in their order, and later ids are greater.
pub async fn journal_appends_in_order<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(store.run("j", JournalOp::Len).await, int(0));
    let mut ids = append(&store, ["a", "b"]).await;
    ids.extend(append(&store, ["c"]).await);
    assert!(ids.is_sorted_by(|one, next| one < next) && ids[0] > EntryId::MIN, "{ids:?}");
    assert_eq!(entries(&store).await, ["a", "b", "c"]);
    assert_eq!(store.run("j", JournalOp::Len).await, int(3));
    let some = |from, to, at_most| store.run("j", JournalOp::Range { from, to, at_most, bytes: u32::MAX });
    assert_eq!(some(ids[1], EntryId::MAX, 1).await, Reply::Entries(vec![(ids[1], b("b"))]));
    assert_eq!(some(EntryId::MIN, ids[0], 9).await, Reply::Entries(vec![(ids[0], b("a"))]));
    assert_eq!(some(ids[2].next(), EntryId::MAX, 9).await, Reply::Entries(Vec::new()));
    assert_eq!(some(ids[1], ids[0], 9).await, Reply::Entries(Vec::new()));
}

/// Law 269: an append that is sent again has the same answer.
pub async fn journal_appends_once_with_an_id<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let exact = JournalOp::Append { entries: all(["a", "b"]), keep: Keep::All, once: Some(once(LONG)) };
    let first = store.run("j", exact.clone()).await;
    assert_eq!(Store::of(world).run("j", exact).await, first);
    assert_eq!(entries(&store).await, ["a", "b"]);
}

/// Law 270: entries are removed by number and by age, never too many. A taken entry is not affected.
// Promise: G23
pub async fn journal_trims<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    append(&store, ["a", "b", "c"]).await;
    let taken = store.take("j", group("g"), 1, world.ttl()).await;
    assert_eq!(store.run("j", JournalOp::Trim(Keep::All)).await, int(0));
    assert_eq!(store.run("j", JournalOp::Trim(Keep::Newest(2))).await, int(1));
    assert_eq!(store.run("j", JournalOp::Trim(Keep::For(LONG))).await, int(0));
    assert_eq!(entries(&store).await, ["b", "c"]);
    sleep(world.ttl() + Duration::from_millis(50)).await;
    assert_eq!(store.run("j", JournalOp::Trim(Keep::For(world.ttl()))).await, int(2));
    assert_eq!(store.run("j", settle(group("g"), &taken, TakeEnd::Done)).await, Reply::Flags(vec![false]));
    assert_eq!(done(&store, "g").await, ["a"], "it was taken before");
    assert_eq!(store.run("j", TakeOp::Count(group("g"))).await, queue(0, 0));
    let numbers = |from: u32| (from..from + 500).map(|number| b(&number.to_string())).collect();
    for (keep, from) in [(Keep::Newest(100), 0), (Keep::For(LONG), 500)] {
        store.run("j", JournalOp::Append { entries: numbers(from), keep, once: None }).await;
        let left = entries(&store).await;
        assert!(left.len() >= 100 && left.last() == Some(&(from + 499).to_string()), "{keep:?}: {}", left.len());
    }
    let left = entries(&store).await.len();
    assert!((600..900).contains(&left), "most of the first ones were removed: {left}");
}

/// Law 271: each group gets each entry, and an entry that is done in one group stays in the others and in the journal.
// Promise: G23
pub async fn group_gets_each_entry<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let ids = append(&store, ["a", "b"]).await;
    let taken = store.take("j", group("g"), 1, LONG).await;
    assert_eq!((texts(&taken), taken[0].delivery, taken[0].entry), (vec!["a".to_owned()], 1, Some(ids[0])));
    assert_eq!(taken[0].score, None);
    assert_eq!(store.run("j", TakeOp::Count(group("g"))).await, queue(1, 1));
    assert_eq!(store.run("j", peek(group("g"), 9)).await, Reply::List(all(["b"])));
    assert_eq!(store.run("j", TakeOp::Count(group("h"))).await, queue(2, 0));
    assert_eq!(done(&store, "h").await, ["a", "b"]);
    assert_eq!(store.run("j", settle(group("g"), &taken, TakeEnd::Done)).await, Reply::Flags(vec![true]));
    assert_eq!(store.run("j", settle(group("g"), &taken, TakeEnd::Done)).await, Reply::Flags(vec![false]));
    let row = |name: &str, ready| GroupRow { name: name.into(), ready, taken: 0 };
    assert_eq!(store.run("j", JournalOp::Groups).await, Reply::Groups(vec![row("g", 1), row("h", 0)]));
    assert_eq!(done(&store, "g").await, ["b"]);
    assert_eq!(entries(&store).await, ["a", "b"]);
}

/// Law 272: a new group begins where it is asked to, and one that exists stays where it is.
// Promise: G23
pub async fn group_begins_where_asked<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(store.run("j", open("early", Start::Newest)).await, YES);
    assert_eq!(store.run("j", JournalOp::Len).await, int(0));
    let ids = append(&store, ["a", "b"]).await;
    assert_eq!(store.run("j", open("oldest", Start::Oldest)).await, YES);
    assert_eq!(store.run("j", open("newest", Start::Newest)).await, YES);
    assert_eq!(store.run("j", open("after", Start::After(ids[0]))).await, YES);
    append(&store, ["c"]).await;
    assert_eq!(store.run("j", open("newest", Start::Oldest)).await, NO);
    for (name, expected) in [("oldest", 3), ("newest", 1), ("after", 2), ("early", 3)] {
        assert_eq!(store.run("j", TakeOp::Count(group(name))).await, queue(expected, 0), "{name}");
        assert_eq!(done(&store, name).await.len() as u64, expected, "{name}");
    }
}

/// Law 273: entries that return come again before new ones, in their order; a delivery that nobody received is not counted.
pub async fn group_entries_come_again<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    append(&store, ["a", "b", "c"]).await;
    let taken = store.take("j", group("g"), 2, LONG).await;
    store.run("j", settle(group("g"), &taken[1..], TakeEnd::Undelivered)).await;
    store.run("j", settle(group("g"), &taken[..1], TakeEnd::Again)).await;
    assert_eq!(store.run("j", peek(group("g"), 2)).await, Reply::List(all(["a", "b"])));
    assert_eq!(store.run("j", TakeOp::Count(group("g"))).await, queue(3, 0));
    let again = store.take("j", group("g"), 9, LONG).await;
    assert_eq!(texts(&again), ["a", "b", "c"]);
    assert_eq!(again.iter().map(|element| element.delivery).collect::<Vec<_>>(), [2, 1, 1]);
    assert_eq!(again[0].entry, taken[0].entry);
    assert!(again[0].id > taken[1].id, "fences rise");
}

/// Law 274: an entry whose lease is over is available again, and its former taker has lost it.
pub async fn group_lease_expires<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    append(&store, ["a", "b"]).await;
    let kept = store.take("j", group("g"), 1, world.ttl()).await;
    let lost = store.take("j", group("g"), 1, world.ttl()).await;
    let extend = |taken: &[bandog_core::structures::TakenElement]| TakeOp::Extend {
        from: group("g"),
        ids: vec![taken[0].id],
        lease: LONG,
    };
    assert_eq!(store.run("j", extend(&kept)).await, Reply::Flags(vec![true]));
    sleep(world.ttl() + Duration::from_millis(50)).await;
    assert_eq!(store.run("j", settle(group("g"), &lost, TakeEnd::Done)).await, Reply::Flags(vec![false]));
    assert_eq!(store.run("j", extend(&lost)).await, Reply::Flags(vec![false]));
    let next = store.take("j", group("g"), 9, LONG).await;
    assert_eq!((texts(&next), next[0].delivery), (vec!["b".to_owned()], 2));
    assert_eq!(store.run("j", settle(group("g"), &kept, TakeEnd::Done)).await, Reply::Flags(vec![true]));
}

/// Law 275: no entry has two takers in a group, and each entry has one.
pub async fn group_of_many_takers_is_exclusive<W: ObjectWorld>(world: &W) {
    const ENTRIES: u32 = 200;
    let store = Store::of(world);
    let entries = (0..ENTRIES).map(|number| b(&number.to_string())).collect();
    store.run("j", JournalOp::Append { entries, keep: Keep::All, once: None }).await;
    let takers: Vec<_> = (0..8)
        .map(|number| {
            let (structures, key) = (world.structures(), store.key("j"));
            let from = group(["g", "h"][number % 2]);
            tokio::spawn(async move {
                let mut seen = Vec::new();
                loop {
                    let (from, once) = (from.clone(), once(LONG));
                    let take = TakeOp::Take {
                        from: from.clone(),
                        at_most: 3,
                        bytes: 1 << 20,
                        lease: LONG,
                        once,
                        done: Vec::new(),
                    };
                    let reply = structures.run(&[Op::new(&key, take)]).await.remove(0).expect("an answer");
                    let taken = reply.taken().expect("entries").0;
                    if taken.is_empty() {
                        return seen;
                    }
                    structures.run(&[Op::new(&key, settle(from, &taken, TakeEnd::Done))]).await;
                    seen.extend(taken.into_iter().map(|element| (number % 2, element.bytes)));
                }
            })
        })
        .collect();
    let mut deliveries = BTreeMap::new();
    for taker in takers {
        for element in taker.await.expect("a taker") {
            *deliveries.entry(element).or_insert(0) += 1;
        }
    }
    assert_eq!(deliveries.len(), 2 * ENTRIES as usize);
    assert!(deliveries.values().all(|times| *times == 1));
}

/// Law 276: a taker is notified after an append, and after an entry has become available again.
pub async fn group_notifies_takers<W: ObjectWorld>(world: &W) {
    let (store, other) = (Store::of(world), Store::of(world));
    let calls = Arc::new(AtomicU32::new(0));
    let counter = calls.clone();
    let notifier = Notifier::new(move || _ = counter.fetch_add(1, SeqCst));
    let key = store.key("j");
    let subscription = store.structures().subscribe_elements(&key, group("g"), notifier).await.expect("one");
    let before = calls.load(SeqCst);
    append(&other, ["a"]).await;
    until(|| calls.load(SeqCst) > before).await;
    let taken = other.take("j", group("g"), 1, LONG).await;
    let before = calls.load(SeqCst);
    other.run("j", settle(group("g"), &taken, TakeEnd::Again)).await;
    until(|| calls.load(SeqCst) > before).await;
    drop(subscription);
}

/// Law 277: a group that is missing begins before the oldest entry; taking creates no journal.
// Promise: G23
pub async fn group_that_is_missing_begins_again<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert!(store.take("j", group("g"), 1, LONG).await.is_empty());
    assert!(!store.exists("j", Structure::Journal).await);
    append(&store, ["a", "b"]).await;
    assert_eq!(done(&store, "g").await, ["a", "b"]);
    assert!(done(&store, "g").await.is_empty());
    assert_eq!(store.run("j", JournalOp::RemoveGroup("g".into())).await, YES);
    assert_eq!(done(&store, "g").await, ["a", "b"]);
}

/// Law 278: of a group that is removed, nothing is left; its takers have lost their entries. A deleted journal leaves nothing.
pub async fn group_is_removed_with_its_parts<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    append(&store, ["a", "b", "c"]).await;
    let taken = store.take("j", group("g"), 2, LONG).await;
    store.run("j", settle(group("g"), &taken[..1], TakeEnd::Again)).await;
    let other = store.take("j", group("h"), 1, LONG).await;
    assert_eq!(store.run("j", JournalOp::RemoveGroup("none".into())).await, NO);
    assert_eq!(store.run("j", JournalOp::RemoveGroup("g".into())).await, YES);
    assert_eq!(store.run("j", settle(group("g"), &taken[1..], TakeEnd::Done)).await, Reply::Flags(vec![false]));
    assert_eq!(store.run("j", settle(group("h"), &other, TakeEnd::Done)).await, Reply::Flags(vec![true]));
    assert_eq!(store.run("j", JournalOp::Groups).await.groups().expect("groups").len(), 1);
    assert_eq!(store.run("j", Action::Object(Structure::Journal, ObjectOp::Delete)).await, YES);
    assert_eq!(world.left().await, [""; 0]);
}
