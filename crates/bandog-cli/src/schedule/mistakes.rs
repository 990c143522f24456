//! Collects the mistakes of a file with their positions, and reports them together.

use std::{cell::RefCell, collections::BTreeSet, ops::Range};

use super::text::Text;
use crate::{console::is_plain, fault::Fault};

/// Maximum number of mistakes to report. Many mistakes often have the same cause.
const REPORTED: usize = 50;
/// Maximum length of a shown line, in characters.
const WIDTH: usize = 100;
/// Number of characters of a long line that are shown before the mistake.
const BEFORE: usize = 60;
/// Maximum number of carets in a row.
const CARETS: usize = 40;

/// The mistakes that were found so far.
#[derive(Debug, Default)]
pub(super) struct Mistakes(RefCell<Vec<Mistake>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mistake {
    /// The position in the text, in bytes.
    at: Range<usize>,
    /// The message.
    what: String,
    kind: MistakeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MistakeKind {
    /// A syntax error of TOML.
    Syntax,
    /// A wrong key or value.
    Meaning,
}

impl Mistakes {
    /// Adds a syntax error of TOML.
    pub(super) fn syntax(&self, at: Range<usize>, what: impl Into<String>) {
        self.0.borrow_mut().push(Mistake { at, what: what.into(), kind: MistakeKind::Syntax });
    }

    /// Adds a mistake: a wrong key or a wrong value.
    pub(super) fn add(&self, at: Range<usize>, what: impl Into<String>) {
        self.0.borrow_mut().push(Mistake { at, what: what.into(), kind: MistakeKind::Meaning });
    }

    /// Ok if there are no mistakes, else an error with all mistakes in the file's order. `tables` contains the start of
    /// each table, as a position in the text.
    ///
    /// If a table has a syntax error, the parser might have missed some keys. So the other mistakes of this table are
    /// not reported. If a line has several syntax errors, only the first syntax error is reported, because the first is
    /// usually the cause of the others.
    pub(super) fn into_result(self, file: &str, text: &Text<'_>, mut tables: Vec<usize>) -> Result<(), Fault> {
        tables.sort_unstable();
        let table = |mistake: &Mistake| tables.partition_point(|start| *start <= mistake.at.start);
        let mut found = self.0.into_inner();
        let broken: BTreeSet<_> =
            found.iter().filter(|mistake| mistake.kind == MistakeKind::Syntax).map(table).collect();
        found.retain(|mistake| mistake.kind == MistakeKind::Syntax || !broken.contains(&table(mistake)));
        found.sort_by_key(|mistake| mistake.at.start);
        found.dedup_by(|next, last| {
            let both_syntax = [&*next, &*last].iter().all(|mistake| mistake.kind == MistakeKind::Syntax);
            next == last || both_syntax && text.line(next.at.start) == text.line(last.at.start)
        });
        if found.is_empty() {
            return Ok(());
        }
        let count = if found.len() == 1 { "1 mistake".to_owned() } else { format!("{} mistakes", found.len()) };
        let pictures: Vec<_> = found.iter().take(REPORTED).map(|mistake| mistake.picture(text)).collect();
        let more =
            if found.len() > REPORTED { format!("\n  and {} more", found.len() - REPORTED) } else { String::new() };
        Err(Fault::usage(format!("{file} has {count}{}{more}", pictures.concat())))
    }
}

impl Mistake {
    /// The mistake as text: the line and column numbers, the message, the line, and carets under the mistake.
    fn picture(&self, text: &Text<'_>) -> String {
        let split = text.split_line(self.at.start);
        let (line, column) = (text.line(self.at.start), split.before.chars().count());
        let length = self.at.end.saturating_sub(self.at.start).min(split.after.len());
        let carets = split.after.char_indices().take_while(|(at, _)| *at < length).count().clamp(1, CARETS);
        let head = format!("\n  line {line}, column {}: {}", column + 1, self.what);
        let skipped = if column > WIDTH - CARETS { column - BEFORE } else { 0 };
        let all = split.before.chars().chain(split.after.chars()).skip(skipped).take(WIDTH);
        let shown: String = all.map(|c| if is_plain(c) { c } else { ' ' }).collect();
        if shown.trim().is_empty() {
            return head;
        }
        format!("{head}\n    {shown}\n    {:1$}{2}", "", column - skipped, "^".repeat(carets))
    }
}
