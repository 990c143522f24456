//! The nemesis: it injects faults into workers and stores, and removes the faults.

use std::{collections::BTreeSet, fs, num::NonZeroU64, sync::Arc, thread, time::Duration};

use bandog_testkit::{Reply, ServerClock, Wire};

use crate::{
    fault::{Fault, FaultKind},
    history::{Nanos, nanos, now},
    plan::{self, NAMES, TTL},
    sqlite_files::{await_log, delete_log, stop_while_writing},
    test_store::TestStore,
    worker_pool::{Home, WorkerPool},
};

/// Maximum time until a promotion that the nemesis has not caused is known to all sentinels and nodes.
const KNOWN_WITHIN: Duration = Duration::from_secs(3);
/// The shortest and the longest outage, in milliseconds, and the longest of a run with long outages: stores remember
/// operations for 15 s and for 60 s.
const OUTAGES: [u64; 3] = [1_000, 4_000, 65_000];
/// The rates of narrow wires, in Mbit/s.
const MEGABITS: [u64; 7] = [1, 2, 5, 10, 20, 50, 100];
/// A Mbit/s, in bytes per second.
const MEGABIT: u64 = 125_000;
/// Maximum delay of narrow wires each way, in milliseconds.
const FAR: u64 = 100;
/// Maximum time by which the clock of a server is set back, in milliseconds.
const FURTHEST_BACK: u64 = 3_000;
/// Commands of objects, one of which the fault `RightMissing` forbids.
const RIGHTS: [&str; 12] =
    ["evalsha", "hdel", "hget", "hset", "incrby", "lpop", "pexpire", "rpush", "sadd", "set", "zadd", "zrem"];

/// A fault that has begun and is not removed yet.
#[derive(Debug)]
pub(crate) struct Harm {
    kind: FaultKind,
    /// A time shortly before the fault began, in nanoseconds.
    from: u64,
    /// The index of the affected worker in the pool.
    slot: usize,
    /// The affected client, if the fault affects only one client.
    client: u32,
    /// The number of the affected server or wire, if the fault affects only one.
    victim: usize,
    /// The affected lock name, if the fault affects only one name.
    name: usize,
    /// Duration of the fault.
    length: Duration,
}

/// The traffic that the faults disturb.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// The ttl or the lease of the clients: faults of one client last for a multiple of it.
    pub(crate) ttl: Duration,
    /// The least and the greatest duration of the stop of a worker, as multiples of `ttl`.
    pub(crate) stops: (f64, f64),
    /// Maximum time until another worker replaces one that was killed or dismissed.
    pub(crate) replaces_within: Duration,
    /// The faults of other workers that can begin shortly before the store is emptied.
    pub(crate) before_empty: &'static [FaultKind],
    /// Whether some outages are longer than the time for which stores remember operations.
    pub(crate) has_long_outages: bool,
    /// The table that the fault `TableLocked` locks.
    pub(crate) table: &'static str,
}

impl Target {
    /// Traffic on locks.
    pub(crate) const LOCKS: Self = Self {
        ttl: TTL,
        stops: (1.2, 2.2),
        replaces_within: Duration::ZERO,
        before_empty: &[],
        has_long_outages: false,
        table: "bandog_lease",
    };
}

/// Chooses, injects and removes faults.
#[derive(Debug)]
pub(crate) struct Nemesis {
    kinds: Vec<FaultKind>,
    target: Target,
    random: fastrand::Rng,
    /// The ports of the masters that are expected, and the time at which they were last seen.
    masters: (BTreeSet<u16>, Nanos),
    /// The clock of the servers, if it can be set.
    clock: Option<Arc<ServerClock>>,
    /// Servers that do not work although the faults are removed.
    pub(crate) broken: Vec<String>,
}

