//! Which rows the statements for MySQL lock. The rules of a lock hold only if a transaction that decides has its rows.

use mysql_async::prelude::Queryable;

use super::{MARIADB, options_of_mysql};
use crate::{
    context::Context,
    fault::Fault,
    options::SqlOptions,
    session::{Link, Session},
    statements::Statements,
};

const NAMES: [&str; 1] = ["k"];

/// Chooses a statement.
type Choice = fn(&Statements) -> &String;

/// Two sessions of one database. The first one begins a transaction with a statement, and the second one executes another
/// statement.
struct Pair {
    first: Session,
    second: Session,
}

impl Pair {
    /// The first session has these statements.
    async fn new(statements: Statements) -> Self {
        let options = options_of_mysql();
        let second = session(&options, Statements::mysql()).await;
        let mut pair = Self { first: session(&options, statements).await, second };
        pair.first.drive(create_rows).await.expect("the rows are created");
        pair
    }

    /// The number of rows that the second session gets while the first one has executed its statement. None if the second
    /// session waits until the timeout of a lock.
    async fn rows(&mut self, first: Choice, second: Choice) -> Option<usize> {
        let found = self.first.drive(|link| begin(link, first(&link.statements))).await.expect("the rows are free");
        assert_eq!(found, 1, "the first session did not find the row");
        let found = self.second.drive(|link| query(link, second(&link.statements))).await;
        self.first.roll_back().await.expect("the transaction can be rolled back");
        match found {
            Ok(rows) => Some(rows),
            Err(fault) => {
                assert!(fault.is_lock_timeout(), "{fault:?}");
                None
            }
        }
    }
}

async fn session(options: &SqlOptions, statements: Statements) -> Session {
    Session::open(&Context::new(options.clone(), statements)).await.expect("the server is up")
}

async fn create_rows(link: &Link) -> Result<(), Fault> {
    // The row beside it shows that a statement locks no more rows than it names.
    link.query(&link.statements.insert, &[&vec!["k", "other"]]).await?;
    let (versions, values) = (vec![1_i64], vec![&b"text"[..]]);
    link.query(&link.statements.create_records, &[&vec!["k"], &versions, &values]).await.map(drop)
}

async fn begin(link: &Link, text: &str) -> Result<usize, Fault> {
    Ok(link.begin(text, &[&&NAMES[..]]).await?.len())
}

async fn query(link: &Link, text: &str) -> Result<usize, Fault> {
    Ok(link.query(text, &[&&NAMES[..]]).await?.len())
}

// Promise: MY9
#[tokio::test]
async fn a_transaction_that_decides_has_its_rows() {
    let mut pair = Pair::new(Statements::mysql()).await;
    for first in [(|texts| &texts.lock) as Choice, |texts| &texts.lock_leases, |texts| &texts.hold_leases] {
        // A locked row is skipped, so no statement for locks waits.
        assert_eq!(pair.rows(first, |texts| &texts.lock).await, Some(0));
        assert_eq!(pair.rows(first, |texts| &texts.lock_leases).await, Some(0));
        // Creating and reading rows does not wait.
        assert_eq!(pair.rows(first, |texts| &texts.insert).await, Some(0));
        assert_eq!(pair.rows(first, |texts| &texts.show).await, Some(1));
    }
    assert_eq!(pair.rows(|texts| &texts.hold_leases, |texts| &texts.hold_leases).await, Some(1));
    assert_eq!(pair.rows(|texts| &texts.lock_leases, |texts| &texts.hold_leases).await, None);
    assert_eq!(pair.rows(|texts| &texts.lock_records, |texts| &texts.lock_records).await, None);
    assert_eq!(pair.rows(|texts| &texts.lock_records, |texts| &texts.records).await, Some(1));
}

// Promise: MY9
#[tokio::test]
async fn a_transaction_keeps_no_other_row_from_others() {
    let mut pair = Pair::new(Statements::mysql()).await;
    for first in [(|texts| &texts.lock) as Choice, |texts| &texts.lock_leases, |texts| &texts.hold_leases] {
        pair.first.drive(|link| begin(link, first(&link.statements))).await.expect("the rows are free");
        let other = async |link: &Link, text: &str| Ok(link.query(text, &[&vec!["other"]]).await?.len());
        let found: Result<usize, Fault> = other(&pair.second.link, &pair.second.link.statements.lock_leases).await;
        assert_eq!(found.expect("the other row is free"), 1);
        pair.first.roll_back().await.expect("the transaction can be rolled back");
    }
}

// Promise: MY9
#[tokio::test]
async fn a_statement_that_locks_too_little_is_found() {
    let statements: [(Choice, &str); 3] = [
        (|texts| &texts.lock, " for update skip locked"),
        (|texts| &texts.lock_leases, " for update skip locked"),
        (|texts| &texts.hold_leases, " lock in share mode"),
    ];
    for (statement, right) in statements {
        assert!(statement(&Statements::mysql()).contains(right), "the statement has no {right:?}");
        let mut pair = Pair::new(Statements::mysql().changed(|text| text.replace(right, ""))).await;
        assert_eq!(pair.rows(statement, |texts| &texts.lock).await, Some(1), "{right:?} locks nothing");
    }
}

/// Otherwise, statements pile up on a server whose tables a backup has locked. MariaDB also ends them by `max_statement_time`,
/// which MySQL does not have, so the reason counts.
#[tokio::test]
async fn a_statement_waits_for_a_locked_table_until_the_timeout_of_a_lock() {
    let options = options_of_mysql();
    let mut session = session(&options, Statements::mysql()).await;
    let mut hand =
        mysql_async::Conn::from_url(format!("mysql://root@localhost:{}/{}", MARIADB.port(), options.database))
            .await
            .expect("the server is up");
    hand.query_drop("lock tables bandog_lease write").await.expect("the table is free");
    let change = async |link: &Link| link.execute("delete from bandog_lease").await;
    let fault = session.drive(change).await.expect_err("the table is locked");
    assert!(fault.is_lock_timeout(), "{fault:?}");
    hand.query_drop("unlock tables").await.expect("the table is locked");
    session.drive(change).await.expect("the table is free");
}
