//! The writer thread: the only thread of a handle that accesses the database (`check` has its own connection).
//!
//! The thread combines all queued requests into one transaction, and answers them after the commit. When requests are
//! queued, the thread does not wait for more. So a single caller is not delayed, and many callers still share one
//! commit. Writes that must survive a power failure have separate transactions.

use std::{mem, path::Path, sync::Arc, thread};

use bandog_core::{Clock, Error, Moment, Result};
use tokio::sync::mpsc;

use crate::{
    batches::{Batches, MAX_QUEUED},
    busy_wait,
    context::HandleContext,
    fault::Fault,
    open::{Durability, Purpose, Store},
    other_connections::RequestFileCheck,
    request::Request,
    rescue::RescueOutcome,
    subscribers::Topic,
    table::Table,
    watch::Watch,
    work::{AccessMode, CheckFiles, Subscribe},
};

/// Starts the thread. It ends when all senders of its queue are dropped and all queued requests are answered.
pub(crate) fn start(context: Arc<HandleContext>) -> Result<mpsc::Sender<Request>> {
    let (sender, queue) = mpsc::channel(MAX_QUEUED);
    let own_queue = sender.downgrade();
    let writer = Writer {
        context,
        batches: Batches::new(queue),
        own_queue,
        store: None,
        had_use_request: false,
        blocked_by: None,
        watch: None,
        watch_warned: false,
        may_have_missed: false,
    };
    let thread = thread::Builder::new().name("bandog-sqlite".into()).spawn(|| writer.run());
    thread.map_err(|cause| Error::unavailable("the writer thread of SQLite cannot be started").caused_by(cause))?;
    Ok(sender)
}

struct Writer {
    context: Arc<HandleContext>,
    batches: Batches,
    /// A sender to this thread's queue, for the watch thread and for other connections. It is weak, so that it does not
    /// keep this thread alive.
    own_queue: mpsc::WeakSender<Request>,
    /// The open connection. None if the database is not open.
    store: Option<Store>,
    /// Whether there was a request with [`Purpose::Use`]. After such a request, the database is always opened for this
    /// purpose.
    had_use_request: bool,
    /// The error of the latest attempt, if another process blocked it. Requests whose deadline passes get this error.
    blocked_by: Option<Error>,
    /// The watch of the notification file. None if the file is not watched.
    watch: Option<Watch>,
    /// Whether a warning was logged that the notification file cannot be watched.
    watch_warned: bool,
    /// Whether notifications may have been missed. Either the watch failed, or the database was opened again and may be
    /// another file, which does not contain our waiters' marks.
    may_have_missed: bool,
}

impl Writer {
    fn run(mut self) {
        while let Some(requests) = self.batches.next() {
            self.serve(requests);
        }
    }

    /// Executes all requests in one transaction, and answers them. Retries while other processes block the transaction.
    /// If the transaction fails, answers each request with the error.
    fn serve(&mut self, mut requests: Vec<Request>) {
        while let Some(deadline) = refuse_overdue(&mut requests, self.blocked_by.as_ref()) {
            busy_wait::set_deadline(deadline);
            match self.attempt(&mut requests) {
                Ok(()) => {
                    self.blocked_by = None;
                    return requests.into_iter().for_each(|request| request.answer(Ok(())));
                }
                Err(fault) if fault.is_busy() => {
                    self.blocked_by = Some(fault.error(&self.context.options.path));
                    if is_durable(&requests) {
                        refuse_overdue(&mut requests, self.blocked_by.as_ref());
                        return self.batches.put_back(requests);
                    }
                    busy_wait::handle_busy(0); // SQLite does not call the busy handler in every case.
                }
                Err(fault) => {
                    // After most faults, the connection is dropped, because the next request may succeed with a new
                    // connection. But each new connection makes all clients send requests at the same time. So the
                    // connection is kept if a new connection would not help.
                    if !fault.keeps_the_connection() {
                        self.store = None;
                    }
                    let error = fault.error(&self.context.options.path);
                    return requests.into_iter().for_each(|request| request.answer(Err(error.clone())));
                }
            }
        }
    }

