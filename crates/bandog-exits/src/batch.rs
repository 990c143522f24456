//! Several programs that end at the same time.

use std::time::Duration;

use bandog_testkit::RedisServer;

use crate::{
    cell::{Cell, Store},
    child::{Child, wait},
    report::Exit,
};

/// Maximum number of further starts of a program that could not prepare its exit.
const ATTEMPTS: usize = 10;

/// Programs over one store. The store may be killed or stopped before they end.
pub(crate) struct Batch {
    pub(crate) store: Store,
    pub(crate) cells: Vec<Cell>,
    /// The number of the first exit.
    pub(crate) first: usize,
}

impl Batch {
    /// Number of programs that end together over a store that answers. It is small, so that they do not slow each other
    /// down.
    const LIVE: usize = 4;
    /// Number of programs that end together over a server that is killed or stopped. Most of the time they wait.
    const HURT: usize = 16;

    pub(crate) fn size(store: Store) -> usize {
        match store {
            Store::Memory | Store::Sqlite | Store::Redis => Self::LIVE,
            Store::RedisKilled | Store::RedisStopped => Self::HURT,
        }
    }

    /// Plays all cells. If the store is killed or stopped, no other batch may use `server`.
    pub(crate) fn play(&self, url: &str, server: &RedisServer) -> Vec<Exit> {
        let start = |(number, cell): (usize, &Cell)| Child::start(*cell, url, number).expect("a child starts");
        let mut children: Vec<Child> = (self.first..).zip(&self.cells).map(start).collect();
        let mut ready: Vec<bool> = children.iter_mut().map(Child::is_ready).collect();
        // The timeout of requests is short, so on a loaded machine one may fail before the order to end.
        for (place, numbered) in (self.first..).zip(&self.cells).enumerate() {
            for _ in 0..ATTEMPTS {
                if ready[place] {
                    break;
                }
                children[place] = start(numbered);
                ready[place] = children[place].is_ready();
            }
        }
        match self.store {
            Store::Memory | Store::Sqlite | Store::Redis => {}
            Store::RedisKilled => server.kill(),
            Store::RedisStopped => server.pause(),
        }
        children.iter_mut().zip(ready).filter(|(_, ready)| *ready).for_each(|(child, _)| child.order());
        let mut exits = Vec::with_capacity(children.len());
        while !children.is_empty() {
            let left = children.iter().map(Child::left).min().unwrap_or_default();
            let mut files: Vec<_> = children.iter().map(Child::ended).collect();
            wait(&mut files, left);
            let ended: Vec<bool> = files.iter().map(|file| !file.revents().is_empty()).collect();
            let (done, rest): (Vec<_>, Vec<_>) =
                children.into_iter().zip(ended).partition(|(child, ended)| *ended || child.left() == Duration::ZERO);
            exits.extend(done.into_iter().map(|(child, _)| child.into_exit()));
            children = rest.into_iter().map(|(child, _)| child).collect();
        }
        match self.store {
            Store::Memory | Store::Sqlite | Store::Redis => {}
            Store::RedisKilled => server.restart(),
            Store::RedisStopped => server.resume(),
        }
        exits
    }
}
