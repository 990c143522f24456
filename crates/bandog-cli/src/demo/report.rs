//! What came out: a table and a few sentences for people, JSON for programs, and whether it came out as told.

use std::io::{self, Write};

use serde::Serialize;

use super::{
    books::Counts,
    fault::Fault,
    half::Outcome,
    paint::Paint,
    plan::Plan,
    view::{for_ticks, replicas},
};
use crate::exit_code::ExitCode;

const NEXT: &str = "\
Take a lock from a shell, in two terminals at once:
  bandog lock stock -- sh -c 'echo I hold fence $BANDOG_FENCE; sleep 5'
Look at the ticks of a cron line:
  bandog cron next '0 15 10 ? * MON-FRI'
Jobs and locks from Rust, and what each store promises: README.md
";

/// The outcomes so far.
pub(super) struct Report<'a> {
    plan: &'a Plan,
    json: bool,
    halves: Vec<Outcome>,
}

/// One line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    lock: bool,
    replicas: u16,
    #[serde(flatten)]
    counts: &'a Counts,
    seconds: f64,
}

impl<'a> Report<'a> {
    pub(super) fn new(plan: &'a Plan, json: bool) -> Self {
        Self { plan, json, halves: Vec::new() }
    }

    /// Takes a half in; its JSON is printed at once.
    pub(super) fn add(&mut self, half: Outcome) {
        if self.json {
            let seconds = (half.took.as_secs_f64() * 1000.0).round() / 1000.0;
            let line = Line { lock: half.lock, replicas: self.plan.replicas, counts: &half.counts, seconds };
            if let Ok(line) = serde_json::to_string(&line) {
                print(&format!("{line}\n"));
            }
        }
        self.halves.push(half);
    }

    /// Prints what is left to print; an error says why the story did not come out as told.
    pub(super) fn finish(self) -> Result<(), Fault> {
        if !self.json {
            print(&self.table(Paint::on(&io::stdout())));
        }
        if let Some(wrong) = self.halves.iter().find_map(wrong) {
            return Err(wrong);
        }
        if !self.json {
            print(&self.moral());
        }
        Ok(())
    }

    fn table(&self, paint: Paint) -> String {
        let title = |half: &Outcome| if half.lock { "with bandog" } else { "without a lock" };
        let titles = self.halves.iter().map(|half| paint.bold(&format!("{:>16}", title(half))));
        let mut table = row("", titles);
        let mut add = |name, count: fn(&Counts) -> u32| {
            table.push_str(&row(name, self.halves.iter().map(|half| format!("{:>16}", count(&half.counts)))));
        };
        add("orders", |counts| counts.orders);
        add("closed", |counts| counts.closed);
        add("stock given back", |counts| counts.restored);
        add("ticks", |counts| counts.ticks);
        add("sweeps", |counts| counts.sweeps);
        add("replicas that swept", |counts| counts.swept_by);
        let mut judge = |name, count: fn(&Counts) -> u32| {
            table.push_str(&row(name, self.halves.iter().map(|half| judged(paint, count(&half.counts)))));
        };
        judge("stock given back more than once", |counts| counts.restored_more_than_once);
        judge("units offered that do not exist", |counts| counts.phantom_units);
        table
    }

    fn moral(&self) -> String {
        let told: Vec<_> = self.halves.iter().map(told).collect();
        format!("\n{}\n\n{NEXT}", told.join("\n"))
    }
}

/// What happened in a half that came out as told.
fn told(half: &Outcome) -> String {
    let Counts { orders, restored_more_than_once: twice, phantom_units: phantoms, sweeps, swept_by, .. } = half.counts;
    if half.lock {
        return format!(
            "With bandog, the sweep is a job of all replicas, and each tick runs on one of them:\n\
             {sweeps} sweeps {}, by {}.\n\
             The stock of each of {orders} orders was given back exactly once.",
            for_ticks(&half.counts),
            replicas(swept_by)
        );
    }
    format!(
        "Without a lock, the stock of {twice} of {orders} orders was given back more than once:\n\
         the shop now offers {phantoms} units that it does not have."
    )
}

/// Why this half did not come out as told, if it did not.
fn wrong(half: &Outcome) -> Option<Fault> {
    let Counts { orders, closed, restored, restored_more_than_once: twice, .. } = half.counts;
    let more = half.counts.sweeps.saturating_sub(half.counts.taken_over + half.counts.ticks);
    let name = if half.lock { "with bandog" } else { "without a lock" };
    let trouble = half.trouble.as_deref().unwrap_or_default();
    let message = match (half.lock, twice) {
        _ if half.store_is_away => {
            format!("only {closed} of {orders} orders were closed: the scheduler's store went away")
        }
        _ if closed < orders => format!("only {closed} of {orders} orders were closed in time; try more --seconds"),
        (true, 0) if more > 0 => format!("there were {more} more sweeps than ticks"),
        (true, 0) if restored == orders => return None,
        (true, 0) => format!("the stock of {} orders was not given back", orders - restored),
        (true, _) => format!("the stock of {twice} orders was given back more than once"),
        (false, 0) => "no two replicas met this time, and nothing went wrong; try more --orders".to_owned(),
        (false, _) => return None,
    };
    let code = if half.store_is_away { ExitCode::Unavailable } else { ExitCode::Internal };
    Some(Fault::Story(code, format!("{name} {message}{trouble}")))
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.collect();
    format!("{name:<34}{cells}\n")
}

/// A number that should be zero.
fn judged(paint: Paint, count: u32) -> String {
    let text = format!("{count:>16}");
    if count == 0 { paint.green(&text) } else { paint.red(&text) }
}

/// A standard output that is closed has nobody who reads it.
fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}
