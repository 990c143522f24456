//! The history of work queues: pushes and calls of operators, and the handlers of deliveries.

mod words;

use std::collections::HashMap;

use bandog::work::{ElementId, Phase};

pub(super) use self::words::{End, How, Note, Op, Queue};
use crate::{
    calls::{self, Recorded, Words, word},
    history::{CallId, Nanos},
};

/// The words of work queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Work;

impl Words for Work {
    type Object = Queue;
    type Op = Op;
    type Other = Note;

    fn label(queue: Queue, op: Op) -> String {
        let op = if let Op::Settle { how, .. } = op { word(&how) } else { word(&op) };
        format!("{} {op}", word(&queue))
    }
}

pub(super) type Call = calls::Call<Work>;

/// A delivery of an element, from the begin of its handler to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handling {
    pub(super) client: u32,
    pub(super) id: CallId,
    pub(super) queue: Queue,
    pub(super) element: ElementId,
    pub(super) value: u64,
    pub(super) fence: u64,
    pub(super) attempt: u32,
    pub(super) begin: Nanos,
    /// The handler was sure that the delivery was not lost before this time.
    pub(super) until: Nanos,
    /// When and how the handler has given the element up. None: its process was killed before.
    pub(super) left: Option<(Nanos, End)>,
}

impl Handling {
    /// The end of the time in which the handler believed that it has the element.
    pub(super) fn believes_until(&self) -> Nanos {
        self.left.map_or(self.until, |(at, _)| at.min(self.until))
    }
}

/// An element that was in a queue at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct There {
    pub(super) queue: Queue,
    pub(super) element: ElementId,
    pub(super) phase: Phase,
    pub(super) attempt: u32,
    pub(super) names_limit: bool,
}

/// The whole history.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    pub(super) recorded: Recorded<Work>,
    /// In the order of their beginnings.
    pub(super) handlings: Vec<Handling>,
    pub(super) there: Vec<There>,
    /// The values whose payloads have panicked while they were read, and when.
    pub(super) unread: HashMap<u64, Vec<Nanos>>,
    /// What was left in the store at the end, and should not be.
    pub(super) left: Vec<String>,
}

impl History {
    pub(super) fn of(recorded: Recorded<Work>) -> Self {
        let (mut handlings, mut there) = (Vec::<Handling>::new(), Vec::new());
        let mut unread = HashMap::<u64, Vec<Nanos>>::new();
        let mut open = HashMap::new();
        for (client, note) in recorded.others.iter().copied() {
            let index = |handling| open.get(&(client, handling)).copied();
            match note {
                Note::Begun { handling: id, at: begin, queue, element, value, fence, attempt, until } => {
                    open.insert((client, id), handlings.len());
                    let left = None;
                    handlings.push(Handling { client, id, queue, element, value, fence, attempt, begin, until, left });
                }
                Note::Held { handling, until } => {
                    if let Some(index) = index(handling) {
                        handlings[index].until = handlings[index].until.max(until);
                    }
                }
                Note::Left { handling, at, end } => {
                    if let Some(index) = index(handling) {
                        handlings[index].left = Some((at, end));
                    }
                }
                Note::There { queue, element, phase, attempt, names_limit } => {
                    there.push(There { queue, element, phase, attempt, names_limit });
                }
                Note::Unread { value, at } => unread.entry(value).or_default().push(at),
            }
        }
        handlings.sort_by_key(|handling| (handling.begin, handling.client, handling.id));
        Self { recorded, handlings, there, unread, left: Vec::new() }
    }
}
