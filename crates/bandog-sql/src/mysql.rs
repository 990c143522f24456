//! The client of a MySQL or MariaDB server.

pub(crate) mod blocks;
mod check;
mod connection;
mod dial;
mod fault;
mod poll;
mod session;
mod text;

pub(crate) use self::{check::findings, dial::dial, poll::poll, session::prepare, text::with_parameters};
