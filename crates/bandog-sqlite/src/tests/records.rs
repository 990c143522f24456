//! Records with other clocks and other machines, and how durable their commits are.

use std::time::{Duration, Instant, SystemTime};

use bandog_core::{
    Claim, ClaimId, ClientId, Holding, Key, Kind, Leases, Records, Result, Step, Swap, Swapped, Version,
};
use rusqlite::Connection;

use crate::{
    Sqlite, SqliteOptions,
    fault::Fault,
    host::Host,
    sql,
    table::Table,
    work::{AccessMode, SwapRecords, Work},
};

const HOUR: Duration = Duration::from_secs(3600);
const TTL: Duration = Duration::from_millis(300);

/// A handle on a machine with this boot id and this wall clock. `shift` is added to the time of the boot clock, in
/// nanoseconds.
fn machine(dir: &tempfile::TempDir, boot: &str, shift: i64, wall: fn() -> SystemTime) -> Sqlite {
    let options = SqliteOptions::at(dir.path().join("locks.db")).timeout(Duration::from_secs(20));
    Sqlite::on(Host::other(boot, shift, wall), options).unwrap()
}

/// A claim of the lock `lock` by a new client.
fn claim() -> Claim {
    let id = ClaimId { client: ClientId::random(), number: 1 };
    Claim::new(Key::new("lock").unwrap(), id, Kind::Mutex, TTL)
}

/// Takes the lock, and returns the holding that reads and swaps can require.
async fn take(store: &Sqlite, claim: &Claim) -> Holding {
    store.apply(&[Step::Claim(claim.clone())]).await.remove(0).unwrap();
    Holding { key: claim.key.clone(), id: claim.id }
}

/// Whether the claim in this holding still holds the lock.
async fn is_valid(store: &Sqlite, holding: &Holding) -> bool {
    store.read(&[], std::slice::from_ref(holding)).await.unwrap().held.remove(0).unwrap()
}

