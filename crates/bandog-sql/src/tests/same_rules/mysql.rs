//! The statements for MySQL and MariaDB.

use super::{Change, LONG_CALL, SHORT_CALL, SINGLE_STEPS, expect_agreement, expect_found, first_half, second_half};
use crate::{
    statements::Statements,
    tests::{MARIADB, options_of_mysql as options},
};

/// Maximum number of steps in a call that the statements for usual steps often decide.
const FEW_STEPS: usize = 3;
/// Number of steps in the long test on MariaDB, where each call is a transaction of two round trips.
const STEPS: usize = 12_000;

/// Changes of the statements for MySQL that are wrong. `LockState` decides there, so they are about what is stored.
const MUTATIONS: [Change; 10] = [
    ("owner = values(owner)", "owner = owner"),
    ("expires = values(expires)", "expires = expires"),
    ("starving = values(starving)", "starving = starving"),
    ("state = values(state)", "state = null"),
    ("fence = values(fence)", "fence = fence"),
    ("$known(1, 7)", "select null, null from dual where false"),
    ("$values(1, 2, 3, 4, 5, 6)", "$values(1, 2, 3, 5, 4, 6)"),
    ("l.starving, l.wanted", "l.wanted, l.starving"),
    ("timestampdiff(microsecond, '1970-01-01', l.expires)", "1000000 * timestampdiff(second, '1970-01-01', l.expires)"),
    ("coalesce((select f.fence from bandog_fence f where f.name = l.name), 0)", "0"),
];

/// Changes of the statements for one claim and one release on MariaDB that are wrong. A change that only decides fewer steps
/// is not wrong, because `LockState` decides the others.
const MUTATIONS_OF_ONE: [Change; 10] = [
    ("and (owner is null or expires <= utc_timestamp(6) or owner = $3)", ""),
    ("or owner = $3)", "or owner <> $3)"),
    ("state is null and (owner", "(owner"),
    ("coalesce(starving and expires > utc_timestamp(6), false)", "false"),
    ("coalesce(starving and expires > utc_timestamp(6), false)", "starving"),
    (") + $5)", ") + 1)"),
    ("greatest(fence, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))) + $5", "fence + $5"),
    ("interval $4 microsecond", "interval 1 + $4 microsecond"),
    ("owner = $2 and expires > utc_timestamp(6) and", "owner = $2 and"),
    ("state is null and not starving", "state is null"),
];

/// Changes of the statements for many claims and releases on MariaDB that are wrong.
const MUTATIONS_OF_MANY: [Change; 14] = [
    ("and (owner is null or expires <= utc_timestamp(6));", ";"),
    (
        "state is null and (owner is null or expires <= utc_timestamp(6));",
        "(owner is null or expires <= utc_timestamp(6));",
    ),
    ("or expires <= utc_timestamp(6));", "or true);"),
    ("owner = elt(field(name, $list(1)), $list(2)),", "owner = elt(1, $list(2)),"),
    ("coalesce(starving and expires > utc_timestamp(6), false),\n        owner", "starving,\n        owner"),
    ("interval $4 microsecond\n    where name in", "interval 1 + $4 microsecond\n    where name in"),
    ("if row_count() = $count(1) then\n        set", "if row_count() > 0 then\n        set"),
    ("+ $5\n        where name in", "+ 1\n        where name in"),
    (
        "greatest(fence, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))) + $5\n        where name in",
        "fence + $5\n        where name in",
    ),
    ("select name, fence from", "select name, fence - 1 from"),
    ("and owner = elt(field(name, $list(1)), $list(2))", ""),
    ("        and expires > utc_timestamp(6) and state is null", "        and state is null"),
    ("not starving and not wanted;", "not wanted;"),
    ("if row_count() = $count(1) then\n        commit;", "if row_count() > 0 then\n        commit;"),
];

// Promise: MY6, MY9
#[tokio::test]
async fn the_statements_for_mysql_store_what_lock_state_says() {
    expect_agreement(options(), Statements::mysql(), STEPS, LONG_CALL).await;
}

// Promise: MY6, MY9
#[tokio::test]
async fn the_statements_of_few_steps_for_mysql_store_what_lock_state_says() {
    expect_agreement(options(), Statements::mysql(), STEPS, FEW_STEPS).await;
}

// Promise: MY6, MY9
#[tokio::test]
async fn the_statements_of_single_steps_for_mysql_store_what_lock_state_says() {
    expect_agreement(options(), Statements::mysql(), SINGLE_STEPS, 1).await;
}

// Promise: MY9
#[tokio::test]
async fn a_wrong_statement_for_mysql_is_found() {
    expect_found(&MUTATIONS, Statements::mysql(), options, SHORT_CALL).await;
}

// Promise: MY9
#[tokio::test]
async fn a_wrong_statement_of_one_step_for_mariadb_is_found() {
    if is_mariadb() {
        expect_found(&MUTATIONS_OF_ONE, Statements::mysql(), options, 1).await;
    }
}

// Promise: MY9
#[tokio::test]
async fn a_wrong_statement_of_many_steps_for_mariadb_is_found() {
    if is_mariadb() {
        expect_found(first_half(&MUTATIONS_OF_MANY), Statements::mysql(), options, FEW_STEPS).await;
    }
}

// Promise: MY9
#[tokio::test]
async fn another_wrong_statement_of_many_steps_for_mariadb_is_found() {
    if is_mariadb() {
        expect_found(second_half(&MUTATIONS_OF_MANY), Statements::mysql(), options, FEW_STEPS).await;
    }
}

/// MySQL cannot execute the statements for usual steps, so they are not used there.
fn is_mariadb() -> bool {
    MARIADB.sql("mysql", "select version()").contains("MariaDB")
}
