//! The queues, the calls on them, and what handlers record.

use bandog::work::{Delivery, ElementId, Phase};
use serde::{Deserialize, Serialize};

use crate::{
    calls::{item::Item, text, word},
    history::{CallId, Nanos, nanos, now},
};

/// A queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::work) enum Queue {
    /// A queue without a limit, with its number.
    Plain(u32),
    /// A queue whose concurrency is limited.
    Limited,
    /// A queue whose rate is limited.
    Rated,
}

impl Queue {
    pub(in crate::work) const ALL: [Self; 4] = [Self::Plain(0), Self::Plain(1), Self::Limited, Self::Rated];

    /// The name in the store.
    pub(in crate::work) fn name(self) -> String {
        let number = if let Self::Plain(number) = self { number } else { 0 };
        format!("storm:{}.{number}", word(&self))
    }
}

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::work) enum Op {
    /// Pushes an element with this value, which no other push of the run has. A key or an id of `once` of 0 is none. `parts`:
    /// the element waits until the elements with the values before it are done, as many as this.
    Push {
        value: u64,
        key: u32,
        once: u32,
        parts: u32,
        /// The number of bytes of the payload.
        bytes: u32,
    },
    Remove(#[serde(with = "text")] ElementId),
    Retry(#[serde(with = "text")] ElementId),
    RetryAll,
    Pause,
    Resume,
    /// Limits the concurrency. 0: not at all.
    Limit(u32),
    /// Limits the deliveries in each second. 0: not at all.
    Rate(u32),
    Status,
    /// Lists the elements in a phase.
    List(#[serde(with = "phase")] Phase),
    /// Waits for the result of an element.
    Result(#[serde(with = "text")] ElementId),
    /// Stops workers.
    Stop,
    /// A handler settles its delivery.
    Settle {
        handling: CallId,
        how: How,
    },
}

/// How a handler settles its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::work) enum How {
    Done,
    Retry,
    Fail,
    HandBack,
}

/// How a handler gives an element up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::work) enum End {
    /// It returns.
    Ok,
    /// It returns a result with this number of bytes.
    Answers(u32),
    /// It returns an error.
    Error,
    Panic,
    /// Its future is dropped.
    Dropped,
    /// It calls a method that settles the delivery.
    Settles(How),
}

/// What a client records besides its calls. A handler records its end before it ends or settles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::work) enum Note {
    /// A handler begins. The delivery is not lost before `until`, if the handler does not end it.
    Begun {
        handling: CallId,
        at: Nanos,
        queue: Queue,
        #[serde(with = "text")]
        element: ElementId,
        value: u64,
        fence: u64,
        attempt: u32,
        until: Nanos,
    },
    /// The lease was extended.
    Held { handling: CallId, until: Nanos },
    /// The handler gives the element up.
    Left { handling: CallId, at: Nanos, end: End },
    /// At the end of the run, the element was in the queue.
    There {
        queue: Queue,
        #[serde(with = "text")]
        element: ElementId,
        #[serde(with = "phase")]
        phase: Phase,
        attempt: u32,
        /// Whether its error names a limit that a result exceeds.
        names_limit: bool,
    },
    /// The payload with this value is read, which panics. So there is a delivery without a handler.
    Unread { value: u64, at: Nanos },
}

impl Note {
    /// A handler of this delivery begins now.
    pub(in crate::work) fn begun(handling: CallId, queue: Queue, delivery: &Delivery<Item>) -> Self {
        Self::Begun {
            handling,
            at: now(),
            queue,
            element: delivery.id(),
            value: ***delivery,
            fence: delivery.fence().get(),
            attempt: delivery.attempt(),
            until: held_until(delivery),
        }
    }

    /// The handler still works.
    pub(in crate::work) fn held(handling: CallId, delivery: &Delivery<Item>) -> Self {
        Self::Held { handling, until: held_until(delivery) }
    }
}

/// The time until which the delivery is certain. 0: it is not certain now.
fn held_until(delivery: &Delivery<Item>) -> Nanos {
    // The time is read before the rest of the lease, so the sum is not too late.
    let (at, rest) = (now(), delivery.remaining());
    if rest.is_zero() { 0 } else { at + nanos(rest) }
}

/// A phase is written as its word.
mod phase {
    use bandog::work::Phase;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(phase: &Phase, serializer: S) -> Result<S::Ok, S::Error> {
        phase.as_str().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Phase, D::Error> {
        let word = String::deserialize(deserializer)?;
        let phase = Phase::IN_QUEUE.into_iter().find(|phase| phase.as_str() == word);
        phase.ok_or_else(|| D::Error::custom(format!("not a phase: {word}")))
    }
}
