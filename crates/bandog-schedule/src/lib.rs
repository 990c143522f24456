//! Jobs that run once per tick in a whole cluster.
//!
//! Users add the `bandog` crate, which re-exports all of this as `bandog::schedule`.

mod board;
mod cancel;
mod declared;
mod dispatch;
#[cfg(test)]
mod fuzz;
mod inject;
mod job;
mod jobs;
mod meters;
mod misfire;
mod news;
mod nodes;
mod pauses;
mod plan;
mod policy;
mod presence;
mod records;
mod recovery;
mod register;
mod rows;
mod run;
mod scheduler;
mod signals;
mod simulate;
mod state;
mod trigger;

pub use bandog_core::Outcome;
pub use bandog_cron::{Cron, DayMatch, Daylight, Dialect, Time, Zone};
pub use declared::{Declared, declared};
pub use inject::Shared;
pub use job::{Job, MAX_NAME};
pub use jobs::{Jobs, MAX_REASON};
pub use nodes::MAX_NODE;
pub use policy::{CatchUp, MAX_DEATHS, OnCrash, Overlap, Retry, Scope, StoreDown};
pub use rows::{Fire, JobRow, NodeRow, Paused, Pauses, Presence, RunRow, State};
pub use run::{Kind, MAX_ERROR, MAX_NOTE, Run};
pub use scheduler::{Running, Scheduler};
pub use simulate::{TestOutcome, TestRun, TestScheduler, TestSetting};

/// The items that the code of `#[bandog::scheduled]` uses. They are not a public API, and might change with each
/// version.
#[doc(hidden)]
pub mod __declared {
    pub use crate::declared::{Declaring, Ended, Piece, ended};
    pub use crate::inject::{Given, Inject, Shares};
    pub use inventory::submit;
}
