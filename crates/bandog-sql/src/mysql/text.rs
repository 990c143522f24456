//! Puts the parameters into the text of a statement.

use crate::value::{Literal, NULL, Parameter};

/// The marker that stands for a query that returns the rows of all lists.
const ROWS: &str = "$rows(";
/// The marker that stands for the rows of some lists, as `insert` has them.
const VALUES: &str = "$values(";
/// The marker that stands for the rows of two lists whose second value is not null.
const KNOWN: &str = "$known(";

/// The text of a statement with its parameters.
///
/// - `$1` is the first parameter. A list becomes its values, with commas between them.
/// - `$values(1, 3)` becomes the rows of these lists: each row has brackets, and commas between its values.
/// - `$known(1, 3)` becomes what `insert` needs for the rows of two lists whose second value is not null. There can be none.
/// - `$rows(1 name, 3 fence)` becomes a query that returns the rows of these lists, with these names of the columns. The
///   server writes large values of such a query to a file, so no list of texts of any length is used in it.
///
/// An empty list becomes an empty text, which is the name of nothing. A marker whose number is not that of a parameter
/// stays as it is, so the server refuses the statement.
pub(super) fn with_parameters(text: &str, parameters: &[Parameter<'_>]) -> String {
    if !text.contains('$') {
        return text.to_owned();
    }
    let literals: Vec<_> = parameters.iter().map(|parameter| parameter.literal()).collect();
    let mut written = String::with_capacity(2 * text.len());
    let mut rest = text;
    while let Some((before, marker)) = rest.find('$').map(|at| rest.split_at(at)) {
        written.push_str(before);
        if let Some((numbers, after)) = marker.strip_prefix(VALUES).and_then(|rest| rest.split_once(')')) {
            write_values(&mut written, &literals, numbers);
            rest = after;
            continue;
        }
        if let Some((numbers, after)) = marker.strip_prefix(KNOWN).and_then(|rest| rest.split_once(')')) {
            write_known(&mut written, &literals, numbers);
            rest = after;
            continue;
        }
        if let Some((columns, after)) = marker.strip_prefix(ROWS).and_then(|rest| rest.split_once(')')) {
            write_rows(&mut written, &literals, columns);
            rest = after;
            continue;
        }
        let digits = marker[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(marker.len() - 1);
        let number: Option<usize> = marker[1..=digits].parse().ok();
        match number.and_then(|number| literals.get(number.checked_sub(1)?)) {
            Some(Literal::One(literal)) => written.push_str(literal),
            Some(Literal::Each(literals)) if literals.is_empty() => written.push_str("''"),
            Some(Literal::Each(literals)) => written.push_str(&literals.join(", ")),
            None => written.push_str(&marker[..=digits]),
        }
        rest = &marker[1 + digits..];
    }
    written.push_str(rest);
    written
}

fn write_rows(written: &mut String, literals: &[Literal], columns: &str) {
    let column = |text: &str| {
        let (number, name) = text.split_once(' ')?;
        Some((list(literals, number)?, name.to_owned()))
    };
    let Some(columns) = columns.split(", ").map(column).collect::<Option<Vec<_>>>() else {
        written.extend([ROWS, columns, ")"]);
        return;
    };
    if columns.iter().all(|(list, _)| list.is_empty()) {
        let columns: Vec<_> = columns.iter().map(|(_, name)| format!("null as {name}")).collect();
        written.extend(["select ", &columns.join(", "), " from dual where false"]);
        return;
    }
    for row in 0..columns.first().map_or(0, |(list, _)| list.len()) {
        written.push_str(if row == 0 { "select " } else { " union all select " });
        for (number, (list, name)) in columns.iter().enumerate() {
            written.push_str(if number == 0 { "" } else { ", " });
            written.push_str(&list[row]);
            if row == 0 {
                written.extend([" as ", name]);
            }
        }
    }
}

fn write_values(written: &mut String, literals: &[Literal], numbers: &str) {
    let Some(lists) = numbers.split(", ").map(|number| list(literals, number)).collect::<Option<Vec<_>>>() else {
        written.extend([VALUES, numbers, ")"]);
        return;
    };
    for row in 0..lists.first().map_or(0, |list| list.len()) {
        let values: Vec<_> = lists.iter().map(|list| list[row].as_str()).collect();
        written.push_str(if row == 0 { "(" } else { ", (" });
        written.push_str(&values.join(", "));
        written.push(')');
    }
}

fn write_known(written: &mut String, literals: &[Literal], numbers: &str) {
    let lists = numbers.split_once(", ").and_then(|(one, two)| Some((list(literals, one)?, list(literals, two)?)));
    let Some((names, values)) = lists else {
        written.extend([KNOWN, numbers, ")"]);
        return;
    };
    let rows = names.iter().zip(values).filter(|(_, value)| *value != NULL);
    let rows: Vec<_> = rows.map(|(name, value)| format!("({name}, {value})")).collect();
    if rows.is_empty() {
        written.push_str("select null, null from dual where false");
    } else {
        written.extend(["values ", &rows.join(", ")]);
    }
}

/// The list that is the parameter with this number.
fn list<'l>(literals: &'l [Literal], number: &str) -> Option<&'l Vec<String>> {
    match literals.get(number.parse::<usize>().ok()?.checked_sub(1)?)? {
        Literal::Each(list) => Some(list),
        Literal::One(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn parameters_become_a_part_of_the_text() {
        let (names, fences) = (vec!["a", "'; drop"], vec![Some(7_i64), None]);
        let text = with_parameters("a $1; b $rows(1 name, 2 fence) c $3 $2", &[&names, &fences, &true]);
        let expected = "a x'61', x'273b2064726f70'; \
                        b select x'61' as name, 7 as fence union all select x'273b2064726f70', null c 1 7, null";
        assert_eq!(text, expected);
    }

    #[test]
    fn lists_become_rows() {
        let (names, fences, times) = (vec!["a", "b"], vec![1_i64, 2], vec![Some(UNIX_EPOCH), None]);
        let text = with_parameters("values $values(1, 3) on $2", &[&names, &fences, &times]);
        let first = "(x'61', '1970-01-01' + interval 0 microsecond)";
        assert_eq!(text, format!("values {first}, (x'62', null) on 1, 2"));
    }

    #[test]
    fn rows_without_a_value_are_left_out() {
        let (names, fences) = (vec!["a", "b", "c"], vec![Some(1_i64), None, Some(3)]);
        let text = with_parameters("a $known(1, 2) b", &[&names, &fences]);
        assert_eq!(text, "a values (x'61', 1), (x'63', 3) b");
        let none = vec![None::<i64>; 3];
        assert_eq!(with_parameters("$known(1, 2)", &[&names, &none]), "select null, null from dual where false");
        for wrong in ["$known(1, 3)", "$known(0, 1)", "$known(1)", "$values(1, 3)", "$rows(3 name)", "$3"] {
            assert_eq!(with_parameters(wrong, &[&names, &fences]), wrong);
        }
    }

    #[test]
    fn an_empty_list_and_a_null_stay_valid() {
        let (none, missing) = (Vec::<&str>::new(), None::<Vec<&str>>);
        assert_eq!(with_parameters("in ($1) or ($2)", &[&none, &missing]), "in ('') or (null)");
        assert_eq!(with_parameters("($rows(1 name))", &[&none]), "(select null as name from dual where false)");
    }
}
