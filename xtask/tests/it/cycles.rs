//! No import cycles between the files and between the rooms of one crate.
//!
//! A room is a file `x.rs` together with its folder `x/`. Inside the folder, each file with its own folder is a room again,
//! and so is `x.rs` alone (`x::self`). A cycle of files is also a cycle of rooms, in the folder that contains all of
//! them; but [`KNOWN`] hides some cycles of rooms, so the files are checked as well.
//!
//! File A imports file B if the code of A names an item that is defined in B. The check reads the sources, and follows
//! these rules:
//!
//! - A path counts wherever it stands: in `use`, or inline (`crate::a::f()`, `super::T`, `a::f()` after `use
//!   crate::a`), also in the arguments of a macro. Comments, texts and code under `#[cfg(test)]` do not count.
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

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Ident, Item, UseTree, Visibility,
    visit::{self, Visit},
};

use crate::house::{crates, files, root};

/// The imports that close cycles of rooms, and are still to be cut. There is no other cycle without them.
const KNOWN: [(&str, &str, &str); 17] = [
    // The exit codes of a lock that is not free.
    ("bandog-cli", "exec", "lock::held"),
    // The store of the grid holds what rooms above it put in, and a timed map is a map.
    ("bandog-grid", "map", "timed::timing"),
    ("bandog-grid", "store", "cache::reported"),
    ("bandog-grid", "store", "queue::message"),
    ("bandog-grid", "store", "timed::kept"),
    // Recovery plans, and a plan recovers. The dispatcher recovers, and recovery reads its entry of a job.
    ("bandog-schedule", "plan", "recovery::rules"),
    ("bandog-schedule", "recovery", "dispatch::entry"),
    // The context and the steps of held locks know the queues, as all statements of a database do.
    ("bandog-sql", "context", "queues::work"),
    ("bandog-sql", "held::steps", "sql"),
    ("bandog-sql", "mysql::dial", "rights"),
    // A handle counts the operations on latches, which pause with a handle.
    ("bandog-sync", "handle", "latch::turns"),
    // The engine's actor holds the states of its parts, and the parts are methods of the actor.
    ("bandog-sync", "engine::actor", "engine::deadlocks::state"),
    ("bandog-sync", "engine::actor", "engine::health::state"),
    ("bandog-sync", "engine::actor", "engine::record_subscriptions::state"),
    ("bandog-sync", "engine::actor", "engine::registration::state"),
    ("bandog-sync", "engine::actor", "engine::self_deadlock::warnings"),
    ("bandog-sync", "engine::calls", "engine::deadlocks::waits"),
];

