//! The one thread of a handle that touches the database.
//!
//! It takes whatever stands in its queue into one transaction, answers everybody after the commit, and waits for
//! nothing in between. So one caller pays nothing for it, and many share one commit. What must outlive a power failure
//! has transactions of its own.

use std::{mem, path::Path, sync::Arc, thread};

use bandog_core::{Clock, Error, Key, Moment, Result};
use tokio::sync::mpsc;

use crate::{
    fault::Fault,
    handle::Shared,
    lanes::{Lanes, QUEUE},
    neighbours::Poke,
    open::{Durability, Purpose, Store},
    patience,
    queue::Order,
    rescue::Log,
    table::Table,
    watch::Watch,
    work::{Listen, Look, Way},
};

/// Starts the thread, which ends when all senders of its queue are gone and everything in it is answered.
pub(crate) fn start(shared: Arc<Shared>) -> Result<mpsc::Sender<Order>> {
    let (sender, queue) = mpsc::channel(QUEUE);
    let ourselves = sender.downgrade();
    let writer = Writer {
        shared,
        lanes: Lanes::new(queue),
        ourselves,
        store: None,
        used: false,
        in_the_way: None,
        watch: None,
        deaf: false,
        missed: false,
    };
    let thread = thread::Builder::new().name("bandog-sqlite".into()).spawn(|| writer.run());
    thread.map_err(|cause| Error::unavailable("no thread for SQLite can be started").caused_by(cause))?;
    Ok(sender)
}

struct Writer {
    shared: Arc<Shared>,
    lanes: Lanes,
    /// For the listener, which must not keep the thread alive.
    ourselves: mpsc::WeakSender<Order>,
    store: Option<Store>,
    /// Whether anything else than looks was asked for.
    used: bool,
    /// What kept the last requests waiting until their time was over.
    in_the_way: Option<Error>,
    watch: Option<Watch>,
    /// Whether it was told already that the bell cannot be heard.
    deaf: bool,
    /// Whether rings may have been missed: another file may lie there now, where nobody knows that we listen.
    missed: bool,
}

impl Writer {
    fn run(mut self) {
        while let Some(orders) = self.lanes.next() {
            self.serve(orders);
        }
    }

    /// Does all of it in one transaction, or tells each why not. Tries again while other processes are in the way.
    fn serve(&mut self, mut orders: Vec<Order>) {
        while let Some(deadline) = refuse_overdue(&mut orders, self.in_the_way.as_ref()) {
            patience::wait_until(deadline);
            match self.attempt(&mut orders) {
                Ok(()) => {
                    self.in_the_way = None;
                    return orders.into_iter().for_each(|order| order.answer(Ok(())));
                }
                Err(fault) if fault.is_busy() => {
                    self.in_the_way = Some(fault.error(&self.shared.options.path));
                    if is_durable(&orders) {
                        refuse_overdue(&mut orders, self.in_the_way.as_ref());
                        return self.lanes.put_back(orders);
                    }
                    patience::busy(0); // SQLite does not always wait by itself.
                }
                Err(fault) => {
                    // Whatever is wrong with it, a new connection is not worse, but everybody asks again at once after a
                    // reconnection.
                    if !fault.leaves_the_connection() {
                        self.store = None;
                    }
                    let error = fault.error(&self.shared.options.path);
                    return orders.into_iter().for_each(|order| order.answer(Err(error.clone())));
                }
            }
        }
    }

    fn attempt(&mut self, orders: &mut [Order]) -> Result<(), Fault> {
        let store = self.opened(orders)?;
        self.hear(orders);
        let done = self.listen_again(&store).and_then(|()| self.run_on(&store, orders));
        // What was read from deleted files means nothing, and other processes do not see what was written there.
        let stands = store.stands();
        self.store = Some(store);
        match done {
            Ok(Done::Written) if !stands => Err(Fault::Unsure),
            Ok(Done::Read) if !stands => Err(Fault::Moved(None)),
            Ok(Done::Written | Done::Read) => Ok(()),
            Err(Fault::Commit(cause)) => Err(Fault::Commit(cause)),
            Err(_) if !stands => Err(Fault::Moved(None)),
            Err(fault) => Err(fault),
        }
    }

    fn run_on(&mut self, store: &Store, orders: &mut [Order]) -> Result<Done, Fault> {
        let table = || Table::new(store, &self.shared, self.watch.is_some());
        let is_any = |way| orders.iter().any(|order| order.way() == way);
        let is_durable = is_durable(orders);
        if !is_any(Way::Write) {
            // Claims look at one row each, so they need no transaction to see one moment.
            let moment = if is_durable || is_any(Way::Read) { Some(store.reading()?) } else { None };
            match run_all(orders, &mut table()) {
                Err(Fault::MustWrite) => drop(moment),
                done => return done.map(|()| Done::Read),
            }
        }
        let durability = if is_durable { Durability::Power } else { Durability::Process };
        if is_durable {
            patience::wait_never(); // Others are served while it waits.
        }
        let transaction = store.writing(durability)?;
        let begun = Clock::system().now();
        let mut table = table().writing();
        run_all(orders, &mut table)?;
        let rung = table.into_rung();
        // A process that saves a deleted log waits for transactions that write, and copies their commits too. So a commit
        // that passes this check is saved, unless another process opens the database within the moment of the commit.
        if !store.stands() {
            return Err(Fault::Moved(None));
        }
        transaction.commit().map_err(Fault::Commit)?;
        if is_durable {
            self.lanes.rest_after(begun);
        }
        self.ring(&rung);
        Ok(Done::Written)
    }

