//! Names and other arguments.

use std::time::Duration;

use bandog_core::{ErrorKind, MAX_KEY_LEN, MAX_TTL, Pattern};

use crate::{
    Law, World,
    kit::{NAME, error_kind, is_free, nothing_left, odd_names, take},
    wrap::Counting,
};

/// Law 8: a call with an invalid value fails with `ErrorKind::Misused`, before any I/O and without any effect. The
/// error contains the value.
pub async fn bad_arguments<W: World>(world: &W) -> Law {
    let counts = Counting::new(world.backend());
    let client = world.over(counts.clone());
    for ttl in [Duration::ZERO, Duration::from_millis(99), MAX_TTL + Duration::from_nanos(1), Duration::MAX] {
        // `watchdog` sets the ttl of a client's holds.
        let client_made = world.options().watchdog(ttl).over(counts.clone());
        assert_eq!(error_kind(client_made), Some(ErrorKind::Misused), "a client with the ttl {ttl:?}");
        let error = client.mutex(NAME).lease(ttl).lock().await.expect_err("an invalid lease was accepted");
        assert_eq!(error.kind(), ErrorKind::Misused);
        assert!(error.to_string().contains(&format!("{ttl:?}")), "{error}");
    }
    for wait in [MAX_TTL + Duration::from_nanos(1), Duration::MAX] {
        let error = client.mutex(NAME).try_lock_for(wait).await.expect_err("an invalid wait was accepted");
        assert_eq!(error.kind(), ErrorKind::Misused);
        assert!(error.to_string().contains(&format!("{wait:?}")), "{error}");
    }
    for name in ["", "tab\t", "line\n", "nul\0", "delete\u{7f}", "next line\u{85}", &"x".repeat(MAX_KEY_LEN + 1)] {
        assert_eq!(error_kind(client.mutex(name).lock().await), Some(ErrorKind::Misused), "{name:?}");
        assert_eq!(error_kind(client.mutex(name).try_lock().await), Some(ErrorKind::Misused), "{name:?}");
        assert_eq!(error_kind(client.show(name).await), Some(ErrorKind::Misused), "{name:?}");
    }
    client.idle().await;
    assert_eq!(counts.calls(), 0);
    nothing_left(world, &[&client]).await;
    Ok(())
}

/// Law 9: every allowed name works and is returned unchanged. No two names are the same lock.
// Promise: L24
pub async fn name_roundtrip<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let (names, refused): (Vec<String>, Vec<String>) = odd_names().into_iter().partition(|name| world.accepts(name));
    for name in &refused {
        assert_eq!(error_kind(a.mutex(name).try_lock().await), Some(ErrorKind::Misused), "{name:?}");
    }
    let mut guards = Vec::new();
    for name in &names {
        let guard =
            a.mutex(name).try_lock().await?.unwrap_or_else(|| panic!("{name:?} is the same lock as an earlier name"));
        assert_eq!(guard.key(), name);
        guards.push(guard);
    }
    for name in &names {
        assert!(!is_free(&b, name).await?, "{name:?} is free, although it was taken");
        assert_eq!(b.show(name).await?.name, *name);
    }
    let mut all = names.clone();
    all.sort();
    let mut listed: Vec<_> = b.list(Pattern::all()).await?.into_iter().map(|row| row.name).collect();
    listed.sort();
    assert_eq!(listed, all);
    drop(guards);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 10: `a` and `A` are two locks.
// Promise: L24
pub async fn name_case_sensitive<W: World>(world: &W) -> Law {
    assert_distinct(world, ["order", "Order", "ORDER", "ORDEr"]).await
}

/// Law 11: two names are different locks even if they differ only in the last byte of a long name. So a store must not
/// truncate names.
// Promise: L24
pub async fn long_names_no_truncation<W: World>(world: &W) -> Law {
    for equal_bytes in [63, 64, 127, 128, 191, 255, 256, 512, 767, MAX_KEY_LEN - 1] {
        let name = "n".repeat(equal_bytes);
        assert_distinct(world, [&format!("{name}1"), &format!("{name}2"), &name]).await?;
    }
    Ok(())
}

/// Asserts that each of these names is a different lock.
async fn assert_distinct<W: World, const N: usize>(world: &W, names: [&str; N]) -> Law {
    let (a, b) = (world.client(), world.client());
    let mut guards = Vec::new();
    for (at, name) in names.iter().enumerate() {
        for later in &names[at..] {
            assert!(is_free(&b, later).await?, "{later:?} is the same lock as an earlier name");
        }
        guards.push(take(&a, name).await?);
    }
    drop(guards);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 14: if other software has written data under a lock's name, no client gets the lock, and the data stay
/// unchanged.
// Promise: L25
pub async fn existing_record<W: World>(world: &W) -> Law {
    let client = world.client();
    for name in world.plant().await? {
        let before = world.raw(&name).await?;
        match client.mutex(&name).try_lock().await {
            Ok(guard) => assert!(guard.is_none(), "{name:?} was granted, although its name has other data: {before}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Denied, "{error}"),
        }
        client.idle().await;
        assert_eq!(world.raw(&name).await?, before);
    }
    Ok(())
}
