//! Each tick runs once, while replicas crash, stop, are disconnected and join, and their clocks are wrong by up to 90
//! seconds. `check` verifies the history of the runs. `proof/storm` uses the same modules: `cargo xtask storm ticks --store
//! virtual` makes a million ticks.
#![allow(dead_code, reason = "bandog-storm uses more of these items")]

use bandog_schedule as schedule;

mod check;
mod history;
mod jobs;
mod virtually;

#[test]
fn each_tick_of_a_storm_runs_once() {
    for seed in 1..=3 {
        let size = virtually::Size { nodes: 5, jobs: 12, seconds: 20, seed };
        let findings = check::check(&virtually::run(size));
        assert!(findings.violations.is_empty(), "seed {seed}: {:#?}", findings.violations);
        assert!(findings.ticks > 1_600 && findings.ran > 650, "seed {seed}: {} of {}", findings.ran, findings.ticks);
    }
}
