//! The display of a running phase: a picture that is redrawn on a terminal, or else a line per second.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use super::{
    books::{Counts, Latest},
    paint::{Paint, can_move, columns},
    plan::Plan,
};

/// Interval between two plain lines.
const LINE: Duration = Duration::from_secs(1);

/// Minimum width for the picture. A narrower terminal gets plain lines.
const WIDTH: u16 = 80;

/// Width of the progress bar, in characters.
const BAR: usize = 40;

/// Maximum number of replicas that are shown with spaces between them.
const SPACED: u16 = 16;

/// The state of a phase.
#[derive(Debug)]
pub(super) struct Scene {
    /// Whether the phase has a scheduler.
    pub(super) lock: bool,
    pub(super) replicas: u16,
    pub(super) counts: Counts,
    /// The numbers of the replicas that are sweeping now.
    pub(super) sweeping: Vec<u16>,
    /// The scheduler's latest run, if there was one.
    pub(super) latest: Option<Latest>,
}

/// Draws on standard error, because standard output is for results.
pub(super) struct View {
    /// Whether a picture is redrawn. Otherwise plain lines are printed.
    live: bool,
    paint: Paint,
    /// The present picture on the terminal.
    drawn: Vec<String>,
    /// Time of the last plain line.
    printed: Option<Instant>,
}

impl View {
    pub(super) fn on_stderr() -> Self {
        let live = can_move(&io::stderr()) && columns(&io::stderr()) >= WIDTH;
        Self { live, paint: Paint::on(&io::stderr()), drawn: Vec::new(), printed: None }
    }

    /// Prints the introduction.
    pub(super) fn open(&self, plan: &Plan) {
        let Plan { replicas, orders, .. } = plan;
        print_line(&format!(
            "An order service runs as {replicas} processes over one database. Twice a second each of\n\
             them searches for overdue orders, closes them, and returns their stock.\n\
             {orders} unpaid orders are about to become overdue.\n"
        ));
    }

    /// Starts the display of a phase. `store` is the name of the scheduler's store. `store` is none for the phase
    /// without a scheduler.
    pub(super) fn begin(&mut self, store: Option<&str>, plan: &Plan) {
        let title = match store {
            Some(store) => format!("{} {}", self.paint.bold("With bandog"), self.paint.faint(&format!("on {store}"))),
            None => self.paint.bold("Without a lock"),
        };
        print_line(&title);
        self.drawn.clear();
        self.printed = None;
        if self.live {
            self.put(vec![format!("  {} processes are starting ...", plan.replicas)]);
        }
    }

    /// Shows the present state of a phase.
    pub(super) fn draw(&mut self, scene: &Scene) {
        if self.live {
            return self.put(self.picture(scene));
        }
        if self.printed.is_none_or(|at| at.elapsed() >= LINE) {
            self.printed = Some(Instant::now());
            print_line(&line(scene));
        }
    }

    /// Shows the final state of a phase.
    pub(super) fn end(&mut self, scene: &Scene) {
        if !self.live {
            return print_line(&format!("{}\n", line(scene)));
        }
        let Counts { sweeps, swept_by, .. } = scene.counts;
        let sweeps = format!("{sweeps:>4}    {}, by {}", for_ticks(&scene.counts), replicas(swept_by));
        let mut picture = self.picture(scene);
        picture.truncate(2);
        picture.push(self.row("sweeps", &sweeps));
        if let Some(Latest { fence, .. }) = scene.latest {
            picture.push(self.row("last fence", &format!("{fence}, and the shop refuses smaller ones")));
        }
        picture.push(String::new());
        self.put(picture);
    }

    /// The rows of the picture.
    fn picture(&self, scene: &Scene) -> Vec<String> {
        let Counts { orders, closed, restored, restored_more_than_once: twice, .. } = scene.counts;
        let done = if orders == 0 { 0 } else { BAR * closed as usize / orders as usize };
        let (full, empty) = ("━".repeat(done), "─".repeat(BAR - done));
        let once = restored.saturating_sub(twice);
        let repeated = format!("more than once {twice:>4}");
        let repeated = if twice == 0 { self.paint.faint(&repeated) } else { self.paint.red(&repeated) };
        let mut rows = vec![
            self.row("closed", &format!("{}{}  {closed:>4} of {orders}", full, self.paint.faint(&empty))),
            self.row("returned", &format!("once {once:>4}    {repeated}")),
            self.row("replicas", &self.dots(scene)),
        ];
        if scene.lock {
            rows.push(self.row("job", &self.job(scene.latest)));
        }
        rows
    }

    fn row(&self, name: &str, text: &str) -> String {
        format!("  {} {text}", self.paint.faint(&format!("{name:<11}")))
    }

    /// A dot for each replica. The dots of the replicas that are sweeping have a colour.
    fn dots(&self, scene: &Scene) -> String {
        let dot =
            |number| if scene.sweeping.contains(&number) { self.paint.yellow("●") } else { self.paint.faint("·") };
        let dots: Vec<_> = (1..=scene.replicas).map(dot).collect();
        if scene.replicas > SPACED {
            return dots.concat();
        }
        let doing = match scene.sweeping.len() {
            0 if scene.lock => "all wait for the next tick".to_owned(),
            0 => "all wait for their timers".to_owned(),
            1 => "one sweeps".to_owned(),
            many => format!("{many} sweep at the same time"),
        };
        format!("{}   {}", dots.join(" "), self.paint.faint(&doing))
    }

    /// The scheduler's latest run as text.
    fn job(&self, latest: Option<Latest>) -> String {
        match latest {
            Some(Latest { replica, fence, is_running: true }) => format!("runs on replica {replica}, fence {fence}"),
            Some(Latest { replica, fence, is_running: false }) => {
                self.paint.faint(&format!("ran last on replica {replica}, fence {fence}"))
            }
            None => self.paint.faint("has not run yet"),
        }
    }

    /// Replaces the picture if it has changed. The terminal gets the whole picture in one write, so that nothing
    /// flickers.
    fn put(&mut self, picture: Vec<String>) {
        if picture == self.drawn || columns(&io::stderr()) < WIDTH {
            return;
        }
        let up = if self.drawn.is_empty() { String::new() } else { format!("\x1b[{}A", self.drawn.len()) };
        let mut text = format!("{up}\r");
        for row in &picture {
            text.push_str(row);
            text.push_str("\x1b[K\n");
        }
        text.push_str("\x1b[J"); // Clears the rest of a longer picture.
        print(&text);
        self.drawn = picture;
    }
}

/// The state of a phase as one plain line.
fn line(scene: &Scene) -> String {
    let Counts { orders, closed, restored_more_than_once: twice, .. } = scene.counts;
    let mut line = format!("  {closed} of {orders} closed, stock returned more than once for {twice}");
    if let Some(Latest { replica, fence, is_running: true }) = scene.latest {
        line.push_str(&format!("; the job runs on replica {replica}, fence {fence}"));
    }
    line
}

/// Two numbers as text: the ticks that had sweeps, and the sweeps that repeated a tick after a replica died.
pub(super) fn for_ticks(counts: &Counts) -> String {
    let Counts { ticks, taken_over, .. } = counts;
    let again = if *taken_over == 0 { String::new() } else { format!(", {taken_over} run again after a replica died") };
    format!("for {ticks} ticks{again}")
}

pub(super) fn replicas(count: u32) -> String {
    if count == 1 { "one replica".to_owned() } else { format!("{count} replicas") }
}

fn print_line(text: &str) {
    print(&format!("{text}\n"));
}

/// Writes a text to standard error. An error is ignored, for example if standard error is closed.
fn print(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
