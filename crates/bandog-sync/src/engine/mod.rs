//! The engine: one actor per client. It is the only part of the crate that sends requests to the store.
//!
//! # Words
//! - A *claim* is a request for a lock. Each claim has an id. If the store does not answer a claim, the claim is
//!   repeated with the same id.
//! - A *hold* is what the store gives for a claim: the key belongs to this client until a deadline.
//! - A *turn* begins when a call of this client gets the hold, and ends when the last guard of the turn is dropped.
//!   Calls of one owner can share a turn. A hold can serve several calls, one turn after another.
//! - A *slot* is the state of one key and one kind of lock in this client: the calls that wait, their claim and the
//!   holds. Each call for a fair mutex has a slot of its own.
//!
//! # Ownership
//! The engine owns all queues, holds, deadlines and pending releases of its client. Users send messages ([`Msg`]) to
//! the engine, and most messages carry a oneshot for the reply. The futures of the backend's calls are polled by the
//! engine, not by users. So all state is in one place, and the drop of a future only causes one more message
//! ([`Msg::Cancel`]).
//!
//! Three things are shared between the engine and its users: the [`crate::turn_status::TurnStatus`] of each turn, the
//! turns of each [`crate::Owner`], and the list of keys for which a notification has arrived.
//!
//! # A round
//! The engine sleeps until there is work. Then it processes all answers, messages, notifications and timers that are
//! ready, in this order. Then it sends the requests that result from this work. Answers are first, so that a message is
//! handled with the newest knowledge about the store. Timers are last, so that no call times out while its answer is
//! waiting to be processed.
//!
//! # Decisions
//! The engine itself decides nothing about a key. It passes each event to the key's state machine ([`slot`]) or to the
//! state machine of the pending releases ([`releases`]). These state machines answer with effects, which the engine
//! executes. Neither state machine does I/O.
//!
//! # A dropped future
//! A user can drop the future of a call at any await. A value in the future notices the drop and sends a message:
//! - *Lock*: `QueuedCall` sends [`Msg::Cancel`], or the turn in the oneshot sends [`Msg::Release`]. A claim in flight
//!   is not cancelled, because the store can apply it at any time: the slot waits for the answer. A hold that no call
//!   needs is released. The documentation of [`slot`] describes each state, and the downgrade.
//! - *Several locks* (`all`): the guards that the call has got send [`Msg::Release`] each, and the lock that it waits
//!   for is cancelled as above. Between two attempts, the call has nothing in the store.
//! - *Query* ([`Msg::Query`]): the drop of the oneshot ends the backend's future. The store may still apply the
//!   request.
//! - *Latch*: an operation is a query. It is not repeated any more, so it is counted once at most. `latch::turns` keeps
//!   its number as long as it may reach the store. A wait has nothing in the store: its query ends, and its
//!   notifications send [`Msg::UnsubscribeRecord`].
//! - *Campaign*: the wait is that of a lock. During the write of the record, `election::leader::RecordEntry` sends a
//!   query that deletes the record if it has this candidate's text, and then the turn sends [`Msg::Release`]. A write
//!   that is applied after the query stays until the next leader, and observers ignore it: its claim does not hold the
//!   mutex.
//! - *Barrier*: the turn of the seat's mutex sends [`Msg::Release`], and the notifications [`Msg::UnsubscribeRecord`].
//!   The record still names the party. The arrival that would open the barrier removes the parties that do not hold a
//!   seat.
//! - *Release, extend*: the message is sent already, and nothing is undone. *Detach*: if the engine has not handled the
//!   message, the turn sends [`Msg::Release`]; otherwise the lock stays until the end of its lease.
//!
//! No future of a user polls a backend's call for a lock, so a quorum of stores needs no path of its own for this. It
//! drops requests to slow nodes itself: the documentation of `bandog-quorum` describes what happens then.
//!
//! # The parts of a call
//! - `crate::lock::QueuedCall` is in the caller's future, and its drop cancels the call.
//! - [`Call`] is what the caller sends and the slot's queue keeps. Its [`Wait`] has the times that the queue sets.
//! - `crate::turn::OwnerCall` is in the table of an owner, which the caller and the engine share. It keeps a shared
//!   turn until the caller takes it.
//!
//! # Modules
//! - `actor`: the state of the engine, and its loop; `call`: a call, from its caller to the queue of its slot;
//! - `slot`: the state machine of one key and one kind of lock; its modules are listed there; `fair_calls`: the calls for
//!   fair mutexes;
//! - `releases`: repeats releases until the store has answered them; `backoff`: delays before repeated requests;
//! - `effects`: passes events to slots and executes their effects; `outbox`: decides which requests are sent together;
//! - `self_deadlock`: warnings about calls that may wait for a lock that their own task holds; `outages`: log lines
//!   about a store that does not answer;
//! - `deadlocks`: finds circles of owners that wait for each other's locks;
//! - `record_subscriptions`: records and latches to which users subscribe;
//! - `registration`: writes this client into the store's registry, for operators;
//! - `health`: whether the store answers, for readiness probes;
//! - `calls`, `timers`, `notifications`: the events that the engine waits for; `answers`: what the store answers; `msg`:
//!   the messages of its users;
//! - `runner`: the thread or task of the engine; `metrics`: its counters.

mod actor;
mod answers;
mod backoff;
mod call;
mod calls;
mod deadlocks;
mod effects;
mod fair_calls;
mod health;
mod map;
mod metrics;
mod msg;
mod notifications;
mod outages;
mod outbox;
mod record_subscriptions;
mod registration;
mod releases;
mod runner;
mod self_deadlock;
mod slot;
mod timers;

pub(crate) use self::actor::Engine;
pub(crate) use self::call::{Call, TurnGrant, Wait};
pub(crate) use self::calls::{apply_one, renew_one};
pub(crate) use self::msg::Msg;
pub(crate) use self::runner::Runner;
pub(crate) use self::slot::{FIRST_ANSWER, MAX_TURNS};
