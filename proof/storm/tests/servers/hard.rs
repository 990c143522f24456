//! Short storms with the seeds and the weather that once found something, or that leave most calls without an answer.

use super::passes;

/// Each: the arguments, the number of calls, and the seed.
const SEEDS: [(&[&str], u32, u32); 24] = [
    // These have found something.
    (&["work", "memory", "--profile", "panics"], 10_000, 2),
    (&["work", "sqlite", "--profile", "sizes"], 10_000, 2),
    (&["work", "redis", "--profile", "sizes"], 10_000, 2),
    (&["work", "postgres", "--profile", "outages", "--long-outages"], 5_000, 31),
    (&["work", "mariadb", "--profile", "outages", "--long-outages"], 5_000, 32),
    (&["work", "mariadb"], 10_000, 61),
    (&["grid", "memory"], 100_000, 61),
    (&["grid", "redis"], 30_000, 1),
    (&["grid", "redis"], 30_000, 61),
    (&["grid", "redis"], 30_000, 1003),
    (&["grid", "redis"], 30_000, 1006),
    (&["grid", "redis", "--profile", "outages", "--long-outages"], 30_000, 41),
    // These leave most calls without an answer.
    (&["work", "redis", "--profile", "wires"], 5_000, 1),
    (&["work", "redis", "--profile", "packets"], 5_000, 1),
    (&["work", "redis", "--profile", "clocks"], 5_000, 1),
    (&["work", "redis", "--profile", "network"], 5_000, 1),
    (&["work", "postgres", "--profile", "wires"], 5_000, 1),
    (&["work", "postgres", "--profile", "network"], 5_000, 1),
    (&["work", "mariadb", "--profile", "packets"], 5_000, 1),
    (&["work", "sentinel", "--profile", "server"], 5_000, 1),
    (&["work", "cluster", "--profile", "moves"], 5_000, 1),
    (&["grid", "redis", "--profile", "wires"], 10_000, 1),
    (&["grid", "redis", "--profile", "network"], 20_000, 1),
    (&["grid", "redis", "--profile", "packets"], 10_000, 1),
];

#[test]
fn the_hardest_storms_find_nothing() {
    for (args, calls, seed) in SEEDS {
        passes(args, calls, seed);
    }
}
