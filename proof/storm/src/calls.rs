//! What all kinds of traffic share (locks, ticks, grid, work): the calls of clients and their history, the worker
//! processes, the run under faults, and the report.
//!
//! A line of the history is written before the client acts on it, so it survives `kill -9`. The content of the store at the
//! end is a part of the history, too: the calls of the client [`JUDGE`].
//!
//! A kind of traffic has [`Words`] (what is called, and the other lines of its history), a [`Traffic`] (what a client
//! does), a checker (a function from its history to [`Findings`]), and a function `run_on` that plays its [`Plays`] and
//! makes the [`Report`]. To add
//!
//! - *a call, or a dimension of calls* such as the size of a payload: a variant or a field of `Op`, and the call in
//!   `worker`. The history writes and reads it without further code, and the report counts it; [`Words::label`] says how
//!   calls are grouped. What is measured besides calls is a [`Findings::count`] or [`Findings::most`];
//! - *a line of the history*: a variant of `Words::Other`, which [`Recorder::note`] writes, and [`Recorded::others`] has;
//! - *a law*: a function of the checker that calls [`Findings::broken`], its line in the checker's heading, and a test that
//!   breaks it. The laws `late`, `errors` and `never` are those of [`Recorded`]. An allowed case is a
//!   [`Findings::excuse`];
//! - *a fault*: a variant of [`FaultKind`](crate::fault::FaultKind) and its row in the table of `fault.rs`, with the stores
//!   that have it; how `nemesis.rs` begins it (`apply`), for how long (`length`) and how it ends (`end`). All kinds of
//!   traffic have it then, except those that leave it out (`FaultKind::of_…`). Of servers, `TestStore` has the access.
//!   What it excuses is a question to `Disturbances`;
//! - *a property of a store*, such as a limit of packets: a field of [`Purpose`](crate::test_store::Purpose).

mod args;
mod call;
mod disturbances;
mod event;
mod findings;
pub(crate) mod item;
mod memory;
mod outcome;
mod play;
mod process;
mod progress;
mod recorded;
mod recorder;
mod report;
mod run_delay;
mod stranger;
mod task;
pub(crate) mod text;

#[cfg(test)]
pub(crate) use self::event::Event;
pub(crate) use self::{
    args::PlayArgs,
    call::{Call, Words, word},
    findings::Findings,
    memory::Store as MemoryStore,
    outcome::Outcome,
    play::{Played, Plays, Until, run_each},
    process::{DONE, ENDED, Process, Traffic, print_line, run},
    recorded::Recorded,
    recorder::Recorder,
    report::{Figures, Report},
    task::{Context, Task, caught},
};

/// The client that reads the objects at the end, when all faults are removed and all other clients have ended.
pub(crate) const JUDGE: u32 = 1_000_000;
