//! A waiter that may not subscribe gets the lock all the same, however busy other clients are.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::Error;
use bandog_sync::Client;
use bandog_testkit::{RedisServer, eventually_async};
use tokio::{task::JoinHandle, time};

use crate::help::{at, backend};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_may_not_subscribe_is_served() {
    // Beside several busy clients, which wake each other, it is a matter of luck and takes longer.
    for (clients, limit) in [(1, 10), (2, 30)] {
        let server = RedisServer::start();
        let busy: Vec<_> = (0..clients).map(|_| Client::over(backend(&server)).unwrap()).collect();
        let busy: Vec<_> = busy.iter().map(|client| Busy::start(client, 4)).collect();
        let limit = Duration::from_secs(limit);
        eventually_async(limit, async || busy.iter().all(|busy| busy.turns() > 0)).await;
        let deaf = Client::over(at(&without_subscribe(&server))).unwrap();
        let deaf = Busy::start(&deaf, 1);
        for _ in 0..3 {
            let (ours, theirs) = (deaf.turns(), busy.iter().map(Busy::turns).collect::<Vec<_>>());
            eventually_async(limit, async || deaf.turns() > ours).await;
            eventually_async(limit, async || busy.iter().zip(&theirs).all(|(busy, turns)| busy.turns() > *turns)).await;
        }
        for tasks in busy.into_iter().chain([deaf]) {
            tasks.end().await;
        }
    }
}

/// A user who may do what locks need, but not subscribe.
fn without_subscribe(server: &RedisServer) -> String {
    let rights = RedisServer::least_rights();
    let rules = [&["ACL", "SETUSER", "deaf"], &rights[..], &["-subscribe", "resetpass", ">p"]].concat();
    assert_eq!(server.cmd(&rules).text(), "OK");
    format!("redis://deaf:p@{}", server.addr())
}

/// Tasks of one client that take a lock again and again, and count their turns.
struct Busy {
    turns: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Result<(), Error>>>,
}

impl Busy {
    fn start(client: &Client, tasks: usize) -> Self {
        let turns = Arc::new(AtomicU64::new(0));
        let task = |_| {
            let (mutex, turns) = (client.mutex("orders"), Arc::clone(&turns));
            tokio::spawn(async move {
                loop {
                    let guard = mutex.lock().await?;
                    turns.fetch_add(1, Relaxed);
                    time::sleep(Duration::from_millis(5)).await;
                    drop(guard);
                }
            })
        };
        Self { tasks: (0..tasks).map(task).collect(), turns }
    }

    fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }

    async fn end(self) {
        for task in self.tasks {
            task.abort();
            assert!(task.await.is_err(), "it goes on until it is ended");
        }
    }
}
