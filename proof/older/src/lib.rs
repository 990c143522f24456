//! Tests of programs of an older version and of this one on one store. `cargo xtask older` runs them.
