//! Tables that are missing, tables with other names, and sessions that create them at the same time.

use bandog_core::{Answer, ErrorKind, Inspect, Key, Leases, Level, Pattern, Records, Released, Renewal, Swap, Swapped};
use bandog_testkit::{LogCapture, eventually_async};

use super::{Database, Place, SOON, claim, open, release, renew, take, try_take};

/// Drops one table after the other, and uses the store after each.
pub(crate) async fn each_table_that_is_missing_is_created_again<D: Database>() {
    let place = Place::<D>::new();
    let store = place.store();
    let first = claim("free");
    let mut last = take(&store, &first).await.take();
    release(&store, &first).await;
    for table in D::TABLES {
        let (held, key) = (claim(&format!("held while {table} is dropped")), Key::new(format!("r/{table}")).unwrap());
        take(&store, &held).await;
        place.sql(&format!("drop table {table}"));
        // A call that found the table missing has changed nothing, so it is repeated.
        let record = Swap::new(key.clone(), None, "text");
        let swapped = eventually_async(SOON, async || store.swap(std::slice::from_ref(&record)).await?.each.remove(0));
        assert!(matches!(swapped.await, Swapped::Done(_)), "{table}");
        eventually_async(SOON, async || store.list(&Pattern::all()).await).await;
        eventually_async(SOON, async || store.members().await).await;
        eventually_async(SOON, async || store.history(&key).await).await;
        let expected = if *table == "bandog_lease" { Renewal::Gone } else { Renewal::Extended { valid_for: held.ttl } };
        assert_eq!(eventually_async(SOON, async || renew(&store, &held).await).await, expected, "{table}");
        let next = claim("free");
        let granted = eventually_async(SOON, async || try_take(&store, &next).await).await;
        let fence = granted.expect("the lock is free").take();
        assert!(fence > last, "{table}");
        last = fence;
        assert_eq!(release(&store, &next).await, Answer::Released(Released::Freed { others: Some(0) }), "{table}");
        // A program that starts later finds all tables.
        take(&place.store(), &claim(&format!("after {table}"))).await;
    }
}

/// A table of another program has the name of a table of this store. Its rows must not be deleted.
pub(crate) async fn a_table_of_another_program_is_not_used<D: Database>() {
    let place = Place::<D>::new();
    let [create, options, table] = D::FOREIGN_TABLE;
    place.server.sql(&place.database, create);
    let store = open(&format!("{}?{options}", place.url()));
    for _ in 0..2 {
        let error = store.ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(try_take(&store, &claim("k")).await.unwrap_err().kind(), ErrorKind::Corrupt);
    }
    assert_eq!(place.server.sql(&place.database, &format!("select count(*) from {table}")), "1");
}

/// Two clients with different names of their tables are two stores.
pub(crate) async fn the_url_can_name_the_tables<D: Database>() {
    let place = Place::<D>::new();
    let (usual, named) = (place.store(), open(&format!("{}?tables=shop_locks_", place.url())));
    let tables = format!("select count(*) from information_schema.tables where table_schema = '{}'", place.schema());
    let count = |prefix: &str| place.sql(&format!("{tables} and table_name like '{prefix}%'"));
    for (store, prefix) in [(&named, "shop_locks_"), (&usual, "bandog_")] {
        assert_eq!(count(prefix), "0");
        let (held, key) = (claim("k"), Key::new("r").unwrap());
        take(store, &held).await;
        assert_eq!(count(prefix), D::TABLES.len().to_string());
        let swapped = store.swap(&[Swap::new(key.clone(), None, "text")]).await.unwrap().each.remove(0);
        assert!(matches!(swapped, Ok(Swapped::Done(_))), "{swapped:?}");
        assert_eq!(store.list(&Pattern::all()).await.unwrap().len(), 1);
        assert!(store.members().await.unwrap().is_empty());
        assert_eq!(renew(store, &held).await.unwrap(), Renewal::Extended { valid_for: held.ttl });
        let findings = store.check().await.unwrap();
        for subject in ["tables", "rights"] {
            let finding = findings.iter().find(|finding| finding.subject == subject).unwrap();
            assert_eq!(finding.level, Level::Fine, "{finding:?}");
        }
    }
}

/// Clients whose URLs differ by mistake share no locks. The client that comes later logs it once, and the check of both
/// reports it.
pub(crate) async fn other_tables_of_bandog_in_the_database_are_reported<D: Database>() {
    let url = Place::<D>::new().url();
    expect_other_tables_to_be_reported(&url, D::TABLE_SETS).await;
}

/// `names` are the options of two URLs, which name their tables.
pub(crate) async fn expect_other_tables_to_be_reported(url: &str, names: [&str; 2]) {
    let (log, _guard) = LogCapture::of_thread("bandog_sql");
    let [first, second] = names.map(|names| open(&format!("{url}?{names}")));
    first.ping().await.unwrap();
    let finding = async |store: &bandog_sql::Sql| {
        let findings = store.check().await.unwrap();
        findings.into_iter().find(|finding| finding.subject == "other tables").unwrap()
    };
    assert_eq!(finding(&first).await.level, Level::Fine);
    assert_eq!(log.take("WARN"), [""; 0]);

    for number in 0..3 {
        take(&second, &claim(&format!("k{number}"))).await;
        second.members().await.unwrap(); // in another session
    }
    let warnings = log.take("WARN");
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    let says = |ours: &str, other: &str| format!("uses {ours}, and the database also has bandog's tables for {other}:");
    assert!(warning.contains(&says(names[1], names[0])), "{warning}");
    for (store, ours, other) in [(&first, names[0], names[1]), (&second, names[1], names[0])] {
        let finding = finding(store).await;
        assert_eq!(finding.level, Level::Advice);
        assert!(finding.says.contains(&says(ours, other)), "{finding:?}");
    }
}

/// Many clients use an empty database at the same moment.
pub(crate) async fn sessions_create_the_tables_together<D: Database>() {
    for _ in 0..5 {
        let place = Place::<D>::new();
        let calls: Vec<_> = (0..16)
            .map(|number| {
                let (store, claim) = (place.store(), claim(&format!("k{number}")));
                tokio::spawn(async move { try_take(&store, &claim).await })
            })
            .collect();
        for call in calls {
            assert!(call.await.unwrap().unwrap().is_some());
        }
        assert_eq!(place.sql("select count(*) from bandog_meta where name = 'version'"), "1");
    }
}
