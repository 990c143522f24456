//! Journals: groups that survive their programs, and what a store may lose.

use std::{collections::BTreeMap, time::Duration};

use bandog::{
    ErrorKind,
    grid::{ClientGrid, EntryId, Group, Journal, codec::Bytes},
};
use bandog_testkit::{RedisServer, eventually_async};
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::{SOON, grid, keys};

const SECOND: Duration = Duration::from_secs(1);

/// Takes entries and ends them, until none has come for this time.
async fn drain(group: &Group<u32>, at_most: Duration) -> Vec<u32> {
    let mut received = Vec::new();
    while let Some(entry) = group.take(at_most).await.unwrap() {
        received.push(*entry);
        entry.done().await.unwrap();
    }
    received
}

#[tokio::test]
async fn a_group_gets_what_came_while_no_program_ran() {
    let server = RedisServer::start();
    for url in ["memory:".to_owned(), server.url()] {
        let client = crate::client(&url).await;
        let journal: Journal<u32> = client.grid().journal("j").unwrap();
        journal.append(&0).await.unwrap();
        let ids = {
            let group = journal.group("billing").await.unwrap();
            let ids = journal.append_all(&[1, 2]).await.unwrap();
            let first = group.take(SOON).await.unwrap().unwrap();
            assert_eq!((*first, first.delivery(), first.entry()), (1, 1, Some(ids[0])));
            first.done().await.unwrap();
            ids
        };
        journal.append(&3).await.unwrap();
        let again = client.grid().journal("j").unwrap().group("billing").from_oldest().await.unwrap();
        assert_eq!((again.len().await.unwrap(), again.peek(9).await.unwrap()), (2, vec![2, 3]));
        assert_eq!(drain(&again, Duration::ZERO).await, [2, 3]);
        let audit = journal.group("audit").from_oldest().await.unwrap();
        assert_eq!(drain(&audit, Duration::ZERO).await, [0, 1, 2, 3]);
        let late = journal.group("late").after(ids[0]).await.unwrap();
        assert_eq!(drain(&late, Duration::ZERO).await, [2, 3]);
        let all: Vec<_> = journal.stream(EntryId::MIN).map(|entry| entry.unwrap().value).collect().await;
        assert_eq!(all, [0, 1, 2, 3]);
        assert_eq!(journal.range(ids[1], EntryId::MAX, 1).await.unwrap()[0].value, 2);
        assert!(journal.groups().await.unwrap().iter().all(|group| (group.ready, group.taken) == (0, 0)));
        assert!(journal.remove_group("late").await.unwrap());
        assert_eq!(journal.trim_to_newest(1).await.unwrap(), 3);
        assert_eq!(journal.len().await.unwrap(), 1);
    }
}

#[tokio::test]
async fn names_of_groups_without_a_meaning_are_refused() {
    let journal: Journal<u32> = grid("memory:").await.journal("j").unwrap();
    for name in ["", " ", "a b", "a\n"] {
        assert_eq!(journal.group(name).await.unwrap_err().kind(), ErrorKind::Misused, "{name:?}");
    }
    let group = journal.group("g").await.unwrap().lease(Duration::from_millis(1));
    assert_eq!(group.take(SECOND).await.unwrap_err().kind(), ErrorKind::Misused);
}

/// A stream has several pages, and pages of a journal that others append to end.
#[tokio::test]
async fn a_long_journal_is_read_in_pages() {
    let server = RedisServer::start();
    for url in ["memory:".to_owned(), server.url()] {
        let journal: Journal<u32> = grid(&url).await.journal("j").unwrap();
        let values: Vec<u32> = (0..1_234).collect();
        journal.append_all(&values).await.unwrap();
        let all: Vec<_> = journal.stream(EntryId::MIN).map(|entry| entry.unwrap().value).collect().await;
        assert_eq!(all, values);
        let group = journal.group("g").from_oldest().await.unwrap();
        assert_eq!(group.len().await.unwrap(), 1_234);
    }
}

