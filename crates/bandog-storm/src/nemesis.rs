//! Who does harm, and undoes it.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use bandog_testkit::{Process, Reply};

use crate::{
    crew::{Crew, Home, now},
    fault::{Fault, Kind},
    house::House,
    plan::{self, NAMES, TTL},
};

/// How long it looks for a worker in the middle of a write.
const HUNT: Duration = Duration::from_millis(500);
/// How long it waits for a worker to notice that files were deleted.
const NOTICED: Duration = Duration::from_secs(5);

/// Harm that is being done.
#[derive(Debug)]
pub(crate) struct Harm {
    kind: Kind,
    from: u64,
    slot: usize,
    client: u32,
    name: usize,
    length: Duration,
}

/// Chooses what harm to do.
#[derive(Debug)]
pub(crate) struct Nemesis {
    kinds: Vec<Kind>,
    random: fastrand::Rng,
}

impl Nemesis {
    pub(crate) fn new(kinds: Vec<Kind>, seed: u64) -> Self {
        Self { kinds, random: fastrand::Rng::with_seed(seed) }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.kinds.is_empty()
    }

    /// How long it rests before it does harm again.
    pub(crate) fn pause(&mut self) -> Duration {
        Duration::from_millis(self.random.u64(200..2_000))
    }

    /// Begins one kind of harm, and sometimes another one to another worker.
    pub(crate) fn begin(&mut self, crew: &mut Crew) -> Vec<Harm> {
        let slot = self.random.usize(..crew.workers.len());
        let mut harms: Vec<_> = self.random.choice(self.kinds.clone()).into_iter().collect();
        if self.random.u8(..10) == 0 && crew.workers.len() > 1 {
            let others: Vec<_> = self.kinds.iter().copied().filter(|kind| kind.is_of_one_client()).collect();
            harms.extend(self.random.choice(others));
        }
        let slots = (slot..).map(|slot| slot % crew.workers.len()).take(harms.len()).collect::<Vec<_>>();
        slots.into_iter().zip(harms).filter_map(|(slot, kind)| self.harm(crew, slot, kind)).collect()
    }

    fn harm(&mut self, crew: &mut Crew, slot: usize, kind: Kind) -> Option<Harm> {
        let clients = crew.lives.len();
        let worker = &crew.workers[slot];
        // A memory's clients all live in one process.
        let client = if matches!(kind, Kind::Lossy | Kind::HoldRequests | Kind::HoldAnswers) {
            u32::try_from(self.random.usize(..clients)).unwrap_or(0)
        } else {
            worker.first
        };
        let harm =
            Harm { kind, from: now(), slot, client, name: self.random.usize(..NAMES), length: self.length(kind) };
        self.apply(crew, &harm).then_some(harm)
    }

    fn length(&mut self, kind: Kind) -> Duration {
        let ttls = match kind {
            Kind::Stop | Kind::StopInWrite => 1.2 + self.random.f64(),
            Kind::Cut | Kind::Kill | Kind::ClientsKilled | Kind::ScriptsFlushed | Kind::ServerEmpty => 0.0,
            Kind::TimeNamespace | Kind::OtherBoot | Kind::KillInWrite => 0.0,
            Kind::Forget | Kind::BellDeleted | Kind::BellReplaced | Kind::LogDeleted | Kind::Evict => 0.0,
            Kind::Slow | Kind::LoseRequests | Kind::LoseAnswers | Kind::Stall | Kind::Refuse => {
                0.2 + 1.5 * self.random.f64()
            }
            Kind::Lossy | Kind::HoldRequests | Kind::HoldAnswers => 0.2 + 1.5 * self.random.f64(),
            Kind::ServerStop | Kind::ServerSleep | Kind::WritesPaused => 0.2 + self.random.f64(),
        };
        TTL.mul_f64(ttls)
    }

    /// Does it; false if it could not be done this time.
    fn apply(&mut self, crew: &mut Crew, harm: &Harm) -> bool {
        let slot = harm.slot;
        let millis = harm.length.as_millis().to_string();
        match harm.kind {
            Kind::Kill => drop(crew.replace(slot, Home::Machine)),
            Kind::TimeNamespace => drop(crew.replace(slot, Home::TimeNamespace(self.random.u64(1..100_000)))),
            Kind::OtherBoot => drop(crew.replace(slot, Home::OtherBoot)),
            Kind::Stop => crew.workers[slot].process.stop(),
            Kind::StopInWrite => return stop_in_write(crew, slot),
            Kind::KillInWrite => {
                if !stop_in_write(crew, slot) {
                    return false;
                }
                crew.replace(slot, Home::Machine);
            }
            Kind::Cut | Kind::Slow | Kind::LoseRequests | Kind::LoseAnswers | Kind::Stall | Kind::Refuse => {
                self.bend(crew, harm);
            }
            Kind::Lossy => order(crew, slot, &format!("lose {} {}", harm.client, self.random.u64(..))),
            Kind::HoldRequests => order(crew, slot, &format!("hold-requests {}", harm.client)),
            Kind::HoldAnswers => order(crew, slot, &format!("hold-answers {}", harm.client)),
            Kind::Forget => order(crew, slot, &format!("forget {}", plan::name(harm.name))),
            Kind::ServerStop => crew.house.server().pause(),
            // It is busy until then, and so is the one who asked.
            Kind::ServerSleep => {
                let asked = crew.house.server().client().send(&[
                    "DEBUG",
                    "SLEEP",
                    &format!("{:.3}", harm.length.as_secs_f64()),
                ]);
                asked.expect("the server takes orders");
            }
            Kind::WritesPaused => {
                assert_eq!(crew.house.server().cmd(&["CLIENT", "PAUSE", &millis, "WRITE"]), Reply::Text("OK".into()));
            }
            Kind::ClientsKilled => crew.house.server().kill_clients(),
            Kind::ScriptsFlushed => crew.house.server().flush_scripts(),
            Kind::ServerEmpty => crew.house.server().restart(),
            Kind::BellDeleted => drop(fs::remove_file(crew.house.bell())),
            Kind::BellReplaced => {
                let (bell, other) = (crew.house.bell(), crew.house.bell().with_extension("other"));
                drop(fs::write(&other, []).and_then(|()| fs::rename(other, bell)));
            }
            Kind::LogDeleted => delete_log(&crew.house.database(), &mut self.random),
            Kind::Evict => unreachable!("workers do that"),
        }
        true
    }

