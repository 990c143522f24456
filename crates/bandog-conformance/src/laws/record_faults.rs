//! Records over connections with faults, and in stores that stop, restart or lose their data.

use std::time::Duration;

use bandog_core::{ErrorKind, Leases, Record, Records, Swap, Swapped};
use bandog_sync::Client;
use tokio::time;

use crate::{
    Law, World,
    kit::{MAX_WAIT, error_kind, polled_at_most, within},
    record_kit::{
        MAX_ATTEMPTS, RECORD, delete, get, key, line, must_swap, record_and_history, swap, swap_until_answered, write,
    },
    wrap::{Delayed, Fate, Lossy},
};

/// Law 151: if the answer to a swap is lost, the error says that the swap might have been done. When the caller repeats
/// the swap, either the swap is done, or the answer is the record that the first attempt wrote. The swap is never done
/// twice, even if the first attempt reaches the store late.
// Promise: R4
pub async fn record_lost_answer<W: World>(world: &W) -> Law {
    world.records()?; // This law applies only if the backend supports records.
    // `wire` is a connection to the store. The test chooses the fate of the next request on this connection.
    let wire = Lossy::new(world.backend());
    let (a, b) = (world.over(wire.clone()), world.client());
    let late = wire.profile().timeout / 20;
    let mut from = None;
    for fate in [Fate::ReplyLost, Fate::RequestLost, Fate::Refused, Fate::Late(late), Fate::Late(Duration::ZERO)] {
        let value = format!("{fate:?}");
        let repeated = Swap { lines: vec![line("ok:0", &value)], ..write(RECORD, from, &value) };
        wire.next([fate]);
        let error = swap(&a, repeated.clone()).await.expect_err("a swap over a broken connection succeeded");
        assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, fate != Fate::Refused));
        let version = match (swap(&a, repeated).await?, fate) {
            (Swapped::Done(Some(version)), Fate::RequestLost | Fate::Refused | Fate::Late(_)) => version,
            (Swapped::Differs(Some(Record { version, value: own })), Fate::ReplyLost | Fate::Late(_))
                if own == value =>
            {
                version
            }
            (answer, fate) => panic!("after {fate:?}, the repeated swap got the answer {answer:?}"),
        };
        time::sleep(late * 2).await; // After this pause, the late attempt has reached the store.
        let (record, history) = record_and_history(&b, RECORD).await?;
        assert_eq!((record, history), (Some(Record { version, value: value.clone() }), vec![line("ok:0", &value)]));
        from = Some(version);
    }
    wire.next([Fate::ReplyLost]);
    assert!(swap(&a, delete(RECORD, from)).await.is_err());
    assert_eq!(swap(&a, delete(RECORD, from)).await?, Swapped::Differs(None));
    Ok(())
}

/// Law 152: several writers add words to one record. The connections of the writers delay and lose calls at random. If
/// a writer repeats each swap until an answer comes, each word of this writer is added exactly once.
// Promise: R4
pub async fn record_lossy_crowd<W: World>(world: &W) -> Law {
    const WRITERS: u64 = 4;
    const WORDS: usize = 15;
    world.records()?;
    let max_delay = Duration::from_millis(3);
    let writer = |seed: u64| {
        let wire = Lossy::new(Delayed::new(world.backend(), seed, max_delay, max_delay));
        let client = world.over(wire.clone());
        tokio::spawn(async move {
            // This read connects to the store before the faults begin.
            assert_eq!(swap_until_answered(&client, &delete("another", None)).await, Swapped::Done(None));
            wire.at_random(seed, 0.3, max_delay * 10);
            for number in 0..WORDS {
                add_word(&client, &format!("{seed}.{number}")).await;
            }
            wire.lost()
        })
    };
    let mut lost = 0;
    for writer in (1..=WRITERS).map(writer).collect::<Vec<_>>() {
        lost += within(MAX_WAIT * 3, "a writer", writer).await.expect("the task has panicked");
    }
    assert!(lost > 0, "the test lost no call");
    time::sleep(max_delay * 20).await; // After this pause, the last late swap has reached the store.
    let (record, history) = record_and_history(&world.client(), RECORD).await?;
    let text = record.expect("the record was not written").value;
    let mut words: Vec<&str> = text.split_whitespace().collect();
    words.sort_unstable();
    let mut expected: Vec<String> =
        (1..=WRITERS).flat_map(|seed| (0..WORDS).map(move |number| format!("{seed}.{number}"))).collect();
    expected.sort_unstable();
    assert_eq!(words, expected);
    assert_eq!(history.into_iter().map(|line| line.slot).collect::<Vec<_>>(), expected);
    Ok(())
}

