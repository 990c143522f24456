//! The changes of a transaction, as columns of statements.

use bandog_core::{
    PORTION, Portion,
    queues::{Element, ElementId, MAX_PRIORITY, Phase},
};

use super::{
    super::{
        elements::{fence_number, id_bytes, id_text, phase_number, take_numbers, write_outcome},
        statements::MySql,
        time::micros,
    },
    view::View,
};
use crate::{client::Statement, fault::Fault, session::Link, value::Parameter};

/// An id as bytes.
type Id = [u8; 16];

/// Maximum number of rows of one statement.
const MAX_ROWS: usize = 1000;
/// The kinds of rows that are kept.
const ONCE: i64 = 0;
const RESULT: i64 = 2;
const WORKER: i64 = 3;

/// The rows that a transaction writes.
pub(super) struct Written<'v> {
    view: &'v View,
    old: &'v [(i64, Vec<u8>)],
    /// The number of the queue.
    number: i64,
    elements: Vec<(&'v Element, Id, Option<Id>)>,
    inserted: Vec<(Id, &'v [u8])>,
    removed: Vec<Id>,
    /// The errors and the progress of elements.
    texts: Vec<(Id, [Option<&'v [u8]>; 2])>,
    kept: Vec<Kept>,
    forgotten: Vec<String>,
}

/// A row that is kept for a time.
struct Kept {
    kind: i64,
    name: String,
    until: i64,
    element: Option<Id>,
    content: Option<Vec<u8>>,
}

impl<'v> Written<'v> {
    pub(super) fn of(view: &'v View, old: &'v [(i64, Vec<u8>)], number: i64) -> Self {
        let changes = &view.changes;
        let bytes = |id: &ElementId| id_bytes(*id);
        let elements = changes.written.iter().filter_map(|id| view.get(*id));
        let texts = changes.texts.iter().filter(|(id, _)| view.get(**id).is_some());
        fn text(text: Option<&String>) -> Option<&[u8]> {
            text.map(String::as_bytes)
        }
        Self {
            view,
            old,
            number,
            elements: elements.map(|element| (element, id_bytes(element.id), element.before.map(id_bytes))).collect(),
            inserted: changes.inserted.iter().map(|id| (id_bytes(*id), view.payload(*id))).collect(),
            removed: changes.removed.iter().map(bytes).collect(),
            texts: texts
                .map(|(id, (error, progress))| (id_bytes(*id), [text(error.as_ref()), text(progress.as_ref())]))
                .collect(),
            kept: kept(view),
            forgotten: changes.forgotten.iter().map(|id| id_text(*id)).collect(),
        }
    }

    /// Executes the statements that are needed, and commits.
    pub(super) async fn write(&self, link: &Link, texts: &MySql) -> Result<(), Fault> {
        // The server has a limit for the length of a statement.
        let rows: Vec<Rows<'_>> = self.elements.chunks(MAX_ROWS).map(|part| Rows::of(part, self.number)).collect();
        let puts: Vec<[Parameter<'_>; 18]> = rows.iter().map(Rows::parameters).collect();

        let bodies: Vec<_> = portions(&self.inserted, |(_, payload)| payload.len())
            .map(|part| {
                let ids: Vec<&[u8]> = part.iter().map(|(id, _)| id.as_slice()).collect();
                let payloads: Vec<&[u8]> = part.iter().map(|(_, payload)| *payload).collect();
                (vec![self.number; part.len()], ids, payloads)
            })
            .collect();
        let put_bodies: Vec<[Parameter<'_>; 3]> =
            bodies.iter().map(|(numbers, ids, payloads)| [numbers as Parameter<'_>, ids, payloads]).collect();

        let removed: Vec<&[u8]> = self.removed.iter().map(Id::as_slice).collect();
        let remove: [Parameter<'_>; 1] = [&removed];

        let changed: Vec<&[u8]> = self.texts.iter().map(|(id, _)| id.as_slice()).collect();
        let changed: Vec<[Parameter<'_>; 3]> = changed
            .iter()
            .zip(&self.texts)
            .map(|(id, (_, [error, progress]))| [id as Parameter<'_>, error, progress])
            .collect();

        let kept: Vec<KeptRows<'_>> = portions(&self.kept, |kept| kept.content.as_ref().map_or(0, Vec::len))
            .map(|part| KeptRows::of(part, self.number))
            .collect();
        let keeps: Vec<[Parameter<'_>; 6]> = kept.iter().map(KeptRows::parameters).collect();

        let result_kinds = vec![RESULT; self.forgotten.len()];
        let forget: [Parameter<'_>; 2] = [&result_kinds, &self.forgotten];
        let old_kinds: Vec<i64> = self.old.iter().map(|(kind, _)| *kind).collect();
        let old_names: Vec<&[u8]> = self.old.iter().map(|(_, name)| name.as_slice()).collect();
        let drop_old: [Parameter<'_>; 2] = [&old_kinds, &old_names];

        let settings = &self.view.settings;
        let (concurrency, deliveries, period) = (
            settings.concurrency.map(|limit| i64::from(limit.get())),
            settings.rate.map(|rate| i64::from(rate.deliveries.get())),
            settings.rate.map(|rate| micros(rate.per)),
        );
        let set: [Parameter<'_>; 5] =
            [&settings.is_paused, &concurrency, &deliveries, &period, &self.view.next_delivery];

        let mut all: Vec<Statement<'_>> = Vec::new();
        if self.view.changes.has_settings {
            all.push((&texts.settings, &set));
        }
        all.extend(puts.iter().map(|put| (texts.put.as_str(), &put[..])));
        all.extend(put_bodies.iter().map(|put| (texts.put_body.as_str(), &put[..])));
        if !removed.is_empty() {
            all.push((&texts.remove, &remove));
        }
        all.extend(changed.iter().map(|parameters| (texts.texts.as_str(), &parameters[..])));
        // A row that is kept now can have the name of an old one.
        let each: [(bool, Statement<'_>); 2] =
            [(!self.forgotten.is_empty(), (&texts.drop, &forget)), (!old_kinds.is_empty(), (&texts.drop, &drop_old))];
        all.extend(each.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, statement)| statement));
        all.extend(keeps.iter().map(|keep| (texts.keep.as_str(), &keep[..])));
        link.end(&all).await.map(drop)
    }
}

/// Rows of elements, as columns of one statement.
struct Rows<'w> {
    numbers: [Vec<i64>; 10],
    optional: [Vec<Option<i64>>; 4],
    ids: Vec<&'w [u8]>,
    befores: Vec<Option<&'w [u8]>>,
    keys: Vec<Option<&'w str>>,
    queue: Vec<i64>,
}

impl<'w> Rows<'w> {
    fn of(rows: &'w [(&Element, Id, Option<Id>)], queue: i64) -> Self {
        let of = |column: &dyn Fn(&Element) -> i64| rows.iter().map(|(element, ..)| column(element)).collect();
        let optional =
            |column: &dyn Fn(&Element) -> Option<i64>| rows.iter().map(|(element, ..)| column(element)).collect();
        let time = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
        Self {
            numbers: [
                of(&|element| phase_number(element.phase)),
                of(&line),
                of(&|element| i64::from(element.priority.get())),
                of(&|element| time(element.at)),
                of(&|element| time(element.place)),
                of(&|element| time(element.pushed)),
                of(&|element| i64::from(element.attempt)),
                of(&|element| fence_number(element.fence)),
                of(&|element| i64::from(element.waits_for)),
                of(&|element| i64::from(element.is_cancelled)),
            ],
            optional: [
                optional(&|element| element.taken_by.map(|take| take_numbers(take)[0])),
                optional(&|element| element.taken_by.map(|take| take_numbers(take)[1])),
                optional(&|element| element.keep_result.map(micros)),
                optional(&order_at),
            ],
            ids: rows.iter().map(|(_, id, _)| id.as_slice()).collect(),
            befores: rows.iter().map(|(.., before)| before.as_ref().map(Id::as_slice)).collect(),
            keys: rows.iter().map(|(element, ..)| element.order_key.as_deref()).collect(),
            queue: vec![queue; rows.len()],
        }
    }

    fn parameters(&self) -> [Parameter<'_>; 18] {
        let [phases, lines, priorities, ats, places, pushed, attempts, fences, waits, cancelled] = &self.numbers;
        let [takers, takes, keep_results, order_ats] = &self.optional;
        let Self { ids, befores, keys, queue, .. } = self;
        [
            ids,
            phases,
            lines,
            priorities,
            ats,
            places,
            pushed,
            attempts,
            fences,
            takers,
            takes,
            keep_results,
            befores,
            waits,
            cancelled,
            keys,
            order_ats,
            queue,
        ]
    }
}

/// Rows that are kept for a time, as columns of one statement.
struct KeptRows<'w> {
    kinds: Vec<i64>,
    names: Vec<&'w str>,
    untils: Vec<i64>,
    elements: Vec<Option<&'w [u8]>>,
    contents: Vec<Option<&'w [u8]>>,
    queue: Vec<i64>,
}

impl<'w> KeptRows<'w> {
    fn of(rows: &'w [Kept], queue: i64) -> Self {
        Self {
            kinds: rows.iter().map(|kept| kept.kind).collect(),
            names: rows.iter().map(|kept| kept.name.as_str()).collect(),
            untils: rows.iter().map(|kept| kept.until).collect(),
            elements: rows.iter().map(|kept| kept.element.as_ref().map(Id::as_slice)).collect(),
            contents: rows.iter().map(|kept| kept.content.as_deref()).collect(),
            queue: vec![queue; rows.len()],
        }
    }

    fn parameters(&self) -> [Parameter<'_>; 6] {
        [&self.kinds, &self.names, &self.untils, &self.elements, &self.contents, &self.queue]
    }
}

/// The rows in parts, each for one statement. A statement has two digits for each byte of these lengths.
fn portions<T>(rows: &[T], length: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let part = Portion::new(MAX_ROWS, PORTION / 2).first(rest, &length);
        rest = &rest[part.len()..];
        (!part.is_empty()).then_some(part)
    })
}

/// The rows that are kept for a time.
fn kept(view: &View) -> Vec<Kept> {
    let time = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    let changes = &view.changes;
    let once = changes.once.iter().map(|(id, (by, until))| Kept {
        kind: ONCE,
        name: id.clone(),
        until: time(*until),
        element: Some(id_bytes(*by)),
        content: None,
    });
    let results = changes.results.iter().map(|(id, (outcome, until))| Kept {
        kind: RESULT,
        name: id_text(*id),
        until: time(*until),
        element: None,
        content: Some(write_outcome(outcome)),
    });
    let worker = changes.worker.iter().map(|(id, text, until)| Kept {
        kind: WORKER,
        name: format!("{id:016x}"),
        until: time(*until),
        element: None,
        content: Some(text.as_bytes().to_vec()),
    });
    once.chain(results).chain(worker).collect()
}

/// The column that sorts ready elements by their priority.
fn line(element: &Element) -> i64 {
    if element.phase == Phase::Ready { i64::from(MAX_PRIORITY - element.priority.get()) } else { 0 }
}

/// The column that sorts the elements of a key: first the one that is ready, delayed or taken, then the blocked ones.
fn order_at(element: &Element) -> Option<i64> {
    element.order_key.as_ref()?;
    match element.phase {
        Phase::Ready | Phase::Delayed | Phase::Taken => Some(-1),
        Phase::Blocked if element.waits_for == 0 => Some(i64::try_from(element.at).unwrap_or(i64::MAX)),
        Phase::Blocked | Phase::Dead | Phase::Ended => None,
    }
}
