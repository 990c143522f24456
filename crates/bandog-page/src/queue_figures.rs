//! The metrics of the queues of a store, in Prometheus's text format. docs/observability.md explains them.

use std::fmt::Write;

use bandog_core::queues::{Phase, QueueStatus};

/// The metrics of these queues. Empty if there is none.
pub(crate) fn text<'a>(queues: impl Iterator<Item = (&'a str, &'a QueueStatus)>) -> String {
    let (mut elements, mut oldest, mut paused) = (String::new(), String::new(), String::new());
    for (name, status) in queues {
        let name = label(name);
        for phase in Phase::IN_QUEUE {
            let (word, count) = (phase.as_str(), status.count(phase));
            line(&mut elements, &format!("bandog_work_elements{{queue=\"{name}\",phase=\"{word}\"}} {count}"));
        }
        let seconds = status.oldest.unwrap_or_default().as_secs_f64();
        line(&mut oldest, &format!("bandog_work_oldest_seconds{{queue=\"{name}\"}} {seconds}"));
        let is_paused = u8::from(status.settings.is_paused);
        line(&mut paused, &format!("bandog_work_paused{{queue=\"{name}\"}} {is_paused}"));
    }
    if elements.is_empty() {
        return elements;
    }
    let mut text = String::new();
    let families = [("elements", elements), ("oldest_seconds", oldest), ("paused", paused)];
    for (name, lines) in families {
        line(&mut text, &format!("# TYPE bandog_work_{name} gauge"));
        line(&mut text, &lines);
    }
    text
}

fn line(text: &mut String, line: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

/// A name as the value of a label. Control characters are escaped, so that a name is no further line.
fn label(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for char in name.chars() {
        match char {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            // In this format, two backslashes mean one.
            _ if char.is_control() => _ = write!(text, "\\{}", char.escape_debug()),
            _ => text.push(char),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use super::*;

    /// The documentation lists each metric, and each has a line for each queue.
    #[test]
    fn metrics_have_a_type_and_a_line_for_each_queue() {
        let counts = BTreeMap::from([(Phase::Ready, 2), (Phase::Dead, 1)]);
        let status = QueueStatus { counts, oldest: Some(Duration::from_millis(1500)), ..QueueStatus::default() };
        let text = text([("a", &status), ("b\"\\\n\r", &status)].into_iter());
        for line in [
            "# TYPE bandog_work_elements gauge",
            r#"bandog_work_elements{queue="a",phase="ready"} 2"#,
            r#"bandog_work_elements{queue="a",phase="taken"} 0"#,
            r#"bandog_work_elements{queue="b\"\\\n\\r",phase="dead"} 1"#,
            r#"bandog_work_oldest_seconds{queue="a"} 1.5"#,
            r#"bandog_work_paused{queue="a"} 0"#,
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
        let page = include_str!("../../../docs/observability.md");
        for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
            assert!(page.contains(&format!("| `{name}`")), "{name}");
        }
        assert_eq!(super::text(std::iter::empty()), "");
    }
}
