//! Runs of jobs that are completed in a transaction: their effects happen once. The tests run on each database, with the
//! helper functions of its `support`.

use std::{env, num::NonZeroU32, sync::Arc, time::Duration};

use bandog::{
    ErrorKind,
    schedule::{Job, Jobs, OnCrash, Overlap, Run, Running, Scheduler},
};
use bandog_core::SqlStatement;
use bandog_sqlx::{CompleteIn, Completion};
use bandog_testkit::{Process, eventually_async};
use sqlx::{Connection, Transaction};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
};

use super::support::{Database, Db, RECORDS, SERVER, SHEDLOCK, connect, elsewhere, execute, repeatable_read, write};
use crate::kinds::{SOON, child};

/// The numbers of old rows after the first runs. Each run reads 100 rows. One of them is locked at first.
const OLD_RUNS: [i64; 5] = [151, 52, 1, 1, 1];

/// The environment variables of child processes: the URL of the database, and where the body waits.
const URL: &str = "BANDOG_RUN_URL";
const STOP_AT: &str = "BANDOG_RUN_STOP_AT";
/// The test that a child process runs.
const CHILD: &str = "a_child_process_runs_a_job";
/// The prefix of a child's messages. The test harness prints to the same stream.
const SAYS: &str = "child says: ";
const LEASE: Duration = Duration::from_secs(1);
/// The rows that say that a run was completed.
const COMPLETED: &str = "name like 'schedule/done/%'";

/// Where the body of a child waits until its process is killed or continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopAt {
    Write,
    /// After the body has got the statement. It executes the statement in any case, also if its node has lost the run.
    Statement,
    Check,
    Commit,
}

impl StopAt {
    const ALL: [Self; 4] = [Self::Write, Self::Statement, Self::Check, Self::Commit];

    /// Reports this point. If the body waits here, blocks its thread: a process that is continued must not have noticed
    /// the loss of its session before it goes on.
    fn reached(self, stops_at: Option<Self>) {
        if stops_at == Some(self) {
            println!("{SAYS}reached {self:?}");
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
    }
}

/// Writes in a transaction, and completes the run in it.
async fn body(run: &Run, url: &str, stops_at: Option<StopAt>) -> bandog::Result<Completion> {
    let mut connection = connect(url).await;
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, &format!("{}", run.id())).await;
    StopAt::Write.reached(stops_at);
    if stops_at == Some(StopAt::Statement) {
        let statement = run.completion_sql().await?;
        tokio::task::block_in_place(|| complete_late(&statement, tx));
        return Ok(Completion::Committed);
    }
    if stops_at == Some(StopAt::Check) {
        run.complete_in(&mut tx).await?;
        StopAt::Check.reached(stops_at);
        tx.commit().await.unwrap();
        return Ok(Completion::Committed);
    }
    let done = run.commit(tx).await;
    StopAt::Commit.reached(stops_at);
    done
}

/// Executes the statement after the stop. The scheduler cannot cancel a body that blocks its thread.
fn complete_late(statement: &SqlStatement, mut tx: Transaction<'_, Db>) {
    StopAt::Statement.reached(Some(StopAt::Statement));
    let executed = Handle::current().block_on(async {
        let executed = execute(statement, &mut tx).await;
        let end = if executed.is_ok() { tx.commit().await } else { tx.rollback().await };
        end.map(|()| executed).unwrap()
    });
    println!("{SAYS}executed with {executed:?}");
}

/// A node with the job, which fires once.
async fn node(
    url: &str,
    on_end: impl Fn(bandog::Result<Completion>) + Send + Sync + 'static,
    at: Option<StopAt>,
) -> Running {
    let client = bandog::connect(format!("{url}?timeout=10s")).await.unwrap();
    let (url, on_end) = (url.to_owned(), Arc::new(on_end));
    let job = Job::once("payout").lease(LEASE).on_crash(OnCrash::Retry).run(move |run: Run| {
        let (url, on_end) = (url.clone(), on_end.clone());
        async move { on_end(body(&run, &url, at).await) }
    });
    Scheduler::over(&client).job(job).start().await.unwrap()
}

