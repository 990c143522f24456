//! Several processes that use one file. Some are killed, some are stopped, some wait.

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
    support::{TTL, TestDir, claim, eventually, release, take, take_eventually, try_take},
};

// Promise: SQ3
#[tokio::test]
async fn the_hold_of_a_killed_process_expires_after_its_ttl() {
    let (dir, ttl) = (TestDir::new(), Duration::from_secs(1));
    let holder = start("hold", &dir.path(), ttl);
    let line = holder.stdout_line("held", SOON);
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    holder.kill();
    let (fences, _) = take_eventually(&dir.open(), &claim("k", TTL)).await;
    let age = Duration::from_nanos(now() - numbers[0]);
    assert!(age >= ttl, "granted {age:?} after its request");
    assert!(fences.last() > Fence::new(numbers[1]));
}

// Promise: SQ10
#[tokio::test]
async fn a_process_stopped_in_a_transaction_makes_writers_fail_at_their_timeout() {
    let dir = TestDir::new();
    let store = bandog_sqlite::Sqlite::new(dir.options().timeout(Duration::from_millis(600))).unwrap();
    let ours = claim("held", TTL);
    take(&store, &ours).await.unwrap();
    let stopped = start("lock", &dir.path(), TTL);
    stopped.stdout_line("locked", SOON);
    stopped.stop();

    let start = Instant::now();
    let error = try_take(&store, &claim("free", TTL)).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!((error.kind(), error.maybe_applied(), error.verb()), (ErrorKind::Unavailable, false, Some("claim")));
    assert!(error.to_string().contains(&format!("process {}", stopped.pid())), "{error}");
    assert!(error.to_string().contains("stopped"), "{error}");

    let busy = try_take(&store, &claim("held", TTL)).await.unwrap();
    assert!(matches!(busy, Verdict::Busy { .. }), "the claim of a held lock, which only reads, was not answered");
    assert!(store.show(&ours.key).await.unwrap().is_held());

    stopped.kill();
    eventually("a claim is granted", async || try_take(&store, &claim("free", TTL)).await.is_ok()).await;
    assert_eq!(release(&store, &ours).await, Released::Freed { others: Some(0) });
}

#[tokio::test]
async fn a_process_stopped_in_a_transaction_commits_it_when_it_continues() {
    let dir = TestDir::new();
    let store = bandog_sqlite::Sqlite::new(dir.options().timeout(Duration::from_millis(400))).unwrap();
    let ours = claim("k", TTL);
    take(&store, &ours).await.unwrap();
    let mut stopped = start("commit", &dir.path(), TTL);
    stopped.stdout_line("writing", SOON);
    stopped.stop();
    stopped.write_line("commit");
    let error = try_take(&store, &claim("free", TTL)).await.unwrap_err();
    assert!(error.to_string().contains(&format!("process {}", stopped.pid())), "{error}");
    stopped.cont();
    stopped.stdout_line("written", SOON);
    eventually("a claim is granted", async || try_take(&store, &claim("free", TTL)).await.is_ok()).await;
    assert_eq!(release(&store, &ours).await, Released::Freed { others: None }, "the waiters' mark was not written");
}

#[test]
fn sixty_four_processes_with_one_lock_lose_no_increment() {
    const LONG: Duration = Duration::from_secs(120); // The machine may be busy with other programs.
    let dir = TestDir::new();
    let log = || fs::read_to_string(dir.path().with_file_name("log")).unwrap_or_default();
    let mut children: Vec<_> = (0..64).map(|_| start("count", &dir.path(), Duration::from_secs(600))).collect();
    bandog_testkit::eventually(LONG, || log().lines().count() > 1_000);
    fs::write(dir.path().with_file_name("stop"), "").unwrap();
    for child in &mut children {
        assert!(child.wait(LONG).success(), "{:?}", child.stderr());
    }
    let count: usize = fs::read_to_string(dir.path().with_file_name("counter")).unwrap().parse().unwrap();
    assert_eq!(log().lines().filter(|line| line.starts_with("granted")).count(), count, "an increment was lost");
    check_history(&log(), Duration::from_secs(600), &dir.path());
}

// Promise: SQ3
#[tokio::test]
async fn a_lock_never_has_two_holders_when_processes_are_killed_at_any_point() {
    kill_at_any_point("count", 12).await;
}

#[tokio::test]
async fn a_fair_mutex_never_has_two_holders_when_processes_are_killed_at_any_point() {
    kill_at_any_point("count fair", 3).await; // After each kill, the place of the dead process blocks the queue.
}

#[tokio::test]
async fn a_lock_never_has_two_writers_when_processes_are_killed_at_any_point() {
    kill_at_any_point("count write", 8).await;
}

