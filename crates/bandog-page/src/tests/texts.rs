//! The texts of the page, which are in one table for each language.

use std::collections::BTreeMap;

use super::Served;
use crate::{Language, reply::ASSETS};

/// The scripts without a table.
fn scripts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let scripts = ASSETS.iter().filter(|asset| asset.path.ends_with(".js"));
    scripts.filter(|asset| !["/en.js", "/zh.js"].contains(&asset.path)).map(|asset| (asset.path, asset.text))
}

fn asset(path: &str) -> &'static str {
    ASSETS.iter().find(|asset| asset.path == path).unwrap().text
}

/// The texts of a table by key.
fn table(path: &str) -> BTreeMap<&'static str, String> {
    let lines = asset(path).lines().filter_map(|line| line.strip_prefix("  \"")?.split_once("\": "));
    let pairs: Vec<_> = lines.collect();
    let texts = pairs.iter().map(|(key, text)| {
        let text = text.strip_suffix(',').unwrap();
        (*key, serde_json::from_str::<String>(text).unwrap_or_else(|error| panic!("{key}: {error}")))
    });
    let table: BTreeMap<_, _> = texts.collect();
    assert_eq!(table.len(), pairs.len(), "{path} has a key twice");
    assert!(table.len() > 300);
    table
}

/// The names in braces, sorted.
fn values(text: &str) -> Vec<&str> {
    let mut names: Vec<_> = text.split('{').skip(1).map(|part| part.split_once('}').unwrap().0).collect();
    names.sort_unstable();
    names
}

#[test]
fn the_tables_have_the_same_keys_and_values() {
    let (english, chinese) = (table("/en.js"), table("/zh.js"));
    assert_eq!(english.keys().collect::<Vec<_>>(), chinese.keys().collect::<Vec<_>>());
    for (key, text) in &english {
        let other = &chinese[key];
        assert_eq!(values(text), values(other), "{key}");
        assert!(!text.trim().is_empty() && !other.trim().is_empty(), "{key}");
        let is_chinese = |text: &str| text.chars().any(|char| ('\u{4e00}'..='\u{9fff}').contains(&char));
        assert!(!is_chinese(text) || *key == "language.other", "{key}");
        // A text that consists of values and signs has no language.
        let words =
            other.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest)).collect::<String>();
        let has_words = words.replace("bandog", "").chars().any(char::is_alphabetic);
        assert!(is_chinese(other) || !has_words || *key == "language.other", "{key}: {other}");
    }
}

/// The string literals of a script without its comments. The parts of a template are literals of their own.
fn literals(script: &str) -> Vec<String> {
    let (mut literals, mut in_comment) = (Vec::new(), false);
    for line in script.lines() {
        let trimmed = line.trim_start();
        in_comment |= trimmed.starts_with("/*");
        if in_comment || trimmed.starts_with("//") || trimmed.starts_with("import ") {
            in_comment &= !line.contains("*/");
            continue;
        }
        let code = line.split(" // ").next().unwrap();
        let mut open: Option<(char, String)> = None;
        for char in code.chars() {
            open = match open.take() {
                None if ['"', '\'', '`'].contains(&char) => Some((char, String::new())),
                None => None,
                Some((quote, text)) if quote == char => {
                    literals.push(text);
                    None
                }
                Some((quote, text)) => Some((quote, text + &char.to_string())),
            };
        }
    }
    literals
}

/// Literals that no reader of the page sees, although they look like texts: keys of the keyboard, and parts of HTTP.
const WORDS: [&str; 12] = [
    "ArrowLeft",
    "ArrowRight",
    "Authorization",
    "Content-Type",
    "End",
    "GMT",
    "Home",
    "POST",
    "SVG",
    "UTC",
    "Bearer ",
    "2-digit",
];