#[test]
fn a_child_process_runs_a_job() {
    let (Ok(url), Ok(at)) = (env::var(URL), env::var(STOP_AT)) else {
        println!("this is not a child process");
        return;
    };
    let at = StopAt::ALL.into_iter().find(|point| format!("{point:?}") == at);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let report = |done| println!("{SAYS}ended with {done:?}");
        let _running = node(&url, report, at).await;
        std::future::pending::<()>().await;
    });
}

struct Child(Process);

impl Child {
    /// Starts a child, and waits until its run has reached this point.
    fn start(database: &Database, at: StopAt) -> Self {
        let mut command = child(module_path!(), CHILD);
        let child = Self(Process::spawn(command.env(URL, database.url()).env(STOP_AT, format!("{at:?}"))));
        child.says(&format!("reached {at:?}"));
        child
    }

    fn says(&self, what: &str) -> String {
        self.0.stdout_line(&format!("{SAYS}{what}"), SOON)
    }
}

/// This process takes the run over. Returns the results of its bodies.
async fn take_over(database: &Database) -> (Running, mpsc::UnboundedReceiver<bandog::Result<Completion>>) {
    let (ended, ends) = mpsc::unbounded_channel();
    let report = move |done| ended.send(done).unwrap();
    (node(&database.url(), report, None).await, ends)
}

async fn next(ends: &mut mpsc::UnboundedReceiver<bandog::Result<Completion>>) -> Completion {
    tokio::time::timeout(SOON, ends.recv()).await.unwrap().unwrap().unwrap()
}

// Promise: MY24, PG19
#[tokio::test]
async fn the_effects_of_a_run_happen_once_if_its_process_is_killed() {
    for (at, expected) in [
        (StopAt::Write, Completion::Committed),
        (StopAt::Check, Completion::Committed),
        (StopAt::Commit, Completion::AlreadyCompleted),
    ] {
        let database = Database::new();
        let child = Child::start(&database, at);
        child.0.kill();
        let (running, mut ends) = take_over(&database).await;
        assert_eq!(next(&mut ends).await, expected, "{at:?}");
        assert_eq!(database.writes(), "1", "{at:?}");
        running.stop().await.unwrap();
    }
}

// Promise: MY24, PG19
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_effects_of_a_run_happen_once_if_its_process_is_stopped_past_its_lease() {
    let database = Database::new();
    let mut child = Child::start(&database, StopAt::Write);
    child.0.stop();
    let (running, mut ends) = take_over(&database).await;
    assert_eq!(next(&mut ends).await, Completion::Committed);
    child.0.write_line("go on");
    child.0.cont();
    // The child either notices that its session has expired, and drops the body, or its transaction is refused.
    running.stop().await.unwrap();
    eventually_async(SOON, async || database.open_transactions() == "0").await;
    assert_eq!(database.writes(), "1");
    assert!(!child.0.stdout().iter().any(|line| line.contains("Committed")), "{:?}", child.0.stdout());

    let database = Database::new();
    let mut child = Child::start(&database, StopAt::Check);
    child.0.stop();
    let (running, mut ends) = take_over(&database).await;
    // The body of this process has written, and waits for the transaction of the child.
    eventually_async(SOON, async || database.blocked() == "1").await;
    child.0.write_line("go on");
    child.0.cont();
    // If this process has lost its session meanwhile, it drops its body, and the child ends the run.
    eventually_async(SOON, async || database.open_transactions() == "0" && database.writes() == "1").await;
    running.stop().await.unwrap();
    println!("the body of the next node has ended with {:?}", ends.try_recv());
    child.0.kill();
    assert_eq!(database.writes(), "1");
}

