//! Blocking calls from all kinds of places inside a Tokio runtime. A call that would block other tasks must be refused.

use std::{thread, time::Duration};

use bandog_core::{Error, ErrorKind, Pattern};
use bandog_sync::{Client, blocking};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::{self, LocalSet, coop},
};

use super::{client, held, memory};
use crate::kit::{kind, ms};

fn single() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Makes several blocking calls.
fn works(client: &blocking::Client) -> Result<(), Error> {
    client.ready()?;
    let guard = client.mutex("orders").lock()?;
    client.mutex("orders").try_lock_for(ms(100))?.unwrap().release()?;
    guard.release()
}

/// Checks that a blocking call is refused.
fn refused(client: &blocking::Client) {
    let error = works(client).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains("spawn_blocking"), "{error}");
}

// Promise: B2
#[test]
fn a_task_is_refused() {
    for runtime in [single(), multi()] {
        let client = client(memory());
        let ours = client.clone();
        runtime.block_on(runtime.spawn(async move { refused(&ours) })).unwrap();
        assert_eq!(held(&client), [""; 0]);
    }
}

#[test]
fn the_future_of_block_on_is_refused() {
    let client = client(memory());
    for runtime in [single(), multi()] {
        runtime.block_on(async { refused(&client) });
        LocalSet::new().block_on(&runtime, async { refused(&client) });
        let ours = client.clone();
        let local = LocalSet::new();
        let inside = local.run_until(async move { task::spawn_local(async move { refused(&ours) }).await });
        runtime.block_on(inside).unwrap();
    }
}

/// All blocking calls are refused in async code. If `release` is refused, the lock is released in the background.
// Promise: B2
#[test]
fn every_call_that_waits_is_refused() {
    let client = client(memory());
    let orders = client.mutex("orders");
    let (guard, other) = (orders.lock().unwrap(), client.mutex("stock").lock().unwrap());
    let misused = Some(ErrorKind::Misused);
    single().block_on(async {
        assert_eq!(kind(orders.lock()), misused, "the thread's second call");
        assert_eq!(kind(orders.try_lock()), misused);
        assert_eq!(kind(orders.try_lock_for(ms(5))), misused);
        assert_eq!(kind(orders.run(|_| ())), misused);
        assert_eq!(kind(guard.lost().wait()), misused);
        assert_eq!(kind(guard.release()), misused);
        assert_eq!(kind(client.ready()), misused);
        assert_eq!(kind(client.show("orders")), misused);
        assert_eq!(kind(client.list(Pattern::all())), misused);
        assert_eq!(kind(client.members()), misused);
        assert_eq!(kind(client.evict("stock")), misused);
        assert_eq!(kind(client.check()), misused);
        assert_eq!(kind(client.idle()), misused);
        assert_eq!(kind(client.close()), misused);
    });
    assert_eq!(held(&client), ["stock"]);
    single().block_on(async { drop(other) });
    assert_eq!(held(&client), [""; 0]);
}

/// Tokio limits the number of operations of a task in one poll (its budget). A refused call must not use up that
/// budget. A task that has no budget left is refused as well.
#[test]
fn a_refused_call_does_not_use_up_the_budget() {
    let client = client(memory());
    single().block_on(async {
        for _ in 0..1000 {
            refused(&client);
            assert!(coop::has_budget_remaining());
        }
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        (0..127).for_each(|number| sender.send(number).unwrap());
        for _ in 0..127 {
            receiver.try_recv().unwrap();
            task::consume_budget().await;
        }
        assert!(coop::has_budget_remaining());
        refused(&client);
        std::future::poll_fn(|context| {
            while let std::task::Poll::Ready(taken) = coop::poll_proceed(context) {
                taken.made_progress();
            }
            refused(&client);
            std::task::Poll::Ready(())
        })
        .await;
    });
}

// Promise: B3
#[test]
fn spawn_blocking_works() {
    for runtime in [single(), multi()] {
        let client = client(memory());
        let ours = client.clone();
        runtime.block_on(async { task::spawn_blocking(move || works(&ours)).await }).unwrap().unwrap();
        let inner = client.clone();
        let again = move || Handle::current().block_on(async move { refused(&inner) });
        runtime.block_on(async { task::spawn_blocking(again).await }).unwrap();
    }
}

// Promise: B3
#[test]
fn block_in_place_works() {
    let client = client(memory());
    let runtime = multi();
    let ours = client.clone();
    let in_place = async move {
        refused(&ours);
        task::block_in_place(|| works(&ours)).unwrap();
        refused(&ours);
    };
    runtime.block_on(runtime.spawn(in_place)).unwrap();
    runtime.block_on(async { task::block_in_place(|| works(&client)) }).unwrap();
    task::block_in_place(|| works(&client)).unwrap();
}

// Promise: B3
#[test]
fn a_thread_that_has_entered_a_runtime_works() {
    let client = client(memory());
    for runtime in [single(), multi()] {
        let _entered = runtime.enter();
        works(&client).unwrap();
        let (ours, handle) = (client.clone(), runtime.handle().clone());
        let entered = move || {
            let _entered = handle.enter();
            works(&ours)
        };
        thread::spawn(entered).join().unwrap().unwrap();
    }
}

/// A blocking call in an unconstrained task is not detected. The call blocks the thread, but neither hangs nor panics.
#[test]
fn an_unconstrained_task_blocks_its_thread() {
    let client = client(memory());
    for runtime in [single(), multi()] {
        runtime.block_on(task::unconstrained(async { works(&client) })).unwrap();
        let ours = client.clone();
        runtime.block_on(runtime.spawn(task::unconstrained(async move { works(&ours) }))).unwrap().unwrap();
    }
}

/// A runtime that ends drops the values of its tasks, and their destructors can make blocking calls. At that time, the
/// runtime polls no task.
#[test]
fn a_destructor_at_the_runtimes_end_neither_hangs_nor_panics() {
    struct AtTheEnd(blocking::Client, std::sync::mpsc::Sender<Result<(), Error>>);
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            self.1.send(works(&self.0)).unwrap();
        }
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    for runtime in [single(), multi()] {
        let ends = AtTheEnd(client(memory()), sender.clone());
        let (started, starts) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let _ends = ends;
            started.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        runtime.block_on(starts).unwrap();
        drop(runtime);
        let ended = receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(ended.is_ok() || kind(ended) == Some(ErrorKind::Misused));
    }
}

/// An engine on the user's runtime cannot run while that runtime is blocked. So its client has no blocking calls.
#[test]
fn a_client_on_the_current_runtime_has_no_blocking_calls() {
    let runtime = single();
    let _entered = runtime.enter();
    let client = Client::options().on_current_runtime().over(memory()).unwrap();
    let error = client.blocking().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains("on_current_runtime()"), "{error}");
}
