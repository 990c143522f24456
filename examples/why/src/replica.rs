//! A replica of the service with a naive lock in Redis: it sends plain commands on its own connection.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bandog_testkit::{RawRedis, RedisServer, Reply};

use crate::stage::Stage;
use crate::{Result, say};

/// Timeout of a wait for a reply of Redis that a scene expects.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval between two attempts to get a lock.
const INTERVAL: Duration = Duration::from_millis(10);

/// A Lua script, which Redis executes as one step.
pub(crate) struct Script {
    /// How the time line shows it.
    pub(crate) shown: &'static str,
    pub(crate) text: &'static str,
}

/// A process of the order service, with a connection to Redis.
pub(crate) struct Replica<'a> {
    pub(crate) name: &'static str,
    stage: &'a Stage,
    redis: RawRedis,
}

impl<'a> Replica<'a> {
    /// A replica for each name, all on one server.
    pub(crate) fn several<const N: usize>(
        stage: &'a Stage,
        server: &RedisServer,
        names: [&'static str; N],
    ) -> [Self; N] {
        names.map(|name| Self { name, stage, redis: server.client() })
    }

    /// Sends a command, whose words are separated by spaces, and returns the reply.
    pub(crate) fn cmd(&mut self, command: &str) -> Result<String> {
        let reply = self.send(command)?;
        say!(self.stage, self.name, "{command} -> {reply}");
        Ok(reply)
    }

    /// Sends a command again and again until Redis replies with this text.
    pub(crate) fn until(&mut self, wanted: &str, command: &str) -> Result<()> {
        self.repeat(command, |redis| redis.send(command), |reply| reply == wanted, Instant::now() + PATIENCE)?;
        Ok(())
    }

    /// Sends a command again and again for this time, and returns whether Redis has replied with `OK`.
    pub(crate) fn attempt(&mut self, time: Duration, command: &str) -> Result<bool> {
        self.repeat(command, |redis| redis.send(command), |reply| reply == "OK", Instant::now() + time)
    }

    /// Executes a script with one key and its arguments, and returns the reply.
    pub(crate) fn script(&mut self, script: &Script, key: &str, arguments: &[&str]) -> Result<String> {
        let reply = self.send_script(script, key, arguments)?;
        say!(self.stage, self.name, "{} -> {reply}", script.shown);
        Ok(reply)
    }

    /// Executes a script again and again until its reply is a number, which is a fence.
    pub(crate) fn fence(&mut self, script: &Script, key: &str, arguments: &[&str]) -> Result<u64> {
        let mut fence = None;
        let send = |redis: &mut Self| redis.send_script(script, key, arguments);
        self.repeat(
            script.shown,
            send,
            |reply| {
                fence = reply.parse().ok();
                fence.is_some()
            },
            Instant::now() + PATIENCE,
        )?;
        let fence = fence.ok_or("Redis has granted no lock")?;
        self.stage.granted(fence);
        Ok(fence)
    }

    /// Starts the renewing thread of this replica, a watchdog: it executes the script each third of the ttl.
    pub(crate) fn renew(
        &self,
        server: &RedisServer,
        script: &'static Script,
        key: &'static str,
        ttl: Duration,
    ) -> Watchdog {
        say!(self.stage, self.name, "starts a thread: each {} ms, {}", ttl.as_millis() / 3, script.shown);
        let (orders, inbox) = channel();
        let (name, mut redis, ttl_text) = (self.name, server.client(), ttl.as_millis().to_string());
        let thread = thread::spawn(move || {
            let mut is_paused = false;
            loop {
                match inbox.recv_timeout(ttl / 3) {
                    Ok(Order::Pause) => is_paused = true,
                    Ok(Order::Continue) => is_paused = false,
                    Ok(Order::End) | Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) if is_paused => {}
                    // A failed renewal is repeated a third of the ttl later.
                    Err(RecvTimeoutError::Timeout) => {
                        drop(redis.cmd(&["EVAL", script.text, "1", key, name, &ttl_text]))
                    }
                }
            }
        });
        Watchdog { name, orders, thread: Some(thread) }
    }

    /// Repeats a step until its reply is accepted. The time line shows the first reply and the last one.
    fn repeat(
        &mut self,
        shown: &str,
        mut send: impl FnMut(&mut Self) -> Result<String>,
        mut accept: impl FnMut(&str) -> bool,
        until: Instant,
    ) -> Result<bool> {
        let (mut refused, mut tries) = (false, 1);
        loop {
            let reply = send(self)?;
            let accepted = accept(&reply);
            if accepted || !refused {
                say!(self.stage, self.name, "{shown} -> {reply}");
            }
            if accepted {
                return Ok(true);
            }
            if Instant::now() >= until {
                say!(self.stage, self.name, "{shown} -> {reply} (after {tries} attempts)");
                return Ok(false);
            }
            refused = true;
            tries += 1;
            thread::sleep(INTERVAL);
        }
    }

    fn send(&mut self, command: &str) -> Result<String> {
        let words: Vec<_> = command.split(' ').collect();
        Ok(shown(&self.redis.cmd(&words)?))
    }

    fn send_script(&mut self, script: &Script, key: &str, arguments: &[&str]) -> Result<String> {
        Ok(shown(&self.redis.cmd(&[&["EVAL", script.text, "1", key], arguments].concat())?))
    }
}

/// The thread of a replica that renews its lock, until this value is dropped.
pub(crate) struct Watchdog {
    name: &'static str,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    Pause,
    Continue,
    End,
}

impl Watchdog {
    /// Pauses the process: neither this thread nor its other code runs.
    pub(crate) fn pause(&self, stage: &Stage) {
        say!(stage, self.name, "is paused, with all its threads");
        // The thread has not ended, so it gets the message.
        let _ = self.orders.send(Order::Pause);
    }

    /// Continues the process.
    pub(crate) fn wake(&self, stage: &Stage) {
        say!(stage, self.name, "continues");
        let _ = self.orders.send(Order::Continue);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::End);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A reply as `redis-cli` shows it.
fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".into(),
        Reply::Int(number) => number.to_string(),
        Reply::Text(text) | Reply::Error(text) => text.clone(),
        Reply::Bytes(_) | Reply::Array(_) => format!("{reply:?}"),
    }
}