#[tokio::test]
async fn a_semaphore_never_exceeds_its_limit_when_processes_are_killed_at_any_point() {
    kill_at_any_point("count permits", 8).await; // Only one holder gets two of three permits.
}

/// Kills processes of this role, and checks the history of their lock.
async fn kill_at_any_point(role: &str, kills: usize) {
    let (dir, ttl) = (TestDir::new(), Duration::from_millis(600));
    let log = || fs::read_to_string(dir.path().with_file_name("log")).unwrap_or_default();
    let mut children: Vec<_> = (0..4).map(|_| start(role, &dir.path(), ttl)).collect();
    // Before each kill, the processes do some work, so that holders and writers are killed, too.
    for round in 0..kills {
        let lines_before = log().lines().count();
        eventually("work continues", async || log().lines().count() > lines_before + 40).await;
        let next = round % children.len();
        children[next].kill();
        children[next] = start(role, &dir.path(), ttl);
    }
    let lines_before = log().lines().count();
    eventually("work continues", async || log().lines().count() > lines_before + 100).await;
    for child in &mut children {
        assert!(child.try_wait().is_none(), "{:?}", child.stderr());
        child.kill();
        child.wait(SOON);
    }
    check_history(&log(), ttl, &dir.path());
}

/// Checks that each grant follows the release or the expiry of the previous hold, that fences rise, and that no
/// increment is lost.
fn check_history(log: &str, ttl: Duration, path: &Path) {
    let (mut grants, mut releases) = (BTreeMap::new(), BTreeMap::new());
    let ttl = u64::try_from(ttl.as_nanos()).unwrap();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |n: usize| words[n].parse::<u64>().unwrap();
        let is_repeated = match words[0] {
            "granted" => grants.insert(number(1), (number(2), number(3))).is_some(),
            _ => releases.insert(number(1), number(2)).is_some(),
        };
        assert!(!is_repeated, "a fence was granted or released twice: {line}");
    }
    let mut has_written_after_expiry = false;
    for ((fence, (asked, _)), (next, (_, granted))) in grants.iter().zip(grants.iter().skip(1)) {
        let released = releases.get(fence).copied().unwrap_or(u64::MAX);
        let over = released.min(asked + ttl);
        assert!(*granted >= over, "{next} was granted {} ns before {fence} was over", over - granted);
        has_written_after_expiry |= released != u64::MAX && released > asked + ttl;
    }
    let count: usize = fs::read_to_string(path.with_file_name("counter")).unwrap().parse().unwrap();
    // The counter can be less than the number of grants, because a process might be killed after its grant and before
    // its increment. The counter can be greater than the number of releases, because a process might be killed after
    // its increment and before it has logged the release. A process that was stopped for longer than its ttl might have
    // written to the counter without the lock, because the counter checks no fences. Then the counter proves nothing.
    assert!(
        has_written_after_expiry || (releases.len() <= count && count <= grants.len()),
        "{} {count} {}",
        releases.len(),
        grants.len()
    );
}

// Promise: SQ6
#[tokio::test]
async fn a_waiter_in_another_process_gets_a_released_lock_within_milliseconds() {
    let dir = TestDir::new();
    let store = dir.open();
    let (reader, wanted) = (dir.open(), "select count(*) from lease where name = 'k' and wanted = 1");
    reader.ping().await.unwrap();
    let conn = Connection::open(dir.path()).unwrap();
    let mut ours = claim("k", TTL);
    take(&store, &ours).await.unwrap();
    let waiter = start("wait", &dir.path(), TTL);
    waiter.stdout_line("subscribed", SOON);
    let mut late = Vec::new();
    for _ in 0..20 {
        // The waiter never polls, so only a notification can wake it.
        eventually("the waiter waits", async || conn.query_row(wanted, [], |row| row.get(0)).unwrap_or(0) == 1).await;
        let released = now();
        assert_eq!(release(&store, &ours).await, Released::Freed { others: None });
        let line = waiter.stdout_line("granted", SOON);
        late.push(line.rsplit(' ').next().unwrap().parse::<u64>().unwrap().saturating_sub(released));
        ours = claim("k", TTL);
        take_eventually(&store, &ours).await;
    }
    late.sort_unstable();
    assert!(late[late.len() / 2] < 100_000_000, "{late:?}");
}

#[tokio::test]
async fn several_processes_may_create_the_database_at_the_same_time() {
    let dir = TestDir::new();
    let path = dir.path().with_file_name("sub").join("locks.db");
    let children: Vec<_> = (0..8).map(|_| start("ping", &path, TTL)).collect();
    for child in &children {
        assert!(child.stdout_line("answer", SOON).ends_with("Ok(())"), "{:?}", child.stdout());
    }
}
