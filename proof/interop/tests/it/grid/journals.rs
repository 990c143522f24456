//! Groups of journals beside groups and reliable topics of Java.

use std::time::Duration;

use bandog::{
    ErrorKind,
    grid::{Group, Journal, Taken, codec::Text},
};
use bandog_testkit::eventually_async;

use super::side::{Side, Texts, each_codec};
use crate::neighbour::SOON;

/// The shortest lease.
const SECOND: Duration = Duration::from_secs(1);

fn journal(side: &Side) -> Journal<String, Text> {
    side.grid().journal("j").unwrap().codec(Text)
}

/// A journal with these entries, and a group that begins before them.
async fn group<const N: usize>(side: &Side, entries: [&str; N]) -> Group<String, Text> {
    let journal = journal(side);
    journal.append_all(&entries.map(str::to_owned)).await.unwrap();
    journal.group("g").from_oldest().await.unwrap().lease(SECOND)
}

async fn take(group: &Group<String, Text>) -> Taken<String> {
    group.take(SOON).await.unwrap().expect("an entry")
}

/// The next entry, without a wait.
async fn next(group: &Group<String, Text>) -> Option<String> {
    let taken = group.take(Duration::ZERO).await.unwrap()?;
    let value = taken.clone();
    taken.done().await.unwrap();
    Some(value)
}

impl Side {
    /// The answer of Java's stream: values without their ids.
    fn values(&self, verb: &str, args: &[&str]) -> Vec<String> {
        let answer = self.java("stream text", verb, "j", args);
        answer.split('\t').skip(1).step_by(2).map(str::to_owned).collect()
    }

