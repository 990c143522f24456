//! Several programs that end at the same time.

use std::time::Duration;

use bandog_testkit::RedisServer;

use super::{
    cell::{Cell, Store},
    child::{Child, wait},
    report::Exit,
};

/// Maximum number of restarts of a program that does not become ready to end.
const ATTEMPTS: usize = 10;

/// Programs that use the same store and end at the same time. If the kind of the store is `RedisKilled` or
/// `RedisStopped`, the server is killed or stopped before the programs end.
pub(crate) struct Batch {
    pub(crate) store: Store,
    pub(crate) cells: Vec<Cell>,
    /// The number of the first exit in this batch. The other exits of the batch have the following numbers.
    pub(crate) first: usize,
}

impl Batch {
    /// Number of programs in a batch whose store answers. The number is small, so that the programs do not slow each
    /// other down.
    const SIZE_IF_STORE_ANSWERS: usize = 4;
    /// Number of programs in a batch whose server is killed or stopped. The number can be large, because these programs
    /// wait most of the time.
    const SIZE_IF_SERVER_FAILS: usize = 16;

    /// Number of programs in a batch with this kind of store.
    pub(crate) fn size(store: Store) -> usize {
        match store {
            Store::Memory | Store::Sqlite | Store::Redis => Self::SIZE_IF_STORE_ANSWERS,
            Store::RedisKilled | Store::RedisStopped => Self::SIZE_IF_SERVER_FAILS,
        }
    }

    /// Plays all cells. If this batch kills or stops the store, no other batch must use `server` at the same time.
    pub(crate) fn play(&self, url: &str, server: &RedisServer) -> Vec<Exit> {
        let start = |(number, cell): (usize, &Cell)| Child::start(*cell, url, number).expect("a child process starts");
        let mut children: Vec<Child> = (self.first..).zip(&self.cells).map(start).collect();
        let mut ready: Vec<bool> = children.iter_mut().map(Child::is_ready).collect();
        // Requests have a short timeout. So on a loaded machine, a request can fail before the program is ready to end.
        // This loop starts such a program again.
        for (index, numbered) in (self.first..).zip(&self.cells).enumerate() {
            for _ in 0..ATTEMPTS {
                if ready[index] {
                    break;
                }
                children[index] = start(numbered);
                ready[index] = children[index].is_ready();
            }
        }
        match self.store {
            Store::Memory | Store::Sqlite | Store::Redis => {}
            Store::RedisKilled => server.kill(),
            Store::RedisStopped => server.pause(),
        }
        children.iter_mut().zip(ready).filter(|(_, ready)| *ready).for_each(|(child, _)| child.order());
        let mut exits = Vec::with_capacity(children.len());
        // Collects each program when it has ended, or when its time is over.
        while !children.is_empty() {
            let time_left = children.iter().map(Child::left).min().unwrap_or_default();
            let mut files: Vec<_> = children.iter().map(Child::ended).collect();
            wait(&mut files, time_left);
            let ended: Vec<bool> = files.iter().map(|file| !file.revents().is_empty()).collect();
            let (finished, running): (Vec<_>, Vec<_>) =
                children.into_iter().zip(ended).partition(|(child, ended)| *ended || child.left() == Duration::ZERO);
            exits.extend(finished.into_iter().map(|(child, _)| child.into_exit()));
            children = running.into_iter().map(|(child, _)| child).collect();
        }
        match self.store {
            Store::Memory | Store::Sqlite | Store::Redis => {}
            Store::RedisKilled => server.restart(),
            Store::RedisStopped => server.resume(),
        }
        exits
    }
}
