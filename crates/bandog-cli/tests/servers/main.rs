//! Tests of the command over a real Redis server that is killed, stopped, disconnected and emptied.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue can only panic")]

#[path = "../help/mod.rs"]
mod help;
#[path = "../http/mod.rs"]
mod http;
#[path = "../schedules/mod.rs"]
mod schedules;
#[path = "../token/mod.rs"]
mod token;
#[path = "../verbs/mod.rs"]
mod verbs;

mod away;
mod databases;
mod databases_away;
mod databases_limits;
mod doctor;
mod grid;
mod grid_work;
mod holders;
mod holds;
mod jobs;
mod kinds;
mod mysql;
mod passwords;
mod postgres;
mod refusals;
mod replicas;
mod schedules_away;
mod show;
mod sql;
mod store;
mod tokens;
mod torture;
mod zookeeper;
