//! Several programs that end at the same time.

use std::time::Duration;

use bandog_testkit::RedisServer;

use crate::{
    cell::{Cell, Store},
    child::{Child, wait},
    report::Exit,
};

/// How many more times a program is started that could not set its scene up.
const ATTEMPTS: usize = 10;

/// Programs over one store, which is hurt before they end.
pub(crate) struct Batch {
    pub(crate) store: Store,
    pub(crate) cells: Vec<Cell>,
    /// The number of the first.
    pub(crate) first: usize,
}

impl Batch {
    /// Programs that end together over a store that answers. Few, so that they do not measure each other.
    const LIVE: usize = 4;
    /// Programs that end together over a server that is hurt for all of them. They mostly wait.
    const HURT: usize = 16;

    pub(crate) fn size(store: Store) -> usize {
        match store {
            Store::Memory | Store::Sqlite | Store::Redis => Self::LIVE,
            Store::RedisKilled | Store::RedisStopped => Self::HURT,
        }
    }

    /// Plays all of them. `server` is this batch's alone if its store is hurt.
    pub(crate) fn play(&self, url: &str, server: &RedisServer) -> Vec<Exit> {
        let start = |(number, cell): (usize, &Cell)| Child::start(*cell, url, number).expect("a child starts");
        let mut children: Vec<Child> = (self.first..).zip(&self.cells).map(start).collect();
        let mut ready: Vec<bool> = children.iter_mut().map(Child::is_ready).collect();
        // Requests have little time here, so on a loaded machine one may fail before the end begins.
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
            exits.extend(done.into_iter().map(|(child, _)| child.take_down()));
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
