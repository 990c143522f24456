//! Logins that the server refuses, and Unix sockets.

use bandog_core::{ErrorKind, Leases, Renewal};
use bandog_sql::{Sql, SqlOptions};
use bandog_testkit::eventually_async;

use crate::support::{SERVER, SOON, claim, open, renew, take};

// Promise: MY11
#[tokio::test]
async fn a_wrong_login_is_denied_without_the_password_in_the_error() {
    let (port, database) = (SERVER.port(), SERVER.new_database());
    for (login, place) in [
        ("locks:hunter2", database.as_str()),
        ("nobody:hunter2", &database),
        // MySQL asks different unknown users for different kinds of logins.
        ("nobody1:hunter2", &database),
        ("nobody2:hunter2", &database),
        ("nobody3:hunter2", &database),
        ("nobody4:hunter2", &database),
        ("nobody5:hunter2", &database),
        ("locks", &database),
        ("locks:PASSWORD", "no_such_database"),
    ] {
        let store = open(&format!("mysql://{login}@127.0.0.1:{port}/{place}"));
        let error = store.ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{login}: {error}");
        let shown = format!("{error} {error:?} {store:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("PASSWORD"), "{shown}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_run_is_unavailable() {
    let options = SqlOptions::from_url("mysql://locks@127.0.0.1:1/locks").unwrap();
    let error = Sql::new(options).unwrap().ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!error.maybe_applied());
}

#[tokio::test]
async fn a_unix_socket_leads_to_the_same_locks() {
    let database = SERVER.new_database();
    let socket = SERVER.directory().join("socket");
    let store = open(&format!("mysql://locks:PASSWORD@/{database}?socket={}", socket.display()));
    take(&store, &claim("k")).await;
    assert!(store.profile().store.contains("socket="));
}

#[tokio::test]
async fn a_hold_survives_a_change_of_the_password_in_a_file() {
    let (database, dir) = (SERVER.new_database(), tempfile::tempdir().unwrap());
    let file = dir.path().join("password");
    let user = format!("create user rotating@'%' identified by 'one'; grant all on {database}.* to rotating@'%'");
    SERVER.sql("mysql", &user);
    let address = format!("127.0.0.1:{}/{database}", SERVER.port());
    let refused = SqlOptions::from_url(&format!("mysql://rotating:x@{address}?password_file=/p")).unwrap_err();
    assert!(refused.to_string().contains("only one of them"), "{refused}");
    let store = open(&format!("mysql://rotating@{address}?password_file={}", file.display()));
    let missing = store.ping().await.unwrap_err();
    assert!(missing.kind() == ErrorKind::Misused && missing.to_string().contains(file.to_str().unwrap()), "{missing}");
    std::fs::write(&file, "one\n").unwrap();
    let claim = claim("k");
    take(&store, &claim).await;

    SERVER.sql("mysql", "alter user rotating@'%' identified by 'two'");
    SERVER.end_sessions(&database);

    // The next renewal opens a connection with the old password.
    let refused = eventually_async(SOON, async || match renew(&store, &claim).await {
        Err(error) if error.kind() == ErrorKind::Denied && error.is_about_login() => Ok(error.to_string()),
        other => Err(format!("{other:?}")),
    });
    let refused = refused.await;
    assert!(refused.contains(&format!("the password in the file {}", file.display())), "{refused}");
    std::fs::write(&file, "two\n").unwrap();
    let renewed = eventually_async(SOON, async || match renew(&store, &claim).await {
        Ok(Renewal::Extended { .. }) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    renewed.await;
}
