//! Logins that the server refuses, and Unix sockets.

use bandog_core::{ErrorKind, Leases, Renewal};
use bandog_sql::{Sql, SqlOptions};
use bandog_testkit::{SqlServer, eventually_async};

use super::{Database, Place, SOON, claim, open, renew, take, try_take};

pub(crate) async fn a_wrong_login_is_denied_without_the_password_in_the_error<D: Database>() {
    let place = Place::<D>::new();
    let (scheme, port, database) = (D::SCHEME, place.server.port(), place.database.as_str());
    // MySQL asks different unknown users for different kinds of logins.
    let nobody = (1..=5).map(|number| (format!("nobody{number}:hunter2"), database));
    let logins = [("locks:hunter2", database), ("locks", database), ("locks:PASSWORD", "no_such_database")];
    for (login, database) in logins.map(|(login, database)| (login.to_owned(), database)).into_iter().chain(nobody) {
        let store = open(&format!("{scheme}://{login}@127.0.0.1:{port}/{database}"));
        let error = store.ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{login}: {error}");
        let shown = format!("{error} {error:?} {store:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("PASSWORD"), "{shown}");
    }
}

pub(crate) async fn a_server_that_does_not_run_is_unavailable<D: Database>() {
    let options = SqlOptions::from_url(&format!("{}://locks@127.0.0.1:1/locks", D::SCHEME)).unwrap();
    let error = Sql::new(options).unwrap().ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!error.maybe_applied());
}

pub(crate) async fn a_unix_socket_leads_to_the_same_locks<D: Database>() {
    let place = Place::<D>::new();
    let store = open(&place.server.url_over_socket(SqlServer::<D>::LOCKS, &place.database));
    take(&store, &claim("k")).await;
    assert!(store.profile().store.contains(D::SOCKET));
    let administrator = open(&place.server.administrator(&place.database));
    assert!(try_take(&administrator, &claim("k")).await.unwrap().is_none());
}

pub(crate) async fn a_hold_survives_a_change_of_the_password_in_a_file<D: Database>() {
    let (place, dir) = (Place::<D>::new(), tempfile::tempdir().unwrap());
    let file = dir.path().join("password");
    let [create, change] = D::ROTATING;
    place.sql(&create.replace("DATABASE", &place.database));
    let address = format!("127.0.0.1:{}/{}", place.server.port(), place.database);
    let url = |login: &str, file: &str| format!("{}://{login}@{address}?password_file={file}", D::SCHEME);
    let refused = SqlOptions::from_url(&url("rotating:x", "/p")).unwrap_err();
    assert!(refused.to_string().contains("only one of them"), "{refused}");
    let store = open(&url("rotating", file.to_str().unwrap()));
    let missing = store.ping().await.unwrap_err();
    assert!(missing.kind() == ErrorKind::Misused && missing.to_string().contains(file.to_str().unwrap()), "{missing}");
    std::fs::write(&file, "one\n").unwrap();
    let claim = claim("k");
    take(&store, &claim).await;

    place.sql(change);
    place.end_sessions();

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
