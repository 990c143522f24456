//! No import cycles between the files of one crate.
//!
//! File A imports file B if the code of A names an item that is defined in B. The check reads the sources, and follows
//! these rules:
//!
//! - A path counts wherever it stands: in `use`, or inline (`crate::a::f()`, `super::T`, `a::f()` after `use
//!   crate::a`). Comments, texts and code under `#[cfg(test)]` do not count.
//! - A path through a re-export leads to the file that defines the item. `use crate::Job` imports `job.rs`, where
//!   `lib.rs` has `pub use job::Job`. So a parent module can re-export the items of its children, and the children can
//!   import each other through the parent.
//! - A declaration `mod child;` is not an import. A re-export (`pub use child::T`) alone is not an import either. But
//!   if the parent's own code names `T`, the parent imports the child. If the child also names an item that is defined
//!   in the parent's file, this is a cycle.
//! - A private `use a::*` counts as an import of `a`.
//! - The call of a method does not name the file of the method. So `impl` blocks of one type in several files can hide
//!   a cycle from this check.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::house::{files, root};

#[test]
fn no_file_of_a_crate_imports_itself_through_others() {
    let mut crates: Vec<_> = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap()).collect();
    crates.sort_by_key(fs::DirEntry::file_name);
    for name in crates.iter().map(|entry| entry.file_name().into_string().unwrap()) {
        let found = cycles(&files_of(&name));
        assert!(found.is_empty(), "import cycles of {name}: {found:#?}");
    }
}

/// Module path and text of each file of a crate.
fn files_of(name: &str) -> Vec<(String, String)> {
    let folder = root().join("crates").join(name).join("src");
    let text = |path: &Path| (module_of(path.strip_prefix(&folder).unwrap()), fs::read_to_string(path).unwrap());
    files(&folder).iter().map(|path| text(path)).collect()
}

/// The module of a file: `a/b.rs` and `a/b/mod.rs` are `a::b`, and `lib.rs` is the empty text.
fn module_of(path: &Path) -> String {
    let path = path.with_extension("");
    let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
    match parts[..] {
        ["lib" | "main"] => String::new(),
        [ref folder @ .., "mod"] => folder.join("::"),
        ref parts => parts.join("::"),
    }
}

/// The groups of files that import each other. Each group is given as the list of the imports between its files.
fn cycles(files: &[(String, String)]) -> Vec<Vec<String>> {
    let imports = imports(files);
    let names: BTreeSet<&String> = imports.iter().flat_map(|(from, to)| [from, to]).collect();
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        names.iter().map(|name| (*name, reach(name, &imports))).collect();
    let mut groups = BTreeSet::new();
    for name in &names {
        if reached[name].contains(*name) {
            groups.insert(
                names
                    .iter()
                    .filter(|other| reached[name].contains(**other) && reached[*other].contains(*name))
                    .collect::<Vec<_>>(),
            );
        }
    }
    let inside = |group: &Vec<&&String>| {
        let pairs = imports.iter().filter(|(from, to)| group.contains(&&from) && group.contains(&&to));
        pairs.map(|(from, to)| format!("{} -> {}", shown(from), shown(to))).collect()
    };
    groups.iter().map(inside).collect()
}

/// The name of a module in a report.
fn shown(module: &str) -> &str {
    if module.is_empty() { "lib" } else { module }
}

/// The modules that one module imports, directly or through others.
fn reach<'a>(from: &str, imports: &'a BTreeSet<(String, String)>) -> BTreeSet<&'a String> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for (_, to) in imports.iter().filter(|(from, _)| from == module) {
            if found.insert(to) {
                next.push(to);
            }
        }
    }
    found
}

/// A module of the crate: a file, or an inline module in a file.
#[derive(Default)]
struct Module {
    /// The module of the file that contains this module.
    file: String,
    /// Names that `use` declarations bind, with their paths.
    bound: BTreeMap<String, Vec<String>>,
    /// Names that `pub use` declarations bind.
    public: BTreeSet<String>,
    /// Paths of `use path::*`.
    globs: Vec<Vec<String>>,
    /// The paths in `globs` whose `use` is private.
    private_globs: Vec<Vec<String>>,
    /// Names of the items that are defined in this module.
    defined: BTreeSet<String>,
    /// Paths in the code outside of `use` declarations. A single name is also a path.
    paths: BTreeSet<Vec<String>>,
    /// Paths of private imports that bind no name (`use Trait as _`).
    unnamed: Vec<Vec<String>>,
}