#[test]
fn no_file_and_no_room_of_a_crate_imports_itself_through_others() {
    let crates = crates();
    assert!(KNOWN.iter().all(|(name, ..)| crates.iter().any(|known| known == name)), "KNOWN has another crate");
    for name in crates {
        let mut imports = imports(&files_of(&name));
        let found = cycles(&imports, |from, to| (from.to_owned(), to.to_owned()));
        assert!(found.is_empty(), "import cycles of the files of {name}: {found:#?}");
        let known = KNOWN.iter().filter(|(of, ..)| *of == name);
        let known: BTreeSet<_> = known.map(|(_, from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
        let gone: Vec<_> = known.difference(&imports).collect();
        assert!(gone.is_empty(), "{name} does not have these imports any more; remove them from KNOWN: {gone:?}");
        imports.retain(|import| !known.contains(import));
        let found = cycles(&imports, rooms);
        assert!(found.is_empty(), "import cycles of the rooms of {name}: {found:#?}");
        let graph = graph(&imports, rooms);
        for (from, to) in known.iter().map(|(from, to)| rooms(from, to)) {
            assert!(reach(&to, &graph).contains(&from), "{name}: {from} -> {to} closes no cycle; remove it from KNOWN");
        }
    }
}

/// Module path and text of each file of a crate.
fn files_of(name: &str) -> BTreeMap<String, String> {
    let folder = root().join("crates").join(name).join("src");
    let text = |path: &Path| (module_of(path.strip_prefix(&folder).unwrap()), fs::read_to_string(path).unwrap());
    // A program beside a library is a crate of its own.
    let is_other = |path: &Path| path == folder.join("main.rs") && folder.join("lib.rs").exists();
    files(&folder).iter().filter(|path| !is_other(path)).map(|path| text(path)).collect()
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

/// Nodes, each with those that it imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Gives the nodes of the two files of an import.
type Nodes = fn(&str, &str) -> (String, String);

fn graph(files: &BTreeSet<(String, String)>, nodes: Nodes) -> Graph {
    let mut graph = Graph::new();
    for (from, to) in files.iter().map(|(from, to)| nodes(from, to)) {
        graph.entry(from).or_default().insert(to);
    }
    graph
}

/// The groups of nodes that import each other. Each group is given as the list of the imports between its files.
fn cycles(files: &BTreeSet<(String, String)>, nodes: Nodes) -> Vec<Vec<String>> {
    let graph = graph(files, nodes);
    let reached: BTreeMap<_, _> = graph.keys().map(|node| (node, reach(node, &graph))).collect();
    let group = |node: &String| -> BTreeSet<String> {
        let both = reached[node].iter().filter(|other| reached.get(**other).is_some_and(|back| back.contains(node)));
        both.map(|other| (*other).clone()).collect()
    };
    let groups: BTreeSet<_> = graph.keys().map(group).filter(|group| !group.is_empty()).collect();
    let inside = |group: BTreeSet<String>| {
        let pairs = files.iter().filter(|(from, to)| {
            let (from, to) = nodes(from, to);
            group.contains(&from) && group.contains(&to)
        });
        pairs.map(|(from, to)| format!("{} -> {}", shown(from), shown(to))).collect()
    };
    groups.into_iter().map(inside).collect()
}

/// The rooms of two files in the module that contains both.
fn rooms(from: &str, to: &str) -> (String, String) {
    let [from, to] = [from, to].map(|file| file.split("::").filter(|part| !part.is_empty()).collect::<Vec<_>>());
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let room = |file: &[&str]| {
        let own = *file.get(common).unwrap_or(&"self");
        [&file[..common], &[own]].concat().join("::")
    };
    (room(&from), room(&to))
}

/// The name of a file in a report.
fn shown(module: &str) -> &str {
    if module.is_empty() { "lib" } else { module }
}

/// The nodes that one node imports, directly or through others.
fn reach<'a>(from: &'a str, graph: &'a Graph) -> BTreeSet<&'a String> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(node) = next.pop() {
        let further = graph.get(node).into_iter().flatten();
        next.extend(further.filter(|to| found.insert(*to)).map(String::as_str));
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
    /// Paths of `use path::*`, and whether the `use` is private.
    globs: Vec<(Vec<String>, bool)>,
    /// Names of the items that are defined in this module.
    defined: BTreeSet<String>,
    /// Paths in the code and in private `use` declarations. A single name is also a path.
    paths: BTreeSet<Vec<String>>,
}

/// The pairs of files of which the first imports the second.
fn imports(files: &BTreeMap<String, String>) -> BTreeSet<(String, String)> {
    let mut reader = Reader::default();
    // A module comes before those in it.
    for (module, text) in files {
        let part_of = |test: &String| module == test || module.starts_with(&format!("{test}::"));
        if !reader.only_tests.iter().any(part_of) {
            let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{}: {error}", shown(module)));
            reader.file.clone_from(module);
            reader.read(module.clone(), &file.items);
        }
    }
    let modules = reader.modules;
    let mut found = BTreeSet::new();
    for (name, module) in &modules {
        let named = module.paths.iter().filter_map(|path| match target(path, name, &modules, 0)? {
            // A path that names a module is not an import. Only a longer path, which names an item in it, is one.
            Target::Module(_) => None,
            Target::Item(of) => Some(&modules[&of].file),
        });
        // It is not known which names a glob imports, so a glob counts as an import of its module.
        let private = module.globs.iter().filter(|(_, is_private)| *is_private);
        let globs = private.filter_map(|(path, _)| match target(path, name, &modules, 0)? {
            Target::Module(glob) | Target::Item(glob) => Some(&modules.get(&glob)?.file),
        });
        let others = named.chain(globs).filter(|to| **to != module.file);
        found.extend(others.map(|to| (module.file.clone(), to.clone())));
    }
    found
}

/// The target of a path.
enum Target {
    Module(String),
    /// An item of this module.
    Item(String),
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
        None => here.globs.iter().find_map(|(glob, _)| {
            let Target::Module(glob) = target(glob, &module, modules, depth + 1)? else { return None };
            walk(glob, path, modules, depth + 1)
        }),
    }
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

/// Reads the modules of a crate.
#[derive(Default)]
struct Reader {
    modules: BTreeMap<String, Module>,
    /// The modules under `#[cfg(test)]`.
    only_tests: BTreeSet<String>,
    /// The module of the file that is read now, and the module itself.
    file: String,
    name: String,
    /// Whether the code that is read now is under `#[cfg(test)]`.
    in_test: bool,
}

impl Reader {
    fn read(&mut self, name: String, items: &[Item]) {
        let outer = std::mem::replace(&mut self.name, name);
        let defined = items.iter().filter_map(name_of).map(Ident::to_string).collect();
        let module = Module { file: self.file.clone(), defined, ..Module::default() };
        self.modules.insert(self.name.clone(), module);
        items.iter().for_each(|item| self.visit_item(item));
        self.name = outer;
    }

    fn here(&mut self) -> &mut Module {
        self.modules.entry(self.name.clone()).or_default()
    }

    fn found(&mut self, path: Vec<String>) {
        if !self.in_test {
            self.here().paths.insert(path);
        }
    }

    /// Reads the tree of a `use` declaration.
    fn bind(&mut self, tree: &UseTree, path: &[String], is_private: bool) {
        let longer = |part: &Ident| [path, &[part.to_string()]].concat();
        let (part, bound) = match tree {
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.bind(tree, path, is_private)),
            UseTree::Path(part) => return self.bind(&part.tree, &longer(&part.ident), is_private),
            UseTree::Glob(_) => return self.here().globs.push((path.to_vec(), is_private)),
            UseTree::Name(name) => (&name.ident, &name.ident),
            UseTree::Rename(name) => (&name.ident, &name.rename),
        };
        let path = if part == "self" && !path.is_empty() { path.to_vec() } else { longer(part) };
        if is_private || bound == "_" {
            self.found(path.clone());
        }
        let bound = if bound == "self" { path[path.len() - 1].clone() } else { bound.to_string() };
        self.here().bound.insert(bound, path);
    }

    /// Reads the arguments of a macro or of an attribute, which can be anything.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let is_name = |token: &TokenTree| matches!(token, TokenTree::Ident(_));
        let is_colon = |token: &TokenTree| token.to_string() == ":";
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let mut path = vec![first.to_string()];
                    while tokens.next_if(is_colon).is_some()
                        && tokens.next_if(is_colon).is_some()
                        && let Some(next) = tokens.next_if(is_name)
                    {
                        path.push(next.to_string());
                    }
                    self.found(path);
                }
                // The name after a dot is a field or a method.
                TokenTree::Punct(dot) if dot.as_char() == '.' => _ = tokens.next_if(is_name),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

/// Visits nodes whose attributes can be `#[cfg(test)]`, which is true until the end of the node.
macro_rules! scoped {
    ($($visit:ident: $node:ty),*) => {
        $(fn $visit(&mut self, node: &'ast $node) {
            let outer = self.in_test;
            visit::$visit(self, node);
            self.in_test = outer;
        })*
    };
}

impl<'ast> Visit<'ast> for Reader {
    scoped!(
        visit_item: Item, visit_impl_item: syn::ImplItem, visit_trait_item: syn::TraitItem, visit_field: syn::Field,
        visit_variant: syn::Variant, visit_stmt: syn::Stmt, visit_arm: syn::Arm
    );

    fn visit_attribute(&mut self, node: &'ast syn::Attribute) {
        self.in_test |= node.path().is_ident("cfg") && node.parse_args::<Ident>().is_ok_and(|word| word == "test");
        visit::visit_attribute(self, node);
    }

    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        node.attrs.iter().for_each(|attribute| self.visit_attribute(attribute));
        let name = join(&self.name, &node.ident.to_string());
        match &node.content {
            _ if self.in_test => _ = self.only_tests.insert(name),
            Some((_, items)) => self.read(name, items),
            None => {}
        }
    }

    fn visit_item_use(&mut self, node: &'ast syn::ItemUse) {
        node.attrs.iter().for_each(|attribute| self.visit_attribute(attribute));
        if !self.in_test && node.leading_colon.is_none() {
            self.bind(&node.tree, &[], matches!(node.vis, Visibility::Inherited));
        }
    }

    fn visit_path(&mut self, node: &'ast syn::Path) {
        if node.leading_colon.is_none() {
            self.found(node.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, node);
    }

    /// The name in a pattern can be a constant.
    fn visit_pat_ident(&mut self, node: &'ast syn::PatIdent) {
        self.found(vec![node.ident.to_string()]);
        visit::visit_pat_ident(self, node);
    }

    fn visit_token_stream(&mut self, node: &'ast TokenStream) {
        self.read_tokens(node.clone());
    }
}

/// The name of an item that a path can lead to.
fn name_of(item: &Item) -> Option<&Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}

fn cycles_in(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    cycles(&imports(&files), rooms)
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
fn a_file_and_its_folder_are_one_room() {
    let two = [
        ("", "mod a; mod b;"),
        ("a", "use crate::b::x::X; pub struct A;"),
        ("b", "pub mod x; mod y;"),
        ("b::x", "pub struct X;"),
        ("b::y", "use crate::a::A;"),
    ];
    assert_eq!(cycles_in(&two), [["a -> b::x", "b::y -> a"]]);
    let below = [
        ("a", "mod b; mod c; pub struct A(c::d::D);"),
        ("a::b", "pub const fn b() {}"),
        ("a::c", "pub mod d; fn f() { use super::A; super::b::b() }"),
        ("a::c::d", "pub struct D;"),
    ];
    assert_eq!(cycles_in(&below), [["a -> a::c::d", "a::c -> a"]], "the file `a` is a room of the folder `a`");
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
            "#[cfg(test)] mod tests; /// [`crate::a::A`]\npub struct B; /* crate::a::A */ const T: &str = \"crate::a::A\"; const Q: char = '\"';",
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
    let arguments = [
        ("a", "pub const A: u8 = 0; fn f() { vec![1, crate::b::B.c] }"),
        ("b", "#[derive(crate::a::A)] pub struct B;"),
        ("c", "#[cfg(test)] fn f() { crate::d::D } pub struct C; impl C { #[cfg(test)] fn g() { crate::d::D } }"),
        ("d", "use crate::c::C; pub struct D(#[cfg(test)] crate::a::A, crate::e::E);"),
        ("e", "fn f() { #[cfg(test)] let a = 1; crate::d::D } pub struct E;"),
    ];
    assert_eq!(cycles_in(&arguments), [["a -> b", "b -> a"], ["d -> e", "e -> d"]], "the arguments of macros are code");
    let code = [
        ("", "mod a; mod b;"),
        ("a", "use crate::b::B; pub struct A;"),
        ("b", "const Q: char = '\\''; type B = crate::a::A;"),
    ];
    assert_eq!(cycles_in(&code), [["a -> b", "b -> a"]], "the code after a character was not read");
}
