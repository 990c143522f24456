//! Hints for a name that is no zone.

use super::database::DATABASE;

/// Maximum number of letters that differ between a name and the one that was probably meant.
const MOST_TYPOS: usize = 2;

/// Abbreviations that name no zone of the table, and the zones that are often meant.
const ABBREVIATIONS: [(&str, &str); 23] = [
    ("PST", "America/Los_Angeles"),
    ("PDT", "America/Los_Angeles"),
    ("MDT", "America/Denver"),
    ("CST", "America/Chicago or Asia/Shanghai"),
    ("CDT", "America/Chicago"),
    ("EDT", "America/New_York"),
    ("AST", "America/Halifax or Asia/Riyadh"),
    ("BRT", "America/Sao_Paulo"),
    ("BST", "Europe/London or Asia/Dhaka"),
    ("IST", "Asia/Kolkata, Europe/Dublin or Asia/Jerusalem"),
    ("WEST", "Europe/Lisbon"),
    ("CEST", "Europe/Berlin"),
    ("EEST", "Europe/Helsinki"),
    ("MSK", "Europe/Moscow"),
    ("GST", "Asia/Dubai"),
    ("SGT", "Asia/Singapore"),
    ("HKT", "Asia/Hong_Kong"),
    ("JST", "Asia/Tokyo"),
    ("KST", "Asia/Seoul"),
    ("AEST", "Australia/Sydney or Australia/Brisbane"),
    ("AEDT", "Australia/Sydney"),
    ("NZST", "Pacific/Auckland"),
    ("NZDT", "Pacific/Auckland"),
];

/// Whether a word means the zone of the machine.
pub(super) fn is_local(name: &str) -> bool {
    ["local", "localtime", "system", "host"].iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// The hint for a name that is no zone. `is_known`: whether a zone exists, so that the hint can name it.
pub(super) fn hint(name: &str, is_known: impl Fn(&str) -> bool) -> String {
    if is_local(name) {
        return "there is no local zone, because nodes could have different ones; name it, as in Asia/Shanghai".into();
    }
    if let Some((abbreviation, zones)) = ABBREVIATIONS.iter().find(|(short, _)| name.eq_ignore_ascii_case(short)) {
        return format!("abbreviations are ambiguous: name a place, such as {zones} for {abbreviation}");
    }
    if let Some(offset) = offset_of(name) {
        // The names of the table have the opposite sign: Etc/GMT-8 is ahead of UTC.
        let zone = match offset {
            Offset::Hours(hours) => format!("write Etc/GMT{:+}, or ", -hours),
            Offset::Other => String::new(),
        };
        return format!("an offset is no zone; {zone}name a place with it, as Asia/Shanghai has +08:00");
    }
    match nearest(name, is_known) {
        Some(meant) => format!("did you mean {meant}?"),
        None => "examples are Asia/Shanghai and UTC".into(),
    }
}

/// An offset from UTC.
enum Offset {
    Hours(i32),
    /// It has minutes, or no zone has it.
    Other,
}

/// The offset that a text such as `GMT+8`, `UTC-03:00` or `+08:00` names.
fn offset_of(name: &str) -> Option<Offset> {
    let upper = name.to_ascii_uppercase();
    let text = upper.strip_prefix("GMT").or(upper.strip_prefix("UTC")).unwrap_or(&upper);
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest.split_once(':') {
        Some(parts) => parts,
        None if rest.len() == 4 => rest.split_at_checked(2)?,
        None => (rest, "0"),
    };
    let (hours, minutes): (i32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let has_name = minutes == 0 && (-12..=14).contains(&(sign * hours)) && hours != 0;
    Some(if has_name { Offset::Hours(sign * hours) } else { Offset::Other })
}

/// The known zone that was probably meant: its name, or the last part of its name, differs in few letters.
fn nearest(name: &str, is_known: impl Fn(&str) -> bool) -> Option<String> {
    let wanted = plain(name);
    let distance = |zone: &str| {
        let place = zone.rsplit('/').next().unwrap_or(zone);
        edits(&wanted, &plain(zone)).min(edits(&wanted, &plain(place)))
    };
    let zones = DATABASE.available().map(|zone| zone.as_str().to_owned()).filter(|zone| zone.contains('/'));
    let (least, zone) = zones.map(|zone| (distance(&zone), zone)).min()?;
    (least <= MOST_TYPOS.min(wanted.len() / 6) && is_known(&zone)).then_some(zone)
}

/// The letters of a name, in lower case.
fn plain(name: &str) -> Vec<u8> {
    name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase()).collect()
}

/// Number of insertions, deletions and replacements between two texts (Levenshtein's distance).
fn edits(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, left) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, right) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::ABBREVIATIONS;
    use crate::Zone;

    #[test]
    fn the_zones_that_an_abbreviation_proposes_exist() {
        for (short, zones) in ABBREVIATIONS {
            for zone in zones.split(", ").flat_map(|zones| zones.split(" or ")) {
                assert_eq!(Zone::named(zone).map(|zone| zone.name().to_owned()).ok().as_deref(), Some(zone));
            }
            let refused = Zone::named(short).map(|_| ()).map_err(|error| error.to_string());
            let hint = format!("such as {zones} for {short}");
            assert!(refused.is_err_and(|error| error.contains(&hint)), "{short}");
        }
    }
}
