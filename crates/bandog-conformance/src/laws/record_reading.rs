//! Reading records: the store's time, the names of records, the prefix of a client, and texts of every kind.

use bandog_core::{Error, ErrorKind, Holding, MAX_KEY_LEN, Pattern, Records, Swap, Swapped};

use crate::{
    Law, World,
    kit::{MAX_WAIT, NAME, bare_claim, error_kind, odd_names, take, within},
    record_kit::{RECORD, delete, get, key, line, must_swap, record_and_history, swap, write},
};

/// Law 131: every read and every swap returns the store's time. This time is never earlier than the time that an
/// earlier call returned.
// Promise: R5, RS1
pub async fn record_time<W: World>(world: &W) -> Law {
    world.records()?; // This law applies only if the backend supports records.
    let (a, b) = (world.client(), world.client());
    let mut last_time = a.records().read(&[], &[]).await?.now;
    let client_time = world.clock().wall();
    let off = client_time.duration_since(last_time).unwrap_or_else(|behind| behind.duration());
    assert!(off <= world.slack(), "the store's clock and the client's clock differ by {off:?}");
    let mut assert_not_earlier = |now| {
        assert!(now >= last_time, "the time {now:?} is earlier than the time {last_time:?} of an earlier call");
        last_time = now;
    };
    for client in [&a, &b, &a, &a, &b] {
        assert_not_earlier(client.records().swap(&[]).await?.now);
        assert_not_earlier(client.records().swap(&[write(RECORD, None, "one")]).await?.now);
        assert_not_earlier(client.records().read(&[], &[]).await?.now);
        assert_not_earlier(client.records().read(&[key(RECORD)], &[]).await?.now);
    }
    Ok(())
}

/// Law 132: the results of a read are in the order of the request. This is also true for absent records and for records
/// that the request contains twice.
pub async fn record_reading_order<W: World>(world: &W) -> Law {
    world.records()?;
    let client = world.client();
    let (guard, never_sent) = (take(&client, NAME).await?, bare_claim(NAME, MAX_WAIT));
    must_swap(&client, write("a", None, "1")).await?;
    must_swap(&client, write("b", None, "2")).await?;
    let (valid, invalid) = (guard.holding(), Holding { key: never_sent.key, id: never_sent.id });
    let keys = ["b", "absent", "a", "b", NAME].map(key);
    let reading = client.records().read(&keys, &[invalid.clone(), valid.clone(), invalid, valid]).await?;
    let values = reading.records.into_iter().map(|record| Ok(record?.map(|record| record.value)));
    let values: Vec<_> = values.collect::<Result<_, Error>>()?;
    assert_eq!(values.iter().map(Option::as_deref).collect::<Vec<_>>(), [Some("2"), None, Some("1"), Some("2"), None]);
    let held: Vec<_> = reading.held.into_iter().collect::<Result<_, _>>()?;
    assert_eq!(held, [false, true, false, true]);
    Ok(())
}

/// Law 133: `names` returns the sorted names of the records that match a pattern. It does not return the names of
/// locks.
// Promise: R11
pub async fn record_names<W: World>(world: &W) -> Law {
    world.records()?;
    let client = world.client();
    let names = ["job/a", "job/b", "job/B", "jobs", "job/a*", "job/aa", "other", "jöb/ä"];
    for name in names {
        must_swap(&client, write(name, None, "")).await?;
    }
    let _lock = take(&client, "job/lock").await?;
    let found = async |pattern: &str| -> Result<Vec<String>, Error> {
        Ok(client.records().names(&Pattern::new(pattern)).await?.iter().map(ToString::to_string).collect())
    };
    let mut all = names;
    all.sort_unstable();
    assert_eq!(found("*").await?, all);
    assert_eq!(found("job/*").await?, ["job/B", "job/a", "job/a*", "job/aa", "job/b"]);
    assert_eq!(found("job/?").await?, ["job/B", "job/a", "job/b"]);
    assert_eq!(found("j?b/?").await?, ["job/B", "job/a", "job/b", "jöb/ä"]);
    assert_eq!(found("job/a\\*").await?, ["job/a*"]);
    assert_eq!(found("job/a").await?, ["job/a"]);
    assert!(found("job").await?.is_empty() && found("[jo]*").await?.is_empty() && found("").await?.is_empty());
    Ok(())
}

/// Law 134: a record and a lock with the same name are independent.
// Promise: R11
pub async fn record_and_lock_apart<W: World>(world: &W) -> Law {
    world.records()?;
    let (a, b) = (world.client(), world.client());
    let lines = vec![line("ok:0", "fine")];
    let version = must_swap(&a, Swap { lines: lines.clone(), ..write(NAME, None, "one") }).await?;
    assert_eq!(b.list(Pattern::all()).await?, []);
    let guard = take(&a, NAME).await?;
    let held: Vec<_> = b.list(Pattern::all()).await?.into_iter().map(|row| row.name).collect();
    assert_eq!(held, [NAME]);
    let version = must_swap(&b, write(NAME, Some(version), "two")).await?;
    assert!(b.show(NAME).await?.is_held() && !guard.is_lost());
    guard.release().await?;
    let _evicted = take(&a, NAME).await?;
    a.evict(NAME).await?;
    let (record, history) = record_and_history(&b, NAME).await?;
    assert_eq!((record.map(|record| record.version), history), (Some(version), lines));

    // If a session of the database has the lock, too, the holder frees it when it has noticed the eviction.
    let guard = within(MAX_WAIT, "the lock after the eviction", b.mutex(NAME).lock()).await?;
    swap(&a, delete(NAME, Some(version))).await?;
    assert!(a.show(NAME).await?.is_held());
    guard.release().await?;
    assert_eq!(a.records().names(&Pattern::all()).await?, []);
    Ok(())
}

