//! Records: creation, replacement and deletion, one by one and in batches.

use bandog_core::{ErrorKind, Holding, Key, Line, Pattern, Records, Swap, Swapped, Version};

use crate::{
    Law, World,
    kit::{MAX_WAIT, NAME, bare_claim, error_kind, take},
    record_kit::{RECORD, delete, get, key, must_swap, record_and_history, swap, write},
};

/// Law 101: a store either supports records, or returns `ErrorKind::Unsupported` for every call for records.
// Promise: R14
pub async fn record_support<W: World>(world: &W) -> Law {
    let client = world.client();
    let kinds = [
        error_kind(client.records().swap(&[write(RECORD, None, "one")]).await),
        error_kind(client.records().read(&[key(RECORD)], &[]).await),
        error_kind(client.records().names(&Pattern::all()).await),
        error_kind(client.records().history(&key(RECORD)).await),
    ];
    let supported = world.records();
    let expected = if supported.is_ok() { None } else { Some(ErrorKind::Unsupported) };
    assert_eq!(kinds, [expected; 4]);
    supported
}

/// Law 102: a read of an absent record returns `None`. An absent record has no history, and the list of names does not
/// contain its name. A swap that begins from a version does not create the record.
pub async fn record_absent<W: World>(world: &W) -> Law {
    world.records()?; // This law applies only if the backend supports records.
    let client = world.client();
    let absent = (None, Vec::new());
    assert_eq!(record_and_history(&client, RECORD).await?, absent);
    let absent_version = Version::new(7);
    assert_eq!(swap(&client, write(RECORD, absent_version, "one")).await?, Swapped::Differs(None));
    assert_eq!(swap(&client, delete(RECORD, absent_version)).await?, Swapped::Differs(None));
    assert_eq!(swap(&client, delete(RECORD, None)).await?, Swapped::Done(None));
    assert_eq!(record_and_history(&client, RECORD).await?, absent);
    assert_eq!(client.records().names(&Pattern::all()).await?, []);
    Ok(())
}

/// Law 103: if the record exists, a swap that is meant to create the record changes nothing, and returns the record.
// Promise: R1
pub async fn record_created_once<W: World>(world: &W) -> Law {
    world.records()?;
    let (a, b) = (world.client(), world.client());
    let version = must_swap(&a, write(RECORD, None, "one")).await?;
    let first = get(&b, RECORD).await?.expect("the record was not created");
    assert_eq!((first.version, first.value.as_str()), (version, "one"));
    for client in [&a, &b] {
        assert_eq!(swap(client, write(RECORD, None, "two")).await?, Swapped::Differs(Some(first.clone())));
        assert_eq!(swap(client, delete(RECORD, None)).await?, Swapped::Differs(Some(first.clone())));
    }
    assert_eq!(get(&a, RECORD).await?, Some(first));
    Ok(())
}

/// Law 104: a swap from the present version replaces the whole value and gives a greater version. A swap from any other
/// version changes nothing and returns the present record.
// Promise: R1
pub async fn record_swapped<W: World>(world: &W) -> Law {
    world.records()?;
    let (a, b) = (world.client(), world.client());
    let first = must_swap(&a, write(RECORD, None, "a long first value")).await?;
    let second = must_swap(&b, write(RECORD, Some(first), "two")).await?;
    assert!(second > first, "the version {second} is not greater than {first}");
    let present = get(&a, RECORD).await?.expect("the record does not exist");
    assert_eq!((present.version, present.value.as_str()), (second, "two"));
    let near = [second.get() - 1, second.get() + 1, u64::MAX, 1].map(Version::new);
    for wrong in [Some(first), None].into_iter().chain(near) {
        assert_eq!(swap(&a, write(RECORD, wrong, "three")).await?, Swapped::Differs(Some(present.clone())));
        assert_eq!(swap(&b, delete(RECORD, wrong)).await?, Swapped::Differs(Some(present.clone())));
    }
    assert_eq!(get(&b, RECORD).await?, Some(present));
    Ok(())
}

/// Law 105: a deletion removes the record, its name and its history. A record that is created again has an empty
/// history.
// Promise: R3, R9
pub async fn record_deleted<W: World>(world: &W) -> Law {
    world.records()?;
    let (a, b) = (world.client(), world.client());
    let line = Line { slot: "ok:0".into(), value: "fine".into() };
    let version = must_swap(&a, Swap { lines: vec![line.clone()], ..write(RECORD, None, "one") }).await?;
    let neighbour = must_swap(&a, Swap { lines: vec![line.clone()], ..write("neighbour", None, "one") }).await?;
    let late = Line { slot: "late".into(), ..line.clone() };
    let deletion = Swap { lines: vec![late], ..delete(RECORD, Some(version)) };
    assert_eq!(swap(&b, deletion.clone()).await?, Swapped::Done(None));
    assert_eq!(record_and_history(&a, RECORD).await?, (None, Vec::new()));
    assert_eq!(a.records().names(&Pattern::all()).await?, [key("neighbour")]);
    assert_eq!(swap(&b, deletion).await?, Swapped::Differs(None));

    let again = must_swap(&a, write(RECORD, None, "again")).await?;
    assert!(again > version, "the version {again} is not greater than {version}");
    assert_eq!(a.records().history(&key(RECORD)).await?, []);
    let (other, lines) = record_and_history(&a, "neighbour").await?;
    assert_eq!((other.map(|record| record.version), lines), (Some(neighbour), vec![line]));
    Ok(())
}

