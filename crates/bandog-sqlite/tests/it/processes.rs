//! Several processes on one file: killed, stopped, waiting.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use bandog_core::{ErrorKind, Fence, Inspect, Leases, Released, Verdict};
use rusqlite::Connection;

use crate::{
    child::{SOON, now, start},
    support::{Place, TTL, claim, eventually, release, take, take_at_last, try_take},
};

#[tokio::test]
async fn the_hold_of_a_killed_process_ends_with_its_ttl() {
    let (place, ttl) = (Place::new(), Duration::from_secs(1));
    let holder = start("hold", &place.path(), ttl);
    let line = holder.stdout_line("held", SOON);
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    holder.kill();
    let (fences, _) = take_at_last(&place.open(), &claim("k", TTL)).await;
    let age = Duration::from_nanos(now() - numbers[0]);
    assert!(age >= ttl, "granted {age:?} after it was asked for");
    assert!(fences.last() > Fence::new(numbers[1]));
}

#[tokio::test]
async fn a_process_stopped_in_a_transaction_makes_writers_unavailable_in_time() {
    let place = Place::new();
    let store = bandog_sqlite::Sqlite::new(place.options().timeout(Duration::from_millis(600))).unwrap();
    let ours = claim("held", TTL);
    take(&store, &ours).await.unwrap();
    let stopped = start("lock", &place.path(), TTL);
    stopped.stdout_line("locked", SOON);
    stopped.stop();

    let start = Instant::now();
    let error = try_take(&store, &claim("free", TTL)).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!((error.kind(), error.maybe_applied(), error.verb()), (ErrorKind::Unavailable, false, Some("claim")));
    assert!(error.to_string().contains(&format!("process {}", stopped.pid())), "{error}");
    assert!(error.to_string().contains("stopped"), "{error}");

    let busy = try_take(&store, &claim("held", TTL)).await.unwrap();
    assert!(matches!(busy, Verdict::Busy { .. }), "who only looks is answered");
    assert!(store.show(&ours.key).await.unwrap().held);

    stopped.kill();
    eventually("a claim is granted", async || try_take(&store, &claim("free", TTL)).await.is_ok()).await;
    assert_eq!(release(&store, &ours).await, Released::Freed { others: Some(0) });
}

#[tokio::test]
async fn a_process_stopped_in_a_transaction_writes_it_when_it_goes_on() {
    let place = Place::new();
    let store = bandog_sqlite::Sqlite::new(place.options().timeout(Duration::from_millis(400))).unwrap();
    let ours = claim("k", TTL);
    take(&store, &ours).await.unwrap();
    let mut stopped = start("commit", &place.path(), TTL);
    stopped.stdout_line("writing", SOON);
    stopped.stop();
    stopped.write_line("go on");
    let error = try_take(&store, &claim("free", TTL)).await.unwrap_err();
    assert!(error.to_string().contains(&format!("process {}", stopped.pid())), "{error}");
    stopped.cont();
    stopped.stdout_line("written", SOON);
    eventually("a claim is granted", async || try_take(&store, &claim("free", TTL)).await.is_ok()).await;
    assert_eq!(release(&store, &ours).await, Released::Freed { others: None }, "its mark was written");
}

#[test]
fn sixty_four_processes_lose_no_increment() {
    const LONG: Duration = Duration::from_secs(120); // The machine may be busy with other things.
    let place = Place::new();
    let log = || fs::read_to_string(place.path().with_file_name("log")).unwrap_or_default();
    let mut children: Vec<_> = (0..64).map(|_| start("count", &place.path(), Duration::from_secs(600))).collect();
    bandog_testkit::eventually(LONG, || log().lines().count() > 1_000);
    fs::write(place.path().with_file_name("stop"), "").unwrap();
    for child in &mut children {
        assert!(child.wait(LONG).success(), "{:?}", child.stderr());
    }
    let count: usize = fs::read_to_string(place.path().with_file_name("counter")).unwrap().parse().unwrap();
    assert_eq!(log().lines().filter(|line| line.starts_with("granted")).count(), count, "an increment was lost");
    check_history(&log(), Duration::from_secs(600), &place.path());
}