/// Law 135: a client sees only the records whose names begin with its prefix. In its answers, the names do not have the
/// prefix.
// Promise: R11
pub async fn record_prefix<W: World>(world: &W) -> Law {
    world.holdings_of_any_lock()?;
    world.records()?;
    let with_prefix = |prefix: &str| world.options().prefix(prefix).over(world.backend());
    let (a, b, odd, plain) = (with_prefix("a:")?, with_prefix("b:")?, with_prefix("a*?[]\\:")?, world.client());
    for (client, value) in [(&a, "of a"), (&b, "of b"), (&odd, "odd"), (&plain, "plain")] {
        must_swap(client, Swap { lines: vec![line("ok:0", value)], ..write(RECORD, None, value) }).await?;
    }
    must_swap(&b, write("b's own", None, "")).await?;
    for (client, value) in [(&a, "of a"), (&b, "of b"), (&odd, "odd"), (&plain, "plain")] {
        let (record, history) = record_and_history(client, RECORD).await?;
        assert_eq!(record.map(|record| record.value).as_deref(), Some(value));
        assert_eq!(history, [line("ok:0", value)]);
    }
    assert_eq!(a.records().names(&Pattern::all()).await?, [key(RECORD)]);
    assert_eq!(b.records().names(&Pattern::new("*r*")).await?, [key(RECORD)]);
    assert_eq!(odd.records().names(&Pattern::all()).await?, [key(RECORD)]);
    let all = ["a*?[]\\:record", "a:record", "b:b's own", "b:record", RECORD];
    assert_eq!(plain.records().names(&Pattern::all()).await?, all.map(key));

    // A holding has the full name of its lock, so clients with any prefix can use the holding.
    let guard = take(&a, NAME).await?;
    for client in [&a, &b, &plain] {
        must_swap(client, Swap { held: Some(guard.holding()), ..write("held", None, "") }).await?;
    }

    // A name can become too long when the prefix is added. Then no swap of the call is done.
    let long = "n".repeat(MAX_KEY_LEN - 1);
    let swaps = [write("beside it", None, ""), write(&long, None, "")];
    assert_eq!(error_kind(a.records().swap(&swaps).await), Some(ErrorKind::Misused));
    assert_eq!(error_kind(a.records().read(&[key(&long)], &[]).await), Some(ErrorKind::Misused));
    assert_eq!(error_kind(a.records().history(&key(&long)).await), Some(ErrorKind::Misused));
    assert_eq!(get(&a, "beside it").await?, None);
    Ok(())
}

/// Law 136: any text is returned unchanged, both as the value of a record and as a line of its history.
// Promise: R10
pub async fn record_texts<W: World>(world: &W) -> Law {
    world.records()?;
    let (a, b) = (world.client(), world.client());
    let every: String = ('\0'..='\u{2ff}').chain("🐕犬\u{200b}\u{feff}\u{fffd}\u{ffff}\u{10ffff}".chars()).collect();
    let odd =
        ["", " ", "\n", "\0", "a\0b", "\t\r\n", "null", "true", "1", "-0", "007", "1e3", "9007199254740993", "{}"];
    let texts = odd.map(String::from).into_iter().chain([every, "\"犬 🐕\\\n".repeat(10_000), "x".repeat(100_000)]);
    let mut from = None;
    for text in texts {
        from = Some(must_swap(&a, Swap { lines: vec![line("ok:0", &text)], ..write(RECORD, from, &text) }).await?);
        let (record, history) = record_and_history(&b, RECORD).await?;
        let start: String = text.chars().take(20).collect();
        assert!(record.is_some_and(|record| record.value == text), "the value {start:?} has changed");
        assert!(history == [line("ok:0", &text)], "the line {start:?} has changed");
    }
    Ok(())
}

/// Law 137: every allowed name of a record, up to 1024 bytes, works and is returned unchanged. Different names are
/// always different records.
// Promise: R10
pub async fn record_name_roundtrip<W: World>(world: &W) -> Law {
    world.records()?;
    let client = world.client();
    let mut names = odd_names();
    names.retain(|name| world.accepts(name));
    names.extend([
        "A".into(),
        format!("{}1", "n".repeat(MAX_KEY_LEN - 1)),
        format!("{}2", "n".repeat(MAX_KEY_LEN - 1)),
    ]);
    let creations: Vec<Swap> =
        names.iter().map(|name| Swap { lines: vec![line("ok:0", name)], ..write(name, None, name) }).collect();
    for created in client.records().swap(&creations).await?.each {
        assert!(matches!(created?, Swapped::Done(Some(_))), "two names are one record");
    }
    for name in &names {
        let (record, history) = record_and_history(&client, name).await?;
        assert_eq!(record.map(|record| record.value).as_ref(), Some(name));
        assert_eq!(history, [line("ok:0", name)]);
    }
    names.sort();
    let listed: Vec<String> = client.records().names(&Pattern::all()).await?.iter().map(ToString::to_string).collect();
    assert_eq!(listed, names);
    for name in &names {
        let record = get(&client, name).await?.expect("the record does not exist");
        swap(&client, delete(name, Some(record.version))).await?;
    }
    assert_eq!(client.records().names(&Pattern::all()).await?, []);
    Ok(())
}
