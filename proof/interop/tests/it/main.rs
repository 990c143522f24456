//! One lock, held from Rust and from Java: the real Redisson and bandog on one Redis, the real Curator and bandog on
//! one ZooKeeper (`curator`), and the real ShedLock and bandog on one database (`shedlock`).
//!
//! `grid` has the tests of maps, queues and other objects with Redisson.
//!
//! The locks of `?layout=setnx` are tested with rslock and redsync (`strings`).
//!
//! "Ours" is the Rust side with bandog, and "theirs" is the Java side.
//!
//! `cargo xtask interop` builds the Java side and runs these tests. The tests print the times that they measure.

mod codecs;
mod counter;
mod counter_file;
mod curator;
mod deaths;
mod exclusion;
mod fences;
mod golden;
mod grid;
mod hand_over;
mod kinds;
mod names;
mod neighbour;
mod objects;
mod plain_semaphore;
mod redsync;
mod rig;
mod shedlock;
mod stage;
mod strings;
mod topics;
mod watchdogs;