/// Adds a word to the record. After a lost answer, the record might already have the word. Then an earlier attempt has
/// added the word, and this function does not add the word again.
async fn add_word(client: &Client, word: &str) {
    let mut present = None;
    for _ in 0..MAX_ATTEMPTS {
        let (from, text) = match present {
            Some(Record { version, value }) => (Some(version), value),
            None => (None, String::new()),
        };
        let lines = vec![line(word, word)];
        let swapped =
            swap_until_answered(client, &Swap { lines, ..write(RECORD, from, &format!("{text} {word}")) }).await;
        let Swapped::Differs(record) = swapped else { return assert!(matches!(swapped, Swapped::Done(_))) };
        if record.as_ref().is_some_and(|record| record.value.split(' ').any(|added| added == word)) {
            return;
        }
        present = record;
    }
    panic!("{word:?} could not be added")
}

/// Law 153: while the store is stopped, a swap returns an error within the timeout. If the error says that the swap
/// might have been done, the store later does the swap once or not at all. Otherwise the store never does the swap.
// Promise: R4
pub async fn record_standstill<W: World>(world: &W) -> Law {
    world.records()?;
    let client = world.client();
    let first = must_swap(&client, write(RECORD, None, "one")).await?;
    world.stand_still(true).await?;
    let second = write(RECORD, Some(first), "two");
    let tried = within(MAX_WAIT, "a swap", swap(&client, second.clone())).await;
    world.stand_still(false).await?;
    let error = tried.expect_err("a swap succeeded while the store was stopped");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let version = match swap_until_answered(&client, &second).await {
        Swapped::Done(Some(version)) => version,
        Swapped::Differs(Some(record)) if record.value == "two" && error.maybe_applied() => record.version,
        answer => panic!("after the error {error}, the repeated swap got the answer {answer:?}"),
    };
    let third = must_swap(&client, write(RECORD, Some(version), "three")).await?;
    assert_eq!(swap(&client, second).await?, Swapped::Differs(get(&client, RECORD).await?));
    assert!(third > version && version > first);
    Ok(())
}

/// Law 154: a broken connection does not affect later swaps.
// Promise: R4
pub async fn record_broken_connection<W: World>(world: &W) -> Law {
    world.records()?;
    let client = world.client();
    let mut from = None;
    for round in 0..5 {
        world.cut().await?;
        let value = round.to_string();
        let version = match swap_until_answered(&client, &write(RECORD, from, &value)).await {
            Swapped::Done(Some(version)) => version,
            Swapped::Differs(Some(record)) if record.value == value => record.version,
            answer => panic!("the swap got the answer {answer:?}"),
        };
        from = Some(version);
    }
    Ok(())
}

/// Law 155: after a regular shutdown and a restart, a store has every record with its version and its history. Later
/// versions are greater than the earlier ones.
// Promise: RS2, RS3, RS5, RS6
pub async fn record_restart<W: World>(world: &W) -> Law {
    world.records()?;
    let client = world.client();
    let first = must_swap(&client, write(RECORD, None, "one")).await?;
    let lines = vec![line("ok:0", "fine"), line("ok:1", "fine, too")];
    must_swap(&client, Swap { lines, ..write(RECORD, Some(first), "two") }).await?;
    let before = record_and_history(&client, RECORD).await?;
    client.close().await?;
    world.restart().await?;
    let client = world.client();
    assert_eq!(record_and_history(&client, RECORD).await?, before);
    assert_eq!(swap(&client, write(RECORD, Some(first), "three")).await?, Swapped::Differs(before.0.clone()));
    let second = before.0.map(|record| record.version);
    let third = must_swap(&client, write(RECORD, second, "three")).await?;
    assert!(Some(third) > second);
    Ok(())
}

