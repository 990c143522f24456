//! The result of the demo: a table and a few sentences for people, or JSON for programs. The report also checks whether
//! the result is the expected one.

use std::io::{self, Write};

use serde::Serialize;

use super::{
    books::Counts,
    fault::DemoFault,
    paint::Paint,
    phase::Outcome,
    plan::Plan,
    view::{for_ticks, replicas},
};
use crate::exit_code::ExitCode;

/// The next steps of the user.
const NEXT: &str = "\
Take a lock from a shell, in two terminals at once:
  bandog lock stock -- sh -c 'echo I hold fence $BANDOG_FENCE; sleep 5'
Print the ticks of a cron expression:
  bandog cron next '0 15 10 ? * MON-FRI'
Jobs and locks in Rust, and the promises of each store: README.md
";

/// The results so far.
pub(super) struct Report<'a> {
    plan: &'a Plan,
    json: bool,
    phases: Vec<Outcome>,
}

/// One line of `--json`.
#[derive(Serialize)]
struct JsonLine<'a> {
    lock: bool,
    replicas: u16,
    #[serde(flatten)]
    counts: &'a Counts,
    /// Duration of the phase.
    seconds: f64,
}

impl<'a> Report<'a> {
    pub(super) fn new(plan: &'a Plan, json: bool) -> Self {
        Self { plan, json, phases: Vec::new() }
    }

    /// Adds a phase. With `--json`, the line of the phase is printed immediately.
    pub(super) fn add(&mut self, phase: Outcome) {
        if self.json {
            let seconds = (phase.took.as_secs_f64() * 1000.0).round() / 1000.0;
            let line = JsonLine { lock: phase.lock, replicas: self.plan.replicas, counts: &phase.counts, seconds };
            if let Ok(line) = serde_json::to_string(&line) {
                print(&format!("{line}\n"));
            }
        }
        self.phases.push(phase);
    }

    /// Prints the table and the conclusion, unless the output is JSON. Returns an error if the result is not the
    /// expected one.
    pub(super) fn finish(self) -> Result<(), DemoFault> {
        if !self.json {
            print(&self.table(Paint::on(&io::stdout())));
        }
        if let Some(wrong) = self.phases.iter().find_map(wrong) {
            return Err(wrong);
        }
        if !self.json {
            print(&self.conclusion());
        }
        Ok(())
    }

    fn table(&self, paint: Paint) -> String {
        let title = |phase: &Outcome| if phase.lock { "with bandog" } else { "without a lock" };
        let titles = self.phases.iter().map(|phase| paint.bold(&format!("{:>16}", title(phase))));
        let mut table = row("", titles);
        // Adds a row with one number of each phase.
        let mut add = |name, count: fn(&Counts) -> u32| {
            table.push_str(&row(name, self.phases.iter().map(|phase| format!("{:>16}", count(&phase.counts)))));
        };
        add("orders", |counts| counts.orders);
        add("closed", |counts| counts.closed);
        add("stock returned", |counts| counts.restored);
        add("customers notified", |counts| counts.notified);
        add("ticks", |counts| counts.ticks);
        add("sweeps", |counts| counts.sweeps);
        add("replicas that swept", |counts| counts.swept_by);
        // Adds a row whose numbers should be zero.
        let mut judge = |name, count: fn(&Counts) -> u32| {
            table.push_str(&row(name, self.phases.iter().map(|phase| judged(paint, count(&phase.counts)))));
        };
        judge("stock returned more than once", |counts| counts.restored_more_than_once);
        judge("customers notified more than once", |counts| counts.notified_more_than_once);
        judge("units offered that do not exist", |counts| counts.phantom_units);
        table
    }

    fn conclusion(&self) -> String {
        let sentences: Vec<_> = self.phases.iter().map(summary).collect();
        format!("\n{}\n\n{NEXT}", sentences.join("\n"))
    }
}

/// The summary of a phase. The phase must have the expected result.
fn summary(phase: &Outcome) -> String {
    let Counts { orders, restored_more_than_once: twice, phantom_units: phantoms, sweeps, swept_by, .. } = phase.counts;
    if phase.lock {
        return format!(
            "With bandog, the sweep is a job of all replicas, and each tick runs on one of them:\n\
             {sweeps} sweeps {}, by {}.\n\
             The stock of each of {orders} orders was returned exactly once, and the workers of a queue notified each customer.",
            for_ticks(&phase.counts),
            replicas(swept_by)
        );
    }
    format!(
        "Without a lock, the stock of {twice} of {orders} orders was returned more than once:\n\
         the shop now offers {phantoms} units that it does not have."
    )
}

/// The error if this phase did not have the expected result.
fn wrong(phase: &Outcome) -> Option<DemoFault> {
    let Counts { orders, closed, restored, restored_more_than_once: twice, notified, .. } = phase.counts;
    // Sweeps that are neither the first of their tick nor a repetition after a replica died.
    let more = phase.counts.sweeps.saturating_sub(phase.counts.taken_over + phase.counts.ticks);
    let name = if phase.lock { "with bandog" } else { "without a lock" };
    let trouble = phase.trouble.as_deref().unwrap_or_default();
    let message = match (phase.lock, twice) {
        _ if phase.store_is_away => {
            format!("only {closed} of {orders} orders were closed: the scheduler's store stopped answering")
        }
        _ if closed < orders => format!("only {closed} of {orders} orders were closed in time; try more --seconds"),
        (true, 0) if more > 0 => format!("there were {more} more sweeps than ticks"),
        (true, 0) if restored == orders && notified < orders => {
            format!("the customers of {} orders were not notified", orders - notified)
        }
        (true, 0) if restored == orders => return None,
        (true, 0) => format!("the stock of {} orders was not returned", orders - restored),
        (true, _) => format!("the stock of {twice} orders was returned more than once"),
        (false, 0) => "no two replicas swept at the same time, so nothing failed; try more --orders".to_owned(),
        (false, _) => return None,
    };
    let code = if phase.store_is_away { ExitCode::Unavailable } else { ExitCode::Internal };
    Some(DemoFault::Unexpected(code, format!("{name} {message}{trouble}")))
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.collect();
    format!("{name:<34}{cells}\n")
}

/// A number that should be zero, as text: green if the number is zero, else red.
fn judged(paint: Paint, count: u32) -> String {
    let text = format!("{count:>16}");
    if count == 0 { paint.green(&text) } else { paint.red(&text) }
}

/// Writes a text to standard output. An error is ignored, for example if standard output is closed.
fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}
