//! Puts the parameters into the text of a statement, or beside it.

use std::fmt::Write as _;

use mysql_async::Value;

use crate::value::{Literal, Parameter, Scalar};

/// The marker that stands for a query that returns the rows of all lists.
const ROWS: &str = "$rows(";
/// The marker that stands for the rows of some lists, as `insert` has them.
const VALUES: &str = "$values(";
/// The marker that stands for the rows of two lists whose second value is not null.
const KNOWN: &str = "$known(";
/// The marker that stands for the values of a list in a prepared statement.
const LIST: &str = "$list(";
/// The marker that stands for the length of a list.
const COUNT: &str = "$count(";
/// The lengths to which a list in a prepared statement is filled up, so that there are few statements.
const SHORT_LIST: usize = 8;
pub(super) const LONG_LIST: usize = 64;

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
pub(crate) fn with_parameters(text: &str, parameters: &[Parameter<'_>]) -> String {
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
        match literal(&literals, &marker[1..=digits]) {
            Some(Literal::One(value)) => append(&mut written, value),
            Some(Literal::Each(values)) if values.is_empty() => written.push_str("''"),
            Some(Literal::Each(values)) => append_all(&mut written, values),
            None => written.push_str(&marker[..=digits]),
        }
        rest = &marker[1 + digits..];
    }
    written.push_str(rest);
    written
}

/// The text of a prepared statement, and its parameters in the order of the text.
///
/// - `$1` is a parameter that is one value, or a list of one.
/// - `$list(1)` is the values of this list, with commas between them. Further values are empty texts, until there are 8 or
///   64. A longer list is refused.
/// - `$count(1)` is the length of this list.
///
/// A marker for which there is no parameter stays as it is, so the server refuses the statement. Other `$` are kept.
pub(super) fn prepared(text: &str, parameters: &[Parameter<'_>]) -> (String, Vec<Value>) {
    let literals: Vec<_> = parameters.iter().map(|parameter| parameter.literal()).collect();
    let (mut written, mut values) = (String::with_capacity(text.len()), Vec::new());
    let mut rest = text;
    while let Some((before, marker)) = rest.find('$').map(|at| rest.split_at(at)) {
        written.push_str(before);
        let of = |prefix: &str| marker.strip_prefix(prefix).and_then(|rest| rest.split_once(')'));
        let (found, after) = match (of(LIST), of(COUNT)) {
            (Some((number, after)), _) => (list(&literals, number).and_then(|list| filled_up(list)), after),
            (None, Some((number, after))) => {
                (list(&literals, number).map(|list| vec![Value::UInt(list.len() as u64)]), after)
            }
            (None, None) => {
                let digits = marker[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(marker.len() - 1);
                (one(&literals, &marker[1..=digits]).map(|value| vec![value]), &marker[1 + digits..])
            }
        };
        match found {
            Some(found) => {
                written.push('?');
                (1..found.len()).for_each(|_| written.push_str(", ?"));
                values.extend(found);
                rest = after;
            }
            None => {
                written.push('$');
                rest = &marker[1..];
            }
        }
    }
    written.push_str(rest);
    (written, values)
}

/// The parameter with this number, if it is one value.
fn one(literals: &[Literal], number: &str) -> Option<Value> {
    match literal(literals, number)? {
        Literal::One(scalar) => value(scalar),
        Literal::Each(scalars) => match &scalars[..] {
            [scalar] => value(scalar),
            _ => None,
        },
    }
}

/// The values of a list, and empty texts behind them. None if the list is too long.
fn filled_up(list: &[Scalar]) -> Option<Vec<Value>> {
    let length = [SHORT_LIST, LONG_LIST].into_iter().find(|length| list.len() <= *length)?;
    let mut values = list.iter().map(value).collect::<Option<Vec<_>>>()?;
    values.resize(length, Value::Bytes(Vec::new()));
    Some(values)
}

/// A value beside a statement.
fn value(scalar: &Scalar) -> Option<Value> {
    match scalar {
        Scalar::Null => Some(Value::NULL),
        Scalar::Number(number) => Some(Value::Int(*number)),
        Scalar::Bytes(bytes) => Some(Value::Bytes(bytes.clone())),
        Scalar::Time(_) => None,
    }
}

fn append(written: &mut String, value: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(written, "{value}");
}

/// Appends values, with commas between them.
fn append_all<'v>(written: &mut String, values: impl IntoIterator<Item = &'v Scalar>) {
    for (number, value) in values.into_iter().enumerate() {
        written.push_str(if number == 0 { "" } else { ", " });
        append(written, value);
    }
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
            append(written, &list[row]);
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
        written.push_str(if row == 0 { "(" } else { ", (" });
        append_all(written, lists.iter().map(|list| &list[row]));
        written.push(')');
    }
}