    fn bend(&mut self, crew: &Crew, harm: &Harm) {
        let Some(wire) = &crew.workers[harm.slot].wire else { return };
        match harm.kind {
            Kind::Slow => wire.delay(Duration::from_millis(self.random.u64(5..150))),
            Kind::LoseRequests => wire.drop_requests(true),
            Kind::LoseAnswers => wire.drop_replies(true),
            Kind::Stall => wire.stall(true),
            Kind::Refuse => {
                wire.refuse(true);
                wire.cut();
            }
            _ => wire.cut(),
        }
    }

    /// Undoes it when its time is up, and says what it was.
    pub(crate) fn end(&self, crew: &mut Crew, harm: &Harm) -> Fault {
        let up = Duration::from_nanos(harm.from) + harm.length;
        thread::sleep(up.saturating_sub(Duration::from_nanos(now())));
        match harm.kind {
            Kind::Stop | Kind::StopInWrite => crew.workers[harm.slot].process.cont(),
            Kind::Slow | Kind::LoseRequests | Kind::LoseAnswers | Kind::Stall | Kind::Refuse => {
                if let Some(wire) = &crew.workers[harm.slot].wire {
                    wire.delay(Duration::ZERO);
                    wire.drop_requests(false);
                    wire.drop_replies(false);
                    wire.stall(false);
                    wire.refuse(false);
                }
            }
            Kind::Lossy | Kind::HoldRequests | Kind::HoldAnswers => {
                order(crew, harm.slot, &format!("heal {}", harm.client))
            }
            Kind::ServerStop => crew.house.server().resume(),
            Kind::LogDeleted => await_log(&crew.house.database()),
            Kind::Kill
            | Kind::KillInWrite
            | Kind::TimeNamespace
            | Kind::OtherBoot
            | Kind::Cut
            | Kind::ServerSleep
            | Kind::WritesPaused
            | Kind::ClientsKilled
            | Kind::ScriptsFlushed
            | Kind::ServerEmpty
            | Kind::Forget
            | Kind::BellDeleted
            | Kind::BellReplaced
            | Kind::Evict => {}
        }
        // The clients of a memory all stop together.
        let alone = harm.kind.is_of_one_client() && !(harm.kind == Kind::Stop && matches!(crew.house, House::Memory));
        let client = alone.then_some(harm.client);
        let name = matches!(harm.kind, Kind::Forget | Kind::Evict).then_some(harm.name);
        Fault { kind: harm.kind, from: harm.from, to: now(), client, name }
    }
}

/// Deletes the log of a SQLite database, its index or both.
pub(crate) fn delete_log(database: &Path, random: &mut fastrand::Rng) {
    let endings: &[&str] = match random.u8(..4) {
        0 => &["-wal"],
        1 => &["-shm"],
        _ => &["-wal", "-shm"],
    };
    endings.iter().for_each(|ending| drop(fs::remove_file(beside(database, ending))));
}

/// Waits until somebody has opened the files anew.
pub(crate) fn await_log(database: &Path) {
    let until = Instant::now() + NOTICED;
    while ["-wal", "-shm"].iter().any(|ending| !beside(database, ending).exists()) && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The file beside a SQLite database with this ending.
pub(crate) fn beside(database: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", database.display()))
}

/// Tells a memory's process, and waits until it has obeyed.
fn order(crew: &mut Crew, slot: usize, order: &str) {
    let process = &mut crew.workers[slot].process;
    process.write_line(order);
    process.stdout_line("obeyed", Duration::from_secs(10));
}

fn stop_in_write(crew: &Crew, slot: usize) -> bool {
    hunt(&crew.workers[slot].process, &crew.house.shared_memory())
}

/// Stops a process at a moment at which it has SQLite's write lock. False: it had none for a while, and goes on.
pub(crate) fn hunt(process: &Process, shared_memory: &Path) -> bool {
    let until = Instant::now() + HUNT;
    while Instant::now() < until {
        process.stop();
        if has_write_lock(process.pid(), shared_memory) {
            return true;
        }
        process.cont();
        thread::sleep(Duration::from_micros(300));
    }
    false
}

/// Whether a process has SQLite's write lock, as the kernel's list of locks says.
///
/// A line is `1: POSIX  ADVISORY  WRITE PID MAJOR:MINOR:INODE FIRST LAST`; byte 120 of the `-shm` file is the writer's.
pub(crate) fn has_write_lock(pid: u32, shared_memory: &Path) -> bool {
    let Ok(inode) = fs::metadata(shared_memory).map(|file| file.ino().to_string()) else { return false };
    let Ok(locks) = fs::read_to_string("/proc/locks") else { return false };
    locks.lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, _, _, "WRITE", of, file, first, last] = words[..] else { return false };
        let covers =
            first.parse().is_ok_and(|first: u64| first <= 120) && last.parse().is_ok_and(|last: u64| last >= 120);
        of == pid.to_string() && file.rsplit(':').next() == Some(&inode) && covers
    })
}