/// The pairs of files of which the first imports the second.
fn imports(files: &[(String, String)]) -> BTreeSet<(String, String)> {
    let mut modules = BTreeMap::new();
    let mut only_tests = BTreeSet::new();
    for (module, text) in files {
        let mut tokens = tokens(text);
        only_tests.extend(drop_tests(&mut tokens).into_iter().map(|name| join(module, &name)));
        read_module(module, module, &mut tokens.into_iter().peekable(), &mut modules);
    }
    let is_test = |module: &str| {
        let part_of = |test: &String| module == test || module.starts_with(&format!("{test}::"));
        only_tests.iter().any(part_of)
    };
    modules.retain(|module: &String, _| !is_test(module));
    let mut found = BTreeSet::new();
    for (name, module) in &modules {
        let private = module.bound.iter().filter(|(bound, _)| !module.public.contains(*bound)).map(|(_, path)| path);
        let named = module.paths.iter().chain(private).chain(&module.unnamed);
        let to = named.filter_map(|path| target(path, name, &modules, 0)).filter_map(|target| target.file(&modules));
        // It is not known which names a glob imports, so a glob counts as an import of its module.
        let globs = module.private_globs.iter().filter_map(|path| match target(path, name, &modules, 0)? {
            Target::Module(glob) | Target::Item(glob) => Some(modules.get(&glob)?.file.clone()),
        });
        found.extend(to.chain(globs).filter(|to| *to != module.file).map(|to| (module.file.clone(), to)));
    }
    found
}

/// The target of a path.
enum Target {
    Module(String),
    /// An item of this module.
    Item(String),
}

impl Target {
    /// The file of an item. A path that names a module is not an import. Only a longer path, which names an item in the
    /// module, is an import.
    fn file(self, modules: &BTreeMap<String, Module>) -> Option<String> {
        match self {
            Self::Module(_) => None,
            Self::Item(module) => Some(modules[&module].file.clone()),
        }
    }
}

/// Resolves a path from the code of this module. `None` if the path leads out of the crate, or to a local name.
fn target(path: &[String], from: &str, modules: &BTreeMap<String, Module>, depth: usize) -> Option<Target> {
    // Two globs can lead to each other.
    let (first, rest) = path.split_first().filter(|_| depth < 16)?;
    match first.as_str() {
        "crate" => walk(String::new(), rest, modules, depth),
        "self" => walk(from.to_owned(), rest, modules, depth),
        "super" => {
            let above = from.rsplit_once("::").map_or("", |(above, _)| above).to_owned();
            match rest.first() {
                Some(next) if next == "super" => target(rest, &above, modules, depth + 1),
                _ => walk(above, rest, modules, depth),
            }
        }
        name => {
            let known = modules.contains_key(&join(from, name)) || modules[from].bound.contains_key(name);
            if known { walk(from.to_owned(), path, modules, depth) } else { None }
        }
    }
}

