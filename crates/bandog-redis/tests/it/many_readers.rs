//! A read-write lock with many readers: the cost of its steps, and the fields of dead readers.

use bandog_core::{Claim, Released, Renewal};
use bandog_redis::Redis;
use bandog_testkit::{RedisServer, eventually_async};

use crate::{
    help::{JAVA, SOON, TTL, backend, granted, is_granted, release, renew, take},
    read_write::{hold_key, reader, writer},
};

const READERS: usize = 200;

async fn readers(redis: &Redis) -> Vec<Claim> {
    let readers: Vec<Claim> = (0..READERS).map(|_| reader("k")).collect();
    for reader in &readers {
        granted(take(redis, reader).await.unwrap());
    }
    readers
}

/// Ends the holds of these readers as if their clients had died.
fn die(server: &RedisServer, readers: &[Claim]) {
    for reader in readers {
        server.cmd(&["DEL", &hold_key("{k}:", reader.id)]);
    }
}

#[tokio::test]
async fn a_step_does_not_read_all_readers_if_all_are_ours() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let readers = readers(&redis).await;
    let next = Claim { joins: false, ..writer("k") };
    // The holds end in the order in which they began, so the last one keeps the ttl of the lock.
    server.cmd(&["PEXPIRE", "k", "60000"]);
    server.cmd(&["PEXPIRE", &hold_key("{k}:", readers[READERS - 1].id), "60000"]);
    server.cmd(&["CONFIG", "RESETSTAT"]);
    for reader in &readers {
        assert_eq!(renew(&redis, reader).await.unwrap(), Renewal::Extended { valid_for: TTL });
        granted(take(&redis, reader).await.unwrap());
        assert!(!is_granted(&redis, &next).await);
    }
    assert!(server.pttl("k") > 59_000 - 5_000);
    for reader in &readers[..READERS / 2] {
        assert_eq!(release(&redis, reader).await.unwrap(), Released::Freed { others: None });
    }
    // Each of the 700 steps would read up to 200 holds. About one in 20 does.
    let holds_read = server.calls("pttl");
    assert!(holds_read < 700 * 200 / 4, "{holds_read}");
    assert_eq!(server.hash("k").len(), 1 + READERS / 2);
    for (number, reader) in readers.iter().enumerate().skip(READERS / 2) {
        let expected = if number + 1 < READERS { None } else { Some(0) };
        assert_eq!(release(&redis, reader).await.unwrap(), Released::Freed { others: expected }, "{number}");
    }
    assert_eq!(server.keys(), ["redisson_lock_token:{k}"]);
}

#[tokio::test]
async fn the_lock_expires_with_the_longest_of_the_remaining_holds() {
    let server = RedisServer::start();
    let redis = backend(&server);
    for _ in 0..2 {
        let long = Claim { ttl: 20 * TTL, ..reader("k") };
        assert!(is_granted(&redis, &long).await);
        readers(&redis).await;
        assert!(server.pttl("k") > 500_000);
        release(&redis, &long).await.unwrap();
        assert!(server.pttl("k") <= 30_000, "{}", server.pttl("k"));
    }
}

#[tokio::test]
async fn dead_readers_are_removed_while_other_readers_hold_the_lock() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let readers = readers(&redis).await;
    let (dead, alive) = readers.split_at(READERS - 1);
    die(&server, dead);
    eventually_async(SOON, async || {
        assert_eq!(renew(&redis, &alive[0]).await.unwrap(), Renewal::Extended { valid_for: TTL });
        server.hash("k").len() == 2 && server.hash("bandog:held:{k}").len() == 1
    })
    .await;
    assert!(server.hash("k").contains_key(&alive[0].id.to_string()));
}

/// Beside a reader of Redisson, each renewal reads all readers.
#[tokio::test]
async fn one_step_removes_a_limited_number_of_dead_readers() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let readers = readers(&redis).await;
    server.cmd(&["HSET", "k", JAVA, "1"]);
    server.cmd(&["SET", &hold_key("{k}:", JAVA), "1", "PX", "60000"]);
    let (dead, alive) = readers.split_at(READERS - 10);
    die(&server, dead);
    for left in [dead.len() - 64, dead.len() - 128, 0, 0] {
        renew(&redis, &alive[0]).await.unwrap();
        assert_eq!(server.hash("k").len(), 2 + alive.len() + left);
        assert_eq!(server.hash("bandog:held:{k}").len(), alive.len() + left);
    }
    // A release does the same.
    die(&server, &alive[..5]);
    release(&redis, &alive[9]).await.unwrap();
    assert_eq!(server.hash("k").len(), 2 + 4);
    assert!(server.pttl("k") > 59_000 - 5_000, "the lock expires before the hold of Redisson");
}

/// The private key of earlier readers does not count for later ones.
#[tokio::test]
async fn a_lock_that_was_free_begins_with_no_earlier_readers() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let early = reader("k");
    granted(take(&redis, &early).await.unwrap());
    server.cmd(&["DEL", "k"]); // An unlock of Redisson does this.
    let later = reader("k");
    granted(take(&redis, &later).await.unwrap());
    let fences = server.hash("bandog:held:{k}");
    assert_eq!(fences.into_keys().collect::<Vec<_>>(), [later.id.to_string()]);
}

/// If Redisson deletes the hash, the private key keeps the fields of our readers. Then the number of its fields can be
/// equal to the number of readers although some of them are readers of Redisson, and the watchdog of Redisson can lower
/// the ttl of the hash.
#[tokio::test]
async fn a_renewal_restores_the_ttl_of_the_hash_although_fields_of_earlier_readers_remain() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let early = readers(&redis).await;
    server.cmd(&["DEL", "k"]); // An unlock of Redisson does this.
    for number in 0..READERS {
        server.cmd(&["HSET", "k", "mode", "read", &format!("{}{number}", &JAVA[..37]), "1"]);
    }
    server.cmd(&["PEXPIRE", "k", "30000"]);
    let (long, short) = (Claim { ttl: 4 * TTL, ..reader("k") }, reader("k"));
    for claim in [&long, &short] {
        assert!(is_granted(&redis, claim).await);
    }
    assert_eq!(server.hash("k").len(), server.hash("bandog:held:{k}").len() + 1);
    for (round, gone) in early.iter().enumerate().take(20) {
        server.cmd(&["PEXPIRE", "k", "20000"]);
        if round % 2 == 0 {
            // The claim of another reader does not hide that the ttl was lowered.
            let other = reader("k");
            granted(take(&redis, &other).await.unwrap());
            granted(take(&redis, &other).await.unwrap());
            assert_eq!(renew(&redis, &short).await.unwrap(), Renewal::Extended { valid_for: TTL });
            assert!(server.pttl("k") > 100_000, "the lock expires before a hold of ours");
            release(&redis, &other).await.unwrap();
        } else {
            assert_eq!(renew(&redis, &short).await.unwrap(), Renewal::Extended { valid_for: TTL });
        }
        assert!(server.pttl("k") > 100_000, "the lock expires before a hold of ours");
        assert_eq!(renew(&redis, gone).await.unwrap(), Renewal::Gone);
    }
    assert!(!is_granted(&redis, &Claim { joins: false, ..writer("k") }).await);
}
