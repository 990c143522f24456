//! Measures bandog as ratios in one run: bandog against the floor, which is the same scripts sent one after the other
//! with the same client crate. Raw figures are printed as lines of JSON, and written to a file with `--keep`.

mod again;
mod backends;
mod caches;
mod codec;
mod cron;
mod curator;
mod cycles;
mod driver;
mod floor;
mod grid;
mod handoff;
mod held;
mod java;
mod kinds;
mod local;
mod measure;
mod older;
mod records;
mod report;
mod scale;
mod schedule;
mod sql;
mod topologies;
mod watchdog;
mod work;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use serde_json::json;

use self::{
    report::{Report, Size},
    watchdog::Watchdog,
};

/// Measures bandog as ratios in one run. The benchmark starts its own servers on free ports, and stops them at the end.
#[derive(Parser)]
struct Args {
    /// The parts to measure [default: all]: cycles, one-name, shares, handoff, quorum, cluster, replicas, sqlite, reentry,
    /// held, scale, codec, grid, cache, work, or a part of it: work-rate, -latency, -idle,
    /// cron, records, kinds, kinds-handoff, -queue, -memory, sql, or a part of it: sql-cycles, -one-name,
    /// -handoff, -idle, -held, -bloat, -latches, -claims, curator, backends, or a part of it: backends-cycles, -handoff, -killed, older, schedule, or a
    /// part of it: schedule-jobs, -at-once, -lag, -claims, -takeover, -idle, -drift.
    what: Vec<String>,
    /// Duration of each measurement, in seconds [default: 1, or 0.02 with --short].
    #[arg(long)]
    seconds: Option<f64>,
    /// Number of measurements of each figure, whose median is reported [default: 5, or 1 with --short].
    #[arg(long)]
    rounds: Option<usize>,
    /// Time for which `held` holds its locks, in seconds [default: 60, or 1 with --short].
    #[arg(long)]
    hold: Option<u64>,
    /// Only check that every part still ends. The figures of such a run mean nothing.
    #[arg(long)]
    short: bool,
    /// Fail if a part takes longer than this, in seconds [default: none, or 120 with --short].
    #[arg(long)]
    limit: Option<u64>,
    /// The folder of Redisson for `kinds` and `kinds-handoff`, which `cargo xtask compare` builds [default: Redisson is
    /// not measured].
    #[arg(long)]
    redisson: Option<PathBuf>,
    /// The folder of Curator for `curator`, which `cargo xtask compare` builds [default: Curator is not measured].
    #[arg(long)]
    curator: Option<PathBuf>,
    /// The folder of ShedLock for `sql-claims`, which `cargo xtask compare` builds [default: ShedLock is not measured].
    #[arg(long)]
    shedlock: Option<PathBuf>,
    /// The folder of Quartz for `sql-claims`, which `cargo xtask compare` builds [default: Quartz is not measured].
    #[arg(long)]
    quartz: Option<PathBuf>,
    /// An older build of this program, with which `older` compares this one [default: `older` measures nothing].
    #[arg(long)]
    old: Option<PathBuf>,
    /// The parts that `older` compares.
    #[arg(long, value_delimiter = ',', default_values = ["cycles", "one-name", "sqlite"])]
    old_parts: Vec<String>,
    /// Be another process of a part: the bystander of `held` (with a URL), the holder of `backends-killed` (URL), the first
    /// node of `schedule-takeover` (URL), the loader of `schedule-jobs` (size), or a process of `kinds-memory` (kind, locks).
    #[arg(long, hide = true, num_args = 1..)]
    be: Vec<String>,
    /// Write the raw figures to this file.
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// The exit code after wrong arguments.
const USAGE: u8 = 64;

/// The name of a part, and the function that measures it.
type Part<'a> = (&'static str, &'a dyn Fn(&mut Report));

fn main() -> ExitCode {
    let args = Args::parse();
    match args.be.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => return measure(&args),
        ["bystander", url] => held::run_bystander(url),
        ["holder", url] => backends::run_holder(url),
        ["node", url] => schedule::run_node(url),
        ["load", size] => schedule::load(size),
        ["hold", kind, locks] => kinds::hold_locks(kind, locks),
        _ => return ExitCode::from(USAGE),
    }
    ExitCode::SUCCESS
}

