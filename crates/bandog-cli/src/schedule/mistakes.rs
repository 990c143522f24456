//! What is wrong with a file, and where: all of it at once.

use std::{cell::RefCell, collections::BTreeSet, ops::Range};

use super::text::Text;
use crate::{fault::Fault, voice::is_plain};

/// So many mistakes are told; there may be a way to tell them all by one word.
const TOLD: usize = 50;
/// So much of a line is shown, in characters.
const WIDTH: usize = 100;
/// Of a long line, so much is shown before the place.
const BEFORE: usize = 60;
/// The most carets in a row.
const CARETS: usize = 40;

/// What was found so far. Places are bytes of the file's text.
#[derive(Debug, Default)]
pub(super) struct Mistakes(RefCell<Vec<Mistake>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mistake {
    at: Range<usize>,
    what: String,
    of: Of,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Syntax,
    Meaning,
}

impl Mistakes {
    /// The text is no TOML here.
    pub(super) fn syntax(&self, at: Range<usize>, what: impl Into<String>) {
        self.0.borrow_mut().push(Mistake { at, what: what.into(), of: Of::Syntax });
    }

    /// What stands here cannot be.
    pub(super) fn add(&self, at: Range<usize>, what: impl Into<String>) {
        self.0.borrow_mut().push(Mistake { at, what: what.into(), of: Of::Meaning });
    }

    /// Nothing, or all of them as one fault, in the file's order. `tables` is where the tables begin.
    ///
    /// A table whose text is broken may lack what it would have, so nothing else is said of it. And of what does not
    /// parse only the first in a line is told, since a parser stumbles on after it.
    pub(super) fn none_of(self, file: &str, text: &Text<'_>, mut tables: Vec<usize>) -> Result<(), Fault> {
        tables.sort_unstable();
        let table = |mistake: &Mistake| tables.partition_point(|start| *start <= mistake.at.start);
        let mut told = self.0.into_inner();
        let broken: BTreeSet<_> = told.iter().filter(|mistake| mistake.of == Of::Syntax).map(table).collect();
        told.retain(|mistake| mistake.of == Of::Syntax || !broken.contains(&table(mistake)));
        told.sort_by_key(|mistake| mistake.at.start);
        told.dedup_by(|next, last| {
            let stumbles = [&*next, &*last].iter().all(|mistake| mistake.of == Of::Syntax);
            next == last || stumbles && text.line(next.at.start) == text.line(last.at.start)
        });
        if told.is_empty() {
            return Ok(());
        }
        let count = if told.len() == 1 { "1 mistake".to_owned() } else { format!("{} mistakes", told.len()) };
        let pictures: Vec<_> = told.iter().take(TOLD).map(|mistake| mistake.picture(text)).collect();
        let more = if told.len() > TOLD { format!("\n  and {} more", told.len() - TOLD) } else { String::new() };
        Err(Fault::usage(format!("{file} has {count}{}{more}", pictures.concat())))
    }
}

impl Mistake {
    /// Line and column in words, the line, and carets under the place.
    fn picture(&self, text: &Text<'_>) -> String {
        let place = text.place(self.at.start);
        let (line, column) = (text.line(self.at.start), place.before.chars().count());
        let length = self.at.end.saturating_sub(self.at.start).min(place.after.len());
        let carets = place.after.char_indices().take_while(|(at, _)| *at < length).count().clamp(1, CARETS);
        let head = format!("\n  line {line}, column {}: {}", column + 1, self.what);
        let skipped = if column > WIDTH - CARETS { column - BEFORE } else { 0 };
        let all = place.before.chars().chain(place.after.chars()).skip(skipped).take(WIDTH);
        let shown: String = all.map(|c| if is_plain(c) { c } else { ' ' }).collect();
        if shown.trim().is_empty() {
            return head;
        }
        format!("{head}\n    {shown}\n    {:1$}{2}", "", column - skipped, "^".repeat(carets))
    }
}
