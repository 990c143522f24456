//! Tables that are missing.

use bandog_core::{Answer, ErrorKind, Inspect, Key, Leases, Level, Pattern, Records, Released, Renewal, Swap, Swapped};
use bandog_testkit::{LogCapture, eventually_async};

use super::{SOON, claim, open, release, renew, take, try_take};

/// The tables of bandog that all databases have.
pub(crate) const TABLES: [&str; 6] =
    ["bandog_meta", "bandog_fence", "bandog_lease", "bandog_record", "bandog_line", "bandog_client"];

/// Drops one table after the other, and uses the store after each. `drop_table` drops the table with this name.
pub(crate) async fn expect_each_table_to_be_created_again(url: &str, tables: &[&str], drop_table: impl Fn(&str)) {
    let store = open(url);
    let first = claim("free");
    let mut last = take(&store, &first).await.take();
    release(&store, &first).await;
    for table in tables {
        let (held, key) = (claim(&format!("held while {table} is dropped")), Key::new(format!("r/{table}")).unwrap());
        take(&store, &held).await;
        drop_table(table);
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
        take(&open(url), &claim(&format!("after {table}"))).await;
    }
}

/// Many clients use an empty database at the same moment.
pub(crate) async fn expect_sessions_to_create_the_tables_together(url: &str) {
    let calls: Vec<_> = (0..16)
        .map(|number| {
            let (store, claim) = (open(url), claim(&format!("k{number}")));
            tokio::spawn(async move { try_take(&store, &claim).await })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap().unwrap().is_some());
    }
}

/// Two clients with different names of their tables are two stores. `count` counts the tables whose names begin so.
pub(crate) async fn expect_tables_with_other_names(url: &str, count: impl Fn(&str) -> String, tables: usize) {
    let (usual, named) = (open(url), open(&format!("{url}?tables=shop_locks_")));
    for (store, prefix) in [(&named, "shop_locks_"), (&usual, "bandog_")] {
        assert_eq!(count(prefix), "0");
        let (held, key) = (claim("k"), Key::new("r").unwrap());
        take(store, &held).await;
        assert_eq!(count(prefix), tables.to_string());
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
/// reports it. `names` are the options of a URL that name the tables of both.
pub(crate) async fn expect_other_tables_to_be_reported(urls: [&str; 2], names: [&str; 2]) {
    let (log, _guard) = LogCapture::of_thread("bandog_sql");
    let [first, second] = urls.map(open);
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

/// A table of another program has the name of a table of this store. Its rows must not be deleted.
pub(crate) async fn expect_refused_tables(store: &bandog_sql::Sql) {
    for _ in 0..2 {
        let error = store.ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(try_take(store, &claim("k")).await.unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