/// Waits until the holding is no longer valid.
async fn wait_until_expired(store: &Sqlite, holding: &Holding) {
    let start = Instant::now();
    while is_valid(store, holding).await {
        assert!(start.elapsed() < Duration::from_secs(20), "the holding did not expire within 20 s");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Swaps the record `r`. Returns its new version, or None after a deletion.
async fn swap(store: &Sqlite, from: Option<Version>, to: Option<&str>) -> Option<Version> {
    let swap = Swap { to: to.map(Into::into), ..Swap::new(Key::new("r").unwrap(), from, "") };
    match store.swap(&[swap]).await.unwrap().each.remove(0).unwrap() {
        Swapped::Done(version) => version,
        other => panic!("{other:?}"),
    }
}

/// The number of sightings in the database.
fn sightings(dir: &tempfile::TempDir) -> u32 {
    let raw = Connection::open(dir.path().join("locks.db")).unwrap();
    raw.query_row("select count(*) from sighting", [], |row| row.get(0)).unwrap()
}

/// Writes a row, and returns the durability of the commit.
struct Probe(AccessMode);

impl Work for Probe {
    type Answer = u32;

    fn access_mode(&self) -> AccessMode {
        self.0
    }

    fn run(&self, table: &mut Table<'_>) -> Result<u32, Fault> {
        table.write(sql::WANT, ("probe", 1))?;
        Ok(table.statement("pragma synchronous")?.query_row([], |row| row.get(0))?)
    }
}

// Promise: RS2
#[tokio::test]
async fn swaps_wait_for_the_disk_and_leases_do_not() {
    // The values of `pragma synchronous`: with FULL, a commit waits for the disk.
    const NORMAL: u32 = 1;
    const FULL: u32 = 2;
    assert_eq!(SwapRecords(Vec::new()).access_mode(), AccessMode::DurableWrite);
    let dir = tempfile::tempdir().unwrap();
    let store = machine(&dir, "this", 0, SystemTime::now);
    for (mode, level) in [
        (AccessMode::DurableWrite, FULL),
        (AccessMode::DurableWrite, FULL),
        (AccessMode::Write, NORMAL),
        (AccessMode::ReadFirst, NORMAL),
        (AccessMode::DurableWrite, FULL),
        (AccessMode::Write, NORMAL),
    ] {
        assert_eq!(store.request(Probe(mode)).await.unwrap(), level, "{mode:?}");
    }
    // Durable and other requests are queued together, but they never share a transaction.
    let send = async |mode| store.request(Probe(mode)).await.unwrap();
    for _ in 0..50 {
        let found = tokio::join!(
            send(AccessMode::DurableWrite),
            send(AccessMode::Write),
            send(AccessMode::ReadFirst),
            send(AccessMode::DurableWrite),
            send(AccessMode::Write)
        );
        assert_eq!(found, (FULL, NORMAL, NORMAL, FULL, NORMAL));
    }
}

#[tokio::test]
async fn a_version_rises_even_if_the_clock_was_set_back() {
    let dir = tempfile::tempdir().unwrap();
    let ahead = machine(&dir, "this", 0, || SystemTime::now() + HOUR);
    let behind = machine(&dir, "this", 0, || SystemTime::now() - HOUR);
    let first = swap(&ahead, None, Some("")).await;
    let second = swap(&behind, first, Some("")).await;
    assert_eq!(second.map(Version::get), first.map(|first| first.get() + 1));
}

#[tokio::test]
async fn the_store_s_clock_decides_whether_a_swap_is_early() {
    let dir = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let at = Swap { not_before: Some(now + HOUR), ..Swap::new(Key::new("r").unwrap(), None, "") };
    let today = machine(&dir, "this", 0, SystemTime::now).swap(std::slice::from_ref(&at)).await.unwrap();
    assert!(matches!(today.each[..], [Ok(Swapped::Early(_))]), "{today:?}");
    let later = machine(&dir, "this", 0, || SystemTime::now() + HOUR * 2).swap(&[at]).await.unwrap();
    assert!(matches!(later.each[..], [Ok(Swapped::Done(_))]) && later.now > now + HOUR, "{later:?}");
}

// Promise: SQ8
#[tokio::test]
async fn a_holding_of_another_boot_stays_valid_in_reads_for_one_ttl() {
    let hour = i64::try_from(HOUR.as_nanos()).unwrap();
    for shift in [-hour, hour] {
        let dir = tempfile::tempdir().unwrap();
        let holding = take(&machine(&dir, "before", shift, SystemTime::now), &claim()).await;
        let after = machine(&dir, "after", 0, SystemTime::now);
        let start = Instant::now();
        assert!(is_valid(&after, &holding).await);
        let held = Swap { held: Some(holding.clone()), ..Swap::new(Key::new("r").unwrap(), None, "") };
        let answer = after.swap(std::slice::from_ref(&held)).await.unwrap().each.remove(0).unwrap();
        assert!(
            matches!(answer, Swapped::Done(_)),
            "the hold was not counted as held before it was observed for its ttl: {answer:?}"
        );
        wait_until_expired(&after, &holding).await;
        assert!(start.elapsed() >= TTL, "the holding expired after {:?}", start.elapsed());
        let again = Swap { from: Version::new(1), ..held };
        assert!(matches!(after.swap(&[again]).await.unwrap().each[..], [Ok(Swapped::Differs(_))]));
        assert_eq!(sightings(&dir), 0, "a read has written a sighting");
    }
}

#[tokio::test]
async fn a_holding_of_another_boot_that_is_renewed_stays_valid() {
    let dir = tempfile::tempdir().unwrap();
    let (container, host) = (machine(&dir, "container", 0, SystemTime::now), machine(&dir, "host", 0, SystemTime::now));
    let ours = claim();
    let (holding, start) = (take(&container, &ours).await, Instant::now());
    while start.elapsed() < TTL * 3 {
        container.renew(std::slice::from_ref(&ours)).await.remove(0).unwrap();
        assert!(is_valid(&host, &holding).await);
        tokio::time::sleep(TTL / 10).await;
    }
    container.apply(&[Step::Release(ours)]).await.remove(0).unwrap();
    assert!(!is_valid(&host, &holding).await);
}

#[tokio::test]
async fn a_holding_in_another_file_is_observed_from_the_start() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ours = claim();
    let (holding, after) =
        (take(&machine(&dir, "before", 0, SystemTime::now), &ours).await, machine(&dir, "after", 0, SystemTime::now));
    wait_until_expired(&after, &holding).await;
    // The other file has a hold of the same lock by the same claim with the same stamp. The two holds differ only in
    // their file.
    take(&machine(&other, "before", 0, SystemTime::now), &ours).await;
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(dir.path().join(format!("locks.db{ending}")));
    }
    wait_until_closed(&other).await;
    std::fs::rename(other.path().join("locks.db"), dir.path().join("locks.db")).unwrap();
    assert!(is_valid(&after, &holding).await);
}

/// Waits until the last process has closed the database, which deletes the log.
async fn wait_until_closed(dir: &tempfile::TempDir) {
    let start = Instant::now();
    while dir.path().join("locks.db-wal").exists() {
        assert!(start.elapsed() < Duration::from_secs(20), "the database was not closed within 20 s");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
