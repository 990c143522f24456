//! The links of HTML files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use html5gum::{DefaultEmitter, Token, Tokenizer};

/// What is read of an HTML file.
#[derive(Default)]
struct Page {
    links: BTreeSet<String>,
    ids: BTreeSet<String>,
}

/// The links below a folder that lead to no file, or to no place in it.
pub(super) fn dead(folder: &Path) -> io::Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    read(folder, &mut pages)?;
    let mut dead = Vec::new();
    for (page, Page { links, .. }) in &pages {
        for link in links.iter().filter(|link| !is_outside(link)) {
            let (path, id) = link.split_once('#').unwrap_or((link, ""));
            let path = path.split('?').next().unwrap_or_default();
            let target = if path.is_empty() { page.clone() } else { flat(&page.with_file_name("").join(path)) };
            let leads = match pages.get(&target) {
                Some(target) => id.is_empty() || target.ids.contains(id),
                None => target.exists(),
            };
            if !leads {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    Ok(dead)
}

fn is_outside(link: &str) -> bool {
    link.contains("://") || ["mailto:", "data:", "javascript:"].iter().any(|scheme| link.starts_with(scheme))
}

/// All HTML files below a folder.
fn read(folder: &Path, pages: &mut BTreeMap<PathBuf, Page>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, pages)?;
        // `print.html` and `toc.html` repeat the others, with their links.
        } else if path.extension().is_some_and(|kind| kind == "html")
            && path.file_name().is_some_and(|name| !["print.html", "toc.html", "404.html"].iter().any(|it| name == *it))
        {
            let page = parse(&fs::read_to_string(&path)?);
            pages.insert(path, page);
        }
    }
    Ok(())
}

fn parse(text: &str) -> Page {
    let mut emitter = DefaultEmitter::default();
    // The text of a script contains no tags.
    emitter.naively_switch_states(true);
    let mut page = Page::default();
    for Ok(token) in Tokenizer::new_with_emitter(text, emitter) {
        let Token::StartTag(tag) = token else { continue };
        for (name, value) in tag.attributes {
            let value = String::from_utf8_lossy(&value).into_owned();
            match &name[..] {
                b"href" | b"src" => _ = page.links.insert(value),
                b"id" => _ = page.ids.insert(value),
                _ => {}
            }
        }
    }
    page
}

/// The path without `.` and `..`.
fn flat(path: &Path) -> PathBuf {
    let mut flat = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(flat.pop()),
            Component::CurDir => {}
            part => flat.push(part),
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_are_found() {
        let folder = std::env::temp_dir().join(format!("bandog-links-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).unwrap();
        fs::write(folder.join("b.html"), r##"<p id="x"><a href="#x"><a href='#y'><a href="https://c.d"><script>"<a href='#s'>"</script><!-- <a href="#c"> -->"##).unwrap();
        fs::write(folder.join("a/e.html"), r#"<a href="../b.html#x"><a href="../b.html#z"><img src="f.png">"#).unwrap();
        let dead = dead(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let of = |page: &str, link: &str| format!("{}: {link}", folder.join(page).display());
        assert_eq!(dead, [of("a/e.html", "../b.html#z"), of("a/e.html", "f.png"), of("b.html", "#y")]);
    }
}
