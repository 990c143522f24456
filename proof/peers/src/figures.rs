//! Prints each figure as a line of JSON, and at the end a table with the middle round of each peer.

use std::{collections::BTreeMap, fs, path::Path, process::ExitCode, time::Duration};

use serde_json::{Value, json};

use crate::{
    TASKS,
    peer::Which,
    trial::{Outcome, Run},
};

pub(crate) struct Figures {
    lines: Vec<String>,
    /// The outcomes of all rounds, by number of tasks, and by position of the peer in [`Which::ALL`].
    outcomes: BTreeMap<(usize, usize), Vec<Outcome>>,
}

impl Figures {
    pub(crate) fn new(rounds: usize, span: Duration) -> Self {
        let mut figures = Self { lines: Vec::new(), outcomes: BTreeMap::new() };
        let date = std::process::Command::new("date").arg("-uIminutes").output();
        let date = date.map(|date| String::from_utf8_lossy(&date.stdout).trim().to_owned()).unwrap_or_default();
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown").to_owned();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let seconds = span.as_secs_f64();
        figures.raw(json!({"date": date, "cpu": cpu, "cores": cores, "rounds": rounds, "seconds": seconds}));
        figures
    }

    pub(crate) fn add(&mut self, round: usize, tasks: usize, which: Which, outcome: Outcome) {
        let who = which.name();
        self.raw(match &outcome {
            Outcome::Ran(run) => json!({"what": "peers", "round": round, "tasks": tasks, "who": who,
                "per_second": run.per_second, "starved": run.starved(), "each": run.each,
                "errors": run.errors, "first_error": run.first_error, "stuck": run.stuck}),
            Outcome::Failed(why) => {
                json!({"what": "peers", "round": round, "tasks": tasks, "who": who, "failed": why})
            }
        });
        let place = Which::ALL.iter().position(|other| *other == which).expect("each peer is in the list");
        self.outcomes.entry((tasks, place)).or_default().push(outcome);
    }

    pub(crate) fn finish(self, keep: Option<&Path>) -> ExitCode {
        let floor = self.floor();
        for tasks in TASKS {
            println!(
                "\n| {} | cycles/s | of the floor of one task | starved | least and most served | errors | how a task waits |",
                title(tasks)
            );
            println!("|---|---|---|---|---|---|---|");
            for ((_, place), outcomes) in self.outcomes.iter().filter(|((of, _), _)| *of == tasks) {
                println!("{}", row(Which::ALL[*place], outcomes, floor, tasks));
            }
        }
        let Some(path) = keep else { return ExitCode::SUCCESS };
        match fs::write(path, self.lines.join("\n") + "\n") {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("peers: {} cannot be written: {error}", path.display());
                ExitCode::FAILURE
            }
        }
    }

    /// The floor: the middle rate of bandog's scripts if they are sent one after the other without bandog.
    fn floor(&self) -> f64 {
        self.outcomes.get(&(1, 0)).and_then(|outcomes| middle(outcomes)).map_or(f64::NAN, |run| run.per_second)
    }

    fn raw(&mut self, figure: Value) {
        println!("{figure}");
        self.lines.push(figure.to_string());
    }
}

fn title(tasks: usize) -> String {
    if tasks == 1 { "1 task alone".into() } else { format!("{tasks} tasks on one name") }
}

fn row(which: Which, outcomes: &[Outcome], floor: f64, tasks: usize) -> String {
    let who = which.name();
    let Some(run) = middle(outcomes) else {
        let why = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Failed(why) => Some(why.as_str()),
            Outcome::Ran(_) => None,
        });
        return format!("| {who} | did not run: {} | | | | | {} |", why.unwrap_or("no round"), which.waits());
    };
    let (least, most) = (run.each.iter().min().unwrap_or(&0), run.each.iter().max().unwrap_or(&0));
    let starved = run.starved();
    format!(
        "| {who} | {:.0} | ×{:.2} | {starved} of {tasks} | {least} to {most} | {} | {} |",
        run.per_second,
        run.per_second / floor,
        trouble(outcomes),
        which.waits()
    )
}

/// The round whose rate is in the middle.
fn middle(outcomes: &[Outcome]) -> Option<&Run> {
    let mut runs: Vec<&Run> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Ran(run) => Some(run),
            Outcome::Failed(_) => None,
        })
        .collect();
    runs.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
    runs.get(runs.len() / 2).copied()
}

/// The problems of all rounds as text.
fn trouble(outcomes: &[Outcome]) -> String {
    let (mut failed, mut errors, mut stuck, mut first) = (0, 0, 0, None);
    for outcome in outcomes {
        match outcome {
            Outcome::Failed(why) => {
                failed += 1;
                first = first.or(Some(why));
            }
            Outcome::Ran(run) => {
                errors += run.errors;
                stuck += run.stuck;
                first = first.or(run.first_error.as_ref());
            }
        }
    }
    let mut words = Vec::new();
    for (count, what) in [(failed, "rounds not run"), (errors, "errors"), (stuck as u64, "calls that never returned")] {
        if count > 0 {
            words.push(format!("{count} {what}"));
        }
    }
    let first = first.map(|first| format!(" ({first})")).unwrap_or_default();
    if words.is_empty() { "none".into() } else { words.join(", ") + &first }
}
