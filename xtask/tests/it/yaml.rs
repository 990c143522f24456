//! Finds mistakes in YAML without a parser.

use std::collections::BTreeSet;

#[test]
fn mistakes_in_yaml_are_found() {
    let good = "a:\n  - b: 1 # it's\n    c: >-\n      d:\n         e {\n    f: { g: [\"{\"] }\n  - b: 2\n---\na: 'x'\n";
    assert_eq!(mistakes(good), Vec::<String>::new());
    let wrong = [
        "a:\n\tb: 1",
        "a: 1\n  b: 2",
        "a:\n    b: 1\n  c: 2",
        "a:\n   b: 1",
        "a: {",
        "a: \"b",
        "a: 1 ",
        "a: 1\na: 2",
        "a:\n  - b: 1\n    b: 2",
        "just text",
    ];
    for text in wrong {
        assert_eq!(mistakes(text).len(), 1, "{text:?}");
    }
}

/// Mistakes in a YAML text that can be found without a parser: tabs, spaces at the end, wrong levels of indentation,
/// repeated keys, and quotes and brackets of a line that are not closed.
pub(crate) fn mistakes(text: &str) -> Vec<String> {
    let mut mistakes = Vec::new();
    let mut levels: Vec<(usize, BTreeSet<&str>)> = vec![(0, BTreeSet::new())];
    let (mut opens, mut scalar) = (false, None);
    for (at, line) in text.lines().enumerate() {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        if scalar.is_some_and(|key| content.is_empty() || indent > key) {
            continue;
        }
        scalar = None;
        let mut mistake = |what: &str| mistakes.push(format!("{}: {what}: {line:?}", at + 1));
        if line.contains('\t') || line.ends_with(' ') {
            mistake("a tab, or a space at the end");
            continue;
        }
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if content == "---" {
            (levels, opens) = (vec![(0, BTreeSet::new())], false);
            continue;
        }
        let deepest = |levels: &[(usize, BTreeSet<&str>)]| levels.last().map_or(0, |level| level.0);
        if indent > deepest(&levels) {
            if !opens || indent % 2 != 0 {
                mistake("nothing opens this level");
                continue;
            }
            levels.push((indent, BTreeSet::new()));
        }
        while indent < deepest(&levels) {
            levels.pop();
        }
        if indent != deepest(&levels) {
            mistake("no line has begun this level");
            continue;
        }
        let (mut entry, mut level) = (content, indent);
        while let Some(rest) = entry.strip_prefix("- ") {
            (entry, level) = (rest, level + 2);
            levels.push((level, BTreeSet::new()));
        }
        let bare = without_quotes(entry);
        let Some(bare) = bare else {
            mistake("a quote is not closed");
            continue;
        };
        let count = |open: char, close: char| bare.matches(open).count() == bare.matches(close).count();
        if !count('{', '}') || !count('[', ']') {
            mistake("a bracket is not closed");
            continue;
        }
        opens = bare.ends_with(':');
        scalar = [": |", ": >", ": >-", ": |-"].iter().any(|end| bare.ends_with(end)).then_some(level);
        match entry.split_once(": ").map(|(key, _)| key).or_else(|| entry.strip_suffix(':')) {
            Some(key) if levels.last_mut().is_some_and(|(_, keys)| !keys.insert(key)) => {
                mistake("a key is there twice")
            }
            Some(_) => {}
            None if content.starts_with("- ") => {}
            None => mistake("neither a key nor an entry of a list"),
        }
    }
    mistakes
}

/// The line without quoted texts and without its comment. None if a quote is not closed.
fn without_quotes(line: &str) -> Option<String> {
    let (mut bare, mut quote) = (String::new(), None);
    for char in line.chars() {
        match quote {
            Some(open) if char == open => quote = None,
            Some(_) => {}
            None if char == '#' && bare.ends_with(' ') => break,
            None if char == '"' || char == '\'' => quote = Some(char),
            None => bare.push(char),
        }
    }
    quote.is_none().then(|| bare.trim_end().to_owned())
}