/// Law 106: every swap gives a greater version than all earlier swaps, even if another client makes the swap or the
/// record was deleted in the meantime. A version is at least the store's time of the swap in microseconds.
// Promise: R3
pub async fn record_versions_rise<W: World>(world: &W) -> Law {
    world.records()?;
    let (a, b) = (world.client(), world.client());
    let mut last_version = None;
    for round in 0..5 {
        let mut from = None;
        for client in [&a, &b, &b, &a, &a] {
            let time = Version::after(None, client.records().read(&[], &[]).await?.now);
            let version = must_swap(client, write(RECORD, from, &round.to_string())).await?;
            assert!(Some(version) > last_version, "the version {version} is not greater than {last_version:?}");
            assert!(version >= time, "the version {version} is less than {time}, the store's time before the swap");
            (last_version, from) = (Some(version), Some(version));
        }
        assert_eq!(swap(&b, delete(RECORD, from)).await?, Swapped::Done(None));
    }
    Ok(())
}

/// Law 107: the swaps of a batch are done in their order, and each swap succeeds or fails independently of the others.
/// Of two swaps from the same version, the first succeeds. A batch can delete and create the same record.
// Promise: R8
pub async fn record_batch_order<W: World>(world: &W) -> Law {
    world.records()?;
    let client = world.client();
    assert!(client.records().swap(&[]).await?.each.is_empty());
    let create = client
        .records()
        .swap(&[write(RECORD, None, "one"), write("other", None, "1"), write(RECORD, None, "two")])
        .await?;
    let [Ok(Swapped::Done(Some(one))), Ok(Swapped::Done(Some(other))), Ok(Swapped::Differs(Some(present)))] =
        &*create.each
    else {
        panic!("unexpected answers: {create:?}");
    };
    assert_eq!((present.version, present.value.as_str()), (*one, "one"));

    let batch = [
        write(RECORD, Some(*one), "three"),
        write(RECORD, Some(*one), "four"),
        delete("other", Some(*other)),
        write("other", Some(*other), "2"),
        write("other", None, "3"),
    ];
    let swapped = client.records().swap(&batch).await?;
    let [
        Ok(Swapped::Done(Some(three))),
        Ok(Swapped::Differs(Some(present))),
        Ok(Swapped::Done(None)),
        Ok(Swapped::Differs(None)),
        Ok(Swapped::Done(Some(again))),
    ] = &*swapped.each
    else {
        panic!("unexpected answers: {swapped:?}");
    };
    assert_eq!((present.version, present.value.as_str()), (*three, "three"));
    assert!(three > one && again > other);
    assert_eq!(get(&client, "other").await?.map(|record| record.value), Some("3".into()));
    Ok(())
}

/// Law 108: one call can make many swaps, or can read many records and holdings. A holding names a claim and a lock. A
/// read returns whether the claim holds the lock. The answers are in the order of the request.
// Promise: R8
pub async fn record_many<W: World>(world: &W) -> Law {
    world.records()?;
    let (client, many) = (world.client(), world.many());
    let keys: Vec<Key> = (0..many).map(|number| key(&format!("record {number}"))).collect();
    let creations: Vec<Swap> = keys.iter().map(|key| Swap::new(key.clone(), None, key.as_str())).collect();
    let created = client.records().swap(&creations).await?.each;
    assert_eq!(created.len(), many);

    let (guard, never_sent) = (take(&client, NAME).await?, bare_claim(NAME, MAX_WAIT));
    let (valid, invalid) = (guard.holding(), Holding { key: never_sent.key, id: never_sent.id });
    let holdings: Vec<Holding> = (0..many).map(|i| if i % 3 == 0 { valid.clone() } else { invalid.clone() }).collect();
    let reading = client.records().read(&keys, &holdings).await?;
    assert_eq!((reading.records.len(), reading.held.len()), (many, many));
    for ((key, swapped), record) in keys.iter().zip(created).zip(reading.records) {
        let record = record?.expect("the record was not created");
        assert_eq!((swapped?, record.value.as_str()), (Swapped::Done(Some(record.version)), key.as_str()));
    }
    for (at, held) in reading.held.into_iter().enumerate() {
        assert_eq!(held?, at % 3 == 0, "the answer for holding {at} is wrong");
    }
    assert_eq!(client.records().names(&Pattern::all()).await?.len(), many);
    Ok(())
}

/// Law 109: a closed client sends no request. Its calls fail with `ErrorKind::Closed`.
pub async fn record_closed<W: World>(world: &W) -> Law {
    world.records()?;
    let (client, other) = (world.client(), world.client());
    let version = must_swap(&client, write(RECORD, None, "one")).await?;
    client.close().await?;
    let kinds = [
        error_kind(client.records().swap(&[write(RECORD, Some(version), "two")]).await),
        error_kind(client.records().read(&[key(RECORD)], &[]).await),
        error_kind(client.records().names(&Pattern::all()).await),
        error_kind(client.records().history(&key(RECORD)).await),
    ];
    assert_eq!(kinds, [Some(ErrorKind::Closed); 4]);
    assert_eq!(get(&other, RECORD).await?.map(|record| record.value), Some("one".into()));
    Ok(())
}