#[test]
fn no_text_is_outside_of_the_tables() {
    let mut outside = Vec::new();
    for (path, script) in scripts() {
        for literal in literals(script) {
            // A text begins with a capital letter, or has two words and no sign of CSS.
            let is_selector = literal.contains(['#', '[', '.', '<', '=', '>', ':', '/', '&', '$']);
            let begins = literal.starts_with(|char: char| char.is_ascii_uppercase()) && literal.len() > 1;
            let is_path = literal.chars().any(|char| char.is_ascii_digit()) || literal.contains('$');
            let words = literal.split(' ').filter(|word| word.len() > 1 && word.chars().all(char::is_alphabetic));
            let is_text = (begins && !is_path) || (!is_selector && words.count() > 1);
            let is_class = ["list sparks", "sub readout", "sub note"].contains(&literal.as_str());
            if is_text && !is_class && !WORDS.iter().any(|word| literal.starts_with(word)) {
                outside.push(format!("{path}: {literal}"));
            }
        }
    }
    // In the file of the page, text is the name of the product, and paths of the interface for programs.
    for part in asset("/").split("<body>").nth(1).unwrap().split('<').skip(1) {
        let text = part.split_once('>').unwrap().1.trim();
        let is_text = text.chars().any(char::is_alphabetic) && text != "bandog" && text != "&nbsp;";
        if is_text && !text.starts_with('/') {
            outside.push(format!("/: {text}"));
        }
    }
    for attribute in [" aria-label=\"", " placeholder=\"", " title=\""] {
        assert!(!asset("/").contains(attribute), "{attribute}");
    }
    assert!(outside.is_empty(), "{outside:#?}");
}

#[test]
fn each_used_key_has_a_text_and_each_text_is_used() {
    let table = table("/en.js");
    let is_known = |key: &str| table.contains_key(key) || table.contains_key(format!("{key}.one").as_str());
    let html = asset("/").split("data-t").skip(1).filter_map(|part| part.split_once("=\"")?.1.split('"').next());
    let mut used: Vec<String> = html.map(str::to_owned).collect();
    for (_, script) in scripts() {
        for call in ["t(\"", "tn(\""] {
            let calls = script.match_indices(call).filter(|(at, _)| !script[..*at].ends_with(char::is_alphanumeric));
            used.extend(calls.map(|(at, _)| script[at + call.len()..].split('"').next().unwrap().to_owned()));
        }
    }
    for key in &used {
        assert!(is_known(key), "no text {key}");
    }
    // Groups whose last part comes from an answer of the server, or from the name of an action.
    let groups = ["act.", "column.", "do.", "fact.", "nav.", "objects.none", "policy.", "run.", "state."];
    let everything: String = scripts().map(|(_, script)| script).collect();
    for key in table.keys() {
        let base = key.strip_suffix(".one").or_else(|| key.strip_suffix(".many")).unwrap_or(key);
        let is_used =
            used.iter().any(|used| used == base || used == key) || everything.contains(&format!("\"{base}\""));
        assert!(is_used || groups.iter().any(|group| key.starts_with(group)), "{key} is not used");
    }
    // Each action has a verb and a description.
    for name in ["run", "pause", "resume", "cancel", "backfill", "again", "forget", "release", "retry", "remove"] {
        assert!(
            table.contains_key(format!("do.{name}").as_str())
                && table.contains_key(format!("do.{name}.about").as_str())
        );
    }
}

#[test]
fn the_language_is_that_of_the_url_then_the_setting_then_the_browser() {
    let page = Served::read_only();
    let ask = |path: &str, accept: &str| {
        let body = page.asker().ask("GET", path, &["Host: localhost", &format!("Accept-Language: {accept}")], "").body;
        body.split("<html lang=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    assert_eq!(ask("/", "fr"), "en");
    assert_eq!(ask("/", "zh-CN,zh;q=0.9"), "zh-CN");
    assert_eq!(ask("/?lang=en", "zh"), "en");
    assert_eq!(ask("/?lang=zh", "en"), "zh-CN");
    assert_eq!(ask("/?lang=fr", "zh"), "zh-CN");
    for language in [Language::English, Language::Chinese] {
        let script = format!("/{}.js", language.tag().split('-').next().unwrap());
        assert_eq!(page.get(&script).status, 200, "{script}");
    }
}