/// The row that says that the run was completed is gone, and the statement of the stopped attempt is sent nevertheless.
// Promise: MY24, PG19
#[tokio::test]
async fn the_effects_of_a_run_happen_once_if_its_process_is_stopped_until_the_row_of_the_run_is_removed() {
    for is_removed in [false, true] {
        let database = Database::new();
        let mut child = Child::start(&database, StopAt::Statement);
        child.0.stop();
        let (running, mut ends) = take_over(&database).await;
        assert_eq!(next(&mut ends).await, Completion::Committed);
        running.idle().await;
        if is_removed {
            SERVER.sql(&database.0, &format!("update {RECORDS} set version = version - 660000000 where {COMPLETED}"));
        }
        Jobs::over(&database.client("").await).run("payout").await.unwrap();
        assert_eq!(next(&mut ends).await, Completion::Committed);
        let rows = SERVER.sql(&database.0, &format!("select count(*) from {RECORDS} where {COMPLETED}"));
        assert_eq!(rows, if is_removed { "1" } else { "2" });
        child.0.write_line("go on");
        child.0.cont();
        let said = child.says("executed with");
        assert!(said.ends_with(&format!("Err({:?})", ErrorKind::Lost)), "removed: {is_removed}: {said}");
        assert_eq!(database.writes(), "1 2", "removed: {is_removed}");
        running.stop().await.unwrap();
    }
}

/// While the transaction of a run is open and has completed its run, other ticks of the job run, and the job is paused.
// Promise: MY24, PG20
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_and_other_ticks_fail_no_transaction() {
    let database = Database::new();
    let (client, url) = (database.client("").await, database.url());
    let ended = Arc::new(watch::Sender::new(0));
    let (commits, mut committed) = watch::channel(false);
    let commits = Arc::new(commits);
    let job = Job::fixed_rate("ticks", Duration::from_millis(100)).overlap(Overlap::Allow(NonZeroU32::new(3).unwrap()));
    let jobs = Jobs::over(&client);
    let job = job.run({
        let (ended, jobs) = (ended.clone(), jobs.clone());
        move |run: Run| {
            let (ended, jobs, url, commits) = (ended.clone(), jobs.clone(), url.clone(), commits.clone());
            async move {
                let mut connection = connect(&url).await;
                let mut tx = connection.begin().await.unwrap();
                write(&mut tx, &format!("{:03}", run.id())).await;
                if run.id() == 1 {
                    run.complete_in(&mut tx).await.unwrap();
                    ended.subscribe().wait_for(|count| *count >= 5).await.unwrap();
                    jobs.pause("ticks", "the test says so").await.unwrap();
                    tx.commit().await.unwrap();
                    commits.send_replace(true);
                } else {
                    assert_eq!(run.commit(tx).await.unwrap(), Completion::Committed);
                }
                ended.send_modify(|count| *count += 1);
            }
        }
    });
    let running = Scheduler::over(&client).pool(3).job(job).start().await.unwrap();
    let first = tokio::time::timeout(SOON, committed.wait_for(|is_committed| *is_committed)).await;
    first.expect("the first run was not completed").unwrap();
    running.idle().await;
    running.stop().await.unwrap();
    let writes = database.writes();
    let count: usize = *ended.borrow();
    let expected: Vec<_> = (1..=count).map(|id| format!("{id:03}")).collect();
    assert_eq!(writes, expected.join(" "));
}

/// The row of a completed run stays for some minutes, because a late attempt can still ask. Older rows are removed, in
/// portions of 100.
// Promise: MY24, PG20
#[tokio::test]
async fn the_rows_of_completed_runs_are_removed_by_later_runs() {
    const RUNS: usize = 10;
    let database = Database::new();
    let (client, url) = (database.client("").await, database.url());
    let (ended, mut ends) = mpsc::unbounded_channel();
    // Old rows. Another transaction is removing the first of them. The first runs do not wait for it.
    let first = format!("schedule/done/ticks/{0:020}/{0:020}", 0);
    let zeros = "0".repeat(20);
    let rows: Vec<_> = (0..250).map(|n| format!("('schedule/done/ticks/{zeros}/{n:020}', 1, 'done')")).collect();
    SERVER.sql(&database.0, &format!("insert into {RECORDS} values {}", rows.join(", ")));
    let mut removing = connect(&database.url()).await;
    let mut removal = removing.begin().await.unwrap();
    let one = format!("select name from {RECORDS} where name = '{first}' for update");
    assert_eq!(sqlx::query(&one).fetch_all(&mut *removal).await.unwrap().len(), 1);
    let completed = format!("select count(*) from {RECORDS} where {COMPLETED}");
    let count_old = format!("{completed} and version = 1");
    let count = count_old.clone();
    let job = Job::fixed_rate("ticks", Duration::from_millis(100)).run(move |run: Run| {
        let (ended, url, count) = (ended.clone(), url.clone(), count.clone());
        async move {
            let mut connection = connect(&url).await;
            let done = run.commit(connection.begin().await.unwrap()).await.unwrap();
            let old: i64 = sqlx::query_scalar(&count).fetch_one(&mut connection).await.unwrap();
            ended.send((done, old)).unwrap();
        }
    });
    let running = Scheduler::over(&client).job(job).start().await.unwrap();
    let mut removal = Some(removal);
    for number in 0..RUNS {
        if number == RUNS / 2 {
            removal.take().unwrap().rollback().await.unwrap();
        }
        let (done, old) = tokio::time::timeout(SOON, ends.recv()).await.unwrap().unwrap();
        assert_eq!(done, Completion::Committed);
        if let Some(expected) = OLD_RUNS.get(number) {
            assert_eq!(old, *expected, "run {number}: only the row that is locked stays");
        }
    }
    running.stop().await.unwrap();
    assert_eq!(SERVER.sql(&database.0, &count_old), "0");
    let rows: usize = SERVER.sql(&database.0, &completed).parse().unwrap();
    assert!(rows >= RUNS, "the rows of the last runs were removed too early: {rows}");
}