fn measure(args: &Args) -> ExitCode {
    let size = if args.short { Size::Short } else { Size::Full };
    let seconds = args.seconds.unwrap_or(size.pick(1.0, 0.02));
    let mut report = Report::new(size, args.rounds.unwrap_or(size.pick(5, 1)), Duration::from_secs_f64(seconds));
    let hold = Duration::from_secs(args.hold.unwrap_or(size.pick(60, 1)));
    let few = |locks: usize| size.pick(locks, locks / 100);
    let parts: &[Part<'_>] = &[
        ("cycles", &cycles::measure),
        ("one-name", &cycles::one_name),
        ("shares", &cycles::shares),
        ("handoff", &handoff::measure),
        ("quorum", &topologies::quorum),
        ("cluster", &topologies::cluster),
        ("replicas", &topologies::replicas),
        ("sqlite", &local::sqlite),
        ("reentry", &local::reentry),
        ("held", &|report| {
            let limits = [("lost", 0.0), ("core_percent", 1.0), ("bytes_each", 1500.0)];
            held::measure(report, hold, few(10_000), &limits);
        }),
        ("scale", &|report| {
            let limits = [("lost", 0.0), ("core_percent", 4.0), ("bytes_each", 1200.0), ("bystander_p99_us", 2000.0)];
            held::measure(report, hold, few(100_000), &limits);
            scale::measure(report);
        }),
        ("codec", &codec::measure),
        ("grid", &|report| grid::measure(report, args.redisson.as_deref())),
        ("cache", &caches::measure),
        ("work-rate", &work::rate),
        ("work-latency", &work::latency),
        ("work-idle", &work::idle),
        ("cron", &cron::measure),
        ("records", &records::measure),
        ("kinds", &|report| kinds::measure(report, args.redisson.as_deref())),
        ("kinds-handoff", &|report| kinds::hand_offs(report, args.redisson.as_deref())),
        ("kinds-queue", &kinds::queue),
        ("kinds-memory", &kinds::memory),
        ("sql-cycles", &sql::cycles),
        ("sql-one-name", &sql::one_name),
        ("sql-handoff", &sql::hand_off),
        ("sql-idle", &sql::idle),
        ("sql-held", &|report| sql::held(report, hold)),
        ("sql-bloat", &sql::bloat),
        ("sql-latches", &sql::latches),
        ("sql-claims", &|report| schedule::claims_on_sql(report, args.shedlock.as_deref(), args.quartz.as_deref())),
        ("curator", &|report| curator::measure(report, args.curator.as_deref())),
        ("backends-cycles", &backends::cycles),
        ("backends-handoff", &backends::hand_off),
        ("backends-killed", &backends::killed),
        ("older", &|report| older::measure(report, args.old.as_deref(), &args.old_parts)),
        ("schedule-jobs", &schedule::million),
        ("schedule-at-once", &schedule::at_once),
        ("schedule-lag", &schedule::lag),
        ("schedule-claims", &schedule::claims),
        ("schedule-takeover", &schedule::takeover),
        ("schedule-idle", &schedule::idle),
        // This part is the last, because it pauses tokio's clock, which makes the clock slower permanently.
        ("schedule-drift", &schedule::drift),
    ];
    let means =
        |asked: &str, part: &str| part == asked || part.strip_prefix(asked).is_some_and(|rest| rest.starts_with('-'));
    if let Some(unknown) = args.what.iter().find(|asked| !parts.iter().any(|(part, _)| means(asked, part))) {
        let known: Vec<_> = parts.iter().map(|(part, _)| *part).collect();
        eprintln!("bench: {unknown:?} cannot be measured; known are {}", known.join(", "));
        return ExitCode::from(USAGE);
    }
    let watchdog = args.limit.or(size.pick(None, Some(120))).map(|limit| Watchdog::start(Duration::from_secs(limit)));
    for (part, measure) in parts {
        if args.what.is_empty() || args.what.iter().any(|asked| means(asked, part)) {
            watchdog.iter().for_each(|watchdog| watchdog.begins(part));
            let start = Instant::now();
            measure(&mut report);
            report.raw(json!({"what": "part", "part": part, "seconds": start.elapsed().as_secs_f64()}));
        }
    }
    report.finish(args.keep.as_deref())
}
