//! The results of all exits.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use super::cell::Cell;
use crate::settings::name;

/// How one program ended.
#[derive(Debug)]
pub(crate) struct Exit {
    pub(crate) cell: Cell,
    /// Time from the order to end until the exit.
    pub(crate) took: Duration,
    /// CPU time of the program.
    pub(crate) cpu: Duration,
    /// The fault of this exit, if there is one.
    pub(crate) fault: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Report {
    /// The time at which the first exit began.
    since: Instant,
    /// One row for each store and each way to end.
    rows: BTreeMap<(String, String), Row>,
    /// For each wrong exit, the name of its cell and the fault.
    faults: Vec<String>,
    /// For each reason, the number of combinations that are not played for this reason.
    left_out: BTreeMap<&'static str, usize>,
    /// The names of all cells. Empty except after `--list`, which only prints the names.
    listed: Vec<String>,
}

#[derive(Debug, Default)]
struct Row {
    exits: usize,
    faults: usize,
    /// The longest time from the order to end until the exit.
    slowest: Duration,
    /// CPU time of all programs of this row.
    cpu: Duration,
    /// The longest CPU time of one program.
    most_cpu: Duration,
}

impl Report {
    pub(crate) fn new(since: Instant) -> Self {
        Self { since, rows: BTreeMap::new(), faults: Vec::new(), left_out: BTreeMap::new(), listed: Vec::new() }
    }

    /// Counts these combinations as not played.
    pub(crate) fn leave_out(&mut self, cells: &[Cell]) {
        for reason in cells.iter().filter_map(|cell| cell.makes_no_sense()) {
            *self.left_out.entry(reason).or_default() += 1;
        }
    }

    /// Sets the list of cells that the report prints.
    pub(crate) fn list(&mut self, cells: &[Cell]) {
        self.listed = cells.iter().map(ToString::to_string).collect();
    }

    /// Adds the results of these exits to the totals. Prints each fault immediately.
    pub(crate) fn add(&mut self, exits: Vec<Exit>) {
        for Exit { cell, took, cpu, fault } in exits {
            let row = self.rows.entry((name(&cell.store), name(&cell.way))).or_default();
            row.exits += 1;
            row.slowest = row.slowest.max(took);
            row.cpu += cpu;
            row.most_cpu = row.most_cpu.max(cpu);
            if let Some(fault) = fault {
                row.faults += 1;
                eprintln!("{cell}: {fault}");
                self.faults.push(format!("{cell}: {fault}"));
            }
        }
    }

    /// Whether no exit had a fault.
    pub(crate) fn is_well(&self) -> bool {
        self.faults.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for cell in &self.listed {
            writeln!(f, "{cell}")?;
        }
        if !self.rows.is_empty() {
            writeln!(
                f,
                "{:<14} {:<10} {:>6} {:>6} {:>9} {:>7} {:>8}",
                "store", "way to end", "exits", "wrong", "slowest", "avg CPU", "max CPU"
            )?;
        }
        for ((store, way), row) in &self.rows {
            let Row { exits, faults, slowest, cpu, most_cpu } = row;
            let (slowest, most) = (slowest.as_millis(), most_cpu.as_millis());
            let cpu = cpu.as_millis() / u128::try_from((*exits).max(1)).unwrap_or(1);
            writeln!(f, "{store:<14} {way:<10} {exits:>6} {faults:>6} {slowest:>6} ms {cpu:>4} ms {most:>5} ms")?;
        }
        for (reason, count) in &self.left_out {
            writeln!(f, "combinations that are not played: {count}, because: {reason}")?;
        }
        for fault in &self.faults {
            writeln!(f, "wrong: {fault}")?;
        }
        if !self.listed.is_empty() {
            return Ok(());
        }
        let exits: usize = self.rows.values().map(|row| row.exits).sum();
        let wrong = self.faults.len();
        writeln!(f, "exits: {exits}, of which wrong: {wrong}; duration: {:.0} s", self.since.elapsed().as_secs_f64())
    }
}