/// MySQL and MariaDB would commit a transaction after a statement that has failed.
// Promise: MY24
#[tokio::test]
async fn a_program_that_ignores_a_refused_completion_writes_nothing() {
    let database = Database::new();
    let (client, url) = (database.client("").await, database.url());
    let (ended, mut ends) = mpsc::unbounded_channel();
    let job = Job::once("payout").run(move |run: Run| {
        let (ended, url) = (ended.clone(), url.clone());
        async move {
            for what in ["one", "two"] {
                let mut connection = connect(&url).await;
                let mut tx = connection.begin().await.unwrap();
                write(&mut tx, what).await;
                let completed = run.complete_in(&mut tx).await;
                tx.commit().await.unwrap();
                ended.send(completed.map_err(|error| error.kind())).unwrap();
            }
        }
    });
    let running = Scheduler::over(&client).job(job).start().await.unwrap();
    for expected in [Ok(()), Err(ErrorKind::Lost)] {
        assert_eq!(tokio::time::timeout(SOON, ends.recv()).await.unwrap(), Some(expected));
    }
    assert_eq!(database.writes(), "one");
    running.stop().await.unwrap();
}

/// A further call in the same transaction must not report that another attempt has committed: the body would return `Ok`, and
/// the effects would be lost.
// Promise: MY24, PG19
#[tokio::test]
async fn a_run_that_is_completed_twice_in_one_transaction_is_misused() {
    let database = Database::new();
    let (client, url) = (database.client("").await, database.url());
    let (ended, mut ends) = mpsc::unbounded_channel();
    let job = Job::once("payout").run(move |run: Run| {
        let (ended, url) = (ended.clone(), url.clone());
        async move {
            let mut connection = connect(&url).await;
            let mut tx = connection.begin().await.unwrap();
            write(&mut tx, "zero").await;
            run.complete_in(&mut tx).await.unwrap();
            ended.send(run.commit(tx).await).unwrap();
            let mut tx = connection.begin().await.unwrap();
            write(&mut tx, "one").await;
            run.complete_in(&mut tx).await.unwrap();
            let again = run.complete_in(&mut tx).await;
            // A program that ignores the error commits nothing.
            let _ = tx.commit().await;
            ended.send(again.map(|()| Completion::Committed)).unwrap();
            for what in ["two", "three"] {
                let mut tx = connection.begin().await.unwrap();
                write(&mut tx, what).await;
                ended.send(run.commit(tx).await).unwrap();
            }
        }
    });
    let running = Scheduler::over(&client).job(job).start().await.unwrap();
    for _ in 0..2 {
        let error = tokio::time::timeout(SOON, ends.recv()).await.unwrap().unwrap().unwrap_err();
        assert_eq!((error.kind(), error.verb()), (ErrorKind::Misused, Some("complete")), "{error}");
    }
    assert_eq!(next(&mut ends).await, Completion::Committed);
    assert_eq!(next(&mut ends).await, Completion::AlreadyCompleted);
    assert_eq!(database.writes(), "two");
    running.stop().await.unwrap();
}

