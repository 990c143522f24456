//! Which types and futures can be sent to other tasks and threads.

use bandog_sync::{
    All, AllGuard, AnyLock, Barrier, Client, ClientOptions, Election, Expiring, Guard, Leader, Leadership, Lost, Mutex,
    Observer, Owner, all,
};

use crate::kit::{client, memory};

fn shared<T: Send + Sync + 'static>() {}
fn lasting<T: Clone + Send + 'static>() {}
fn sent<T: Send>() {}
fn send<T: Send>(value: T) -> T {
    value
}

#[test]
fn handles_guards_and_futures_can_be_sent() {
    shared::<Guard>();
    shared::<Mutex>();
    shared::<Client>();
    shared::<Owner>();
    shared::<ClientOptions>();
    lasting::<Lost>();
    lasting::<Expiring>();
    lasting::<Mutex>();
    shared::<AllGuard>();
    shared::<Leadership>();
    sent::<Observer>();
    lasting::<All>();
    lasting::<AnyLock>();
    lasting::<Election>();
    lasting::<Leader>();
    lasting::<Barrier>();
}

#[tokio::test(start_paused = true)]
async fn every_future_may_be_spawned() {
    let client = client(memory());
    let mutex = client.mutex("orders");
    tokio::spawn(async move {
        let guard = send(mutex.lock()).await.unwrap();
        assert!(send(mutex.try_lock()).await.unwrap().is_none());
        assert!(send(mutex.try_lock_for(std::time::Duration::from_secs(1))).await.unwrap().is_none());
        let lost = tokio::spawn(guard.lost());
        send(guard.release()).await.unwrap();
        lost.abort();
        let mut local = String::from("or");
        let ran = send(mutex.run(async |guard| {
            tokio::task::yield_now().await;
            local.push_str("ders");
            guard.key() == local
        }));
        assert!(ran.await.unwrap());
        let locks = all([client.mutex("orders"), client.mutex("stock")]);
        send(send(locks.lock()).await.unwrap().release()).await.unwrap();
        assert!(send(locks.try_lock_for(std::time::Duration::from_secs(1))).await.unwrap().is_some());
        assert_eq!(send(locks.run(async |guard| guard.fences().len())).await.unwrap(), 2);
        let election = client.election("billing");
        let leadership = send(election.campaign()).await.unwrap();
        assert!(send(election.observe().changed()).await.unwrap().is_some());
        send(leadership.resign()).await.unwrap();
        assert!(send(client.barrier("phase", 1).wait()).await.unwrap().is_leader());
        send(client.ready()).await.unwrap();
        send(client.show("orders")).await.unwrap();
        send(client.idle()).await;
        send(client.close()).await.unwrap();
    })
    .await
    .unwrap();
}
