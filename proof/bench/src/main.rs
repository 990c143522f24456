//! Measures bandog as ratios in one run: bandog against the floor, which is the same scripts sent one after the other
//! with the same client crate. Raw figures are printed as lines of JSON, and written to a file with `--keep`.

mod backends;
mod caches;
mod cluster;
mod codec;
mod contend;
mod cron;
mod curator;
mod cycles;
mod floor;
mod grid;
mod handoff;
mod held;
mod java;
mod kinds;
mod local;
mod measure;
mod older;
mod quorum;
mod records;
mod replicas;
mod report;
mod scale;
mod schedule;
mod sql;
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
    /// Be the bystander of `held` on this server: lock its own name repeatedly until standard input ends.
    #[arg(long, hide = true)]
    bystander: Option<String>,
    /// Be the holder of `backends-killed` on this store: hold a lock until standard input ends.
    #[arg(long, hide = true)]
    holder: Option<String>,
    /// Be the process of `schedule-jobs`: load a million jobs, and print their cost.
    #[arg(long, hide = true)]
    load: bool,
    /// Be the first node of `schedule-takeover` on this server: begin a long run, and stop when standard input ends.
    #[arg(long, hide = true)]
    node: Option<String>,
    /// Be a process of `kinds-memory`: hold locks of this kind, and print the bytes for each.
    #[arg(long, hide = true)]
    hold_kind: Option<kinds::Kind>,
    /// Number of locks of a process of `kinds-memory`.
    #[arg(long, hide = true, default_value_t = 0)]
    hold_locks: usize,
    /// Write the raw figures to this file.
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// The name of a part, and the function that measures it.
type Part<'a> = (&'static str, &'a dyn Fn(&mut Report));

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(url) = &args.bystander {
        held::run_bystander(url);
        return ExitCode::SUCCESS;
    }
    if let Some(url) = &args.holder {
        backends::run_holder(url);
        return ExitCode::SUCCESS;
    }
    if let Some(kind) = args.hold_kind {
        kinds::hold_locks(kind, args.hold_locks);
        return ExitCode::SUCCESS;
    }
    let size = if args.short { Size::Short } else { Size::Full };
    if args.load {
        schedule::load(size);
        return ExitCode::SUCCESS;
    }
    if let Some(url) = &args.node {
        schedule::run_node(url);
        return ExitCode::SUCCESS;
    }
    let seconds = args.seconds.unwrap_or(size.pick(1.0, 0.02));
    let mut report = Report::new(size, args.rounds.unwrap_or(size.pick(5, 1)), Duration::from_secs_f64(seconds));
    let hold = Duration::from_secs(args.hold.unwrap_or(size.pick(60, 1)));
    let few = |locks: usize| size.pick(locks, locks / 100);
    let parts: &[Part<'_>] = &[
        ("cycles", &cycles::measure),
        ("one-name", &contend::one_name),
        ("shares", &contend::shares),
        ("handoff", &handoff::measure),
        ("quorum", &quorum::measure),
        ("cluster", &cluster::measure),
        ("replicas", &replicas::measure),
        ("sqlite", &local::sqlite),
        ("reentry", &local::reentry),
        ("held", &|report| held::measure(report, hold, few(10_000), "0 lost, ≤ 1 %, ≤ 1500 bytes")),
        ("scale", &|report| {
            let target = "0 lost, ≤ 4 %, ≤ 1200 bytes, p99 ≤ 2000 µs";
            held::measure(report, hold, few(100_000), target);
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
        ("older", &|report| older::measure(report, args.old.as_deref())),
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
        return ExitCode::from(64);
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