    /// Executes the requests once, on an open connection whose files are in place.
    fn attempt(&mut self, requests: &mut [Request]) -> Result<(), Fault> {
        let store = self.open_store(requests)?;
        self.ensure_watch(requests);
        let result = self.restore_subscriptions(&store).and_then(|()| self.run_on(&store, requests));
        // If the files were deleted or replaced, the data that the requests have read is invalid, and other processes
        // do not see the data that the requests have written.
        let is_in_place = store.is_in_place();
        self.store = Some(store);
        match result {
            Ok(Access::Wrote) if !is_in_place => Err(Fault::ReplacedDuringCommit),
            Ok(Access::OnlyRead) if !is_in_place => Err(Fault::FilesReplaced(None)),
            Ok(Access::Wrote | Access::OnlyRead) => Ok(()),
            Err(Fault::Commit(cause)) => Err(Fault::Commit(cause)),
            Err(_) if !is_in_place => Err(Fault::FilesReplaced(None)),
            Err(fault) => Err(fault),
        }
    }

    /// Executes the requests on this connection. Takes the write lock only if a request has to write.
    fn run_on(&mut self, store: &Store, requests: &mut [Request]) -> Result<Access, Fault> {
        let table = || Table::new(store, &self.context, self.watch.is_some());
        let has_any = |mode| requests.iter().any(|request| request.access_mode() == mode);
        let is_durable = is_durable(requests);
        if !has_any(AccessMode::Write) {
            // A claim reads one row, so claims alone need no transaction for a consistent read.
            let snapshot = if is_durable || has_any(AccessMode::Read) { Some(store.begin_read()?) } else { None };
            match run_all(requests, &mut table()) {
                Err(Fault::MustWrite) => drop(snapshot),
                result => return result.map(|()| Access::OnlyRead),
            }
        }
        let durability = if is_durable { Durability::Power } else { Durability::Process };
        if is_durable {
            // If another process blocks durable writes, they return to their queue and do not wait here. So other
            // requests are served.
            busy_wait::clear_deadline();
        }
        let transaction = store.begin_write(durability)?;
        let begun = Clock::system().now();
        let mut table = table().with_writes();
        run_all(requests, &mut table)?;
        let topics = table.into_topics_to_notify();
        // If the files are deleted after this check, the commit is still saved: a process that saves a deleted log
        // waits for write transactions, and copies their commits, too. The commit is lost only if another process opens
        // the database during the commit.
        if !store.is_in_place() {
            return Err(Fault::FilesReplaced(None));
        }
        transaction.commit().map_err(Fault::Commit)?;
        if is_durable {
            self.batches.pause_after(begun);
        }
        self.notify(&topics);
        Ok(Access::Wrote)
    }

    /// Returns the open connection if the path still leads to its files. Otherwise opens a new connection.
    fn open_store(&mut self, requests: &[Request]) -> Result<Store, Fault> {
        let options = &self.context.options;
        self.had_use_request |= requests.iter().any(|request| request.purpose() == Purpose::Use);
        let purpose = if self.had_use_request { Purpose::Use } else { Purpose::Inspect };
        if let Some(store) = self.store.take() {
            if !store.is_at(&options.path) {
                match store.rescue() {
                    Ok(outcome) => log_rescue(&options.path, outcome),
                    Err(fault) => {
                        self.store = Some(store);
                        return Err(fault);
                    }
                }
            } else {
                store.refresh_version(&options.path)?;
                if store.serves(purpose) {
                    return Ok(store);
                }
            }
        }
        let store = Store::open_shared(options, purpose, Some(self.request_check()))?;
        self.context.sightings.clear();
        self.may_have_missed = *self.context.epoch.borrow() > 0;
        self.context.epoch.send_modify(|epoch| *epoch += 1);
        Ok(store)
    }

    /// A function that other connections call to make this writer check its files.
    fn request_check(&self) -> RequestFileCheck {
        let (own_queue, timeout) = (self.own_queue.clone(), self.context.options.timeout);
        Arc::new(move || {
            if let Some(queue) = own_queue.upgrade() {
                // If the queue is full, the next request checks the files.
                let _ = queue.try_send(Request::new(CheckFiles, Clock::system().now() + timeout).0);
            }
        })
    }