    /// The open database: the one that we have, if its path still leads to it.
    fn opened(&mut self, orders: &[Order]) -> Result<Store, Fault> {
        let options = &self.shared.options;
        self.used |= orders.iter().any(|order| order.purpose() == Purpose::Use);
        let purpose = if self.used { Purpose::Use } else { Purpose::Look };
        if let Some(store) = self.store.take() {
            if !store.is_at(&options.path) {
                match store.rescue() {
                    Ok(log) => told(&options.path, log),
                    Err(fault) => {
                        self.store = Some(store);
                        return Err(fault);
                    }
                }
            } else if store.serves(purpose) {
                return Ok(store);
            }
        }
        let store = Store::open_poked(options, purpose, Some(self.poke()))?;
        self.shared.seen.clear();
        self.missed = *self.shared.epoch.borrow() > 0;
        self.shared.epoch.send_modify(|epoch| *epoch += 1);
        Ok(store)
    }

    /// Makes this writer check its files.
    fn poke(&self) -> Poke {
        let (ourselves, timeout) = (self.ourselves.clone(), self.shared.options.timeout);
        Arc::new(move || {
            if let Some(queue) = ourselves.upgrade() {
                // If the queue is full, it looks all the same.
                let _ = queue.try_send(Order::new(Look, Clock::system().now() + timeout).0);
            }
        })
    }

    /// Leaves all marks anew and rings everybody, after rings may have been missed.
    fn listen_again(&mut self, store: &Store) -> Result<(), Fault> {
        if self.missed {
            let (order, _) = Order::new(Listen(self.shared.ears.keys()), Clock::system().now());
            self.run_on(store, &mut [order])?;
            self.missed = false;
            self.shared.ears.ring(|_| true);
            self.shared.record_subscribers.ring(|_| true);
        }
        Ok(())
    }

    /// Sees to it that the bell is heard by those who want to, and goes on being heard.
    fn hear(&mut self, orders: &[Order]) {
        let failed = self.watch.as_ref().is_some_and(Watch::has_failed);
        let first = self.watch.is_none() && orders.iter().any(Order::listens);
        if failed || first {
            self.missed |= failed;
            self.watch = self.start_watch();
        }
    }

    fn start_watch(&mut self) -> Option<Watch> {
        let (ourselves, timeout) = (self.ourselves.clone(), self.shared.options.timeout);
        let remark = move |keys| {
            if let Some(queue) = ourselves.upgrade() {
                // If the queue is full, claims of these keys will leave the marks.
                let _ = queue.try_send(Order::new(Listen(keys), Clock::system().now() + timeout).0);
            }
        };
        let Shared { bell, ears, record_subscribers, .. } = &*self.shared;
        match Watch::start(Arc::clone(bell), Arc::clone(ears), Arc::clone(record_subscribers), Box::new(remark)) {
            Ok(watch) => {
                self.deaf = false;
                Some(watch)
            }
            Err(error) => {
                if !mem::replace(&mut self.deaf, true) {
                    tracing::warn!(%error, bell = ?bell.path(), "the bell file cannot be heard; waiters poll");
                }
                None
            }
        }
    }

    fn ring(&self, keys: &[Key]) {
        if keys.is_empty() {
            return;
        }
        if let Err(error) = self.shared.bell.ring(keys, self.shared.host.now()) {
            tracing::warn!(%error, bell = ?self.shared.bell.path(), "the bell file cannot be rung; waiters poll");
        }
    }
}

/// What was done in one attempt.
enum Done {
    Read,
    Written,
}

fn told(database: &Path, log: Log) {
    let database = database.display();
    match log {
        Log::Kept => tracing::warn!(%database, "files beside the database were deleted or replaced while they were in \
            use; nothing is lost, and it is opened again"),
        Log::Lost => tracing::warn!(%database, "the database or files beside it were deleted or replaced while they \
            were in use; it is opened again, and holds may be lost"),
    }
}

/// Answers those whose time is over, and tells when the next one's is. None when nobody is left.
fn refuse_overdue(orders: &mut Vec<Order>, why: Option<&Error>) -> Option<Moment> {
    let now = Clock::system().now();
    if orders.iter().any(|order| order.deadline <= now) {
        let (overdue, rest) = mem::take(orders).into_iter().partition::<Vec<_>, _>(|order| order.deadline <= now);
        *orders = rest;
        let error = why.cloned().unwrap_or_else(|| Error::unavailable("too much was asked before this request"));
        overdue.into_iter().for_each(|order| order.answer(Err(error.clone())));
    }
    orders.iter().map(|order| order.deadline).min()
}

fn is_durable(orders: &[Order]) -> bool {
    orders.iter().any(|order| order.way() == Way::Durable)
}

fn run_all(orders: &mut [Order], table: &mut Table<'_>) -> Result<(), Fault> {
    orders.iter_mut().try_for_each(|order| order.run(table))
}
