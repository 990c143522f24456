//! Records that users hear: the store is asked to listen until it does, and again after a fault.

use std::time::Duration;

use bandog_core::{Bell, Key, Moment, Result, Ringer};

use super::{
    Engine,
    msg::Ticket,
    queue::{RECHECK, jittered},
    timers::Timer,
};

/// The longest pause before a store that could not listen is asked again.
const DEAF: Duration = Duration::from_secs(64);

/// Somebody who hears a record. Most engines have none.
pub(super) struct Hearer {
    key: Key,
    ringer: Ringer,
    /// The bell, once the store listens.
    bell: Option<Bell>,
    timer: Option<Moment>,
    /// How long it waits before it asks a store again that could not listen.
    pause: Duration,
}

impl Engine {
    /// Somebody wants to hear a record.
    pub(super) fn hear(&mut self, id: Ticket, key: Key, ringer: Ringer) {
        if self.closing.is_some() {
            return;
        }
        self.hearers.insert(id, Hearer { key, ringer, bell: None, timer: None, pause: RECHECK });
        self.ask_to_hear(id);
    }

    /// Somebody hears no more.
    pub(super) fn hear_no_more(&mut self, id: Ticket) {
        let Some(mut hearer) = self.hearers.remove(&id) else { return };
        self.timers.set(Timer::Hearer(id), &mut hearer.timer, None);
    }

    /// The backend listens, or says why not.
    pub(super) fn heard(&mut self, id: Ticket, bell: Result<Bell>) {
        let Some(hearer) = self.hearers.get_mut(&id) else { return };
        match bell {
            Ok(bell) => {
                let is_news = hearer.bell.is_none() || !bell.is_silent();
                if bell.is_silent() {
                    // It may be able to listen later: the machine's limits, say, are reached now and not then.
                    let again = self.now + jittered(hearer.pause);
                    hearer.pause = DEAF.min(hearer.pause * 2);
                    self.timers.set(Timer::Hearer(id), &mut hearer.timer, Some(again));
                }
                hearer.bell = Some(bell);
                if is_news {
                    hearer.ringer.ring(); // Something may have been written before.
                }
            }
            Err(error) if error.is_retryable() => {
                let again = self.now + jittered(RECHECK);
                self.timers.set(Timer::Hearer(id), &mut hearer.timer, Some(again));
            }
            Err(error) => {
                let key = &hearer.key;
                tracing::warn!(%key, %error, "cannot hear when this record changes; it is looked at now and then");
                hearer.bell = Some(Bell::silent());
            }
        }
    }

    /// A pause is over.
    pub(super) fn hearer_is_due(&mut self, id: Ticket) {
        if let Some(hearer) = self.hearers.get_mut(&id) {
            hearer.timer = None;
            self.ask_to_hear(id);
        }
    }

    /// Rings everybody: something may have been missed.
    pub(super) fn ring_hearers(&self) {
        self.hearers.values().for_each(|hearer| hearer.ringer.ring());
    }

    fn ask_to_hear(&mut self, id: Ticket) {
        let Some(hearer) = self.hearers.get(&id) else { return };
        self.calls.hear(id, hearer.key.clone(), hearer.ringer.clone());
    }
}
