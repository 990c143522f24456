//! Measures bandog as ratios in one run: ours against the floor, which is the same scripts sent one by one on the
//! same client crate. Raw figures are printed as JSON lines, and kept with `--keep`.

mod contend;
mod cron;
mod cycles;
mod floor;
mod handoff;
mod held;
mod local;
mod measure;
mod records;
mod report;
mod scale;
mod schedule;

use std::{process::ExitCode, time::Duration};

use clap::Parser;

use self::report::Report;

/// Ratios in one run. The servers are its own, on free ports, and end with it.
#[derive(Parser)]
struct Args {
    /// What to measure: cycles, one-name, shares, handoff, sqlite, reentry, held, scale, cron, records,
    /// schedule. Without a name: everything.
    what: Vec<String>,
    /// How long each figure is measured, in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// How often each figure is measured; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long locks are held by `held`, in seconds.
    #[arg(long, default_value_t = 60)]
    hold: u64,
    /// Locks something of its own now and then on this server until its standard input ends; `held` starts it.
    #[arg(long, hide = true)]
    bystander: Option<String>,
    /// Loads a million jobs, and tells what they take; `schedule` starts it.
    #[arg(long, hide = true)]
    load: bool,
    /// Begins a long run on this server, and hands it over when its standard input ends; `schedule` starts it.
    #[arg(long, hide = true)]
    node: Option<String>,
    /// Keeps the raw figures in this file.
    #[arg(long)]
    keep: Option<std::path::PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(url) = &args.bystander {
        held::stand_by(url);
        return ExitCode::SUCCESS;
    }
    if args.load {
        schedule::load();
        return ExitCode::SUCCESS;
    }
    if let Some(url) = &args.node {
        schedule::stand_in(url);
        return ExitCode::SUCCESS;
    }
    let mut report = Report::new(args.rounds, Duration::from_secs_f64(args.seconds));
    let all = [
        "cycles", "one-name", "shares", "handoff", "sqlite", "reentry", "held", "scale", "cron", "records", "schedule",
    ];
    if let Some(unknown) = args.what.iter().find(|what| !all.contains(&what.as_str())) {
        eprintln!("bench: {unknown:?} cannot be measured; known are {}", all.join(", "));
        return ExitCode::from(64);
    }
    let wanted = |what: &str| args.what.is_empty() || args.what.iter().any(|wanted| wanted == what);
    if wanted("cycles") {
        cycles::measure(&mut report);
    }
    if wanted("one-name") {
        contend::one_name(&mut report);
    }
    if wanted("shares") {
        contend::shares(&mut report);
    }
    if wanted("handoff") {
        handoff::measure(&mut report);
    }
    if wanted("sqlite") {
        local::sqlite(&mut report);
    }
    if wanted("reentry") {
        local::reentry(&mut report);
    }
    if wanted("held") {
        held::measure(&mut report, Duration::from_secs(args.hold), 10_000, "0 lost, ≤ 1 %, ≤ 1500 bytes");
    }
    if wanted("scale") {
        let target = "0 lost, ≤ 4 %, ≤ 1200 bytes, p99 ≤ 2000 µs";
        held::measure(&mut report, Duration::from_secs(args.hold), 100_000, target);
        scale::measure(&mut report);
    }
    if wanted("cron") {
        cron::measure(&mut report);
    }
    if wanted("records") {
        records::measure(&mut report);
    }
    if wanted("schedule") {
        schedule::measure(&mut report);
    }
    report.finish(args.keep.as_deref())
}
