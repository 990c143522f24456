//! Names that a caller may have meant.

/// Names that are suggested.
const SUGGESTED: usize = 3;
/// Maximum number of pairs of characters that are compared, over all names: some milliseconds. A store may have many
/// thousand jobs, and a name 1024 characters.
const PAIRS: usize = 1 << 20;

/// The names that are nearest, the nearest first: at most a third of a name's characters differ. Names that no longer
/// fit into the bound on the work are not considered; those of a similar length come first.
pub(super) fn near<'a>(name: &str, known: &'a [String]) -> Vec<&'a str> {
    nearest(name, known).0
}

/// The same, and the number of pairs of characters that were compared.
fn nearest<'a>(name: &str, known: &'a [String]) -> (Vec<&'a str>, usize) {
    let wanted = name.to_lowercase();
    let length = wanted.chars().count();
    // Names whose lengths differ by more differ in more characters.
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
        if pairs > PAIRS {
            return (first(near), pairs - length * other);
        }
        let distance = strsim::damerau_levenshtein(&wanted, &known.to_lowercase());
        if distance <= most(other) {
            near.push((distance, known));
        }
    }
    (first(near), pairs)
}

/// Maximum number of characters in which a name of this length may differ.
fn most(length: usize) -> usize {
    length.max(3) / 3
}

fn first(mut near: Vec<(usize, &str)>) -> Vec<&str> {
    near.sort_unstable();
    near.into_iter().take(SUGGESTED).map(|(_, known)| known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_first() {
        let known = ["report", "reports", "rapport", "sweep"].map(String::from);
        assert_eq!(near("repport", &known), ["rapport", "report", "reports"]);
        assert_eq!(near("SWEEP", &known), ["sweep"]);
        assert_eq!(near("invoices", &known), [""; 0]);
    }

    #[test]
    fn the_work_is_bounded_however_many_and_long_the_names_are() {
        let known: Vec<String> = (0..10_000).map(|number| format!("{}-{number:04}", "x".repeat(60))).collect();
        assert!(nearest(&"y".repeat(65), &known).1 <= PAIRS);
        assert_eq!(nearest(&"y".repeat(1024), &known).1, 0, "no name of this length is near");
        let long: Vec<String> = (0..1000).map(|number| format!("{}{number:04}", "x".repeat(1000))).collect();
        assert!(nearest(&"y".repeat(1024), &long).1 <= PAIRS);
    }
}
