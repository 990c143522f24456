//! Records where the clock or the machine is another, and how their transactions are committed.

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
    work::{SwapRecords, Way, Work},
};

const HOUR: Duration = Duration::from_secs(3600);
const TTL: Duration = Duration::from_millis(300);

fn machine(place: &tempfile::TempDir, boot: &str, shift: i64, wall: fn() -> SystemTime) -> Sqlite {
    let options = SqliteOptions::at(place.path().join("locks.db")).timeout(Duration::from_secs(20));
    Sqlite::on(Host::other(boot, shift, wall), options).unwrap()
}

fn claim() -> Claim {
    let id = ClaimId { client: ClientId::random(), number: 1 };
    Claim {
        key: Key::new("lock").unwrap(),
        id,
        kind: Kind::Mutex,
        ttl: TTL,
        fences: std::num::NonZeroU32::MIN,
        offers: false,
    }
}

async fn take(store: &Sqlite, claim: &Claim) -> Holding {
    store.apply(&[Step::Claim(claim.clone())]).await.remove(0).unwrap();
    Holding { key: claim.key.clone(), id: claim.id }
}

async fn stands(store: &Sqlite, holding: &Holding) -> bool {
    store.read(&[], std::slice::from_ref(holding)).await.unwrap().held.remove(0).unwrap()
}

