//! Tests of the command over SQLite, with real processes and real signals. Only `cached` needs a server.

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

mod cached;
mod children;
mod codes;
mod cron;
mod doctor;
mod endings;
mod forget;
mod input;
mod job_files;
mod jobs;
mod keeper;
mod kinds;
mod manual;
mod nested;
mod page;
mod queries;
mod queues;
mod reload;
mod schedule;
mod several;
mod signals;
mod store;
mod stores;
mod terminal;
mod tokens;
mod torture;
mod work;