/// The server evicts what bandog knows about taken entries, or loses a part of it: each entry comes again.
#[tokio::test]
async fn entries_whose_leases_the_server_has_lost_come_again() {
    let server = RedisServer::start();
    let grid = grid(&server.url()).await;
    let journal: Journal<u32> = grid.journal("j").unwrap();
    let group = journal.group("g").await.unwrap();
    journal.append_all(&[1, 2, 3]).await.unwrap();
    let taken = group.take(SOON).await.unwrap().unwrap();
    server.cmd(&["DEL", "bandog:taken:{j}"]);
    assert_eq!(taken.done().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(drain(&group, Duration::ZERO).await, [1, 2, 3]);
    let row = &journal.groups().await.unwrap()[0];
    assert_eq!((row.ready, row.taken), (0, 0));
}

/// A user without a right for one command of the scripts gets an error, and nothing is lost when it has the right again.
#[tokio::test]
async fn a_missing_right_loses_no_entry() {
    let server = RedisServer::start();
    let journal: Journal<u32> = grid(&server.url()).await.journal("j").unwrap();
    let own = journal.group("g").await.unwrap();
    let url = server.url().replace("redis://", "redis://few:PASSWORD@");
    for (number, right) in (1..).zip(["hset", "zadd", "xreadgroup", "xack", "set", "hdel", "zrem"]) {
        server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "&*", "+@all", &format!("-{right}")]);
        let few: Journal<u32> = grid(&url).await.journal("j").unwrap();
        journal.append(&number).await.unwrap();
        let taken = timeout(SOON, few.group("g").await.unwrap().lease(SECOND).take(SECOND)).await.unwrap();
        match taken {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Denied, "{right}: {error}"),
            // The element is there, but cannot be ended.
            Ok(taken) => assert!(taken.unwrap().done().await.is_err(), "{right}"),
        }
        server.cmd(&["ACL", "SETUSER", "few", "+@all"]);
        let again = timeout(SOON, own.take(SECOND * 50)).await.unwrap().unwrap();
        let again = again.unwrap_or_else(|| panic!("{right}: {number} has not come again"));
        assert_eq!(*again, number, "{right}");
        again.done().await.unwrap();
    }
    assert_eq!((own.len().await.unwrap(), own.taken_len().await.unwrap()), (0, 0));
}

