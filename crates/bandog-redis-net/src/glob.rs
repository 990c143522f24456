//! Patterns of names as globs of Redis.

use bandog_core::Pattern;

/// A Redis glob that matches all names that the pattern matches, and may match more. `?` becomes `*`, because `?` matches
/// one byte in a Redis glob, and one character in a pattern of bandog. A `[` is escaped, because it
/// is special only in Redis. No other character is: rights to a pattern of channels compare its text.
pub fn redis_glob(pattern: &Pattern) -> String {
    let mut glob = String::new();
    let mut chars = pattern.as_str().chars();
    while let Some(c) = chars.next() {
        let literal = match c {
            '*' | '?' => {
                // A second star directly after a star would match the same names, and would cost the server time.
                if !glob.ends_with('*') || glob.ends_with("\\*") {
                    glob.push('*');
                }
                continue;
            }
            '\\' => chars.next().unwrap_or('\\'),
            c => c,
        };
        if "*?[\\".contains(literal) {
            glob.push('\\');
        }
        glob.push(literal);
    }
    glob
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_becomes_a_glob_that_matches_at_least_as_much() {
        for (pattern, glob) in [
            ("*", "*"),
            ("order-?", "order-*"),
            ("a***?b", "a*b"),
            ("a\\*b", "a\\*b"),
            ("a\\**", "a\\**"),
            ("a\\\\*", "a\\\\*"),
            ("[x]^", "\\[x]^"),
            ("end\\", "end\\\\"),
            ("中?", "中*"),
        ] {
            assert_eq!(redis_glob(&Pattern::new(pattern)), glob, "{pattern}");
        }
    }
}