#[tokio::test]
async fn processes_that_are_killed_anywhere_never_hold_together() {
    let (place, ttl) = (Place::new(), Duration::from_millis(600));
    let log = || fs::read_to_string(place.path().with_file_name("log")).unwrap_or_default();
    let mut children: Vec<_> = (0..4).map(|_| start("count", &place.path(), ttl)).collect();
    // Each kill waits until work was done since the last one, so that holders and writers are hit.
    for round in 0..12 {
        let seen = log().lines().count();
        eventually("work goes on", async || log().lines().count() > seen + 40).await;
        let next = round % children.len();
        children[next].kill();
        children[next] = start("count", &place.path(), ttl);
    }
    let seen = log().lines().count();
    eventually("work goes on", async || log().lines().count() > seen + 100).await;
    for child in &mut children {
        assert!(child.try_wait().is_none(), "{:?}", child.stderr());
        child.kill();
        child.wait(SOON);
    }
    check_history(&log(), ttl, &place.path());
}

/// No grant before the hold before it was being released or had run out; fences rise; no increment is lost.
fn check_history(log: &str, ttl: Duration, path: &Path) {
    let (mut grants, mut releases) = (BTreeMap::new(), BTreeMap::new());
    let ttl = u64::try_from(ttl.as_nanos()).unwrap();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |n: usize| words[n].parse::<u64>().unwrap();
        let old = match words[0] {
            "granted" => grants.insert(number(1), (number(2), number(3))).is_some(),
            _ => releases.insert(number(1), number(2)).is_some(),
        };
        assert!(!old, "a fence was given twice: {line}");
    }
    let mut overran = false;
    for ((fence, (asked, _)), (next, (_, granted))) in grants.iter().zip(grants.iter().skip(1)) {
        let released = releases.get(fence).copied().unwrap_or(u64::MAX);
        let over = released.min(asked + ttl);
        assert!(*granted >= over, "{next} was granted {} ns before {fence} was over", over - granted);
        overran |= released != u64::MAX && released > asked + ttl;
    }
    let count: usize = fs::read_to_string(path.with_file_name("counter")).unwrap().parse().unwrap();
    // A process that was killed between its increment and its note has one without the other. One that stood still
    // for longer than its ttl has written to a counter that was not its own any more: the file checks no fences.
    assert!(
        overran || (releases.len() <= count && count <= grants.len()),
        "{} {count} {}",
        releases.len(),
        grants.len()
    );
}

#[tokio::test]
async fn a_waiter_in_another_process_has_a_released_lock_within_milliseconds() {
    let place = Place::new();
    let store = place.open();
    let (reader, wanted) = (place.open(), "select count(*) from lease where name = 'k' and wanted = 1");
    reader.ping().await.unwrap();
    let conn = Connection::open(place.path()).unwrap();
    let mut ours = claim("k", TTL);
    take(&store, &ours).await.unwrap();
    let waiter = start("wait", &place.path(), TTL);
    waiter.stdout_line("listening", SOON);
    let mut late = Vec::new();
    for _ in 0..20 {
        // The waiter polls never, so nothing but the bell can wake it.
        eventually("it waits", async || conn.query_row(wanted, [], |row| row.get(0)).unwrap_or(0) == 1).await;
        let released = now();
        assert_eq!(release(&store, &ours).await, Released::Freed { others: None });
        let line = waiter.stdout_line("granted", SOON);
        late.push(line.rsplit(' ').next().unwrap().parse::<u64>().unwrap().saturating_sub(released));
        ours = claim("k", TTL);
        take_at_last(&store, &ours).await;
    }
    late.sort_unstable();
    assert!(late[late.len() / 2] < 100_000_000, "{late:?}");
}

#[tokio::test]
async fn many_processes_may_make_the_database_at_once() {
    let place = Place::new();
    let path = place.path().with_file_name("sub").join("locks.db");
    let children: Vec<_> = (0..8).map(|_| start("ping", &path, TTL)).collect();
    for child in &children {
        assert!(child.stdout_line("answer", SOON).ends_with("Ok(())"), "{:?}", child.stdout());
    }
}
