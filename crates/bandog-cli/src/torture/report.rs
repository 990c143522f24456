//! The report, in words and as JSON.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::Duration,
};

use serde::Serialize;

use super::{args::Args, cleaning::Cleaning, plan::Plan, tally::Figures};
use crate::{console::escaped, exit_code::ExitCode, fault::Fault, print, store::Store};

/// The result of a run.
pub(super) struct Outcome<'a> {
    pub(super) args: &'a Args,
    pub(super) plan: &'a Plan,
    pub(super) store: &'a Store,
    pub(super) figures: Figures,
    /// Number of workers that have not ended.
    pub(super) hung: usize,
    pub(super) cleaning: Cleaning,
}

/// The report in JSON. Scripts rely on the names of these fields.
#[derive(Serialize)]
struct Object<'a> {
    url: String,
    prefix: &'a str,
    seconds: f64,
    workers: u16,
    kinds: Vec<&'static str>,
    grants: u64,
    grants_per_second: f64,
    #[serde(rename = "losses_announced")]
    losses_reported: u64,
    #[serde(rename = "losses_not_announced")]
    losses_not_reported: u64,
    repeated_fences: u64,
    hung_workers: usize,
    left_behind: Vec<&'a str>,
    longest_wait_ms: u64,
    longest_gap_ms: u64,
    longest_gap_at_ms: u64,
    longest_overlap_ms: u64,
    errors: &'a BTreeMap<&'static str, u64>,
    findings: Vec<Finding<'a>>,
    broken: bool,
}

/// A broken promise in JSON.
#[derive(Serialize)]
struct Finding<'a> {
    at_ms: u64,
    name: &'a str,
    says: &'a str,
}

impl Outcome<'_> {
    /// Prints the report. Returns the exit code.
    pub(super) fn print(&self) -> Result<ExitCode, Fault> {
        print::done(if self.args.format.json { print::json(&self.object()) } else { self.words(&mut io::stdout()) })?;
        match &self.cleaning.not_removed {
            _ if self.is_broken() => Ok(ExitCode::Broken),
            Some((_, error)) => Err(self.store.fault(error)),
            None => Ok(ExitCode::Done),
        }
    }

    /// Whether a promise was broken.
    fn is_broken(&self) -> bool {
        let Figures { losses_not_reported, repeated_fences, .. } = self.figures;
        losses_not_reported > 0 || repeated_fences > 0 || self.hung > 0 || !self.cleaning.held.is_empty()
    }

    fn grants_per_second(&self) -> f64 {
        per_second(self.figures.grants, self.figures.duration)
    }

    fn object(&self) -> Object<'_> {
        let Figures { duration, grants, longest_gap: (gap, gap_at), .. } = self.figures;
        let findings = self.figures.findings.iter();
        Object {
            url: self.store.redacted(),
            prefix: &self.plan.prefix,
            seconds: rounded(duration.as_secs_f64()),
            workers: self.args.workers,
            kinds: self.plan.kinds(),
            grants,
            grants_per_second: rounded(self.grants_per_second()),
            losses_reported: self.figures.losses_reported,
            losses_not_reported: self.figures.losses_not_reported,
            repeated_fences: self.figures.repeated_fences,
            hung_workers: self.hung,
            left_behind: self.cleaning.left_behind(),
            longest_wait_ms: millis(self.figures.longest_wait),
            longest_gap_ms: millis(gap),
            longest_gap_at_ms: millis(gap_at),
            longest_overlap_ms: millis(self.figures.longest_overlap),
            errors: &self.figures.errors,
            findings: findings.map(|(at, name, says)| Finding { at_ms: millis(*at), name, says }).collect(),
            broken: self.is_broken(),
        }
    }

    /// Writes the report for people.
    fn words(&self, out: &mut impl Write) -> io::Result<()> {
        let Figures { duration, grants, longest_gap: (gap, gap_at), longest_overlap, .. } = self.figures;
        let mut row = |name: &str, value: &str| writeln!(out, "{name:<24}{value}");
        row("duration", &format!("{duration:.1?}"))?;
        row("grants", &format!("{grants} ({:.0} per second)", self.grants_per_second()))?;
        row("losses reported", &self.figures.losses_reported.to_string())?;
        let overlap = if longest_overlap.is_zero() {
            String::new()
        } else {
            format!(" (two holders for {longest_overlap:.1?} at most)")
        };
        row("losses not reported", &format!("{}{overlap}", self.figures.losses_not_reported))?;
        row("repeated fences", &self.figures.repeated_fences.to_string())?;
        row("longest wait", &format!("{:.1?}", self.figures.longest_wait))?;
        row("longest without a grant", &format!("{gap:.1?}, from {:.1}s on", gap_at.as_secs_f64()))?;
        let errors: Vec<_> = self.figures.errors.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
        row("errors", if errors.is_empty() { "0".to_owned() } else { errors.join(", ") }.as_str())?;
        if self.hung > 0 {
            row("workers that hang", &self.hung.to_string())?;
        }
        for (at, name, says) in &self.figures.findings {
            writeln!(out, "  {at:.3?} {}: {says}", escaped(name))?;
        }
        for name in &self.cleaning.held {
            writeln!(out, "  still held after its ttl: {}", escaped(name))?;
        }
        if let Some((names, _)) = &self.cleaning.not_removed {
            writeln!(out, "these names stay in the store: {}", escaped(&names.join(" ")))?;
            writeln!(out, "{}", removed_later(&self.plan.prefix))?;
        }
        writeln!(out, "{}", self.verdict())?;
        out.flush()
    }

    /// The conclusion.
    fn verdict(&self) -> &'static str {
        if !self.is_broken() {
            return "nothing was broken";
        }
        if self.figures.losses_not_reported == 0 {
            return "a promise was broken: please report it, with this output";
        }
        "Locks were lost, and their holders were not notified before others got them. A store that loses data does this, and a \
         failover to a replica that did not have the last grants: see \"Failover\" in docs/redis.md, and docs/GUARANTEES.md. \
         Let the resource refuse smaller fences. With Redis, ?replicas=1 and redis+quorum:// lose less."
    }
}

/// How to remove names that stay in the store.
pub(super) fn removed_later(prefix: &str) -> String {
    format!(
        "a later run with --prefix {prefix:?}, and with the same --names, removes them, for example with --for 100ms"
    )
}

/// A line about the progress. `before` are the counts of the last line.
pub(super) fn progress(elapsed: Duration, before: &Figures, now: &Figures, interval: Duration) -> String {
    let errors = now.all_errors() - before.all_errors();
    format!(
        "{elapsed:.0?}: {:.0} grants per second, {errors} errors in this time; so far {} losses reported, \
         {} not reported, at most {:.1?} without a grant",
        per_second(now.grants - before.grants, interval),
        now.losses_reported,
        now.losses_not_reported,
        now.longest_gap.0
    )
}

fn per_second(number: u64, duration: Duration) -> f64 {
    number as f64 / duration.as_secs_f64().max(0.001)
}

fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
