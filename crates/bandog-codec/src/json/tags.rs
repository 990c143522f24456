//! The Java classes of the types of a program.

/// The class of the outermost object, and classes of types by the names that serde has for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tags {
    pub(super) root: String,
    pub(super) classes: Vec<(String, String)>,
}

/// The property with the class.
pub(super) const CLASS: &str = "@class";
/// The class of a Rust `i64` that Java does not declare as `long`.
pub(super) const LONG: &str = "java.lang.Long";
/// The class of numbers that do not fit in a `long`.
pub(super) const BIG: &str = "java.math.BigInteger";
/// The class of lists, unless a newtype has another one.
pub(super) const LIST: &str = "java.util.ArrayList";
/// The class of maps, unless a newtype has another one.
pub(super) const MAP: &str = "java.util.HashMap";

impl Tags {
    /// The classes of the type with this name, the class that is written first.
    pub(super) fn of(&self, name: &str) -> impl Iterator<Item = &str> {
        self.classes.iter().filter(move |(known, _)| known == name).map(|(_, class)| class.as_str())
    }

    /// Whether an object of this class can be read as the type with this name. A type without a class accepts all.
    pub(super) fn accept(&self, name: &str, is_root: bool, class: &str) -> bool {
        let is_known = is_root || self.of(name).next().is_some();
        !is_known || (is_root && class == self.root) || self.of(name).any(|known| known == class)
    }
}