impl Nemesis {
    pub(crate) fn new(
        kinds: Vec<FaultKind>,
        seed: u64,
        target: Target,
        store: &TestStore,
        clock: Option<Arc<ServerClock>>,
    ) -> Self {
        let masters = (store.masters().unwrap_or_default(), now());
        Self { kinds, target, random: fastrand::Rng::with_seed(seed), masters, clock, broken: Vec::new() }
    }

    /// Whether there are no faults to inject.
    pub(crate) fn is_idle(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The longest time for which no client reaches the store.
    pub(crate) fn longest_outage(&self) -> Duration {
        let [_, most, longest] = OUTAGES;
        let has_outages = self.kinds.contains(&FaultKind::Outage);
        Duration::from_millis(match self.target.has_long_outages {
            _ if !has_outages => 0,
            true => longest,
            false => most,
        })
    }

    /// Pause before the next fault.
    pub(crate) fn pause(&mut self) -> Duration {
        Duration::from_millis(self.random.u64(200..2_000))
    }

    /// Begins one fault on one worker, and sometimes a second fault on another worker.
    pub(crate) fn begin(&mut self, pool: &mut WorkerPool) -> Vec<Harm> {
        let slot = self.random.usize(..pool.workers.len());
        let mut kinds: Vec<_> = self.random.choice(self.kinds.clone()).into_iter().collect();
        if self.random.u8(..10) == 0 && pool.workers.len() > 1 {
            let others: Vec<_> = self.kinds.iter().copied().filter(|kind| kind.is_of_one_client()).collect();
            kinds.extend(self.random.choice(others));
        }
        if kinds == [FaultKind::NodeEmpty] && self.random.u8(..4) > 0 {
            let wires = [FaultKind::LoseRequests, FaultKind::Stall, FaultKind::Refuse];
            let wires = wires.into_iter().filter(|kind| self.kinds.contains(kind)).collect::<Vec<_>>();
            kinds.splice(..0, self.random.choice(wires));
        }
        if kinds == [FaultKind::Flushed] && !self.target.before_empty.is_empty() {
            let before = self.random.usize(..=self.target.before_empty.len());
            kinds.splice(..0, self.target.before_empty[..before].iter().copied());
        }
        let mut harms: Vec<Harm> = Vec::new();
        for (index, kind) in kinds.into_iter().enumerate() {
            if matches!(kind, FaultKind::NodeEmpty | FaultKind::Flushed) && index > 0 {
                // In this time, the client gets locks that only the other servers of the quorum have, or others continue
                // what a stopped client has.
                thread::sleep(Duration::from_millis(self.random.u64(50..400)));
            }
            harms.extend(self.harm(pool, (slot + index) % pool.workers.len(), kind));
        }
        // The end of a fault of servers can take seconds.
        harms.sort_by_key(|harm| !harm.kind.is_of_one_client());
        harms
    }

    /// Chooses the parameters of a fault, and injects the fault. `None` if the fault was not possible.
    fn harm(&mut self, pool: &mut WorkerPool, slot: usize, kind: FaultKind) -> Option<Harm> {
        let clients = pool.lives.len();
        let worker = &pool.workers[slot];
        // These faults exist only for memory stores, whose clients are all in one process. So any client can be chosen.
        let client = if matches!(
            kind,
            FaultKind::Lossy | FaultKind::HoldRequests | FaultKind::HoldAnswers | FaultKind::RuntimeEnded
        ) {
            u32::try_from(self.random.usize(..clients)).unwrap_or(0)
        } else {
            worker.first
        };
        let victim = match worker.wires.len() {
            wires if kind.is_of_one_client() => self.random.usize(..wires.max(1)),
            _ => pool.store.victim(kind, &mut self.random),
        };
        let (name, length) = (self.random.usize(..NAMES), self.length(kind));
        let mut harm = Harm { kind, from: now(), slot, client, victim, name, length };
        if !self.apply(pool, &harm) {
            return None;
        }
        if kind == FaultKind::Stop && pool.has_write_lock(slot) {
            harm.kind = FaultKind::StopInWrite;
        }
        Some(harm)
    }

    /// Random duration of a fault.
    fn length(&mut self, kind: FaultKind) -> Duration {
        let Target { ttl, stops: (least, greatest), replaces_within, .. } = self.target;
        // The duration as a multiple of the ttl.
        let ttls = match kind {
            FaultKind::Outage | FaultKind::Overtaken => {
                let [least, most, longest] = OUTAGES;
                let is_long = self.target.has_long_outages && self.random.u8(..3) == 0;
                return Duration::from_millis(self.random.u64(least..if is_long { longest } else { most }));
            }
            FaultKind::SmallPackets => return Duration::from_millis(self.random.u64(200..4_000)),
            FaultKind::Stop | FaultKind::StopInWrite => least + (greatest - least) * self.random.f64(),
            FaultKind::Kill | FaultKind::KillInWrite | FaultKind::Dismissed if !replaces_within.is_zero() => {
                return replaces_within.mul_f64(self.random.f64());
            }
            FaultKind::Cut
            | FaultKind::Kill
            | FaultKind::Dismissed
            | FaultKind::ClientsKilled
            | FaultKind::ScriptsFlushed
            | FaultKind::ServerEmpty
            | FaultKind::ServerKilled
            | FaultKind::Flushed
            | FaultKind::ClockSetBack
            | FaultKind::RuntimeEnded => 0.0,
            FaultKind::TimeNamespace | FaultKind::OtherBoot | FaultKind::KillInWrite => 0.0,
            // These last until another server has taken over, or until the server has a vote.
            FaultKind::MasterKilled
            | FaultKind::MasterStopped
            | FaultKind::Failover
            | FaultKind::HandedOver
            | FaultKind::Promoted
            | FaultKind::NodeEmpty
            | FaultKind::SlotsMoved => 0.0,
            FaultKind::Forget
            | FaultKind::NotificationFileDeleted
            | FaultKind::NotificationFileReplaced
            | FaultKind::LogDeleted
            | FaultKind::Evict
            | FaultKind::Starved => 0.0,
            FaultKind::Slow
            | FaultKind::LoseRequests
            | FaultKind::LoseAnswers
            | FaultKind::Stall
            | FaultKind::Refuse => 0.2 + 1.5 * self.random.f64(),
            FaultKind::Narrow => 0.5 + 4.0 * self.random.f64(),
            FaultKind::Lossy | FaultKind::HoldRequests | FaultKind::HoldAnswers => 0.2 + 1.5 * self.random.f64(),
            FaultKind::ServerStop | FaultKind::ServerSleep | FaultKind::WritesPaused | FaultKind::TableLocked => {
                0.2 + self.random.f64()
            }
            FaultKind::SentinelKilled | FaultKind::SentinelStopped => 0.2 + 1.5 * self.random.f64(),
            FaultKind::Full | FaultKind::RightMissing => 0.2 + 1.5 * self.random.f64(),
        };
        // A server must not be stopped for so long that another one takes over.
        let ttl = if kind.is_of_one_client() { ttl } else { TTL };
        ttl.mul_f64(ttls)
    }

    /// Injects the fault. Returns false if the fault was not possible.
    fn apply(&mut self, pool: &mut WorkerPool, harm: &Harm) -> bool {
        let slot = harm.slot;
        let millis = harm.length.as_millis().to_string();
        match harm.kind {
            FaultKind::Kill | FaultKind::TimeNamespace | FaultKind::OtherBoot => pool.kill(slot),
            FaultKind::Dismissed => pool.dismiss(slot),
            FaultKind::Stop => pool.workers[slot].process.stop(),
            FaultKind::StopInWrite => return stop_in_write(pool, slot),
            FaultKind::KillInWrite => {
                if !stop_in_write(pool, slot) {
                    return false;
                }
                pool.kill(slot);
            }
            FaultKind::Cut
            | FaultKind::Slow
            | FaultKind::LoseRequests
            | FaultKind::LoseAnswers
            | FaultKind::Stall
            | FaultKind::Refuse
            | FaultKind::Overtaken
            | FaultKind::Narrow => {
                let Some(wire) = pool.workers[slot].wires.get(harm.victim) else { return true };
                self.disturb_wire(wire, harm.kind);
            }
            FaultKind::Outage => return self.begin_outage(pool, harm),
            FaultKind::SmallPackets => {
                pool.store.limit_packets(true);
                if self.random.bool() {
                    // Sessions keep the limit that they had at their begin.
                    pool.store.kill_clients(harm.victim);
                }
            }
            FaultKind::ClockSetBack => {
                let by = Duration::from_millis(self.random.u64(1..FURTHEST_BACK));
                return self.clock.as_ref().is_some_and(|clock| clock.set_back(by).is_ok());
            }
            FaultKind::Lossy => order(pool, slot, &format!("lose {} {}", harm.client, self.random.u64(..))),
            FaultKind::HoldRequests => order(pool, slot, &format!("hold-requests {}", harm.client)),
            FaultKind::HoldAnswers => order(pool, slot, &format!("hold-answers {}", harm.client)),
            FaultKind::Forget => order(pool, slot, &format!("forget {}", plan::name(harm.name))),
            FaultKind::ServerStop => pool.store.pause(harm.victim),
            // The server answers after the sleep. This code does not wait for the answer.
            FaultKind::ServerSleep => {
                let sent = pool.store.server(harm.victim).client().send(&[
                    "DEBUG",
                    "SLEEP",
                    &format!("{:.3}", harm.length.as_secs_f64()),
                ]);
                sent.expect("the command can be sent to the server");
            }
            FaultKind::WritesPaused => {
                let reply = pool.store.server(harm.victim).cmd(&["CLIENT", "PAUSE", &millis, "WRITE"]);
                assert_eq!(reply, Reply::Text("OK".into()));
            }
            FaultKind::ClientsKilled => pool.store.kill_clients(harm.victim),
            FaultKind::ScriptsFlushed => pool.store.server(harm.victim).flush_scripts(),
            FaultKind::ServerEmpty | FaultKind::NodeEmpty => pool.store.server(harm.victim).restart(),
            FaultKind::ServerKilled => pool.store.kill_and_restart(),
            FaultKind::Flushed => return pool.store.server(harm.victim).try_cmd(&["FLUSHALL"]).is_ok(),
            FaultKind::Full => set_memory(pool, harm.victim, "1"),
            FaultKind::RightMissing => {
                let right = format!("-{}", self.random.choice(RIGHTS).unwrap_or("set"));
                return change_rights(pool, harm.victim, &right);
            }
            FaultKind::RuntimeEnded => order(pool, slot, &format!("end {}", harm.client)),
            FaultKind::TableLocked => return pool.store.lock_table(self.target.table, harm.length),
            FaultKind::MasterKilled
            | FaultKind::MasterStopped
            | FaultKind::Failover
            | FaultKind::HandedOver
            | FaultKind::SentinelKilled
            | FaultKind::SentinelStopped
            | FaultKind::SlotsMoved => pool.store.begin(harm.kind, harm.victim, &mut self.random),
            FaultKind::NotificationFileDeleted => drop(fs::remove_file(pool.store.notification_file())),
            FaultKind::NotificationFileReplaced => {
                let (file, other) =
                    (pool.store.notification_file(), pool.store.notification_file().with_extension("other"));
                drop(fs::write(&other, []).and_then(|()| fs::rename(other, file)));
            }
            FaultKind::LogDeleted => delete_log(&pool.store.database(), &mut self.random),
            FaultKind::Evict | FaultKind::Starved | FaultKind::Promoted => {
                unreachable!("the nemesis does not cause this fault")
            }
        }
        true
    }

    /// Injects a fault into a wire.
    fn disturb_wire(&mut self, wire: &Wire, kind: FaultKind) {
        match kind {
            FaultKind::Slow => wire.delay(Duration::from_millis(self.random.u64(5..150))),
            FaultKind::LoseRequests => wire.drop_requests(true),
            FaultKind::LoseAnswers => wire.drop_replies(true),
            FaultKind::Stall => wire.stall(true),
            FaultKind::Overtaken => wire.stall_open(true),
            FaultKind::Refuse => {
                wire.refuse(true);
                wire.cut();
            }
            FaultKind::Narrow => {
                let megabits = self.random.choice(MEGABITS).unwrap_or(MEGABITS[0]);
                wire.rate(NonZeroU64::new(megabits * MEGABIT));
                if self.random.bool() {
                    wire.delay(Duration::from_millis(self.random.u64(..=FAR)));
                }
            }
            _ => wire.cut(),
        }
    }

    /// No client reaches the store. Returns false if that was not possible.
    fn begin_outage(&mut self, pool: &mut WorkerPool, harm: &Harm) -> bool {
        match pool.store {
            TestStore::Memory => {
                for client in 0..pool.size.clients {
                    let held = if self.random.bool() { "hold-requests" } else { "hold-answers" };
                    order(pool, harm.slot, &format!("{held} {client}"));
                }
                true
            }
            TestStore::Sqlite(_) => pool.store.lock_table(self.target.table, harm.length),
            _ => {
                let kinds = [FaultKind::LoseRequests, FaultKind::LoseAnswers, FaultKind::Stall, FaultKind::Refuse];
                for wire in pool.workers.iter().flat_map(|worker| &worker.wires) {
                    let kind = self.random.choice(kinds).unwrap_or(FaultKind::Stall);
                    self.disturb_wire(wire, kind);
                }
                true
            }
        }
    }

    /// Waits until the duration of the fault is over, and removes the fault.
    pub(crate) fn end(&mut self, pool: &mut WorkerPool, harm: &Harm) -> Fault {
        let end = Duration::from_nanos(harm.from) + harm.length;
        thread::sleep(end.saturating_sub(Duration::from_nanos(now())));
        match harm.kind {
            FaultKind::Stop | FaultKind::StopInWrite => pool.workers[harm.slot].process.cont(),
            FaultKind::Kill | FaultKind::KillInWrite | FaultKind::Dismissed => pool.replace(harm.slot, Home::Machine),
            FaultKind::TimeNamespace => pool.replace(harm.slot, Home::TimeNamespace(self.random.u64(1..100_000))),
            FaultKind::OtherBoot => pool.replace(harm.slot, Home::OtherBoot),
            FaultKind::Slow
            | FaultKind::LoseRequests
            | FaultKind::LoseAnswers
            | FaultKind::Stall
            | FaultKind::Refuse
            | FaultKind::Overtaken
            | FaultKind::Narrow => {
                pool.workers[harm.slot].wires.get(harm.victim).inspect(|wire| heal(wire));
            }
            FaultKind::Outage => match pool.store {
                TestStore::Memory => {
                    for client in 0..pool.size.clients {
                        order(pool, harm.slot, &format!("heal {client}"));
                    }
                }
                _ => pool.workers.iter().flat_map(|worker| &worker.wires).for_each(heal),
            },
            FaultKind::SmallPackets => pool.store.limit_packets(false),
            FaultKind::Lossy | FaultKind::HoldRequests | FaultKind::HoldAnswers => {
                order(pool, harm.slot, &format!("heal {}", harm.client))
            }
            FaultKind::ServerStop => pool.store.resume(harm.victim),
            FaultKind::MasterKilled
            | FaultKind::MasterStopped
            | FaultKind::Failover
            | FaultKind::HandedOver
            | FaultKind::SentinelKilled
            | FaultKind::SentinelStopped
            | FaultKind::SlotsMoved => self.broken.extend(pool.store.end(harm.kind, harm.victim).err()),
            FaultKind::LogDeleted => await_log(&pool.store.database()),
            FaultKind::Full => set_memory(pool, harm.victim, "0"),
            FaultKind::RightMissing => drop(change_rights(pool, harm.victim, "+@all")),
            FaultKind::Flushed
            | FaultKind::ClockSetBack
            | FaultKind::RuntimeEnded
            | FaultKind::Cut
            | FaultKind::ServerSleep
            | FaultKind::WritesPaused
            | FaultKind::ClientsKilled
            | FaultKind::ScriptsFlushed
            | FaultKind::ServerEmpty
            | FaultKind::ServerKilled
            | FaultKind::TableLocked
            | FaultKind::NodeEmpty
            | FaultKind::Forget
            | FaultKind::NotificationFileDeleted
            | FaultKind::NotificationFileReplaced
            | FaultKind::Promoted
            | FaultKind::Evict
            | FaultKind::Starved => {}
        }
        if !harm.kind.is_of_one_client() {
            self.broken.extend(pool.store.repaired().err());
        }
        if harm.kind.promotes() {
            self.masters = (pool.store.masters().unwrap_or_default(), now());
        }
        // All clients of a memory store are in one process, so the fault `Stop` affects all of them.
        let affects_one_client =
            harm.kind.is_of_one_client() && !(harm.kind == FaultKind::Stop && matches!(pool.store, TestStore::Memory));
        let client = affects_one_client.then_some(harm.client);
        let name = matches!(harm.kind, FaultKind::Forget | FaultKind::Evict).then_some(harm.name);
        Fault { kind: harm.kind, from: harm.from, to: now(), client, name }
    }

    /// If a replica has taken over although no fault has replaced a master, waits until all servers work, and returns this
    /// as a fault.
    pub(crate) fn promotion(&mut self, store: &TestStore) -> Option<Fault> {
        let masters = store.masters()?;
        let seen = std::mem::replace(&mut self.masters.1, now());
        if masters == self.masters.0 {
            return None;
        }
        self.broken.extend(store.repaired().err());
        self.masters = (store.masters()?, now());
        let from = seen.saturating_sub(nanos(KNOWN_WITHIN));
        Some(Fault { kind: FaultKind::Promoted, from, to: now(), client: None, name: None })
    }
}

/// Removes all faults of a wire.
fn heal(wire: &Wire) {
    wire.delay(Duration::ZERO);
    wire.rate(None);
    wire.drop_requests(false);
    wire.drop_replies(false);
    wire.stall(false);
    wire.stall_open(false);
    wire.refuse(false);
}

/// Sets the memory limit of a server: 0 is none.
fn set_memory(pool: &WorkerPool, server: usize, bytes: &str) {
    let set = pool.store.server(server).cmd(&["CONFIG", "SET", "maxmemory", bytes]);
    assert_eq!(set, Reply::Text("OK".into()));
}

/// Gives a right to the clients of a server, or takes it away. Returns whether the server has done so.
fn change_rights(pool: &WorkerPool, server: usize, right: &str) -> bool {
    pool.store.server(server).cmd(&["ACL", "SETUSER", "default", right]) == Reply::Text("OK".into())
}

/// Sends an order to the process of a memory store, and waits until the process has executed the order.
fn order(pool: &mut WorkerPool, slot: usize, order: &str) {
    let process = &mut pool.workers[slot].process;
    process.write_line(order);
    process.stdout_line("obeyed", Duration::from_secs(10));
}

/// Stops a worker at a moment when it has SQLite's write lock. Returns false if no such moment was found.
fn stop_in_write(pool: &WorkerPool, slot: usize) -> bool {
    stop_while_writing(&pool.workers[slot].process, &pool.store.shared_memory())
}
