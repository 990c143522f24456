//! Objects of the grid, used from Rust and from Java: the real Redisson 4.7.0 and bandog on one Redis.
mod both_ways;
mod contended;
mod side;
