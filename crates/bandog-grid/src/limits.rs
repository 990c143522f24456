//! The limits of a grid.

/// The limits of a grid. They keep a program that sends faster than its store answers from filling its memory.
///
/// ```
/// use bandog::grid::Limits;
/// let limits = Limits { element: 16 * 1024, ..Limits::default() };
/// assert_eq!((limits.operations, limits.bytes), (4_096, 64 * 1024 * 1024));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of one encoded element, field or value, in bytes. A larger one is `ErrorKind::Misused`. Default:
    /// 512 KiB.
    pub element: usize,
    /// Maximum number of operations without an answer. A further one is `ErrorKind::Overloaded`. Default: 4,096.
    pub operations: usize,
    /// Maximum size of all operations without an answer, in bytes. A further one is `ErrorKind::Overloaded`, unless it is
    /// the only one. Default: 64 MiB.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { element: 512 * 1024, operations: 4_096, bytes: 64 * 1024 * 1024 }
    }
}