/// The row that says that a run was completed does not stay for ever. A process that continues after its removal is
/// refused, because the run is not under way any more.
// Promise: MY24, PG19
#[tokio::test]
async fn a_run_that_has_ended_cannot_be_completed() {
    let database = Database::new();
    let client = database.client("").await;
    let (statements, mut received) = mpsc::unbounded_channel();
    let job = Job::fixed_rate("ticks", Duration::from_millis(100)).run(move |run: Run| {
        let statements = statements.clone();
        async move { statements.send(run.completion_sql().await.unwrap()).unwrap() }
    });
    let running = Scheduler::over(&client).job(job).start().await.unwrap();
    let first = tokio::time::timeout(SOON, received.recv()).await.unwrap().unwrap();
    tokio::time::timeout(SOON, received.recv()).await.unwrap().unwrap();
    // Pool and overlap allow one run, so the first one has ended.
    let mut connection = connect(&database.url()).await;
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "late").await;
    assert_eq!(execute(&first, &mut tx).await, Err(ErrorKind::Lost));
    tx.rollback().await.unwrap();
    running.stop().await.unwrap();
}

/// Runs and marks are records, so it does not matter where the locks are.
// Promise: MY24, PG19
#[tokio::test]
async fn a_run_is_completed_if_the_locks_are_in_the_table_of_shedlock() {
    let database = Database::new();
    SERVER.sql(&database.0, SHEDLOCK);
    let client = database.client("&layout=shedlock").await;
    expect_one_completion(&database, &client, database.url()).await;
}

/// Commits twice in a run. The connections are of the user of this URL.
pub(crate) async fn expect_one_completion(database: &Database, client: &bandog::Client, url: String) {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let job = Job::once("payout").run(move |run: Run| {
        let (ended, url) = (ended.clone(), url.clone());
        async move {
            for what in ["one", "two"] {
                let mut connection = connect(&url).await;
                let mut tx = connection.begin().await.unwrap();
                write(&mut tx, what).await;
                ended.send(run.commit(tx).await).unwrap();
            }
        }
    });
    let running = Scheduler::over(client).job(job).start().await.unwrap();
    assert_eq!(next(&mut ends).await, Completion::Committed);
    assert_eq!(next(&mut ends).await, Completion::AlreadyCompleted);
    assert_eq!(database.writes(), "one");
    running.stop().await.unwrap();
}

// Promise: MY24, PG19
#[tokio::test]
async fn a_run_is_not_completed_where_this_would_prove_nothing() {
    let database = Arc::new(Database::new());
    let client = database.client("").await;
    let url = database.url();
    let (ended, mut ends) = mpsc::unbounded_channel();
    let shared = Job::once("shared").run({
        let ended = ended.clone();
        let database = database.clone();
        move |run: Run| {
            let (ended, database) = (ended.clone(), database.clone());
            async move {
                let mut connection = connect(&database.url()).await;
                repeatable_read(&mut connection).await;
                let tx = connection.begin().await.unwrap();
                ended.send(("isolation", run.commit(tx).await)).unwrap();
                let mut connection = connect(&elsewhere(&database).await).await;
                let tx = connection.begin().await.unwrap();
                ended.send(("database", run.commit(tx).await)).unwrap();
            }
        }
    });
    let running = Scheduler::over(&client).job(shared).start().await.unwrap();
    for expected in ["isolation", "database"] {
        let (what, done) = tokio::time::timeout(SOON, ends.recv()).await.unwrap().unwrap();
        let error = done.unwrap_err();
        assert_eq!((what, error.kind(), error.verb()), (expected, ErrorKind::Misused, Some("complete")));
    }
    running.stop().await.unwrap();

    let local = Job::once("local").run(move |run: Run| {
        let (ended, url) = (ended.clone(), url.clone());
        async move {
            let mut connection = connect(&url).await;
            let tx = connection.begin().await.unwrap();
            ended.send(("local", run.commit(tx).await)).unwrap();
        }
    });
    let running = Scheduler::new().job(local).start().await.unwrap();
    let (_, done) = tokio::time::timeout(SOON, ends.recv()).await.unwrap().unwrap();
    assert_eq!(done.unwrap_err().kind(), ErrorKind::Misused);
    running.stop().await.unwrap();
}