/// Waits until it does not stand any more.
async fn ends(store: &Sqlite, holding: &Holding) {
    let start = Instant::now();
    while stands(store, holding).await {
        assert!(start.elapsed() < Duration::from_secs(20), "it stands for ever");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn swap(store: &Sqlite, from: Option<Version>, to: Option<&str>) -> Option<Version> {
    let swap = Swap { to: to.map(Into::into), ..Swap::new(Key::new("r").unwrap(), from, "") };
    match store.swap(&[swap]).await.unwrap().each.remove(0).unwrap() {
        Swapped::Done(version) => version,
        other => panic!("{other:?}"),
    }
}

fn sightings(place: &tempfile::TempDir) -> u32 {
    let raw = Connection::open(place.path().join("locks.db")).unwrap();
    raw.query_row("select count(*) from sighting", [], |row| row.get(0)).unwrap()
}

/// Writes something, and says how safely it will be committed.
struct Probe(Way);

impl Work for Probe {
    type Answer = u32;

    fn way(&self) -> Way {
        self.0
    }

    fn run(&self, table: &mut Table<'_>) -> Result<u32, Fault> {
        table.write(sql::WANT, ("probe", 1))?;
        Ok(table.statement("pragma synchronous")?.query_row([], |row| row.get(0))?)
    }
}

#[tokio::test]
async fn swaps_wait_for_the_disk_and_leases_do_not() {
    const NORMAL: u32 = 1;
    const FULL: u32 = 2;
    assert_eq!(SwapRecords(Vec::new()).way(), Way::Durable);
    let place = tempfile::tempdir().unwrap();
    let store = machine(&place, "this", 0, SystemTime::now);
    for (way, level) in [
        (Way::Durable, FULL),
        (Way::Durable, FULL),
        (Way::Write, NORMAL),
        (Way::Look, NORMAL),
        (Way::Durable, FULL),
        (Way::Write, NORMAL),
    ] {
        assert_eq!(store.ask(Probe(way)).await.unwrap(), level, "{way:?}");
    }
    // Those of both kinds stand in the queue together, and share no transaction all the same.
    let ask = async |way| store.ask(Probe(way)).await.unwrap();
    for _ in 0..50 {
        let found =
            tokio::join!(ask(Way::Durable), ask(Way::Write), ask(Way::Look), ask(Way::Durable), ask(Way::Write));
        assert_eq!(found, (FULL, NORMAL, NORMAL, FULL, NORMAL));
    }
}

#[tokio::test]
async fn a_version_rises_although_the_clock_was_set_back() {
    let place = tempfile::tempdir().unwrap();
    let ahead = machine(&place, "this", 0, || SystemTime::now() + HOUR);
    let behind = machine(&place, "this", 0, || SystemTime::now() - HOUR);
    let first = swap(&ahead, None, Some("")).await;
    let second = swap(&behind, first, Some("")).await;
    assert_eq!(second.map(Version::get), first.map(|first| first.get() + 1));
}

#[tokio::test]
async fn the_store_s_clock_judges_what_is_early() {
    let place = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let at = Swap { not_before: Some(now + HOUR), ..Swap::new(Key::new("r").unwrap(), None, "") };
    let today = machine(&place, "this", 0, SystemTime::now).swap(std::slice::from_ref(&at)).await.unwrap();
    assert!(matches!(today.each[..], [Ok(Swapped::Early(_))]), "{today:?}");
    let later = machine(&place, "this", 0, || SystemTime::now() + HOUR * 2).swap(&[at]).await.unwrap();
    assert!(matches!(later.each[..], [Ok(Swapped::Done(_))]) && later.now > now + HOUR, "{later:?}");
}

#[tokio::test]
async fn a_holding_of_another_boot_stands_for_one_ttl_to_whoever_only_reads() {
    let hour = i64::try_from(HOUR.as_nanos()).unwrap();
    for shift in [-hour, hour] {
        let place = tempfile::tempdir().unwrap();
        let holding = take(&machine(&place, "before", shift, SystemTime::now), &claim()).await;
        let after = machine(&place, "after", 0, SystemTime::now);
        let start = Instant::now();
        assert!(stands(&after, &holding).await);
        let held = Swap { held: Some(holding.clone()), ..Swap::new(Key::new("r").unwrap(), None, "") };
        let answer = after.swap(std::slice::from_ref(&held)).await.unwrap().each.remove(0).unwrap();
        assert!(matches!(answer, Swapped::Done(_)), "it counts as held while nobody can see it end: {answer:?}");
        ends(&after, &holding).await;
        assert!(start.elapsed() >= TTL, "it ended after {:?}", start.elapsed());
        let again = Swap { from: Version::new(1), ..held };
        assert!(matches!(after.swap(&[again]).await.unwrap().each[..], [Ok(Swapped::Differs(_))]));
        assert_eq!(sightings(&place), 0, "a look has written something");
    }
}

#[tokio::test]
async fn a_holding_of_another_boot_that_is_renewed_stands() {
    let place = tempfile::tempdir().unwrap();
    let (container, host) =
        (machine(&place, "container", 0, SystemTime::now), machine(&place, "host", 0, SystemTime::now));
    let ours = claim();
    let (holding, start) = (take(&container, &ours).await, Instant::now());
    while start.elapsed() < TTL * 3 {
        container.renew(std::slice::from_ref(&ours)).await.remove(0).unwrap();
        assert!(stands(&host, &holding).await);
        tokio::time::sleep(TTL / 10).await;
    }
    container.apply(&[Step::Release(ours)]).await.remove(0).unwrap();
    assert!(!stands(&host, &holding).await);
}

#[tokio::test]
async fn a_holding_is_watched_anew_in_another_file() {
    let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ours = claim();
    let (holding, after) = (
        take(&machine(&place, "before", 0, SystemTime::now), &ours).await,
        machine(&place, "after", 0, SystemTime::now),
    );
    ends(&after, &holding).await;
    // The same lock of the same claim, granted as often: only the file tells that it is another hold.
    take(&machine(&other, "before", 0, SystemTime::now), &ours).await;
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(place.path().join(format!("locks.db{ending}")));
    }
    closed(&other).await;
    std::fs::rename(other.path().join("locks.db"), place.path().join("locks.db")).unwrap();
    assert!(stands(&after, &holding).await);
}

/// Waits until the last process has closed it and taken the log away.
async fn closed(place: &tempfile::TempDir) {
    let start = Instant::now();
    while place.path().join("locks.db-wal").exists() {
        assert!(start.elapsed() < Duration::from_secs(20), "never closed");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
