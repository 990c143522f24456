//! The modes `rowlock` and `advisory`: mutexes beside locks that other programs take in sessions of `mariadb`.

use std::process::Command;

use crate::{
    claims::{
        held::{self, ByHand},
        terminal::Terminal,
    },
    support::{SERVER, url},
};

fn mariadb(database: &str) -> Terminal {
    let mut command = Command::new("mariadb");
    command.args(["--no-defaults", "--batch", "--raw", "--skip-column-names", "--unbuffered", "--user=root"]);
    Terminal::start(command.arg("--socket").arg(SERVER.directory().join("socket")).args(["--database", database]))
}

/// Names of `GET_LOCK` are those of the whole server, so these tests run one after the other.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A database of each mode.
fn both() -> [ByHand; 2] {
    [rowlock(), advisory()]
}

fn rowlock() -> ByHand {
    let hand = ByHand {
        attempt: "begin; select lockname from tb_lock where lockname = 'k' for update skip locked",
        wait: "begin; select lockname from tb_lock where lockname = 'k' for update",
        free: "commit",
        success: "k",
        ..advisory()
    };
    let columns = "id int auto_increment primary key, lockname varchar(64) not null unique";
    SERVER.sql(&hand.database, &format!("create table tb_lock ({columns})"));
    let url = hand.url.replace("mode=advisory", "mode=rowlock&table=tb_lock&column=lockname");
    ByHand { url, ..hand }
}

fn advisory() -> ByHand {
    let database = SERVER.new_database();
    ByHand {
        url: format!("{}?mode=advisory", url(&SERVER, &database)),
        database,
        sql: |database, statements| SERVER.sql(database, statements),
        end_sessions: |database| SERVER.end_sessions(database),
        terminal: mariadb,
        attempt: "select get_lock('k', 0)",
        wait: "select get_lock('k', 60)",
        free: "do release_all_locks()",
        success: "1",
        leases: "bandog_lease",
    }
}

// Promise: MY18
#[tokio::test(flavor = "multi_thread")]
async fn sessions_by_hand_and_ours_exclude_each_other() {
    let _alone = ALONE.lock().await;
    for hand in both() {
        held::both_sides_exclude_each_other(&hand).await;
    }
}

// Promise: MY18
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_under_sessions_by_hand_and_ours_is_exact() {
    let _alone = ALONE.lock().await;
    for hand in both() {
        held::a_contended_counter_is_exact(&hand).await;
    }
}

// Promise: MY18
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_gets_the_lock_of_a_session_that_ends() {
    let _alone = ALONE.lock().await;
    for hand in both() {
        held::a_waiter_gets_the_lock_of_a_session_that_ends(&hand).await;
    }
}

// Promise: MY18
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_is_lost_with_its_session() {
    let _alone = ALONE.lock().await;
    for hand in both() {
        held::a_guard_is_lost_with_its_session(&hand).await;
    }
}

// Promise: MY19
#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_connections_is_limited() {
    let _alone = ALONE.lock().await;
    for hand in both() {
        held::the_number_of_connections_is_limited(&hand).await;
    }
}

// Promise: MY18
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_before_its_batch_is_answered_is_no_grant() {
    let _alone = ALONE.lock().await;
    for hand in both() {
        held::a_session_that_ends_before_its_batch_is_answered_is_no_grant(&hand).await;
    }
}

// Promise: MY20
#[tokio::test(flavor = "multi_thread")]
async fn the_check_tries_a_row() {
    held::the_check_tries_a_row(
        &rowlock(),
        "alter table tb_lock add column odd int not null, add constraint few check (lockname <> 'bandog doctor')",
    )
    .await;
}

// Promise: MY18
#[tokio::test(flavor = "multi_thread")]
async fn a_release_after_the_end_of_the_session_is_a_loss() {
    let _alone = ALONE.lock().await;
    for hand in both() {
        held::a_release_after_the_end_of_the_session_is_a_loss(&hand).await;
    }
}

// Promise: MY18
#[tokio::test(flavor = "multi_thread")]
async fn a_release_during_a_renewal_is_answered() {
    let _alone = ALONE.lock().await;
    for hand in both() {
        held::a_release_during_a_renewal_is_answered(&hand).await;
    }
}

// Promise: MY18
#[tokio::test(flavor = "multi_thread")]
async fn a_release_beside_a_locked_lease_is_no_loss() {
    let _alone = ALONE.lock().await;
    for hand in both() {
        held::a_release_beside_a_locked_lease_is_no_loss(&hand).await;
    }
}

// Promise: MY18
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_expires_after_its_ttl() {
    let _alone = ALONE.lock().await;
    for hand in both() {
        held::a_hold_expires_after_its_ttl(&hand).await;
    }
}
