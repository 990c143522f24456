//! Many waiters of one client, which has few connections.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use bandog_core::Fence;
use bandog_sync::Client;
use bandog_testkit::SqlServer;
use tokio::task::JoinSet;

use super::{
    Database, Place, SOON,
    held::{Mode, ROWLOCK},
    open,
};

/// Number of waiters.
const WAITERS: usize = 100;
/// Number of connections that a client opens for everything but held locks.
const CONNECTIONS: u64 = 4;

/// In the modes, only one of the locks can be held at a time.
pub(crate) async fn a_hundred_waiters_of_one_client_need_no_more_connections<D: Database>() {
    // The names of locks of a mode can be those of the whole server.
    let server = SqlServer::<D>::start();
    let of_mode = |mode: &Mode| (format!("?{}&connections=1", mode.query), 1);
    for (options, held) in [(String::new(), 0), of_mode(&ROWLOCK), of_mode(D::ADVISORY)] {
        for names in [1, 10] {
            let (place, wire) = (Place::on(&server), server.wire());
            server.sql(&place.database, D::ROWS);
            let url = format!("{}{options}", SqlServer::<D>::url_at(wire.port(), &place.database));
            expect_all_are_served(&url, names).await;
            let opened = wire.accepted();
            assert!(opened <= CONNECTIONS + held, "{opened} connections for {names} names, {options:?}");
        }
    }
}

/// Each waiter gets its lock, one after the other.
async fn expect_all_are_served(url: &str, names: usize) {
    let client = Client::options().over(open(url)).unwrap();
    let first = client.mutex("lock 0").lock().await.unwrap();
    let holders: Arc<Mutex<HashMap<String, (bool, Fence)>>> = Arc::default();
    let mut waiters = JoinSet::new();
    for number in 0..WAITERS {
        let (mutex, holders) = (client.mutex(format!("lock {}", number % names)), holders.clone());
        waiters.spawn(async move {
            let guard = mutex.lock().await.unwrap();
            let (name, fence) = (guard.key().to_string(), guard.fence());
            if let Some((is_held, last)) = holders.lock().unwrap().insert(name.clone(), (true, fence)) {
                assert!(!is_held, "{name} was granted twice");
                assert!(fence > last, "{fence} after {last}");
            }
            tokio::task::yield_now().await;
            assert!(!guard.is_lost());
            holders.lock().unwrap().insert(name, (false, fence));
            guard.release().await.unwrap();
        });
    }
    first.release().await.unwrap();
    tokio::time::timeout(6 * SOON, waiters.join_all()).await.expect("a waiter was not served");
}
