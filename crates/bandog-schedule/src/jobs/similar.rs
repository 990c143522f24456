//! Similar names, for the error about an unknown job.

/// Maximum number of suggested names.
const MAX_SUGGESTIONS: usize = 3;
/// Maximum number of pairs of characters that are compared for a single error, for all names together. So the search
/// takes only a few milliseconds, even if a store has thousands of jobs with long names.
const MAX_PAIRS: usize = 1 << 20;

/// The most similar names, the best first. A name is similar if at most a third of its characters differ. The
/// comparison begins with the names whose lengths are most similar, and ends when [`MAX_PAIRS`] is reached.
pub(super) fn similar_names<'a>(name: &str, known: &'a [String]) -> Vec<&'a str> {
    nearest(name, known).0
}

/// The similar names, and the number of compared pairs of characters.
fn nearest<'a>(name: &str, known: &'a [String]) -> (Vec<&'a str>, usize) {
    let wanted = name.to_lowercase();
    let length = wanted.chars().count();
    // `most` is the maximum number of different characters. If the lengths of two names differ by more than this
    // number, the names have too many different characters. So they are not compared.
    let mut similar: Vec<(usize, &str)> = known
        .iter()
        .filter_map(|known| {
            let other = known.chars().count();
            let differ = other.abs_diff(length);
            (differ <= most(other)).then_some((differ, known.as_str()))
        })
        .collect();
    similar.sort_unstable();
    let mut pairs = 0;
    let mut near = Vec::new();
    for (_, known) in similar {
        let other = known.chars().count();
        pairs += length * other;
        if pairs > MAX_PAIRS {
            return (first(near), pairs - length * other);
        }
        let distance = strsim::damerau_levenshtein(&wanted, &known.to_lowercase());
        if distance <= most(other) {
            near.push((distance, known));
        }
    }
    (first(near), pairs)
}

/// Maximum number of different characters for a name of this length.
fn most(length: usize) -> usize {
    length.max(3) / 3
}

/// The best of these names. `near`: the names, each with its number of different characters.
fn first(mut near: Vec<(usize, &str)>) -> Vec<&str> {
    near.sort_unstable();
    near.into_iter().take(MAX_SUGGESTIONS).map(|(_, known)| known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_first() {
        let known = ["report", "reports", "rapport", "sweep"].map(String::from);
        assert_eq!(similar_names("repport", &known), ["rapport", "report", "reports"]);
        assert_eq!(similar_names("SWEEP", &known), ["sweep"]);
        assert_eq!(similar_names("invoices", &known), [""; 0]);
    }

    #[test]
    fn the_work_is_bounded_however_many_and_long_the_names_are() {
        let known: Vec<String> = (0..10_000).map(|number| format!("{}-{number:04}", "x".repeat(60))).collect();
        assert!(nearest(&"y".repeat(65), &known).1 <= MAX_PAIRS);
        assert_eq!(nearest(&"y".repeat(1024), &known).1, 0, "no name of this length is near");
        let long: Vec<String> = (0..1000).map(|number| format!("{}{number:04}", "x".repeat(1000))).collect();
        assert!(nearest(&"y".repeat(1024), &long).1 <= MAX_PAIRS);
    }
}
