//! Words in compile errors: the allowed word that the user probably meant, and lists of allowed words.

/// The word in `known` that the user probably meant when writing `given`. The words can differ in upper and lower case,
/// in underscores, and in at most two letters. `None` if no word in `known` is similar enough.
pub(crate) fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    // Removes the differences that do not count: capital letters and underscores.
    let plain = |word: &str| word.to_lowercase().replace('_', "");
    let given = plain(given);
    let changes = |word: &str| distance(&given, &plain(word));
    let best = known.iter().copied().min_by_key(|word| changes(word))?;
    (changes(best) <= 2 && changes(best) < given.chars().count()).then_some(best)
}

/// The words as a list with commas, each word in backticks.
pub(crate) fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The edit distance of two words: the minimum number of letters that must be changed, added or removed to turn `a`
/// into `b`.
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
