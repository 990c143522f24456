//! The check of a lock: a lock that is lost fails the transaction, and a checked transaction keeps other clients from the
//! lock. The tests run on each database, with the helper functions of its `support`.

use std::time::{Duration, Instant};

use bandog::ErrorKind;
use bandog_sqlx::FenceIn;
use sqlx::Connection;

use super::complete::expect_one_completion;
use super::support::{
    Database, ENDS, LEVELS, NOTICED_WITHIN, PAGE, RIGHTS_OF_A_COMPLETION, SERVER, end_refused, execute, grants,
    narrow_pool, open, set_level, write,
};
use crate::kinds::{Checked, SOON};

/// Attempts that must not get the lock.
const ATTEMPTS: usize = 5;

// Promise: MY21
#[tokio::test]
async fn a_held_lock_lets_the_transaction_commit() {
    let database = Database::new();
    let client = database.client("").await;
    let mut connection = database.connection().await;
    for level in LEVELS {
        set_level(&mut connection, level).await;
        for kind in Checked::ALL {
            // The text and the binary protocol have the same characters.
            let name = format!("{kind:?} Ä🦀");
            let guard = kind.lock(&client, &name).await;
            let mut tx = connection.begin().await.unwrap();
            write(&mut tx, &format!("{kind:?}")).await;
            let statement = guard.fence_sql().await.unwrap();
            assert_eq!(execute(&statement, &mut tx).await, Ok(guard.fence().as_i64()));
            guard.fence_in(&mut tx).await.unwrap();
            guard.commit(tx).await.unwrap();
            guard.release().await.unwrap();
        }
        assert_eq!(database.writes(), "Fair Mutex Write", "{level}");
        sqlx::query("delete from writes").execute(&mut connection).await.unwrap();
    }
}

// Promise: PG14, MY21
#[tokio::test]
async fn an_expired_lease_that_no_client_took_fails_the_transaction() {
    let database = Database::new();
    let client = database.client("").await;
    let mut connection = database.connection().await;
    set_level(&mut connection, "read committed").await;
    for kind in Checked::ALL {
        let guard = kind.lease(&client, "k", Duration::from_millis(500)).await;
        let statement = guard.fence_sql().await.unwrap();
        guard.lost().await;
        database.expired("k").await;
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "late").await;
        assert_eq!(execute(&statement, &mut tx).await, Err(ErrorKind::Lost), "{kind:?}");
        end_refused(tx).await;
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "late").await;
        // The client knows the loss, so it sends no check.
        assert_eq!(guard.fence_in(&mut tx).await.unwrap_err().kind(), ErrorKind::Lost);
        end_refused(tx).await;
        drop(guard);
        client.idle().await;
    }
    assert_eq!(database.writes(), "");
}

/// A failed check would be undone with the savepoint, and the outer transaction could commit.
// Promise: PG14, MY23
#[tokio::test]
async fn a_savepoint_is_misused() {
    let database = Database::new();
    let client = database.client("").await;
    let guard = client.mutex("k").lock().await.unwrap();
    let mut connection = database.connection().await;
    let mut outer = connection.begin().await.unwrap();
    let mut inner = outer.begin().await.unwrap();
    let error = guard.fence_in(&mut inner).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    assert!(error.to_string().contains("savepoint"), "{error}");
    drop(inner);
    let inner = outer.begin().await.unwrap();
    assert_eq!(guard.commit(inner).await.unwrap_err().kind(), ErrorKind::Misused);
    guard.commit(outer).await.unwrap();
}

