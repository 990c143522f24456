//! Each kind of lock, with several pairs of programs: Java alone, and Java with bandog.
//!
//! The tests of Java alone show that the other tests would notice a defect, and what they may expect of Redisson.

use std::time::Duration;

use crate::{
    neighbour::{Neighbour, Program},
    rig::{Pair, TTL},
};

mod contended;
mod fair;
mod forced;
mod hand_over;
mod latch;
mod places;
mod read_write;
mod semaphores;
mod stopped;

/// A short ttl for tests of killed holders and stopped waiters.
const SHORT: Duration = Duration::from_secs(3);

/// Declares a test of each of these pairs for each function. The functions below start the pairs.
macro_rules! for_pairs {
    ($($test:ident: $($pair:ident)+;)+) => {$(
        mod $test {
            $(#[test]
            fn $pair() {
                super::$test(&$crate::kinds::$pair());
            })+
        }
    )+};
}
use for_pairs;

/// Redisson 4.7.0 in both JVMs.
fn java_alone() -> Pair {
    Pair::start(TTL, [Program::Redisson4, Program::Redisson4])
}

/// Redisson 4.7.0 and 3.10.6.
fn both_versions() -> Pair {
    Pair::start(TTL, [Program::Redisson4, Program::Redisson3])
}

/// Redisson 4.7.0 and bandog.
fn java_and_bandog() -> Pair {
    Pair::start(TTL, [Program::Redisson4, Program::Bandog])
}

/// Redisson 3.10.6 and bandog.
fn old_java_and_bandog() -> Pair {
    Pair::start(TTL, [Program::Redisson3, Program::Bandog])
}

/// [`java_and_bandog`] with a ttl of 3 s.
fn short_java_and_bandog() -> Pair {
    Pair::start(SHORT, [Program::Redisson4, Program::Bandog])
}

/// [`old_java_and_bandog`] with a ttl of 3 s.
fn short_old_java_and_bandog() -> Pair {
    Pair::start(SHORT, [Program::Redisson3, Program::Bandog])
}

/// Whether locks of this neighbour report that they were lost.
fn reports_losses(neighbour: &Neighbour) -> bool {
    !neighbour.program.is_java()
}