    fn ack(&self, id: &str) -> String {
        self.java("stream text", "ack", "j", &["g", id])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_entry_of_a_mixed_group_is_received_by_one_side() {
    let side = Side::start(1).await;
    let group = group(&side, ["a", "b", "c", "d", "e"]).await;
    let a = take(&group).await;
    assert_eq!(side.values("read-group", &["g", "java", "2"]), ["sb", "sc"]);
    let d = take(&group).await;
    assert_eq!((a.as_str(), d.as_str()), ("a", "d"));
    assert_eq!((group.len().await.unwrap(), group.taken_len().await.unwrap()), (1, 2));
    assert_eq!(group.peek(9).await.unwrap(), ["e"]);
    d.release().await.unwrap();
    a.done().await.unwrap();
    assert_eq!((next(&group).await.unwrap(), next(&group).await.unwrap()), ("d".into(), "e".into()));
    // Entries that a consumer of Java holds stay with it.
    assert_eq!(next(&group).await, None);
    let pending = side.java("stream text", "pending", "j", &["g"]);
    let words: Vec<&str> = pending.split('\t').collect();
    assert_eq!((words.len(), words[1], words[3]), (4, "java", "java"));
    assert_eq!((side.ack(words[0]), side.ack(words[2])), ("l1".into(), "l1".into()));
    assert_eq!((group.len().await.unwrap(), group.taken_len().await.unwrap()), (0, 0));
    assert_eq!(side.java("stream text", "pending", "j", &["g"]), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_java_claims_or_acknowledges_is_lost() {
    let side = Side::start(1).await;
    let group = group(&side, ["a", "b"]).await;
    let (a, b) = (take(&group).await, take(&group).await);
    // The renewals keep entries from a claim of those that are idle.
    let claim = |idle: &str| side.values("auto-claim", &["g", "java", idle]);
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(claim("1000"), Vec::<String>::new());
    assert!(!a.is_lost());
    assert_eq!(claim("0"), ["sa", "sb"]);
    a.lost().await;
    assert!(a.is_lost());
    assert_eq!(a.done().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(b.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!((group.len().await.unwrap(), group.taken_len().await.unwrap()), (0, 0));
    assert_eq!(next(&group).await, None);

    let journal = journal(&side);
    let id = journal.append("c").await.unwrap();
    let c = take(&group).await;
    assert_eq!(side.ack(&id.to_string()), "l1");
    c.lost().await;
    assert_eq!(c.done().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(next(&group).await, None);
}

/// An entry that waits to come again belongs to the consumer that claims it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_entry_that_java_claims_is_not_counted_and_not_taken() {
    let side = Side::start(1).await;
    let group = group(&side, ["a", "b", "c"]).await;
    let (a, _b, c) = (take(&group).await, take(&group).await, take(&group).await);
    a.release().await.unwrap();
    c.release().await.unwrap();
    assert_eq!((group.len().await.unwrap(), group.taken_len().await.unwrap()), (2, 1));
    assert_eq!(group.peek(9).await.unwrap(), ["a", "c"]);
    let answer = side.java("stream text", "read-group", "j", &["g", "java", "9"]);
    assert_eq!(answer, "", "a released entry is not a new one");
    let answer = side.java("stream text", "claim", "j", &["g", "java", &id(&side, 0).await]);
    assert!(answer.ends_with("\tsa"), "{answer}");
    assert_eq!(group.peek(9).await.unwrap(), ["c"]);
    assert_eq!((group.len().await.unwrap(), group.taken_len().await.unwrap()), (1, 1));
    let rows = journal(&side).groups().await.unwrap();
    assert_eq!((rows[0].ready, rows[0].taken), (1, 1));
    assert_eq!(next(&group).await.as_deref(), Some("c"));
    assert_eq!(next(&group).await, None);
}

/// The id of the entry at this place.
async fn id(side: &Side, at: usize) -> String {
    use bandog::grid::EntryId;
    journal(side).range(EntryId::MIN, EntryId::MAX, 100).await.unwrap()[at].id.to_string()
}

/// Redis forgets the delivery of an entry that is in the stream no more if Java claims it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_java_removes_from_the_stream_stays_with_its_taker() {
    let side = Side::start(1).await;
    let group = group(&side, ["a", "b", "c"]).await;
    let (a, b) = (take(&group).await, take(&group).await);
    assert_eq!(side.java("stream text", "trim", "j", &["0"]), "l3");
    assert_eq!(side.values("auto-claim", &["g", "java", "0"]), Vec::<String>::new());
    tokio::time::sleep(SECOND * 2).await;
    assert!(!a.is_lost() && !b.is_lost());
    a.done().await.unwrap();
    b.release().await.unwrap();
    assert_eq!(next(&group).await.as_deref(), Some("b"));
    assert_eq!(next(&group).await, None, "the group had not taken the last entry");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_java_removes_begins_again() {
    let side = Side::start(1).await;
    let group = group(&side, ["a", "b"]).await;
    let (a, b) = (take(&group).await, take(&group).await);
    b.release().await.unwrap();
    assert_eq!(side.java("stream text", "remove-group", "j", &["g"]), "removed");
    assert_eq!((group.len().await.unwrap(), group.peek(9).await.unwrap()), (2, vec!["a".into(), "b".into()]));
    assert_eq!(a.done().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!((next(&group).await.unwrap(), next(&group).await.unwrap()), ("a".into(), "b".into()));
    assert_eq!(next(&group).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reliable_topics_go_both_ways() {
    let side = Side::start(1).await;
    each_codec!(&side, reliable_topics);
}

async fn reliable_topics<C: Texts>(side: &Side, codec: &str, c: C) {
    let (kind, name) = (&*format!("reliable {codec}"), &*format!("reliable-{codec}"));
    let java = |verb: &str, args: &[&str]| side.java(kind, verb, name, args);
    let received = || side.java_texts(kind, "received", name, &[]);
    let journal: Journal<String, C> = side.grid().journal(name).unwrap().codec(c);
    // A message that is published while no program of the group runs.
    let group = journal.group("ours").await.unwrap();
    assert_eq!(java("publish", &["sfirst"]), "l1");
    let first = group.take(SOON).await.unwrap().expect("a message");
    assert_eq!(*first, "first", "{kind}");
    let subscription = java("listen", &[]);
    // A new group of Java begins with the oldest message that is there.
    eventually_async(SOON, async || received() == ["first"]).await;
    // Java has trimmed the journal, because all groups have received the message. Ours keeps it until it is done.
    eventually_async(SOON, async || journal.len().await.unwrap() == 0).await;
    first.release().await.unwrap();
    let first = group.take(SOON).await.unwrap().expect("a message");
    assert_eq!((first.as_str(), first.delivery()), ("first", 2));
    assert_eq!((group.len().await.unwrap(), group.taken_len().await.unwrap()), (0, 1));
    first.done().await.unwrap();

    journal.append("second").await.unwrap();
    eventually_async(SOON, async || received() == ["first", "second"]).await;
    java("publish", &["sthird"]);
    eventually_async(SOON, async || received() == ["first", "second", "third"]).await;
    // What our group has not received is not trimmed.
    for value in ["second", "third"] {
        let taken = group.take(SOON).await.unwrap().expect("a message");
        assert_eq!(*taken, value, "{kind}");
        taken.done().await.unwrap();
    }
    assert_eq!((group.len().await.unwrap(), group.taken_len().await.unwrap()), (0, 0));
    // Our group is not removed with that of Java.
    assert_eq!(java("subscribers", &[]), "i2");
    java("unlisten", &[&subscription]);
    let groups = journal.groups().await.unwrap();
    assert_eq!((groups.len(), &*groups[0].name), (1, "ours"));
    assert!(journal.delete().await.unwrap());
    assert_eq!(side.keys_of(name), Vec::<String>::new());
}

/// A listener of Java ends with the journal, and removes nothing of the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_of_java_ends_with_the_journal() {
    let side = Side::start(1).await;
    let java = |verb: &str, args: &[&str]| side.java("reliable text", verb, "ends", args);
    let journal: Journal<String, Text> = side.grid().journal("ends").unwrap().codec(Text);
    journal.append("first").await.unwrap();
    java("listen", &[]);
    eventually_async(SOON, async || java("received", &[]) == "sfirst").await;
    assert!(journal.delete().await.unwrap());
    journal.append("second").await.unwrap();
    tokio::time::sleep(SECOND * 3).await;
    assert_eq!((java("received", &[]), journal.len().await.unwrap()), ("sfirst".into(), 1));
    assert_eq!(journal.groups().await.unwrap(), []);
}