// Promise: PG14, MY23
#[tokio::test]
async fn a_lock_in_a_file_cannot_be_checked() {
    let (database, folder) = (Database::new(), tempfile::tempdir().unwrap());
    let sqlite = bandog::connect(format!("sqlite:{}/locks.db", folder.path().display())).await.unwrap();
    let guard = sqlite.mutex("k").lock().await.unwrap();
    assert_eq!(guard.fence_sql().await.unwrap_err().kind(), ErrorKind::Unsupported);
    let mut connection = database.connection().await;
    let tx = connection.begin().await.unwrap();
    assert_eq!(guard.commit(tx).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

/// The transaction commits only if all locks of the guard are held.
// Promise: PG14, MY21
#[tokio::test]
async fn a_guard_of_several_locks_checks_each_of_them() {
    let database = Database::new();
    let (client, operator) = (database.client("").await, database.client("").await);
    let mut connection = database.connection().await;
    for taken in [None, Some("from"), Some("to")] {
        let guard = bandog::all([client.mutex("from"), client.mutex("to")]).lock().await.unwrap();
        assert_eq!(guard.fence_sql().await.unwrap().len(), 2);
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, taken.unwrap_or("all")).await;
        if let Some(taken) = taken {
            operator.evict(taken).await.unwrap().unwrap();
        }
        let committed = guard.commit(tx).await.map_err(|error| error.kind());
        assert_eq!(committed, if taken.is_none() { Ok(()) } else { Err(ErrorKind::Lost) }, "{taken:?}");
        drop(guard);
        client.idle().await;
    }
    assert_eq!(database.writes(), "all");
}

/// A thread without async gets the same statement, for a client of its own.
// Promise: PG14, MY21
#[tokio::test]
async fn a_blocking_guard_has_the_statement() {
    let database = Database::new();
    let client = database.client("").await;
    let (blocking, is_held) = (client.clone(), std::sync::mpsc::channel());
    let (release, released) = std::sync::mpsc::channel::<()>();
    let holder = std::thread::spawn(move || {
        let blocking = blocking.blocking().unwrap();
        let guard = blocking.mutex("k").lock().unwrap();
        is_held.0.send((guard.fence_sql().unwrap(), guard.fence())).unwrap();
        released.recv().unwrap();
        guard.release().unwrap();
    });
    let (statement, fence) = tokio::task::spawn_blocking(move || is_held.1.recv().unwrap()).await.unwrap();
    let mut connection = database.connection().await;
    let mut tx = connection.begin().await.unwrap();
    assert_eq!(execute(&statement, &mut tx).await, Ok(fence.as_i64()));
    tx.rollback().await.unwrap();
    release.send(()).unwrap();
    tokio::task::spawn_blocking(|| holder.join().unwrap()).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    assert_eq!(execute(&statement, &mut tx).await, Err(ErrorKind::Lost));
}

// Promise: PG15, MY22
#[tokio::test]
async fn no_client_gets_the_lock_before_the_transaction_ends() {
    let database = Database::new();
    let (client, other) = (database.client("").await, database.client("").await);
    let mut connection = database.connection().await;
    for (kind, (level, commits)) in Checked::ALL.into_iter().flat_map(|kind| ENDS.map(|end| (kind, end))) {
        set_level(&mut connection, level).await;
        let name = format!("{kind:?} {level} {commits}");
        let guard = kind.lease(&client, &name, Duration::from_millis(800)).await;
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, &format!("{kind:?}")).await;
        guard.fence_in(&mut tx).await.unwrap();
        guard.lost().await;
        database.expired(&name).await;
        let waiting = tokio::spawn({
            let (other, name) = (other.clone(), name.clone());
            async move { (kind.lock(&other, &name).await, Instant::now()) }
        });
        for _ in 0..ATTEMPTS {
            assert!(kind.try_lock(&client, &name).await.is_none(), "{name}: granted before the end");
            assert!(!other.forget(&name).await.unwrap(), "the name was deleted while a transaction needs it");
        }
        assert!(!waiting.is_finished(), "{name}: granted before the end");
        let before_end = Instant::now();
        if commits {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        let (next, granted) = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
        assert!(next.fence() > guard.fence());
        println!("{name}: the waiter had the lock {:?} after the end", granted - before_end);
        // The lock itself is not notified, so the waiter has polled.
        assert!(granted - before_end < NOTICED_WITHIN, "{name}: {:?}", granted - before_end);
    }
    let committed = ENDS.iter().filter(|(_, commits)| *commits).count();
    let expected = ["Fair", "Mutex", "Write"].map(|kind| vec![kind; committed].join(" ")).join(" ");
    assert_eq!(database.writes(), expected);
}

// Promise: PG17, MY23
#[tokio::test]
async fn the_documented_rights_of_the_users_role_are_enough_and_needed() {
    let database = Database::new();
    let client = database.client("").await;
    let guard = client.mutex("k").lock().await.unwrap();
    database.create_user("app");
    let url = database.url().replace("locks:", "app:");
    let mut connection = open(&url).await;
    let pool = narrow_pool(&url).await;
    for grant in grants("app") {
        assert_eq!(bandog_sqlx::check(&client, &pool).await.unwrap_err().kind(), ErrorKind::Denied);
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "without a right").await;
        let error = guard.commit(tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "before {grant:?}: {error}");
        SERVER.sql(&database.0, &grant);
    }
    bandog_sqlx::check(&client, &pool).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "with all").await;
    guard.commit(tx).await.unwrap();
    assert_eq!(database.writes(), "with all");
}

/// The page describes these rights in words.
#[tokio::test]
async fn the_documented_rights_of_a_completion_are_enough() {
    let database = Database::new();
    let client = database.client("").await;
    client.mutex("k").lock().await.unwrap().release().await.unwrap(); // Creates the tables.
    let (words, rights) = RIGHTS_OF_A_COMPLETION;
    assert!(PAGE.contains(words), "the page does not list the rights");
    database.create_user("payer");
    SERVER.sql(&database.0, &format!("{}; {}", grants("payer").join(" "), rights.replace("USER", "payer")));
    let url = database.url().replace("locks:", "payer:");
    expect_one_completion(&database, &client, url).await;
}
