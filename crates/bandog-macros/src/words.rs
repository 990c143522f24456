//! Words for people: what was probably meant, and what is allowed.

/// The known word that was probably meant: the same but for case and underscores, or two slips away at most.
pub(crate) fn nearest<'a>(said: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |word: &str| word.to_lowercase().replace('_', "");
    let said = plain(said);
    let slips = |word: &str| distance(&said, &plain(word));
    let best = known.iter().copied().min_by_key(|word| slips(word))?;
    (slips(best) <= 2 && slips(best) < said.chars().count()).then_some(best)
}

/// The words, each in backticks.
pub(crate) fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// How many letters have to be changed, added or left out.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let change = row[j] + usize::from(letter != *other);
            next.push(change.min(row[j + 1] + 1).min(next[j] + 1));
        }
        row = next;
    }
    row[b.len()]
}
