//! The real ShedLock 6.10.0 with `usingDbTime()` and bandog with `?layout=shedlock`, on one PostgreSQL and one MariaDB. The JVM
//! has another time zone than the servers.

use std::{
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

use bandog_testkit::{MariaDbServer, PostgresServer, eventually};

use crate::{
    counter_file::CounterFile,
    neighbour::{Neighbour, Program, SOON},
    objects::{Lock, LockKind},
};

/// Timeout that is reached only if the test fails.
const LONG: Duration = Duration::from_secs(60);
/// lockAtMostFor, and the ttl of the watchdog of bandog, in tests that do not wait for it.
const USUAL: Duration = Duration::from_secs(30);
/// The same in tests that wait until a hold expires.
const SHORT: Duration = Duration::from_secs(3);
/// Maximum time by which a grant may follow the end of a hold. A waiter of bandog polls, and the machine may be busy.
const SLACK: Duration = Duration::from_secs(10);
/// Number of threads of each process, and of turns of each thread, in the contended tests.
const THREADS: usize = 2;
const TIMES: u64 = 25;
/// The same without a lock.
const TIMES_UNPROTECTED: u64 = 5_000;
/// The name of the lock.
const NAME: &str = "orders";

static POSTGRES: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);
static MARIADB: LazyLock<MariaDbServer> = LazyLock::new(MariaDbServer::start);

/// A database with ShedLock's usual table, and neighbours that use it.
struct Place {
    neighbours: Vec<Neighbour>,
    sql: Box<dyn Fn(&str) -> String + Send + Sync>,
    /// The time of the database, as ShedLock writes it.
    now: &'static str,
}

impl Place {
    fn on_postgres(times: &str, at_most: Duration, programs: &[Program]) -> Self {
        let database = POSTGRES.new_database();
        POSTGRES.sql(
            &database,
            &format!(
                "create table shedlock (name varchar(64) primary key, lock_until {times} not null,
                     locked_at {times} not null, locked_by varchar(255) not null);
                 grant select, insert, update on shedlock to locks"
            ),
        );
        let url = format!("postgres://{}@127.0.0.1:{}/{database}", PostgresServer::LOCKS, POSTGRES.port());
        let sql = Box::new(move |statement: &str| POSTGRES.sql(&database, statement));
        Self { neighbours: start(&url, at_most, programs), sql, now: "timezone('utc', clock_timestamp())" }
    }

    fn on_mariadb(times: &str, at_most: Duration, programs: &[Program]) -> Self {
        let database = MARIADB.new_database();
        MARIADB.sql(
            &database,
            &format!(
                "create table shedlock (name varchar(64) not null, lock_until {times}(3) not null,
                     locked_at {times}(3) not null default current_timestamp(3), locked_by varchar(255) not null,
                     primary key (name))"
            ),
        );
        let url = format!("mysql://{}@127.0.0.1:{}/{database}", MariaDbServer::LOCKS, MARIADB.port());
        let sql = Box::new(move |statement: &str| MARIADB.sql(&database, statement));
        Self { neighbours: start(&url, at_most, programs), sql, now: "utc_timestamp(3)" }
    }

    fn lock(&self, index: usize) -> Lock {
        self.neighbours[index].lock(LockKind::Plain, "a", NAME)
    }

    /// Waits until the hold is older than this, by the clock of the database.
    fn wait_until_older(&self, age: Duration) {
        let is_older = format!(
            "select case when locked_at + interval '{}' second < {} then 'older' else 'younger' end from shedlock",
            age.as_secs(),
            self.now
        );
        eventually(LONG, || (self.sql)(&is_older) == "older");
    }
}

/// Starts all programs at the same time.
fn start(url: &str, at_most: Duration, programs: &[Program]) -> Vec<Neighbour> {
    thread::scope(|scope| {
        let starts = programs.iter().map(|program| scope.spawn(move || Neighbour::start(*program, url, at_most)));
        let starts: Vec<_> = starts.collect();
        starts.into_iter().map(|start| start.join().expect("the neighbour started")).collect()
    })
}

/// Runs a test on both databases at the same time, with ShedLock (0) and bandog (1).
fn on_both(at_most: Duration, test: impl Fn(&Place) + Sync) {
    on_both_with(at_most, &[Program::ShedLock, Program::BandogShedLock], test);
}

fn on_both_with(at_most: Duration, programs: &[Program], test: impl Fn(&Place) + Sync) {
    on_tables(["timestamp", "datetime"], at_most, programs, test);
}

/// The same with this type of the times on PostgreSQL, and that one on MariaDB.
fn on_tables(times: [&str; 2], at_most: Duration, programs: &[Program], test: impl Fn(&Place) + Sync) {
    let (test, [postgres, mariadb]) = (&test, times);
    thread::scope(|scope| {
        scope.spawn(move || test(&Place::on_postgres(postgres, at_most, programs)));
        scope.spawn(move || test(&Place::on_mariadb(mariadb, at_most, programs)));
    });
}

// Promise: PG21
#[test]
fn either_side_excludes_the_other_side() {
    on_both(USUAL, exclude_each_other);
}

/// The drivers give their sessions the zone of the JVM, so the times of these columns depend on it.
// Promise: PG21
#[test]
fn either_side_excludes_the_other_side_with_times_that_depend_on_the_zone() {
    on_tables(["timestamptz", "timestamp"], USUAL, &[Program::ShedLock, Program::BandogShedLock], exclude_each_other);
}

