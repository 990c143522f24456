//! Locks and waiting calls after the end of threads, clients and processes.

use std::{
    cell::RefCell,
    env,
    os::unix::process::ExitStatusExt,
    process::Command,
    sync::{LazyLock, mpsc},
    thread,
    time::Duration,
};

use bandog_core::{Error, ErrorKind};
use bandog_sync::blocking::{Client, Guard};
use bandog_testkit::{Process, eventually};

use super::{client, held, memory};
use crate::kit::kind;

const PATIENCE: Duration = Duration::from_secs(20);

/// Calls its function when it is dropped. A thread-local value is dropped at the end of its thread.
struct Last(Box<dyn FnMut()>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0();
    }
}

thread_local! {
    static KEPT: RefCell<Option<Guard>> = const { RefCell::new(None) };
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

// Promise: B5
#[test]
fn close_wakes_waiting_calls() {
    let client = client(memory());
    let guard = client.mutex("orders").lock().unwrap();
    let waiters: Vec<_> = (0..8)
        .map(|_| {
            let orders = client.mutex("orders");
            thread::spawn(move || kind(orders.lock()))
        })
        .collect();
    client.close().unwrap();
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap(), Some(ErrorKind::Closed));
    }
    assert!(guard.is_lost());
    assert_eq!(kind(guard.release()), Some(ErrorKind::Closed));
    assert_eq!(kind(client.mutex("orders").try_lock()), Some(ErrorKind::Closed));
    assert_eq!(kind(client.ready()), Some(ErrorKind::Closed));
    client.idle().unwrap();
    client.close().unwrap();
}

/// A guard in a thread-local value is dropped when the thread ends, and that releases its lock.
// Promise: B6
#[test]
fn a_guard_in_a_thread_local_is_released_when_the_thread_ends() {
    let client = client(memory());
    let orders = client.mutex("orders");
    thread::spawn(move || KEPT.set(Some(orders.lock().unwrap()))).join().unwrap();
    assert_eq!(held(&client), [""; 0]);
}

/// A thread-local value contains the last handle of a client. So the client ends when the thread ends.
#[test]
fn a_client_in_a_thread_local_ends_with_the_thread() {
    let store = memory();
    let ours = client(store.clone());
    thread::spawn(move || KEPT.set(Some(ours.mutex("orders").lock().unwrap()))).join().unwrap();
    let other = client(store);
    eventually(PATIENCE, || held(&other).is_empty());
}

/// A thread that ends drops its thread-local values, and their destructors can make blocking calls. Such a call works
/// or returns an error. It neither panics nor hangs.
#[test]
fn calls_of_a_threads_destructors_are_answered() {
    let client = client(memory());
    for drops_list_first in [true, false] {
        let (sender, receiver) = mpsc::channel::<Result<(), Error>>();
        let ours = client.clone();
        let lock_at_the_end = move || {
            let locked = ours.mutex("orders").lock().and_then(Guard::release);
            sender.send(locked).unwrap();
        };
        let orders = client.mutex("orders");
        thread::spawn(move || {
            // Thread-local values are dropped in the reverse order of their first use. A `lock` call uses the thread's
            // list of locks.
            if !drops_list_first {
                drop(orders.lock().unwrap());
            }
            LAST.set(Some(Last(Box::new(lock_at_the_end))));
            drop(orders.lock().unwrap());
        })
        .join()
        .unwrap();
        let last = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(last.is_ok() || kind(last) == Some(ErrorKind::Misused));
    }
    assert_eq!(held(&client), [""; 0]);
}

/// A thread that panics releases its locks.
#[test]
fn a_thread_that_panics_releases_its_locks() {
    let client = client(memory());
    let orders = client.mutex("orders");
    let thread = thread::spawn(move || {
        let _guard = orders.lock().unwrap();
        std::panic::resume_unwind(Box::new("as the test wanted"));
    });
    assert!(thread.join().is_err());
    assert_eq!(held(&client), [""; 0]);
}

const CHILD: &str = "BANDOG_BLOCKING_CHILD";
static CLIENT: LazyLock<Client> = LazyLock::new(|| client(memory()));

/// The child process of the next tests. It holds locks whose guards are never dropped, and then returns, exits or
/// waits.
#[test]
fn child() {
    let Ok(how) = env::var(CHILD) else { return };
    Box::leak(Box::new(CLIENT.mutex("forgotten").lock().unwrap()));
    KEPT.set(Some(CLIENT.mutex("kept").lock().unwrap()));
    let waits = thread::spawn(|| drop(CLIENT.mutex("forgotten").lock()));
    eventually(PATIENCE, || CLIENT.list(bandog_core::Pattern::all()).unwrap().len() == 2);
    println!("holds");
    match &*how {
        "exit" => std::process::exit(7),
        "wait" => waits.join().unwrap(),
        _ => {}
    }
}

/// A process can end although statics hold locks and threads wait for locks.
// Promise: B6
#[test]
fn a_process_ends_whatever_it_holds() {
    for (how, code) in [("exit", 7), ("return", 0)] {
        assert_eq!(holder(how).wait(PATIENCE).code(), Some(code), "{how}");
    }
}

/// Bandog installs no signal handler. So an interrupt ends a process that has no handler, even while calls wait.
// Promise: B6
#[test]
fn an_interrupt_ends_a_process_that_waits() {
    let mut process = holder("wait");
    process.int();
    assert_eq!(process.wait(PATIENCE).signal(), Some(2));
}

/// Starts a child process, and waits until it holds its locks.
fn holder(how: &str) -> Process {
    // A shell that runs the tests in the background makes them ignore interrupts, and children inherit this.
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(env::current_exe().unwrap());
    command.args(["--exact", "blocking::ends::child", "--nocapture", "--test-threads=1"]).env(CHILD, how);
    let process = Process::spawn(&command);
    process.stdout_line("holds", PATIENCE);
    process
}
