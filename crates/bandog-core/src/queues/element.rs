//! The elements of a work queue.

use std::{
    fmt,
    str::FromStr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{Error, Fence, Result, structures::Bytes};

/// The greatest priority.
pub const MAX_PRIORITY: u8 = 9;
/// Maximum length of [`NewElement::order_key`] and [`OnceId::id`], in bytes.
pub const MAX_ORDER_KEY: usize = 255;

/// The id of an element. Its text is two hexadecimal numbers: `a3f09b1c2d4e5f60-2a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId {
    /// A random number of the program that has pushed the element.
    pub client: u64,
    /// The number of the element within this program: later ones are greater.
    pub number: u64,
}

impl fmt::Display for ElementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:x}", self.client, self.number)
    }
}

impl FromStr for ElementId {
    type Err = Error;

    /// # Errors
    /// `Misused`: the text is no id.
    fn from_str(text: &str) -> Result<Self> {
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+'));
        let parse = || {
            let (client, number) = text.trim().split_once('-')?;
            Some(Self { client: hexadecimal(client)?, number: hexadecimal(number)? })
        };
        parse()
            .ok_or_else(|| Error::misused(format!("{text:?} is not the id of an element, such as a3f09b1c2d4e5f60-2a")))
    }
}

/// Identifies a take, so that a repeated one gets the same elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TakeId {
    /// A random number of the taker.
    pub taker: u64,
    /// The number of the take within the taker: later ones are greater.
    pub number: u64,
}

/// As the text of an [`ElementId`].
impl fmt::Display for TakeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ElementId { client: self.taker, number: self.number }.fmt(f)
    }
}

impl FromStr for TakeId {
    type Err = Error;

    /// # Errors
    /// `Misused`: the text is no id.
    fn from_str(text: &str) -> Result<Self> {
        text.parse().map(|ElementId { client, number }| Self { taker: client, number })
    }
}

/// The priority of an element, from 0 (the default) to [`MAX_PRIORITY`]. Elements with a greater one are delivered first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Priority(u8);

impl Priority {
    /// The greatest priority.
    pub const MAX: Self = Self(MAX_PRIORITY);

    /// # Errors
    /// `Misused`: the number is greater than [`MAX_PRIORITY`].
    pub fn new(number: u8) -> Result<Self> {
        if number > MAX_PRIORITY {
            return Err(Error::misused(format!("the priority is {number}; it must be from 0 to {MAX_PRIORITY}")));
        }
        Ok(Self(number))
    }

    /// The number.
    pub fn get(self) -> u8 {
        self.0
    }
}

/// When a new element becomes ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// After this time.
    After(Duration),
    /// At this time of the store's wall clock.
    At(SystemTime),
}

/// An id by which repeated pushes of the same content are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceId {
    /// The id, which the user chooses: from 1 to [`MAX_ORDER_KEY`] bytes.
    pub id: Arc<str>,
    /// The time for which further pushes with this id are refused, also if the element has ended.
    pub window: Duration,
}

/// A new element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewElement {
    /// Its id.
    pub id: ElementId,
    /// The bytes for the worker, or an [envelope](super::envelope) with headers and them, which only [`envelope::is_envelope`]
    /// tells apart.
    ///
    /// [`envelope::is_envelope`]: super::envelope::is_envelope
    pub payload: Bytes,
    /// When it becomes ready.
    pub when: When,
    /// Its priority.
    pub priority: Priority,
    /// Elements with the same key are delivered one after another, in the order of their pushes: the next one when the one
    /// before is done, dead or removed. From 1 to [`MAX_ORDER_KEY`] bytes.
    pub order_key: Option<Arc<str>>,
    /// Makes repeated pushes one.
    pub once: Option<OnceId>,
    /// The time for which its result is kept. None: it has no result.
    pub keep_result: Option<Duration>,
    /// The element that becomes ready when enough of its predecessors are done. It must be in the same queue.
    pub before: Option<ElementId>,
    /// The number of predecessors that must be done before it becomes ready.
    pub waits_for: u32,
}

impl NewElement {
    /// An element without options.
    pub fn new(id: ElementId, payload: Bytes) -> Self {
        Self {
            id,
            payload,
            when: When::Now,
            priority: Priority::default(),
            order_key: None,
            once: None,
            keep_result: None,
            before: None,
            waits_for: 0,
        }
    }
}

/// What an element is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// It can be taken.
    Ready,
    /// It becomes ready at a time.
    Delayed,
    /// It waits for another element: one with the same key, or its predecessors.
    Blocked,
    /// A taker has it.
    Taken,
    /// It has failed, and stays until an operator retries or removes it.
    Dead,
    /// It has ended; its result is kept for a time.
    Ended,
}

impl Phase {
    /// All phases of elements that are in a queue.
    pub const IN_QUEUE: [Self; 5] = [Self::Ready, Self::Delayed, Self::Blocked, Self::Taken, Self::Dead];

    /// The word for operators.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed => "delayed",
            Self::Blocked => "blocked",
            Self::Taken => "taken",
            Self::Dead => "dead",
            Self::Ended => "ended",
        }
    }
}

/// The stored state of an element, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Its id.
    pub id: ElementId,
    /// Its phase; never [`Phase::Ended`].
    pub phase: Phase,
    /// Ready and blocked: [`Element::place`]. Delayed: when it becomes ready. Taken: the end of the lease, by the clock of
    /// leases. Dead: when it died.
    pub at: u64,
    /// Its place among elements of the same priority or key: the time at which it became ready first.
    pub place: u64,
    /// When it was pushed.
    pub pushed: u64,
    /// Its priority.
    pub priority: Priority,
    /// Its key of order.
    pub order_key: Option<Arc<str>>,
    /// The number of its deliveries.
    pub attempt: u32,
    /// The fence of its last delivery; 0 before the first.
    pub fence: Fence,
    /// The take of its last delivery.
    pub taken_by: Option<TakeId>,
    /// The time for which its result is kept.
    pub keep_result: Option<Duration>,
    /// The element that waits for this one.
    pub before: Option<ElementId>,
    /// The number of predecessors that are not done.
    pub waits_for: u32,
    /// Whether its taker must stop.
    pub is_cancelled: bool,
}