#[tokio::test]
async fn a_store_that_loses_its_data_loses_no_later_entry() {
    let server = RedisServer::start();
    let journal: Journal<u32> = grid(&server.url()).await.journal("j").unwrap();
    let group = journal.group("g").await.unwrap();
    let waiting = tokio::spawn({
        let group = group.clone();
        async move { group.take(SOON).await.unwrap().map(|entry| *entry) }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.cmd(&["FLUSHALL"]);
    journal.append(&5).await.unwrap();
    assert_eq!(timeout(SOON, waiting).await.unwrap().unwrap(), Some(5));
    assert_eq!(drain(&group, SECOND).await, [5], "a dropped entry comes again");
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_stays_and_is_named() {
    let server = RedisServer::start();
    let journal: Journal<u32> = grid(&server.url()).await.journal("j").unwrap();
    let group = journal.group("g").await.unwrap();
    server.cmd(&["XADD", "j", "*", "m", "no number"]);
    journal.append(&1).await.unwrap();
    let error = group.take(SECOND).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && !error.to_string().contains("no number"), "{error}");
    let each: Vec<_> = journal.stream(EntryId::MIN).map(|entry| entry.map(|entry| entry.value)).collect().await;
    assert!(each[0].is_err() && *each[1].as_ref().unwrap() == 1, "{each:?}");
    // As bytes, it can be ended.
    let bytes: Journal<Vec<u8>, Bytes> = grid(&server.url()).await.journal("j").unwrap().codec(Bytes);
    let raw = bytes.group("g").await.unwrap().take(SECOND).await.unwrap().unwrap();
    assert_eq!(*raw, b"no number");
    raw.done().await.unwrap();
    assert_eq!(drain(&group, SECOND).await, [1]);
}

/// Answers are lost and connections are cut while entries are appended exactly and taken by two groups.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_lose_no_entry() {
    const TOTAL: u32 = 300;
    let server = RedisServer::start();
    let wire = server.wire();
    let url = format!("{}?timeout=300ms", wire.url());
    let plain: Journal<u32> = grid(&server.url()).await.journal("j").unwrap();
    for name in ["g", "h"] {
        plain.group(name).await.unwrap();
    }
    let journal: Journal<u32> = grid(&url).await.journal("j").unwrap().exact();
    let producer = tokio::spawn(async move {
        let mut unclear = 0;
        for number in 0..TOTAL {
            while let Err(error) = journal.append(&number).await {
                if error.maybe_applied() {
                    unclear += 1;
                    break;
                }
            }
        }
        unclear
    });
    let consumers = ["g", "h"].map(|name| {
        let url = url.clone();
        tokio::spawn(async move {
            let journal: Journal<u32> = grid(&url).await.journal("j").unwrap();
            let mut received = BTreeMap::<u32, u32>::new();
            let mut quiet = 0;
            // The group exists, so opening it needs no answer.
            let group = loop {
                if let Ok(group) = journal.group(name).await {
                    break group.lease(SECOND * 3);
                }
            };
            while quiet < 3 {
                match group.take(SECOND * 2).await {
                    Ok(Some(entry)) => {
                        let number = *entry;
                        if entry.done().await.is_ok() {
                            *received.entry(number).or_default() += 1;
                        }
                        quiet = 0;
                    }
                    Ok(None) => quiet += 1,
                    Err(_) => {}
                }
            }
            received
        })
    });
    let (end, mut ended) = tokio::sync::oneshot::channel::<()>();
    let faults = tokio::spawn(async move {
        while ended.try_recv().is_err() {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(5..60))).await;
            wire.drop_replies(true);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
            wire.cut();
            wire.drop_replies(false);
        }
        wire
    });
    let unclear = timeout(SOON * 3, producer).await.unwrap().unwrap();
    let _ = end.send(());
    let _wire = faults.await.unwrap();
    let entries = plain.len().await.unwrap();
    assert!(entries <= u64::from(TOTAL) && entries + unclear >= u64::from(TOTAL), "{entries}, {unclear} unclear");
    for consumer in consumers {
        let received = timeout(SOON * 3, consumer).await.unwrap().unwrap();
        assert!(received.values().all(|times| *times == 1), "one end of each entry succeeds");
    }
    eventually_async(SOON, async || {
        plain.groups().await.unwrap().iter().all(|group| (group.ready, group.taken) == (0, 0))
    })
    .await;
}

/// A journal with a ttl leaves nothing behind, with several groups and elements that are taken.
#[tokio::test]
async fn a_journal_with_groups_expires_as_a_whole() {
    let server = RedisServer::start();
    let grid = grid(&server.url()).await;
    let journal: Journal<u32> = grid.journal("j").unwrap();
    let (a, b) = (journal.group("a").await.unwrap(), journal.group("b").await.unwrap());
    journal.append(&0).await.unwrap();
    for group in [&a, &b] {
        group.take(SOON).await.unwrap().unwrap().done().await.unwrap();
    }
    assert!(journal.expire(Duration::from_secs(3)).await.unwrap());
    for group in [&a, &b] {
        assert!(group.take(Duration::ZERO).await.unwrap().is_none());
    }
    journal.append(&1).await.unwrap();
    let _taken = a.take(SOON).await.unwrap().unwrap();
    let lasting = || keys(&server).into_iter().filter(|key| server.pttl(key) == -1).collect::<Vec<_>>();
    assert_eq!(lasting(), Vec::<String>::new());
    eventually_async(SOON, async || !journal.exists().await.unwrap()).await;
}