fn write_known(written: &mut String, literals: &[Literal], numbers: &str) {
    let lists = numbers.split_once(", ").and_then(|(one, two)| Some((list(literals, one)?, list(literals, two)?)));
    let Some((names, values)) = lists else {
        written.extend([KNOWN, numbers, ")"]);
        return;
    };
    let rows = names.iter().zip(values).filter(|(_, value)| **value != Scalar::Null);
    let rows: Vec<_> = rows.map(|(name, value)| format!("({name}, {value})")).collect();
    if rows.is_empty() {
        written.push_str("select null, null from dual where false");
    } else {
        written.extend(["values ", &rows.join(", ")]);
    }
}

/// The parameter with this number. The first one has the number 1.
fn literal<'l>(literals: &'l [Literal], number: &str) -> Option<&'l Literal> {
    literals.get(number.parse::<usize>().ok()?.checked_sub(1)?)
}

/// The list that is the parameter with this number.
fn list<'l>(literals: &'l [Literal], number: &str) -> Option<&'l Vec<Scalar>> {
    match literal(literals, number)? {
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
    fn a_prepared_statement_has_its_values_beside_it() {
        let (names, fences, missing) = (vec!["a", "\"]"], vec![Some(7_i64), None], None::<i64>);
        let parameters: [Parameter<'_>; 5] = [&8_i64, &names, &fences, &missing, &vec!["b"]];
        let (text, values) = prepared("a $1 $[0] ($list(2)), $1 $4 $count(2) $5", &parameters);
        assert_eq!(text, "a ? $[0] (?, ?, ?, ?, ?, ?, ?, ?), ? ? ? ?");
        let bytes = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        let list = [bytes("a"), bytes("\"]"), bytes(""), bytes(""), bytes(""), bytes(""), bytes(""), bytes("")];
        let others = [Value::Int(8), Value::NULL, Value::UInt(2), bytes("b")];
        assert_eq!(values, [&[Value::Int(8)][..], &list, &others].concat());
        for wrong in ["$2", "$6", "$0", "$list(1)", "$list(6)", "$list(2", "$count(1)", "$", "'$[*]'"] {
            assert_eq!(prepared(wrong, &parameters), (wrong.to_owned(), Vec::new()));
        }
    }

    #[test]
    fn lists_of_a_prepared_statement_have_few_lengths() {
        for (length, filled) in [(1, 8), (8, 8), (9, 64), (64, 64)] {
            let (text, values) = prepared("$list(1)", &[&vec![1_i64; length]]);
            assert_eq!(values.len(), filled);
            assert_eq!(text, vec!["?"; filled].join(", "));
            assert_eq!(values.iter().filter(|value| **value == Value::Int(1)).count(), length);
        }
        assert_eq!(prepared("$list(1)", &[&vec![1_i64; 65]]), ("$list(1)".to_owned(), Vec::new()));
    }

    #[test]
    fn an_empty_list_and_a_null_stay_valid() {
        let (none, missing) = (Vec::<&str>::new(), None::<Vec<&str>>);
        assert_eq!(with_parameters("in ($1) or ($2)", &[&none, &missing]), "in ('') or (null)");
        assert_eq!(with_parameters("($rows(1 name))", &[&none]), "(select null as name from dual where false)");
    }
}
