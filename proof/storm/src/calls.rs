//! What `storm grid` and `storm work` share: the calls of clients, their history, the worker processes, and the run.
//!
//! As in the history of locks, a line is written before the client acts on it, so it survives `kill -9`. The content of
//! the store at the end is a part of the history, too: the calls of the client [`JUDGE`].

mod args;
mod call;
mod disturbances;
mod findings;
mod lines;
mod outcome;
mod parts;
mod play;
mod process;
mod recorded;
mod recorder;
mod report;
mod task;

#[cfg(test)]
pub(crate) use self::lines::Event;
pub(crate) use self::{
    args::PlayArgs,
    call::{Call, Words},
    findings::Findings,
    outcome::Outcome,
    parts::read,
    play::{Played, Plays, run_each},
    process::{Process, Traffic, run},
    recorded::Recorded,
    recorder::Recorder,
    report::{Figures, Report},
    task::{Context, Task},
};

/// The client that reads the objects at the end, when all faults are removed and all other clients have ended.
pub(crate) const JUDGE: u32 = 1_000_000;
