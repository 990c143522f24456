//! Reads YAML.

use saphyr::{LoadableYamlNode, YamlOwned};

use crate::deploy::read;

#[test]
fn mistakes_in_yaml_are_found() {
    let good = "a:\n  - b: 1 # it's\n    c: >-\n      d:\n         e {\n    f: { g: [\"{\"] }\n  - b: 2\n---\na: 'x'\n";
    let good = parse(good).unwrap();
    assert_eq!(good.len(), 2);
    assert_eq!(text(&good[0]["a"][0], "c"), "d:\n   e {");
    assert_eq!(text(&good[1], "a.b"), "");
    let wrong = [
        "a:\n\tb: 1",
        "a: 1\n  b: 2",
        "a:\n    b: 1\n  c: 2",
        "a: {",
        "a: \"b",
        "a: 1 ",
        "a: 1\na: 2",
        "a:\n  - b: 1\n    b: 2",
        "just text",
    ];
    for text in wrong {
        assert!(parse(text).is_err(), "{text:?}");
    }
}

/// The documents of a file.
pub(crate) fn documents(file: &str) -> Vec<YamlOwned> {
    parse(&read(file)).unwrap_or_else(|mistake| panic!("{file}: {mistake}"))
}

/// The only document of a file.
pub(crate) fn document(file: &str) -> YamlOwned {
    let mut documents = documents(file);
    assert_eq!(documents.len(), 1, "{file}: documents");
    documents.remove(0)
}

/// The text at the end of a path of keys, such as `metadata.name`. It is empty if there is none.
pub(crate) fn text<'y>(node: &'y YamlOwned, path: &str) -> &'y str {
    let found = path.split('.').try_fold(node, YamlOwned::as_mapping_get);
    found.and_then(YamlOwned::as_str).unwrap_or_default()
}

/// The documents of a text, which are mappings. A key that is there twice is a mistake, as for the readers of our files.
fn parse(text: &str) -> Result<Vec<YamlOwned>, String> {
    if let Some(line) = text.lines().find(|line| line.contains('\t') || line.ends_with(' ')) {
        return Err(format!("a tab, or a space at the end: {line:?}"));
    }
    let documents = YamlOwned::load_from_str(text).map_err(|error| error.to_string())?;
    let other = documents.iter().find(|document| !document.is_mapping());
    other.map_or(Ok(()), |other| Err(format!("not a mapping: {other:?}")))?;
    Ok(documents)
}