/// Follows a path down from a module of the crate.
fn walk(module: String, path: &[String], modules: &BTreeMap<String, Module>, depth: usize) -> Option<Target> {
    let Some((name, rest)) = path.split_first() else { return Some(Target::Module(module)) };
    let child = join(&module, name);
    if modules.contains_key(&child) {
        return walk(child, rest, modules, depth);
    }
    let here = modules.get(&module)?;
    if here.defined.contains(name) {
        return Some(Target::Item(module));
    }
    let bound = here.bound.get(name).map(|bound| target(bound, &module, modules, depth + 1));
    match bound {
        Some(Some(Target::Module(module))) => walk(module, rest, modules, depth + 1),
        Some(found) => found,
        None => here.globs.iter().find_map(|glob| {
            let Target::Module(glob) = target(glob, &module, modules, depth + 1)? else { return None };
            walk(glob, path, modules, depth + 1)
        }),
    }
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

type Tokens = std::iter::Peekable<std::vec::IntoIter<String>>;

/// Reads the tokens of a module. An inline module ends at its closing brace.
fn read_module(name: &str, file: &str, tokens: &mut Tokens, modules: &mut BTreeMap<String, Module>) {
    let mut module = Module { file: file.to_owned(), ..Module::default() };
    let (mut depth, mut is_public) = (0, false);
    while let Some(token) = tokens.next() {
        match token.as_str() {
            "{" => depth += 1,
            "}" if depth == 0 => break,
            "}" => depth -= 1,
            "pub" => {
                is_public = true;
                if tokens.peek().is_some_and(|next| next == "(") {
                    tokens.by_ref().find(|token| token == ")");
                }
                continue;
            }
            "use" => read_use(Vec::new(), is_public, tokens, &mut module),
            "mod" => {
                let child = tokens.next().unwrap_or_default();
                if tokens.next().is_some_and(|next| next == "{") {
                    read_module(&join(name, &child), file, tokens, modules);
                }
            }
            "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" => {
                if let Some(item) = tokens.next_if(|next| is_name(next) && depth == 0) {
                    module.defined.insert(item);
                }
            }
            name if is_name(name) => {
                let mut path = vec![token];
                while tokens.next_if(|next| next == "::").is_some() {
                    // A turbofish ends the path here, and its types are read as further paths.
                    let Some(next) = tokens.next_if(|next| is_name(next)) else { break };
                    path.push(next);
                }
                module.paths.insert(path);
            }
            // The name after a dot is a field or a method.
            "." => _ = tokens.next_if(|next| is_name(next)),
            _ => {}
        }
        is_public = false;
    }
    modules.insert(name.to_owned(), module);
}

/// Reads the tree of a `use` declaration, up to its `;`. For a branch of the tree, reads up to its `,` or `}`.
fn read_use(mut path: Vec<String>, is_public: bool, tokens: &mut Tokens, module: &mut Module) {
    while let Some(token) = tokens.next() {
        match token.as_str() {
            "::" => {}
            "*" => {
                module.globs.push(path.clone());
                if !is_public {
                    module.private_globs.push(path.clone());
                }
            }
            "{" => {
                while tokens.peek().is_some_and(|next| next != "}") {
                    read_use(path.clone(), is_public, tokens, module);
                    tokens.next_if(|next| next == ",");
                }
                tokens.next();
                path.clear();
            }
            "as" => {
                let name = tokens.next().unwrap_or_default();
                bind(name, std::mem::take(&mut path), is_public, module);
            }
            _ => path.push(token),
        }
        if tokens.peek().is_none_or(|next| [";", ",", "}"].contains(&next.as_str())) {
            break;
        }
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    if let Some(name) = path.last().cloned().filter(|_| module.globs.last() != Some(&path)) {
        bind(name, path, is_public, module);
    }
}

/// Records that a `use` declaration binds a name to a path.
fn bind(name: String, path: Vec<String>, is_public: bool, module: &mut Module) {
    if name == "_" {
        module.unnamed.push(path);
        return;
    }
    if is_public {
        module.public.insert(name.clone());
    }
    module.bound.insert(name, path);
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Removes the items under `#[cfg(test)]`, and returns the names of the removed modules that have their own files.
fn drop_tests(tokens: &mut Vec<String>) -> Vec<String> {
    let mark = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut names = Vec::new();
    while let Some(start) = tokens.windows(mark.len()).position(|part| part == mark) {
        let mut depth = 0;
        let mut end = start + mark.len();
        while end < tokens.len() {
            match tokens[end].as_str() {
                "{" | "[" | "(" => depth += 1,
                "}" | "]" | ")" => depth -= 1,
                _ => {}
            }
            end += 1;
            if depth == 0 && ["}", ";"].contains(&tokens[end - 1].as_str()) {
                break;
            }
        }
        if let [.., keyword, name, last] = &tokens[start..end]
            && (keyword.as_str(), last.as_str()) == ("mod", ";")
        {
            names.push(name.clone());
        }
        tokens.drain(start..end);
    }
    names
}

/// The tokens of a source text: names, `::`, and single characters. Comments, texts, characters and lifetimes are left
/// out.
fn tokens(text: &str) -> Vec<String> {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut found) = (0, Vec::new());
    while let Some(first) = text.get(at).copied() {
        let next = text.get(at + 1).copied().unwrap_or(' ');
        if first == '/' && next == '/' {
            at += text[at..].iter().take_while(|c| **c != '\n').count();
        } else if first == '/' && next == '*' {
            let end = text[at + 2..].windows(2).position(|pair| pair == ['*', '/']);
            at = end.map_or(text.len(), |end| at + end + 4);
        } else if first == '"' {
            at = end_of_text(&text, at + 1);
        } else if first == 'r' && (next == '"' || next == '#') && raw_start(&text, at).is_some() {
            let (hashes, start) = raw_start(&text, at).unwrap();
            let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            let end = text[start..].windows(closing.len()).position(|part| part == closing);
            at = end.map_or(text.len(), |end| start + end + closing.len());
        } else if first == '\'' {
            // `'a'` and `'\n'` are characters, and `'a` is a lifetime.
            let is_character = next == '\\' || text.get(at + 2) == Some(&'\'');
            at += if is_character {
                let from = if next == '\\' { at + 3 } else { at + 2 };
                from - at + text[from..].iter().take_while(|c| **c != '\'').count() + 1
            } else {
                1 + text[at + 1..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').count()
            };
        } else if first.is_alphanumeric() || first == '_' {
            let name: String = text[at..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').collect();
            at += name.chars().count();
            found.push(name);
        } else if first == ':' && next == ':' {
            found.push("::".to_owned());
            at += 2;
        } else {
            if !first.is_whitespace() {
                found.push(first.to_string());
            }
            at += 1;
        }
    }
    found
}

/// The index after the quotation mark that closes a text.
fn end_of_text(text: &[char], mut at: usize) -> usize {
    while at < text.len() && text[at] != '"' {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// The number of `#`, and the index after the quotation mark, if a raw text begins here.
fn raw_start(text: &[char], at: usize) -> Option<(usize, usize)> {
    let hashes = text[at + 1..].iter().take_while(|c| **c == '#').count();
    (text.get(at + 1 + hashes) == Some(&'"')).then_some((hashes, at + 2 + hashes))
}

fn cycles_in(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    cycles(&files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect::<Vec<_>>())
}

#[test]
fn a_cycle_is_found_directly_and_through_others() {
    let two = [("", "mod a; mod b;"), ("a", "use crate::b::B; struct A;"), ("b", "struct B; fn f(_: crate::a::A) {}")];
    assert_eq!(cycles_in(&two), [["a -> b", "b -> a"]]);
    let three = [
        ("", "mod a; mod b; mod c;"),
        ("a", "use super::b; fn f() { b::g() }"),
        ("b", "use crate::{c::{self, h}}; pub fn g() { h(); c::i() }"),
        ("c", "pub fn h() {} pub fn i() { crate::a::f() }"),
    ];
    assert_eq!(cycles_in(&three), [["a -> b", "b -> c", "c -> a"]]);
    let line = [("", "mod a; mod b;"), ("a", "use crate::b::B;"), ("b", "struct B; fn a() {} fn g() { a::<u8>() }")];
    assert_eq!(cycles_in(&line), [[""; 0]; 0], "a local function counted as the module with the same name");
}

#[test]
fn a_path_through_a_re_export_leads_to_the_definition() {
    let through = [
        ("", "mod a; pub use a::{one::One, Two};"),
        ("a", "mod one; mod two; pub(crate) use self::two::*;"),
        ("a::one", "use super::Two; pub struct One;"),
        ("a::two", "pub struct Two;"),
        ("b", "use crate::{One, Two as Other};"),
    ];
    assert_eq!(cycles_in(&through), [[""; 0]; 0]);
    let parent = [("", "mod a;"), ("a", "mod b; pub use b::B; pub struct A;"), ("a::b", "use super::A; pub struct B;")];
    assert_eq!(cycles_in(&parent), [[""; 0]; 0], "a re-export counted as an import");
    let both =
        [("", "mod a;"), ("a", "mod b; pub use b::B; pub struct A(B);"), ("a::b", "use super::A; pub struct B;")];
    assert_eq!(cycles_in(&both), [["a -> a::b", "a::b -> a"]], "the import of the child by the parent was not found");
}

#[test]
fn comments_texts_and_tests_import_nothing() {
    let files = [
        ("", "mod a; mod b; #[cfg(test)] mod fuzz;"),
        ("a", "use crate::b::B; pub struct A;"),
        (
            "b",
            "/// [`crate::a::A`]\npub struct B; /* crate::a::A */ const T: &str = \"crate::a::A\"; const Q: char = '\"';",
        ),
        ("b::tests", "use crate::a::A;"),
        ("fuzz", "use crate::a::A; pub struct F;"),
    ];
    assert_eq!(cycles_in(&files), [[""; 0]; 0]);
    let tested = [
        ("", "mod a; mod b;"),
        ("a", "use crate::b::B; pub struct A;"),
        ("b", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; fn f() {} } fn g<'a>(_: &'a str) {}"),
    ];
    assert_eq!(cycles_in(&tested), [[""; 0]; 0]);
    let glob = [("", "mod a; mod b;"), ("a", "use crate::b::*;"), ("b", "use crate::a::A; pub struct B;")];
    assert_eq!(cycles_in(&glob), [[""; 0]; 0], "`a` does not define A");
    let glob = [("", "mod a; mod b;"), ("a", "use crate::b::*; pub struct A;"), ("b", "use crate::a::A;")];
    assert_eq!(cycles_in(&glob), [["a -> b", "b -> a"]]);
    let code = [
        ("", "mod a; mod b;"),
        ("a", "use crate::b::B; pub struct A;"),
        ("b", "const Q: char = '\\''; type B = crate::a::A;"),
    ];
    assert_eq!(cycles_in(&code), [["a -> b", "b -> a"]], "the code after a character was not read");
}
