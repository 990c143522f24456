//! The tests that run on each database. The trait [`Database`] has the differences. The tests of one database only are
//! beside its `impl`.
//!
//! A test program includes this folder as its module `suite`, and calls [`suite!`] for each database. The programs of the
//! laws do the same with the module `laws`. It is a folder and no crate, so that it can name the types of the crate that
//! it tests, and test programs of several crates can include it.

pub(crate) mod connections;
pub(crate) mod days;
pub(crate) mod failover;
pub(crate) mod full;
pub(crate) mod held;
pub(crate) mod login;
pub(crate) mod polls;
pub(crate) mod queues;
pub(crate) mod rights;
pub(crate) mod rows;
pub(crate) mod shedlock;
pub(crate) mod tables;
pub(crate) mod terminal;
pub(crate) mod tls;
pub(crate) mod waiters;

use std::{
    num::NonZeroU32,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bandog_core::{Answer, Claim, ClaimId, ClientId, Fences, Key, Kind, Leases, Renewal, Result, Step, Verdict};
use bandog_sql::{Sql, SqlOptions};
use bandog_sync::Client;
use bandog_testkit::{SqlEngine, SqlServer, TlsFiles};

pub(crate) const TTL: Duration = Duration::from_secs(60);
/// Timeout for expected events. A test reaches it only if it fails.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Declares each test of the suite for a database, in a module for each file.
macro_rules! suite {
    ($database:ty) => {
        $crate::suite::tests! { $database, days:
            // Promise: PG3, MY3
            #[tokio::test]
            fn holds_survive_the_end_of_all_connections();
            // Promise: PG3, PG7, MY3
            #[tokio::test]
            fn a_waiter_is_served_after_the_end_of_all_connections();
            // Promise: PG4, RS5, MY4, RS6
            #[tokio::test]
            fn holds_survive_a_server_that_is_killed();
            // Promise: PG8, MY8
            #[tokio::test]
            fn a_row_that_another_transaction_locks_delays_no_other_lock();
            // Promise: PG8, MY8
            #[tokio::test]
            fn a_row_that_stays_locked_delays_no_other_renewal_or_release();
            #[tokio::test]
            fn records_that_stay_locked_delay_no_swap_of_the_same_time();
            // Promise: PG8, MY8
            #[tokio::test]
            fn a_waiter_for_a_row_that_stays_locked_delays_no_record();
            // Promise: PG10, MY10
            #[tokio::test]
            fn tables_of_a_newer_version_are_refused();
            // Promise: PG5, PG28, MY5
            #[tokio::test]
            fn tables_that_were_dropped_are_created_again();
            // Promise: PG1, MY1
            #[tokio::test]
            fn a_subscriber_is_notified_by_another_process();
        }
        $crate::suite::tests! { $database, failover:
            // Promise: PG27, MY26
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            fn a_lock_that_the_replica_has_not_got_is_granted_again_with_a_greater_fence_and_its_holder_notices();
            // Promise: PG26, MY25
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            fn with_synchronous_replication_a_failover_loses_no_lock();
        }
        $crate::suite::tests! { $database, held:
            // Promise: PG23, MY18
            #[tokio::test(flavor = "multi_thread")]
            fn sessions_by_hand_and_ours_exclude_each_other();
            // Promise: PG23, MY18
            #[tokio::test(flavor = "multi_thread")]
            fn a_counter_under_sessions_by_hand_and_ours_is_exact();
            // Promise: PG23, MY18
            #[tokio::test(flavor = "multi_thread")]
            fn a_waiter_gets_the_lock_of_a_session_that_ends();
            // Promise: PG23, MY18
            #[tokio::test(flavor = "multi_thread")]
            fn a_guard_is_lost_with_its_session();
            // Promise: PG24, MY19
            #[tokio::test(flavor = "multi_thread")]
            fn the_number_of_connections_is_limited();
            // Promise: PG23, MY18
            #[tokio::test(flavor = "multi_thread")]
            fn a_session_that_ends_before_its_batch_is_answered_is_no_grant();
            // Promise: PG25, MY20
            #[tokio::test(flavor = "multi_thread")]
            fn the_check_tries_a_row();
            // Promise: PG23, MY18
            #[tokio::test(flavor = "multi_thread")]
            fn a_release_after_the_end_of_the_session_is_a_loss();
            // Promise: PG23, MY18
            #[tokio::test(flavor = "multi_thread")]
            fn a_release_during_a_renewal_is_answered();
            // Promise: PG23, MY18
            #[tokio::test(flavor = "multi_thread")]
            fn a_release_beside_a_locked_lease_is_no_loss();
            // Promise: PG23, MY18
            #[tokio::test(flavor = "multi_thread")]
            fn a_hold_expires_after_its_ttl();
        }
        $crate::suite::tests! { $database, login:
            // Promise: PG11, MY11
            #[tokio::test]
            fn a_wrong_login_is_denied_without_the_password_in_the_error();
            #[tokio::test]
            fn a_server_that_does_not_run_is_unavailable();
            #[tokio::test]
            fn a_unix_socket_leads_to_the_same_locks();
            #[tokio::test]
            fn a_hold_survives_a_change_of_the_password_in_a_file();
        }
        $crate::suite::tests! { $database, queues:
            #[tokio::test]
            fn tables_that_the_user_may_not_create_are_named();
            #[tokio::test]
            fn rights_that_the_user_lacks_are_named();
            #[tokio::test]
            fn older_tables_are_used_and_upgraded();
            #[tokio::test]
            fn tables_that_are_gone_are_created_again();
            #[tokio::test]
            fn a_report_of_a_worker_counts_those_that_wait();
            #[tokio::test]
            fn calls_without_answers_can_be_repeated();
            #[tokio::test]
            fn no_call_reads_the_elements_that_wait();
        }
        $crate::suite::tests! { $database, rights:
            // Promise: PG12, MY12
            #[tokio::test]
            fn the_documented_rights_are_enough();
        }
        $crate::suite::tests! { $database, rows:
            // Promise: PG7, MY7
            #[tokio::test]
            fn a_release_without_waiters_notifies_no_one();
            // Promise: PG13, MY13
            #[tokio::test]
            fn names_that_differ_little_are_different_locks();
            // Promise: PG2, PG6, MY2, MY6
            #[tokio::test]
            fn an_expired_lease_is_free();
            #[tokio::test]
            fn the_names_of_records_are_found_by_their_beginning();
            #[tokio::test]
            fn no_call_reads_the_rows_of_other_clients();
        }
        $crate::suite::tests! { $database, shedlock:
            // Promise: PG21, MY16
            #[tokio::test]
            fn shedlock_and_ours_exclude_each_other();
            // Promise: PG21, MY16
            #[tokio::test(flavor = "multi_thread")]
            fn a_counter_under_a_contended_lock_of_shedlock_is_exact();
            // Promise: PG21, MY16
            #[tokio::test]
            fn operators_see_and_evict_holds_of_shedlock();
            // Promise: PG21, MY16
            #[tokio::test]
            fn a_release_as_the_first_call_for_a_lock_of_shedlock_is_answered();
            // Promise: PG22, MY17
            #[tokio::test]
            fn names_that_are_too_long_for_shedlock_are_refused();
            // Promise: PG21, MY16
            #[tokio::test]
            fn a_row_of_shedlock_that_another_transaction_locks_delays_no_other_lock();
        }
        $crate::suite::tests! { $database, tables:
            // Promise: PG28, MY5
            #[tokio::test]
            fn each_table_that_is_missing_is_created_again();
            // Promise: PG28, MY5
            #[tokio::test]
            fn a_table_of_another_program_is_not_used();
            // Promise: PG1, MY1
            #[tokio::test]
            fn the_url_can_name_the_tables();
            #[tokio::test]
            fn other_tables_of_bandog_in_the_database_are_reported();
            // Promise: PG28, MY5
            #[tokio::test]
            fn sessions_create_the_tables_together();
        }
        $crate::suite::tests! { $database, tls:
            // Promise: PG11, MY11
            #[tokio::test]
            fn the_certificate_of_the_server_is_checked();
            #[tokio::test]
            fn a_server_without_tls_is_refused();
        }
        $crate::suite::tests! { $database, waiters:
            // Promise: PG24, MY19
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            fn a_hundred_waiters_of_one_client_need_no_more_connections();
        }
    };
}
pub(crate) use suite;

/// Declares tests of one file of the suite for a database.
macro_rules! tests {
    ($database:ty, $file:ident: $($(#[$test:meta])+ fn $name:ident();)+) => {
        mod $file {
            $($(#[$test])+
            async fn $name() {
                $crate::suite::$file::$name::<$database>().await;
            })+
        }
    };
}
pub(crate) use tests;

/// A database of the tests: the differences between databases.
pub(crate) trait Database: SqlEngine + Clone {
    /// A statement with which a session finds the tables of bandog without their schema.
    const USE_TABLES: &'static str;
    /// The schema of the tables of bandog. None if it is the database.
    const SCHEMA: Option<&'static str>;
    /// The tables of bandog for locks and jobs, and those for work queues.
    const TABLES: &'static [&'static str];
    /// See [`Database::TABLES`].
    const QUEUE_TABLES: &'static [&'static str];
    /// The options of two URLs with different tables.
    const TABLE_SETS: [&'static str; 2];
    /// Creates a table of another program. With these options of a URL, its name is that of a table of bandog.
    const FOREIGN_TABLE: [&'static str; 3];
    /// Drops the tables that a claim needs.
    const DROP_TABLES: &'static str;
    /// The words before the names of tables, whose statistics the server renews.
    const ANALYZE: &'static str;
    /// The option of a URL that contains a Unix socket.
    const SOCKET: &'static str;
    /// The statements that create the user `rotating` for a database, and change the password.
    const ROTATING: [&'static str; 2];
    /// How a session by hand takes the lock `k` of the mode `advisory`.
    const ADVISORY: &'static held::Mode;
    /// Creates the table of the rows of the mode `rowlock`.
    const ROWS: &'static str;
    /// Makes the rows of that table unusable for the clients.
    const DENY_ROWS: &'static str;
    /// The statements of ShedLock.
    const SHEDLOCK: shedlock::Words;

    /// The connection of a session by hand.
    type Connection: Send;
    /// A server and its replica.
    type Pair: failover::Pair;

    /// The server of most tests. At the end of the process, its janitor stops it.
    fn shared() -> &'static SqlServer<Self>;

    /// A server without TLS, for any test.
    fn without_tls() -> &'static SqlServer<Self>;

    /// A new server with these certificates.
    fn with_tls(files: &TlsFiles) -> SqlServer<Self>;

    /// Opens a connection for a session by hand.
    fn connect(server: &SqlServer<Self>, database: &str) -> impl Future<Output = Self::Connection> + Send;

    /// Executes statements.
    fn execute(connection: &mut Self::Connection, statements: &str) -> impl Future<Output = ()> + Send;

    /// The program of a session on the command line, as an administrator.
    fn terminal(server: &SqlServer<Self>, database: &str) -> Command;

    /// Creates the table of ShedLock, whose times have this type.
    fn shedlock_table(times: &str) -> String;

    /// Checks that the sessions of the user are encrypted, or makes the server refuse others from now on.
    fn expect_tls(place: &Place<'_, Self>) -> impl Future<Output = ()>;

    /// Inserts leases, fences, records and lines of other clients: this number of each.
    fn fill(place: &Place<'_, Self>, rows: u32);

    /// The number of rows that all sessions have read one after the other. No other test uses the server.
    fn rows_read(place: &Place<'_, Self>) -> impl Future<Output = u64>;

    /// The user of the clients may use the tables of a database, and create none.
    fn forbid_tables(database: &str);

    /// The user may create tables again.
    fn allow_tables(database: &str);

    /// The user may not write the table of the elements of work queues.
    fn forbid_elements(database: &str);

    /// The user gets the rights that the page about the database documents, and no others. An administrator has created the
    /// tables.
    fn grant_documented_rights(database: &str);

    /// Held by tests whose locks are those of the whole server.
    fn alone() -> impl Future<Output = Option<tokio::sync::MutexGuard<'static, ()>>> + Send {
        std::future::ready(None)
    }
}

/// A database of a server.
#[derive(Debug)]
pub(crate) struct Place<'s, D: Database> {
    pub(crate) server: &'s SqlServer<D>,
    pub(crate) database: String,
}

impl<D: Database> Place<'static, D> {
    /// A new database of the server of most tests.
    pub(crate) fn new() -> Self {
        Self::on(D::shared())
    }
}

impl<'s, D: Database> Place<'s, D> {
    /// A new database of this server.
    pub(crate) fn on(server: &'s SqlServer<D>) -> Self {
        Self { server, database: server.new_database() }
    }

    /// The URL for a user without further rights.
    pub(crate) fn url(&self) -> String {
        self.server.url(&self.database)
    }

    /// The schema of the tables of bandog.
    pub(crate) fn schema(&self) -> &str {
        D::SCHEMA.unwrap_or(&self.database)
    }

    pub(crate) fn store(&self) -> Sql {
        open(&self.url())
    }

    pub(crate) fn client(&self) -> Client {
        Client::options().over(self.store()).unwrap()
    }

    /// Executes statements as an administrator, and returns the rows.
    pub(crate) fn sql(&self, statements: &str) -> String {
        self.server.sql(&self.database, &format!("{}; {statements}", D::USE_TABLES))
    }

    /// Ends all sessions.
    pub(crate) fn end_sessions(&self) {
        self.server.end_sessions(&self.database);
    }

    /// A session by hand.
    pub(crate) async fn hand(&self) -> Hand<D> {
        let mut hand = Hand(D::connect(self.server, &self.database).await);
        hand.execute(D::USE_TABLES).await;
        hand
    }
}

/// A session by hand.
pub(crate) struct Hand<D: Database>(pub(crate) D::Connection);

impl<D: Database> Hand<D> {
    pub(crate) async fn execute(&mut self, statements: &str) {
        D::execute(&mut self.0, statements).await;
    }
}

/// A backend. Its timeout is long, because the machine might be busy with other tests.
pub(crate) fn open(url: &str) -> Sql {
    open_with(url, Duration::from_secs(10))
}

/// A backend with this timeout, for which a test waits.
pub(crate) fn open_with(url: &str, timeout: Duration) -> Sql {
    Sql::new(SqlOptions::from_url(url).unwrap().timeout(timeout)).unwrap()
}

/// A claim by a new client.
pub(crate) fn claim(key: &str) -> Claim {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let id = ClaimId { client: ClientId::random(), number: NUMBER.fetch_add(1, Ordering::Relaxed) };
    let (key, fences) = (Key::new(key).unwrap(), NonZeroU32::new(4).unwrap());
    Claim { fences, ..Claim::new(key, id, Kind::Mutex, TTL) }
}

/// Claims. Returns the fences if the claim was granted.
pub(crate) async fn try_take(store: &Sql, claim: &Claim) -> Result<Option<Fences>> {
    match store.apply(&[Step::Claim(claim.clone())]).await.remove(0)? {
        Answer::Claimed(Verdict::Granted { fences, .. }) => Ok(Some(fences)),
        Answer::Claimed(Verdict::Busy { .. }) => Ok(None),
        Answer::Released(_) => panic!("a release was answered"),
    }
}

/// Claims a free lock.
pub(crate) async fn take(store: &Sql, claim: &Claim) -> Fences {
    try_take(store, claim).await.unwrap().expect("the lock was not free")
}

pub(crate) async fn renew(store: &Sql, claim: &Claim) -> Result<Renewal> {
    store.renew(std::slice::from_ref(claim)).await.remove(0)
}

/// Releases until the release is answered.
pub(crate) async fn release(store: &Sql, claim: &Claim) -> Answer {
    let ask = async || store.apply(&[Step::Release(claim.clone())]).await.remove(0);
    bandog_testkit::eventually_async(SOON, ask).await
}
