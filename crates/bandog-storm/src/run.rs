//! One run on one store: traffic and faults, then peace, then judgement.

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use bandog::ConnectOptions;

use crate::{
    args::{Args, Profile, StoreKind},
    check::{self, History},
    crew::{Crew, Home, Size, can, now},
    fault::{Fault, Kind},
    history::{Files, Log},
    house::House,
    nemesis::Nemesis,
    plan::{NAMES, TIMEOUT},
    report::Summary,
    sweep,
};

/// How long everybody may take to end when all is well again: several long sections one after the other.
const PEACE: Duration = Duration::from_secs(20);
/// So long at most nobody finishes a call, whatever is done to them; then the run ends.
const STUCK: Duration = Duration::from_secs(30);
/// How often the progress is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Runs, checks, and tells.
///
/// # Errors
/// When the history cannot be written or read.
pub(crate) fn run(store: StoreKind, seed: u64, args: &Args) -> io::Result<Summary> {
    let start = Instant::now();
    let (dir, keep) = directory(store, args)?;
    let files = Files::in_dir(&dir);
    let house = House::open(store, &dir);
    let kinds = kinds(store, args.profile, &files);
    let evicts = matches!(args.profile, Profile::Server | Profile::Everything);
    let mut crew = Crew::start(house, files.clone(), Size::of(store), seed, evicts);
    let mut nemesis = Nemesis::new(kinds, seed);
    let mut wrong = Vec::new();
    let faults = storm(&mut crew, &mut nemesis, args.ops, store, &mut wrong);
    let traffic = start.elapsed();
    let log = Log::open(&files.faults())?;
    faults.iter().for_each(|fault| log.write(fault));
    let peace = peace(&mut crew, &mut wrong);
    let end = now();
    let history = History::read(&files, &crew.lives, NAMES, faults, end)?;
    let findings = check::check(&history);
    let mut summary = Summary::new(store, seed, args, &history, findings, wrong);
    (summary.traffic, summary.peace) = (traffic, peace);
    drop(crew);
    if keep || !summary.is_well() {
        summary.kept = Some(dir);
    } else {
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(summary)
}

/// A directory of this run's own, and whether it is to be kept.
fn directory(store: StoreKind, args: &Args) -> io::Result<(PathBuf, bool)> {
    match &args.keep {
        Some(keep) => {
            std::fs::create_dir_all(keep)?;
            let dir = tempfile::Builder::new().prefix(&format!("{store}-")).tempdir_in(keep)?;
            Ok((dir.keep(), true))
        }
        None => {
            let mut dir = tempfile::Builder::new();
            let dir = dir.prefix("bandog-storm-");
            // In memory, if that can be had: a busy disk would stop everybody at once.
            let dir = dir.tempdir_in("/dev/shm").or_else(|_| dir.tempdir())?;
            Ok((dir.keep(), false))
        }
    }
}

/// The faults that can be had here; what cannot be had is told.
fn kinds(store: StoreKind, profile: Profile, files: &Files) -> Vec<Kind> {
    let mut kinds = Kind::of(store, profile);
    kinds.retain(|kind| {
        let home = match kind {
            Kind::TimeNamespace => Home::TimeNamespace(1),
            Kind::OtherBoot => Home::OtherBoot,
            _ => return true,
        };
        let can = can(home, files);
        if !can {
            eprintln!("left out: {}, since this user may not do that with unshare", kind.word());
        }
        can
    });
    if kinds.is_empty() && profile != Profile::Calm {
        eprintln!("{store} has no faults of the profile {profile}");
    }
    kinds
}

/// Traffic and faults, until so many calls have been made.
fn storm(crew: &mut Crew, nemesis: &mut Nemesis, ops: u64, store: StoreKind, wrong: &mut Vec<String>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut progress = Progress::new(store, ops);
    let (mut done, mut since) = (0, Instant::now());
    while crew.done() < ops && wrong.is_empty() {
        let until = Instant::now() + nemesis.pause();
        while Instant::now() < until && crew.done() < ops {
            thread::sleep(LOOK);
            progress.show(crew.done(), faults.len());
        }
        if !nemesis.is_idle() {
            let harms = nemesis.begin(crew);
            faults.extend(harms.iter().map(|harm| nemesis.end(crew, harm)).collect::<Vec<_>>());
        }
        wrong.extend(crew.dead());
        if crew.done() > done {
            (done, since) = (crew.done(), Instant::now());
        } else if since.elapsed() > STUCK {
            wrong.push(format!("nobody has finished a call for {STUCK:?}"));
        }
    }
    progress.end();
    faults
}

/// Everybody ends what they do, every lock can be had, and nothing is left. Says how long the ends took.
fn peace(crew: &mut Crew, wrong: &mut Vec<String>) -> Duration {
    let start = Instant::now();
    for worker in &mut crew.workers {
        worker.process.write_line("stop");
    }
    while !crew.workers.iter().all(super::crew::Worker::has_ended) && start.elapsed() < PEACE {
        thread::sleep(Duration::from_millis(10));
    }
    let took = start.elapsed();
    let late = crew.workers.iter().filter(|worker| !worker.has_ended());
    wrong.extend(late.map(|worker| format!("worker {} did not end within {PEACE:?}", worker.first)));
    wrong.extend(crew.workers.iter().flat_map(super::crew::Worker::left));
    wrong.extend(sweep_from_here(&crew.house).unwrap_or_else(|error| vec![error.to_string()]));
    wrong.extend(crew.house.left().into_iter().map(|left| format!("left behind: {left}")));
    took
}

/// A memory is swept by its own process.
fn sweep_from_here(house: &House) -> bandog::Result<Vec<String>> {
    let url = match house {
        House::Memory => return Ok(Vec::new()),
        House::Sqlite(path) => format!("sqlite:{}", path.display()),
        House::Redis(server) => server.url(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = ConnectOptions::parse(url)?.timeout(TIMEOUT).connect().await?;
        Ok(sweep::sweep(&client).await)
    })
}

/// A line that says how far it is: rewritten on a terminal, now and then elsewhere.
struct Progress {
    store: StoreKind,
    ops: u64,
    start: Instant,
    shown: Instant,
    every: Duration,
    terminal: bool,
}

impl Progress {
    fn new(store: StoreKind, ops: u64) -> Self {
        let terminal = io::stderr().is_terminal();
        let every = Duration::from_secs(if terminal { 1 } else { 30 });
        let start = Instant::now();
        Self { store, ops, start, shown: start, every, terminal }
    }

    fn show(&mut self, done: u64, faults: usize) {
        if self.shown.elapsed() < self.every {
            return;
        }
        self.shown = Instant::now();
        let (begin, end) = if self.terminal { ("\r", "\x1b[K") } else { ("", "\n") };
        let seconds = self.start.elapsed().as_secs();
        let Self { store, ops, .. } = self;
        let mut stderr = io::stderr().lock();
        // Nobody needs it.
        let _ = write!(stderr, "{begin}{store}: {done} of {ops} calls, {faults} faults, {seconds} s{end}");
        let _ = stderr.flush();
    }

    fn end(&self) {
        if self.terminal {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
