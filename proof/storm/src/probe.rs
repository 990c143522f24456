//! Finds the times in which a server, or the proxies in front of it, did not run because the machine was busy. Without
//! this, the checker would take the effects of a busy machine for errors.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bandog_testkit::{RawRedis, Wire};

use crate::{
    fault::{Fault, FaultKind},
    history::{Nanos, nanos, now},
};

/// Interval between two requests of the probe.
const INTERVAL: Duration = Duration::from_millis(20);
/// An answer that takes longer than this time is recorded.
const SLOW: Duration = Duration::from_millis(200);

/// A thread that sends requests to one server through a proxy of its own, until it is dropped.
#[derive(Debug)]
pub(crate) struct Probe {
    slow: Arc<Mutex<Vec<(Nanos, Nanos)>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Probe {
    /// A probe of a Redis server.
    pub(crate) fn of_redis(wire: Wire) -> Self {
        let (addr, mut server) = (wire.addr(), None);
        Self::start(wire, move || {
            // The server is killed from time to time. Then the next request needs a new connection.
            server = server.take().or_else(|| RawRedis::connect(addr).ok());
            server = server.take().and_then(|mut server: RawRedis| server.cmd(&["PING"]).ok().map(|_| server));
        })
    }

    /// A probe that asks a server this question through this wire. The question returns when it was answered, or refused.
    pub(crate) fn start(wire: Wire, mut question: impl FnMut() + Send + 'static) -> Self {
        let (slow, stop) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicBool>::default());
        let (found, has_ended) = (Arc::clone(&slow), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let _wire = wire;
            while !has_ended.load(Relaxed) {
                let from = now();
                thread::sleep(INTERVAL);
                question();
                let to = now();
                if to - from > nanos(SLOW) {
                    found.lock().unwrap_or_else(PoisonError::into_inner).push((from, to));
                }
            }
        });
        Self { slow, stop, thread: Some(thread) }
    }

    /// The times in which the server did not answer, as faults, except the times in which the nemesis had stopped the
    /// server.
    pub(crate) fn faults(&self, known: &[Fault]) -> Vec<Fault> {
        let stopped = |fault: &&Fault| fault.kind.stops_a_server();
        let slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_known = |from, to| known.iter().filter(stopped).any(|fault| fault.from <= to && from <= fault.to);
        let unknown = slow.into_iter().filter(|(from, to)| !is_known(*from, *to));
        unknown.map(|(from, to)| Fault { kind: FaultKind::Starved, from, to, client: None, name: None }).collect()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