fn exclude_each_other(place: &Place) {
    for [holder, other] in [[0, 1], [1, 0], [0, 1]] {
        let [holder, other] = [holder, other].map(|index| place.lock(index));
        holder.lock();
        assert!(!other.try_lock());
        let waiting = other.waits();
        holder.unlock();
        assert_eq!(waiting.answer(SOON), "held");
        assert!(!holder.try_lock());
        other.unlock();
        assert!(holder.try_lock());
        holder.unlock();
    }
}

// Promise: PG21
#[test]
fn locks_of_shedlock_and_bandog_lose_no_addition() {
    on_both_with(USUAL, &mixed(), |place| {
        let start = Instant::now();
        assert_eq!(lost_additions(place, &["lock", "count", NAME], TIMES), 0);
        println!("no addition was lost, in {:.1} s", start.elapsed().as_secs_f64());
    });
}

/// Checks that the other test can fail: without a lock, additions must be lost.
#[test]
fn without_a_lock_additions_are_lost() {
    let place = Place::on_postgres("timestamp", USUAL, &mixed());
    assert!(lost_additions(&place, &["none", "count", NAME], TIMES_UNPROTECTED) > 0);
}

fn mixed() -> [Program; 4] {
    [Program::ShedLock, Program::ShedLock, Program::BandogShedLock, Program::BandogShedLock]
}

/// Adds to one counter from several threads of each neighbour, this number of times each. Returns the number of additions
/// that were lost.
fn lost_additions(place: &Place, verb: &[&str], times: u64) -> u64 {
    let (counter, times_text) = (CounterFile::new(), times.to_string());
    let words = [verb, &[counter.path(), &times_text]].concat();
    let count = place.neighbours.len();
    let counting: Vec<_> = (0..count * THREADS)
        .map(|number| place.neighbours[number % count].command(&number.to_string(), &words))
        .collect();
    let all = counting.len() as u64 * times;
    for pending in counting {
        assert_eq!(pending.answer(LONG), times_text);
    }
    all - counter.count()
}

/// A job of Java that was shorter than lockAtLeastFor has ended. Its lock is held until this time has passed.
// Promise: PG21
#[test]
fn bandog_respects_lock_at_least_for() {
    on_both(USUAL, |place| {
        let (java, ours) = (&place.neighbours[0], place.lock(1));
        let began = Instant::now();
        assert_eq!(java.ask("a", &["try-at-least", NAME, &SHORT.as_millis().to_string()]), "held");
        let held = Instant::now();
        assert_eq!(java.ask("a", &["unlock", NAME]), "freed");
        assert!(!ours.try_lock());
        assert_eq!(ours.waits().answer(LONG), "held");
        check("lockAtLeastFor has passed", began, held);
    });
}

// Promise: PG21
#[test]
fn either_side_gets_the_lock_of_a_killed_holder() {
    for [holder, other] in [[0, 1], [1, 0]] {
        on_both(SHORT, |place| {
            let began = Instant::now();
            place.lock(holder).lock();
            let held = Instant::now();
            let waiting = place.lock(other).waits();
            place.neighbours[holder].kill();
            assert_eq!(waiting.answer(LONG), "held");
            check(&format!("{:?} was killed", place.neighbours[holder].program), began, held);
        });
    }
}

/// A late unlock of Java frees no hold of bandog.
// Promise: PG21
#[test]
fn a_stopped_java_process_frees_no_later_hold() {
    let programs = [Program::ShedLock, Program::BandogShedLock, Program::BandogShedLock];
    on_both_with(SHORT, &programs, |place| {
        place.lock(0).lock();
        place.neighbours[0].pause();
        assert_eq!(place.lock(1).waits().answer(LONG), "held");
        place.neighbours[0].resume();
        place.lock(0).unlock();
        assert!(!place.lock(2).try_lock());
        assert!(!place.lock(0).try_lock());
        place.lock(1).unlock();
        assert!(place.lock(0).try_lock());
    });
}

/// A hold that is extended stays held after its first time: of Java by `extend`, and of bandog by its watchdog.
// Promise: PG21
#[test]
fn an_extended_hold_stays_held() {
    on_both(SHORT, |place| {
        let (java, ours) = (&place.neighbours[0], place.lock(1));
        place.lock(0).lock();
        assert_eq!(java.ask("a", &["extend", NAME, &LONG.as_millis().to_string()]), "held");
        place.wait_until_older(SHORT);
        assert!(!ours.try_lock());
        place.lock(0).unlock();
        ours.lock();
        place.wait_until_older(SHORT);
        assert!(!place.lock(0).try_lock());
        ours.unlock();
        // A spent hold cannot be extended.
        place.lock(0).lock();
        place.wait_until_older(SHORT);
        ours.lock();
        assert_eq!(java.ask("a", &["extend", NAME, &LONG.as_millis().to_string()]), "busy");
        ours.unlock();
    });
}

/// Checks that a grant came with the end of a hold that began between these two moments.
#[track_caller]
fn check(what: &str, began: Instant, held: Instant) {
    let (most, least) = (began.elapsed(), held.elapsed());
    println!("{what}; the other side got the lock after {:.1} s", most.as_secs_f64());
    assert!(most >= SHORT && least < SHORT + SLACK, "after {least:?} to {most:?}");
}
