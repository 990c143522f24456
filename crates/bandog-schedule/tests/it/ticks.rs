//! Each tick runs once, while replicas crash, stop, are disconnected and join, and their clocks are wrong by up to 90
//! seconds. The checker of the crate `bandog-storm` verifies the runs. `cargo xtask storm ticks --store virtual` does
//! the same with a million ticks.
#![allow(dead_code, reason = "bandog-storm uses more of these items")]

use bandog_schedule as schedule;

#[path = "../../../bandog-storm/src/ticks/check.rs"]
mod check;
#[path = "../../../bandog-storm/src/ticks/history.rs"]
mod history;
#[path = "../../../bandog-storm/src/ticks/jobs.rs"]
mod jobs;
#[path = "../../../bandog-storm/src/ticks/virtually.rs"]
mod virtually;

#[test]
fn each_tick_of_a_storm_runs_once() {
    for seed in 1..=3 {
        let size = virtually::Size { nodes: 5, jobs: 12, seconds: 60, seed };
        let findings = check::check(&virtually::run(size));
        assert!(findings.violations.is_empty(), "seed {seed}: {:#?}", findings.report());
        assert!(findings.ticks > 5_000 && findings.ran > 2_000, "seed {seed}: {} of {}", findings.ran, findings.ticks);
    }
}