/// Law 156: after a store has lost its data, it never gives an earlier version to a new record. So a client that read a
/// record before the loss cannot overwrite a record that was written after the loss.
// Promise: R3
pub async fn record_restart_empty<W: World>(world: &W) -> Law {
    world.records()?;
    let client = world.client();
    let mut from = None;
    for _ in 0..20 {
        from = Some(must_swap(&client, write(RECORD, from, "before")).await?);
    }
    world.restart_empty().await?;
    let stale = write(RECORD, from, "stale");
    assert_eq!(swap_until_answered(&client, &stale).await, Swapped::Differs(None));
    let again = must_swap(&client, write(RECORD, None, "after")).await?;
    assert!(Some(again) > from, "the version {again} is not greater than the earlier version {from:?}");
    assert!(matches!(swap(&client, stale).await?, Swapped::Differs(Some(_))));
    Ok(())
}

/// Law 157: if other software has written data under a record's name, the data stay unchanged. In a batch of swaps,
/// only the swaps of this record fail.
// Promise: R8
pub async fn record_existing<W: World>(world: &W) -> Law {
    world.records()?;
    let client = world.client();
    let good = must_swap(&client, write("good", None, "one")).await?;
    for bad in world.plant_records().await? {
        let bad = key(&bad);
        let is_refusal = |kind: Option<ErrorKind>| matches!(kind, Some(ErrorKind::Denied | ErrorKind::Corrupt));
        let before = client.records().read(&[bad.clone(), key("good")], &[]).await?.records;
        assert!(
            matches!(&before[..], [Err(_), Ok(Some(record))] if record.version == good),
            "a read of {bad} got {before:?}"
        );
        let batch = [
            write("first", None, "1"),
            Swap::new(bad.clone(), None, "ours"),
            Swap { to: None, ..Swap::new(bad.clone(), None, "") },
            write("last", None, "2"),
        ];
        let mut swapped = client.records().swap(&batch).await?.each.into_iter();
        let mut next = || swapped.next().expect("there are fewer answers than swaps");
        let first = next()?;
        assert!(is_refusal(error_kind(next())) && is_refusal(error_kind(next())), "a swap of {bad} was not refused");
        for (name, answer) in [("first", first), ("last", next()?)] {
            let Swapped::Done(Some(version)) = answer else {
                panic!("the swap of {name}, in the same batch as {bad}, got the answer {answer:?}")
            };
            swap(&client, delete(name, Some(version))).await?;
        }
        let after = client.records().read(std::slice::from_ref(&bad), &[]).await?.records;
        assert_eq!(format!("{after:?}"), format!("{:?}", &before[..1]));
    }
    Ok(())
}

/// Law 158: a caller can drop the future of a swap at any await. The swap is then done once or not at all, and later
/// swaps work as usual.
// Promise: R4
pub async fn record_dropped<W: World>(world: &W) -> Law {
    world.records()?;
    let (a, b) = (world.client(), world.client());
    // In each round, the future of the swap is polled once more than in the round before, and is then dropped.
    let (mut from, mut polls) = (None, 0);
    loop {
        polls += 1;
        let value = polls.to_string();
        let dropped = Swap { lines: vec![line("ok:0", &value)], ..write(RECORD, from, &value) };
        let answered = polled_at_most(polls, swap(&a, dropped.clone())).await.transpose()?;
        let version = match (swap(&b, dropped).await?, &answered) {
            (Swapped::Done(Some(version)), None) => version,
            (Swapped::Differs(Some(record)), _) if record.value == value => record.version,
            (answer, _) => panic!("the repeated swap got {answer:?}, and the first attempt got {answered:?}"),
        };
        // If the dropped swap reaches the store only now, it changes nothing.
        assert_eq!(get(&a, RECORD).await?, Some(Record { version, value: value.clone() }));
        assert_eq!(
            record_and_history(&b, RECORD).await?,
            (Some(Record { version, value: value.clone() }), vec![line("ok:0", &value)])
        );
        if answered.is_some() {
            return Ok(());
        }
        from = Some(version);
    }
}