    /// If notifications may have been missed, sets all waiters' marks again and notifies all subscribers.
    fn restore_subscriptions(&mut self, store: &Store) -> Result<(), Fault> {
        if self.may_have_missed {
            let (request, _) = Request::new(Subscribe(self.context.lock_subscribers.topics()), Clock::system().now());
            self.run_on(store, &mut [request])?;
            self.may_have_missed = false;
            self.context.lock_subscribers.notify(|_| true);
            self.context.record_subscribers.notify(|_| true);
        }
        Ok(())
    }

    /// Starts the watch if a request needs it, and restarts it after a failure.
    fn ensure_watch(&mut self, requests: &[Request]) {
        let has_failed = self.watch.as_ref().is_some_and(Watch::has_failed);
        let is_first = self.watch.is_none() && requests.iter().any(Request::needs_watch);
        if has_failed || is_first {
            self.may_have_missed |= has_failed;
            self.watch = self.start_watch();
        }
    }

    /// Starts the watch. If this fails, logs a warning once, and returns None.
    fn start_watch(&mut self) -> Option<Watch> {
        let (own_queue, timeout) = (self.own_queue.clone(), self.context.options.timeout);
        let restore_marks = move |topics| {
            if let Some(queue) = own_queue.upgrade() {
                // If the queue is full, the marks are set by the next claims of these locks.
                let _ = queue.try_send(Request::new(Subscribe(topics), Clock::system().now() + timeout).0);
            }
        };
        let HandleContext { notification_file, lock_subscribers, record_subscribers, .. } = &*self.context;
        let (file, locks, records) =
            (Arc::clone(notification_file), Arc::clone(lock_subscribers), Arc::clone(record_subscribers));
        match Watch::start(file, locks, records, Box::new(restore_marks)) {
            Ok(watch) => {
                self.watch_warned = false;
                Some(watch)
            }
            Err(error) => {
                if !mem::replace(&mut self.watch_warned, true) {
                    let file = notification_file.path();
                    tracing::warn!(%error, ?file, "the notification file cannot be watched; waiters poll");
                }
                None
            }
        }
    }

    /// Writes notifications of these topics to the notification file.
    fn notify(&self, topics: &[Topic]) {
        if topics.is_empty() {
            return;
        }
        let file = &self.context.notification_file;
        if let Err(error) = file.notify(topics, self.context.host.now_ns()) {
            tracing::warn!(%error, file = ?file.path(), "the notification file cannot be written; waiters poll");
        }
    }
}

/// Whether an attempt has written to the database.
enum Access {
    OnlyRead,
    Wrote,
}

fn log_rescue(database: &Path, outcome: RescueOutcome) {
    let database = database.display();
    match outcome {
        RescueOutcome::Saved => {
            tracing::warn!(%database, "files beside the database were deleted, replaced or truncated \
            while they were in use; all changes that the log has are in the database, and the database is opened again")
        }
        RescueOutcome::Lost => tracing::warn!(%database, "the database or files beside it were deleted or replaced \
            while they were in use; it is opened again, and holds may be lost"),
    }
}

/// Answers each request whose deadline has passed with an error. The error is `reason`, if there is a reason. Returns
/// the earliest deadline of the remaining requests. None if no request remains.
fn refuse_overdue(requests: &mut Vec<Request>, reason: Option<&Error>) -> Option<Moment> {
    let now = Clock::system().now();
    if requests.iter().any(|request| request.deadline <= now) {
        let (overdue, rest) = mem::take(requests).into_iter().partition::<Vec<_>, _>(|request| request.deadline <= now);
        *requests = rest;
        let error = reason
            .cloned()
            .unwrap_or_else(|| Error::unavailable("earlier requests took too long, so this request was not executed"));
        overdue.into_iter().for_each(|request| request.answer(Err(error.clone())));
    }
    requests.iter().map(|request| request.deadline).min()
}

/// Whether the requests are durable writes.
fn is_durable(requests: &[Request]) -> bool {
    requests.iter().any(|request| request.access_mode() == AccessMode::DurableWrite)
}

/// Executes all requests in the transaction of this table.
fn run_all(requests: &mut [Request], table: &mut Table<'_>) -> Result<(), Fault> {
    requests.iter_mut().try_for_each(|request| request.run(table))
}
